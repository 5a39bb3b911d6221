"""Reading an ExportedProgram: its inputs by name, what torch recorded for them, its weights; and `.pt2` files."""

from __future__ import annotations

import importlib
import logging
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx import Interpreter

from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import Leaf
from lowering.records.pytrees import Registrations, known_cache_types, leaf_paths, unique_names
from lowering.records.torch_internals import LOGGERS_OF_PROGRAMS, pytree

RESULTS = frozenset((
    OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT, OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT,
))  # fmt: skip
"""The outputs of a program that are results to its caller: those of a joint graph of forward and backward too."""
GRADIENTS = frozenset((OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT))


def gives_gradients(program: ExportedProgram) -> bool:
    """Whether this is a joint graph of forward and backward: a loss and its gradients, in no structure of the model."""
    return any(spec.kind in GRADIENTS for spec in program.graph_signature.output_specs)


def callable_of(program: ExportedProgram) -> Callable[..., Any]:
    """What computes a program in torch: its module; of a joint graph, which has none, the graph over its weights."""
    if not gives_gradients(program):
        return program.module()
    state, specs = state_of_program(program), program.graph_signature.input_specs

    def joint(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        given = iter(pytree.tree_leaves((args, kwargs)))
        inputs = [next(given) if s.kind is InputKind.USER_INPUT else state[str(s.target)] for s in specs]
        return tuple(Interpreter(program.graph_module).run(*inputs))

    return joint


def metas_of_program(program: ExportedProgram) -> list[Any]:
    """For each leaf of the inputs what torch recorded: a FakeTensor, a SymInt, or the constant it baked in."""
    recorded = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    user = [spec.arg for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    return [arg.value if isinstance(arg, ConstantArgument) else recorded[arg.name] for arg in user]


def state_of_program(program: ExportedProgram) -> dict[str, Any]:
    """Parameters, buffers, constants and custom objects by name; the tensors themselves, not copies."""
    found: dict[str, Any] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT and spec.target is not None:
            table = program.state_dict if spec.target in program.state_dict else program.constants
            found[spec.target] = table[spec.target]
    return found


def structure_of_program(program: ExportedProgram) -> pytree.TreeSpec:
    """The structure of the arguments, `((positional, ...), {by name})`. Raises CaptureError for a program without."""
    spec = program.call_spec.in_spec
    if spec is None or spec.num_children != 2:
        raise CaptureError(
            "the program does not tell how its inputs are arranged", hint="make it by torch.export.export"
        )
    return spec


def leaves_of_program(program: ExportedProgram) -> tuple[tuple[str, ...], tuple[Leaf, ...]]:
    """(arguments, leaves) of a program: names as in the signature of the module it was captured from."""
    in_spec = structure_of_program(program)
    paths = leaf_paths(in_spec)
    nodes = [
        getattr(spec.arg, "name", "")
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    call = program.module_call_graph[0].signature
    arguments: list[str] = list(getattr(call, "forward_arg_names", None) or ())
    if len(arguments) != sum(side.num_children for side in in_spec.children()):
        arguments = [argument_of(i, paths, nodes) for i in range(in_spec.child(0).num_children)]
        arguments += [str(key) for key in in_spec.child(1).context]
    count = in_spec.child(0).num_children
    named = [(arguments[int(path[1])] if path[0] == "0" else path[1], *path[2:]) for path in paths]
    names = unique_names(".".join(path) for path in named)
    sources = sources_of(in_spec, arguments[:count])
    metas = metas_of_program(program)
    leaves = (Leaf(*each) for each in zip(names, named, metas, sources, strict=True))
    return tuple(arguments), tuple(leaves)


def argument_of(index: int, paths: list[tuple[str, ...]], nodes: list[str]) -> str:
    """The name of a positional argument, read off the placeholder of its first leaf: `xs` of `xs_0_key`."""
    for path, node in zip(paths, nodes, strict=True):
        if path[:2] == ("0", str(index)):
            return node.removesuffix("_".join(["", *path[2:]])) if len(path) > 2 else node
    return f"arg_{index}"


def sources_of(in_spec: pytree.TreeSpec, positional: list[str]) -> list[str]:
    """torch's name in guards for each leaf, read off the paths of a tree of this structure."""
    try:
        tree = pytree.tree_unflatten(range(in_spec.num_leaves), in_spec)
        paths: list[Any] = [path for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    except (LookupError, TypeError, ValueError, AttributeError):
        return [""] * in_spec.num_leaves
    sources = []
    for side, argument, *inside in paths:
        name = positional[argument.idx] if side.idx == 0 else argument.key
        sources.append(f"L['{name}']{pytree.keystr(tuple(inside))}")
    return sources if len(sources) == in_spec.num_leaves else [""] * in_spec.num_leaves


def load_program(path: Path, known: Registrations) -> ExportedProgram:
    """The program in a `.pt2` file. Classes of caches that it mentions are registered on the way.

    Raises CaptureError for a file that is missing or no program, and for classes that nobody registers.
    """
    if not path.exists():
        raise CaptureError(f"there is no file {path}", hint="save one by torch.export.save(program, path)")
    if not is_archive(path):
        hint = "save one by torch.export.save(program, path)"
        if path.suffix == ".onnx":
            hint += "; ONNX models are read by irkit.load, and by `irkit optimize`"
        raise CaptureError(f"{path} holds no torch program: it is no .pt2 archive", hint=hint)
    require_program(path)
    errors: list[BaseException] = []
    ways = (register_caches, register_as_transformers_does, register_as_its_exporters_do)
    for prepare in (lambda: None, *(partial(way, known) for way in ways)):
        heard = Overheard()
        try:
            prepare()
            pytree.treespec_loads.cache_clear()  # it remembers structures of classes that are registered no longer
            with heard:
                return torch.export.load(path)
        except Exception as error:
            errors.append(heard.errors[0] if heard.errors else error)
            known.clear()
    raise CaptureError(
        f"{path} could not be read as a torch program: {first_line(errors[0])}",
        hint="it must come from torch.export.save; classes of its inputs must be registered with torch's pytree",
    ) from errors[0]


def is_archive(path: Path) -> bool:
    """True for a zip archive that can be opened."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        return False


def require_program(path: Path) -> None:
    """Raises CaptureError for an archive that torch.export did not write: one of TorchScript, or of torch.save."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.rpartition("/")[2] for name in archive.namelist()}
    except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
        raise CaptureError(
            f"{path} is damaged: {first_line(error)}", hint="write it again by torch.export.save(program, path)"
        ) from error
    if names & {"archive_format", "serialized_exported_program.json"}:
        return
    if "constants.pkl" in names:
        raise CaptureError(
            f"{path} holds TorchScript, which keeps no example arguments",
            hint="load it by torch.jit.load, and pass the module and its arguments to irkit.to_onnx",
        )
    if "data.pkl" in names:
        raise CaptureError(
            f"{path} holds what torch.save wrote, and no program",
            hint="load it into the module it belongs to, and pass the module; or torch.export.save(program, path)",
        )


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """A block in which a part of torch does not log what it met: where it matters, an error says so."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


class Overheard(logging.Filter):
    """A block in which torch does not log what it met while it read a program; `errors` are those that it logged."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []
        self.loggers = [logging.getLogger(name) for name in LOGGERS_OF_PROGRAMS]

    def filter(self, record: logging.LogRecord) -> bool:
        """False: the record is not logged. What it says of an exception is kept."""
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])
        return False

    def __enter__(self) -> Overheard:
        for logger in self.loggers:
            logger.addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self.loggers:
            logger.removeFilter(self)


def register_caches(known: Registrations) -> None:
    """Registers the caches of transformers as irkit does."""
    import_transformers_caches()
    for kind in known_cache_types():
        known.set_aside(kind)
        known.add(kind)


def register_as_transformers_does(known: Registrations) -> None:
    """Registers DynamicCache as transformers itself does, for programs that were saved after that."""
    import_transformers_caches()
    before = set(pytree.SUPPORTED_NODES)
    try:
        from transformers.integrations import executorch

        executorch.register_dynamic_cache_export_support()
    except (ImportError, AttributeError):
        return
    known.types += [kind for kind in pytree.SUPPORTED_NODES if kind not in before]


def register_as_its_exporters_do(known: Registrations) -> None:
    """Registers the caches of transformers as its exporters do, whose leaves have positions and no names."""
    import_transformers_caches()
    try:
        exporters: Any = importlib.import_module("transformers.exporters.exporter_dynamo")  # since transformers 5
        register = exporters.register_pytree_node
    except (ImportError, AttributeError):
        return
    for kind in known_cache_types():
        if kind not in pytree.SUPPORTED_NODES:
            register(kind)
            known.types.append(kind)


def import_transformers_caches() -> None:
    """Imports the module of caches where transformers is installed; nothing where it is not."""
    try:
        import transformers.cache_utils  # noqa: F401
    except ImportError:
        return


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, in moderate length."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = lines[0] if lines else type(error).__name__
    return found if len(found) <= 500 else found[:500] + "..."
