"""A program in a file with the structure of its calls, so that it is called as the model is where only the file is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import torch

from irkit.contract.least import check_least, least_numbers
from irkit.contract.sizes import binding_of, check_sizes, names_of
from irkit.core.ir import Graph
from irkit.core.types import DType, Tensor
from irkit.errors import ContractError, EvaluateError, LoadError, StaleError
from irkit.onnx.bound_runs import BoundRun, held_values
from irkit.onnx.load import load
from irkit.onnx.sessions import session
from irkit.onnx.shared_weights import copy_model
from lowering.decoding.steps import MASKS
from lowering.direct.run import HOW as TRACED
from lowering.program.arguments import implied_arrays, require_tensor, same_scalar
from lowering.program.bound_parts import put, tensor_held
from lowering.program.program import Program
from lowering.program.refusing import bind_conditions
from lowering.records.flat_structures import Builder, Opener, builder_of, nodes_of, opener_of
from lowering.records.programs import register_caches
from lowering.records.pytrees import Implied, Registrations, definitions, empty_leaves
from lowering.records.torch_internals import pytree
from lowering.records.types import TORCH, as_pairs, from_pairs
from lowering.tensors.complex_pairs import WHOLES, complex_names

KEY = "irkit.call"
"""The metadata of a file that says how it is called."""
SAVE_KEY = "irkit.generation"
"""The metadata of a file that says which programs it was saved with, by name and digest."""
PLAIN_VALUES = (bool, int, float, str)


def file_graph(program: Program) -> tuple[Graph, int]:
    """(graph, opset): what is saved of a program, its conditions on data in it, with the structure of its calls."""
    captured, low = program.lowered.captured, program.lowered
    graph = bind_conditions(program.made) if captured.how == TRACED else program.ready
    with captured.pytrees():
        structures = [None if s is None else pytree.treespec_dumps(s) for s in (captured.in_spec, captured.out_spec)]
    said = {
        "in": structures[0],
        "out": structures[1],
        "arguments": list(captured.arguments),
        "leaves": [name if name in program.inputs else None for name in captured.input_names],
        "scalars": {i: captured.scalars[n] for i, n in enumerate(captured.input_names) if n in captured.scalars},
        "usual": {name: each for name, each in captured.called.usual.items() if type(each) in PLAIN_VALUES},
        "numbers": sorted(program.numbers),
        "given": {name: int(type_.dtype) for name, type_ in program.inputs.items()},
        "outputs": [list(each) for each in low.outputs],
        "dtypes": [int(v.type.dtype) for v in program.graph.results if isinstance(v.type, Tensor)],
    }
    signature = attrs.evolve(graph.signature, metadata=(*graph.signature.metadata, (KEY, json.dumps(said))))
    return attrs.evolve(graph, signature=signature), program.opset


@attrs.frozen(eq=False, repr=False)
class FileProgram:
    """A program that was read from a file, called as the model is.

    `said` is what the file says of its calls, `arguments` what takes each argument apart, `build` what puts the result
    together, `written` when the file was written that was read, and how long it was.
    """

    path: Path
    graph: Graph
    said: Mapping[str, Any]
    arguments: Mapping[str, tuple[Opener, pytree.TreeSpec]]
    build: Builder
    run: BoundRun
    written: tuple[int, int]

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FileProgram:
        """The program in a file. Raises LoadError for one that does not say how it is called."""
        written = written_at(Path(path))
        graph = load(path)
        metadata = dict(graph.signature.metadata)
        if KEY not in metadata:
            raise LoadError(f"{Path(path).name} does not say how it is called", hint="save it by save_pretrained")
        try:
            said, arguments, build = calls_of(metadata[KEY])
            inputs, outputs = {name for name in said["leaves"] if name is not None}, said["dtypes"]
        except Exception as error:  # torch and json raise anything of a text that somebody changed
            raise LoadError(
                f"what {Path(path).name} says of its calls cannot be read: {error}", hint="save it by save_pretrained"
            ) from error
        if inputs != set(names_of(graph)) or len(outputs) > len(graph.results):
            raise LoadError(
                f"{Path(path).name} has other inputs or outputs than it says", hint="save it by save_pretrained"
            )
        opened = session(Path(path))
        run = BoundRun(opened, names_of(graph), opened.outputs)
        return cls(Path(path), graph, said, arguments, build, run, written)

    def __call__(self, **kwargs: Any) -> Any:
        """The model's result. Raises ContractError for what the model was not captured for."""
        leaves, said = self.leaves(kwargs), self.said
        by_name = self.filled({n: leaf for n, leaf in zip(said["leaves"], leaves, strict=True) if n is not None})
        for i, value in said["scalars"].items():
            if not same_scalar(leaves[int(i)], value):
                raise ContractError(
                    f"{leaves[int(i)]!r} is given where the model was captured with {value!r}",
                    hint="call it with the number of the export, or export it with this one",
                )
        vector, shapes, numbers = held_values(), list[tuple[int, ...]](), dict[str, int]()
        pairs = complex_names(self.graph)
        for name, param in zip(names_of(self.graph), self.graph.params, strict=True):
            leaf, type_ = by_name[name], param.type
            if not isinstance(type_, Tensor):
                raise ContractError(f"{name} is no tensor", hint="export a model that takes tensors")
            if name in said["numbers"] and not isinstance(leaf, torch.Tensor):
                numbers[name] = int(leaf)
                leaf = torch.tensor(leaf)
            part = DType(said["given"][name])
            require_tensor(name, leaf, WHOLES[part] if name in pairs else part, type_)
            tensor = as_pairs(leaf) if name in pairs else leaf.detach()
            tensor = tensor if DType(said["given"][name]) is type_.dtype else tensor.to(TORCH[type_.dtype])
            put(vector, tensor)
            shapes.append(tuple(tensor.shape))
        bound = {port.name: numbers[port.name] for port in self.graph.signature.params if port.name in numbers}
        check_sizes(self.graph, binding_of(self.graph, shapes, bound))
        check_least(least_numbers(self.graph), by_name)
        try:
            found = self.run(vector)
        except Exception as error:  # ONNX Runtime's own classes have no common base
            raise EvaluateError(
                f"ONNX Runtime cannot run {self.path.name} on these inputs: {error}",
                hint="look at the numbers that the conditions of the model are about; `irkit contract` lists them",
            ) from error
        results = [self.result(i, found[i]) for i in range(len(said["dtypes"]))]
        kinds = {"result": lambda what: results[what], "number": lambda what: results[what].item()}
        return self.build([kinds[kind](what) if kind in kinds else what for kind, what in said["outputs"]])

    def save(self, path: Path) -> None:
        """Writes the same model to another place, its weights beside it. Raises StaleError where the file was written
        again, LoadError where the weights beside it are another model's."""
        if written_at(self.path) != self.written:
            raise StaleError(
                f"{self.path.name} was written again after it was read", hint="read it again, and save what is read"
            )
        copy_model(self.path, path, f"{path.name}.data")

    def leaves(self, kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves of a call, in order. Raises ContractError where it has other arguments, or another structure."""
        leaves, unknown = list[Any](), [n for n, each in kwargs.items() if not self.is_known(n, each)]
        if unknown:
            raise ContractError(
                f"the call has {unknown[0]!r}", hint=f"the model was captured with {', '.join(self.arguments)}"
            )
        for name, (opener, spec) in self.arguments.items():
            if name in MASKS and kwargs.get(name) is None and self.rank_of(name) == 2:
                leaves.append(Implied(1))  # a mask that hides nothing
                continue
            if name not in kwargs and not (
                spec.num_leaves == 1 and self.said["scalars"].get(str(len(leaves)), 0) is None
            ):
                raise ContractError(f"the call lacks {name!r}", hint="give all that the model was captured with")
            found = list[Any]()
            if not opener(kwargs.get(name), found):
                found = nothing_yet(name, kwargs.get(name), spec)
            leaves += found
        return leaves

    def filled(self, by_name: Mapping[str, Any]) -> dict[str, Any]:
        """The leaves by name, with tensors of no tokens for a cache in which nothing is yet."""
        absent = {name: leaf.fill for name, leaf in by_name.items() if isinstance(leaf, Implied)}
        if not absent:
            return dict(by_name)
        names = names_of(self.graph)
        shapes = [tuple(each.shape) if isinstance(each := by_name[name], torch.Tensor) else None for name in names]
        types = {
            name: Tensor(DType(self.said["given"][name]), param.type.shape)
            for name, param in zip(names, self.graph.params, strict=True)
            if isinstance(param.type, Tensor)
        }
        made = implied_arrays(types, absent, binding_of(self.graph, shapes))
        return {**by_name, **{name: torch.from_numpy(array) for name, array in made.items()}}

    def rank_of(self, name: str) -> int | None:
        """How many dimensions an input has; None for one that is none, or no tensor."""
        types = {n: param.type for n, param in zip(names_of(self.graph), self.graph.params, strict=True)}
        found = types.get(name)
        return found.rank if isinstance(found, Tensor) else None

    def is_known(self, name: str, value: Any) -> bool:
        """Whether an argument is one of the model's, or has the value that it has where it is left out."""
        usual = self.said["usual"].get(name, self)
        return name in self.arguments or value is None or (type(value) is type(usual) and value == usual)

    def result(self, i: int, value: Any) -> torch.Tensor:
        """A result as the model gives it."""
        made = tensor_held(value)
        if self.graph.signature.results[i].name in complex_names(self.graph):
            return from_pairs(made)
        wanted = TORCH[DType(self.said["dtypes"][i])]
        return made if made.dtype is wanted else made.to(wanted)


def written_at(path: Path) -> tuple[int, int]:
    """When a file was written, and its size. Raises LoadError where there is none."""
    try:
        status = path.stat()
    except OSError as error:
        raise LoadError(f"{path.name} cannot be read: {error.strerror}", hint="see whether it is there") from error
    return status.st_mtime_ns, status.st_size


def calls_of(text: str) -> tuple[Any, dict[str, tuple[Opener, pytree.TreeSpec]], Builder]:
    """(what a file says of its calls, what takes each argument apart, what puts the result together)."""
    said = json.loads(text)
    with Registrations() as known:
        register_caches(known)
        specs = [None if each is None else pytree.treespec_loads(each) for each in (said["in"], said["out"])]
        nodes = nodes_of(definitions(*specs))
        positional, by_name = pytree.treespec_loads(said["in"]).children()
        children = (*positional.children(), *by_name.children())
        names = (*said["arguments"][: positional.num_children], *by_name.context)
        arguments = {name: (opener_of(child, nodes), child) for name, child in zip(names, children, strict=True)}
        return said, arguments, tuple if specs[1] is None else builder_of(specs[1], nodes)


def nothing_yet(name: str, value: Any, spec: pytree.TreeSpec) -> list[Any]:
    """What stands for the leaves of a cache in which nothing is yet. Raises ContractError for anything else."""
    with Registrations() as known:
        register_caches(known)
        found = empty_leaves(value, spec)
    if found is None:
        raise ContractError(f"{name} has another structure than at capture", hint="give what has the same structure")
    return list(found)
