"""The only call of torch.export, with everything around it that keeps the model as it was and dimensions dynamic."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs
import torch
from torch.export import ExportedProgram

from irkit.support.installed import beginnings_of_files
from lowering.capture.caught_errors import Caught, Raised
from lowering.capture.guards.assumed import taken_for_granted
from lowering.capture.guards.guards import (
    Guard,
    broken_by,
    example_of_symbols,
    frozen_error,
    frozen_places,
    guards_of,
    is_small,
    shape_env_of,
)
from lowering.capture.in_order import InOrder
from lowering.capture.inputs.calls import Call, flat_signature
from lowering.capture.inputs.contents import Parts, keep_unchanged
from lowering.capture.inputs.drawing import DRAWN, OUTSIDE, SEED, generator_kept
from lowering.capture.inputs.torch_dims import is_derived, promise, torch_tree
from lowering.capture.patches.kept_sizes import asks_for_sizes
from lowering.capture.patches.set_data import Sharing
from lowering.capture.patches.table import Occasion, patch_torch
from lowering.capture.patches.zero_questions import Heard
from lowering.capture.swallowed_errors import errors_heard, refuse_swallowed
from lowering.capture.torch_errors import explain_error, message
from lowering.capture.transforms import carried_out, modules_within
from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import (
    Leaf,
    LeafStatement,
    Place,
    example_size,
    expected_size,
    range_of,
    statements_of,
)
from lowering.records.programs import metas_of_program
from lowering.records.pytrees import Registrations
from lowering.records.source_lines import line_of, trace_of
from lowering.records.torch_internals import TracingContext, pytree, tracing

# Sizes for examples where the user's own are 0 or 1, which torch tends to take for fixed.
STAND_INS = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
# torch.export of its own LSTM, GRU and RNN says so: the modules assign their list of weights while they are traced.
NOISE = r"The tensor attributes? .* w(as|ere) assigned during export"


@attrs.frozen
class Attempt:
    """One way in which capture was tried: what it was, how long it took, and torch's error where it failed.

    `oblivious` is False where torch took sizes 0 and 1 for fixed, and all others for at least 2.
    """

    how: str
    seconds: float
    error: str = ""
    oblivious: bool = True


@attrs.frozen(eq=False)
class Request:
    """What is to be exported, and what was said of its dimensions: one statement for each leaf.

    `lenient` is True where dimensions that do not stay dynamic are no failure, `keeping` where int() and len() in the
    model's code shall keep sizes, `torch_dims` where torch itself shall keep watch over Dims.
    """

    module: torch.nn.Module
    call: Call
    leaves: tuple[Leaf, ...]
    said: tuple[LeafStatement, ...]
    places: tuple[Place, ...]
    known: Registrations
    strict: bool
    lenient: bool = False
    keeping: bool = False
    torch_dims: bool = False

    @property
    def way(self) -> str:
        """How torch traces, in words."""
        how = "torch.export, strict" if self.strict else "torch.export, non-strict"
        how = f"{how}, over its own Dims" if self.torch_dims else how
        return f"{how}, where int() and len() keep sizes" if self.keeping else how


def exported_somehow(request: Request) -> tuple[Request, ExportedProgram, list[Attempt], Heard]:
    """What `exported` gives, after the request that it was given for: where int() or len() fixed a size, that they
    shall keep it. Raises the first CaptureError where that does not help.

    torch computes with a Dim that is derived from another one, and graphs become simpler by it; where it refuses what
    the model relies on beyond that, Dims are names like others.
    """
    attempts: list[Attempt] = []
    if not request.lenient and any(map(is_derived, statements_of(request.said))):
        derived, start = attrs.evolve(request, torch_dims=True), time.perf_counter()
        try:
            return derived, *exported(derived)
        except CaptureError as error:
            attempts.append(Attempt(derived.way, time.perf_counter() - start, error.what))
    try:
        program, more, asked = exported(request)
        return request, program, [*attempts, *more], asked
    except CaptureError as error:
        if request.strict or not asks_for_sizes(error):
            raise
        keeping = attrs.evolve(request, keeping=True)
        try:
            return keeping, *exported(keeping)
        except CaptureError:
            raise error from error.__cause__


def exported(request: Request) -> tuple[ExportedProgram, list[Attempt], Heard]:
    """(program, attempts, what the model asked of sizes).

    Raises CaptureError, with torch's error as its cause, where no attempt succeeds.

    Examples of size 0 and 1 are tried as they are, and, where torch then takes the size for fixed, larger. Broadcasting
    that is meant (`Dim.AUTO` on a 1) needs torch's own rule, by which 0 and 1 are fixed: the last attempt.
    """
    attempts: list[Attempt] = []
    failures: list[Exception] = []
    fallback: Any = None
    for how, examples, oblivious in plans(request, failures):
        start = time.perf_counter()
        try:
            program, heard = export(request, examples, oblivious)
        except Exception as error:
            failures.append(error)
        else:
            frozen = not_dynamic(request, program)
            other = another_way(request, program) if frozen is None else None
            if frozen is None and other is None:
                attempts.append(Attempt(how, time.perf_counter() - start, oblivious=oblivious))
                return program, attempts, heard
            failures.append(frozen or other)  # type: ignore[arg-type]
            fallback = fallback if other is not None else fallback or (program, oblivious, heard)
        attempts.append(
            Attempt(how, time.perf_counter() - start, message(failures[-1], request.places, request.leaves))
        )
    if fallback is not None and request.lenient:
        program, oblivious, heard = fallback
        return program, [*attempts, attrs.evolve(attempts[-1], seconds=0.0, error="", oblivious=oblivious)], heard
    if isinstance(failures[0], CaptureError):
        raise failures[0]
    raise explain_error(type(request.module).__name__, failures[0], request.places, request.leaves) from failures[0]


def plans(request: Request, failures: Sequence[Exception]) -> Iterator[tuple[str, list[Any], bool]]:
    """(how, example leaves, whether torch shall ignore that an example has size 0 or 1), the likeliest first."""
    given = [leaf.value for leaf in request.leaves]
    yield request.way, given, True
    larger = enlarged(request)
    if larger is not None:
        yield f"{request.way}, with larger examples", larger, True
    fixed = f"{request.way}, where sizes 0 and 1 are fixed"
    if isinstance(failures[0], AnotherWay) or (not isinstance(failures[0], CaptureError) and varies_from_one(request)):
        yield fixed, given, False
    elif type(failures[0]) is RuntimeError and any(request.said):
        # Sizes that do not fit, it may be for want of knowing that 1 - max(0, 1 - n) is 1, which needs n > 0.
        yield fixed, given, False


def varies_from_one(request: Request) -> bool:
    """Whether something is said of a dimension whose example is 0 or 1."""
    return any(True for _ in small(request))


def small(request: Request) -> Iterator[tuple[Leaf, int]]:
    """(leaf, axis) of each dimension that something is said of, and whose example is 0 or 1."""
    for leaf, said in zip(request.leaves, request.said, strict=True):
        yield from ((leaf, axis) for axis in said if leaf.value.shape[axis] <= 1) if isinstance(said, dict) else ()


def not_dynamic(request: Request, program: ExportedProgram) -> CaptureError | None:
    """The error for a dimension that the user named and that has one size in the program; None where there is none."""
    metas = metas_of_program(program)
    env = shape_env_of(metas)
    # What guards say of a size matters where its example tells too little; there may be thousands of them.
    open_ = any(is_small(request.leaves[place.leaf], place.axis) for place in request.places)
    guards = guards_of(env, program._guards_code, request.leaves, metas) if open_ else ()
    for place in frozen_places(request.places, request.leaves, metas, guards):
        return frozen_error(place, request.leaves, metas, env)
    return None


class AnotherWay(CaptureError):
    """The program of other sizes is not that of the example itself."""

    @classmethod
    def at(cls, sizes: str, source: str) -> AnotherWay:
        """The error for an example of these sizes, with the line that parts it from others."""
        return cls(
            f"the model takes another way for the example itself ({sizes}) than for other sizes",
            source=source,
            hint="leave the dimension static, or give an example of more than 1; it will then be refused for 1",
        )


def another_way(request: Request, program: ExportedProgram) -> AnotherWay | None:
    """The error for an example of size 0 or 1 for which torch took for granted what does not hold of it: that `squeeze`
    keeps a dimension. None where there is none."""
    if not varies_from_one(request):
        return None
    sizes = example_of_symbols(request.leaves, metas_of_program(program))
    for node in program.graph.nodes:
        guards = [Guard(each, str(each)) for each in taken_for_granted(node)] if node.op == "call_function" else []
        if broken_by(sizes, guards, {}) is not None:
            at = ", ".join(
                f"dimension {axis} of {leaf.name!r} is {leaf.value.shape[axis]}" for leaf, axis in small(request)
            )
            return AnotherWay.at(at, line_of(trace_of(node)))
    return None


def export(request: Request, examples: Sequence[Any], oblivious: bool) -> tuple[ExportedProgram, Heard]:
    """(program, heard): what torch.export makes of the module and these example leaves, and what was asked of sizes on
    the way. The module stays as it is."""
    call = request.call
    flat = [copy_leaf(each) for each in examples]
    _, spec = pytree.tree_flatten((call.args, call.kwargs))
    args, kwargs = pytree.tree_unflatten(flat, spec)
    around = Parts.of(request.module).around
    hears = (not request.strict and around.catches, beginnings_of_files(around.packages))
    nested, raised = TracingContext.try_get() is not None, Raised()
    stood_in: Mapping[int, tuple[torch.Tensor, str]] = {}
    occasion = Occasion("torch.export", request.module, oblivious, request.keeping, request.strict, nested)
    with ExitStack() as stack:
        stack.enter_context(patch_torch(occasion))  # first: it lets one thread at a time at the module
        changes = stack.enter_context(keep_unchanged(request.module))
        by_python = stack.enter_context(generator_kept())
        if call.is_variable:
            stack.enter_context(flat_signature(request.module, call))
        # Parameters are constants: what no_grad and detach say about gradients need not be in the graph.
        stack.enter_context(torch.no_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", NOISE)
        if nested:
            # Inside a backend of torch.compile: torch.export would go on with dynamo's own symbols.
            stack.enter_context(tracing(None))
        if not request.strict:
            stood_in = stack.enter_context(watched(request))
            stack.enter_context(Sharing())
            stack.enter_context(InOrder())
            stack.enter_context(Caught(raised))
        with errors_heard(*hears) as errors:
            program = torch.export.export(
                request.module, args, kwargs, dynamic_shapes=for_torch(request), strict=request.strict
            )
        raised.refuse(occasion.heard)
        put_weights_back(program, request.module, stood_in)
        found = carried_out(program)
        drawn = lines_of_draws(found) if torch.default_generator.initial_seed() != SEED else ()
    refuse_swallowed(
        errors, request.module, lambda: pytree.tree_unflatten([copy_leaf(each) for each in examples], spec)
    )
    occasion.heard.changed.extend(each for each in changes if each not in occasion.heard.changed)
    occasion.heard.drawn.extend((*map(DRAWN.format, drawn), *map(OUTSIDE.format, by_python)))
    return found, occasion.heard


def lines_of_draws(program: ExportedProgram) -> dict[str, None]:
    """The lines of a model that draw random numbers by torch."""
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    random = [node for node in calls if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())]
    return dict.fromkeys(line_of(trace_of(node)) for node in random)


def for_torch(request: Request) -> Any:
    """`dynamic_shapes` in torch's own structure; None where nothing is dynamic."""
    if all(said is None for said in request.said):
        return None
    options = request.lenient, request.torch_dims
    by_source = {leaf.source: said for leaf, said in zip(request.leaves, request.said, strict=True)}
    paths = [f"L{pytree.keystr(path)}" for path, _ in pytree.tree_flatten_with_path(request.call.combined)[0]]
    if len(by_source) == len(request.leaves) and set(by_source) == set(paths):
        return torch_tree(request.call.combined, iter([by_source[path] for path in paths]), *options)
    return torch_tree(request.call.combined, iter(request.said), *options)


def copy_leaf(leaf: Any) -> Any:
    """A tensor of its own, so that torch's marks on examples, views and tensors passed twice do not matter."""
    if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
        return leaf
    return leaf.detach().clone().requires_grad_(leaf.requires_grad)


def put_weights_back(
    program: ExportedProgram, module: torch.nn.Module, stood_in: Mapping[int, tuple[torch.Tensor, str]]
) -> None:
    """Has the branches of a program hold the weights and buffers of its module: those that a branch on data names, and
    is not handed, torch leaves as the tensors without numbers that stood in for them while it traced."""
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for each in modules_within(program.graph_module):
        for name in {str(node.target) for node in each.graph.nodes if node.op == "get_attr"}:
            found = stood_in.get(id(getattr(each, name, None)))
            if found is not None:
                setattr(each, name, held[found[1]])


@contextmanager
def watched(request: Request) -> Iterator[dict[int, tuple[torch.Tensor, str]]]:
    """A block in which a call of the module states what the user's names promise, and registers classes it returns; it
    is given what stands for the weights and buffers of the module meanwhile, by identity, with their names."""
    stood_in: dict[int, tuple[torch.Tensor, str]] = {}

    def before(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        named = (*module.named_parameters(), *module.named_buffers())
        stood_in.update((id(each), (each, name)) for name, each in named)
        promise(request.places, pytree.tree_leaves((args, kwargs)), not request.torch_dims)

    def after(_: torch.nn.Module, args: Any, output: Any) -> None:
        request.known.include(output)

    # fx.GraphModules are interpreted by torch.export, which runs no hooks.
    hooks = [
        request.module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        request.module.register_forward_hook(after),
    ]
    try:
        yield stood_in
    finally:
        for hook in hooks:
            hook.remove()


# ---------------------------------------------------------------------------------------------------------------------
# Larger examples
# ---------------------------------------------------------------------------------------------------------------------


def enlarged(request: Request) -> list[Any] | None:
    """The example leaves with other sizes where a named dimension is 0 or 1; None where none is."""
    named = [place for place in request.places if place.is_plain]
    sizes = {place.expr.name: example_size(place, request.leaves) for place in named}
    small = [name for name, size in sizes.items() if size <= 1]
    if not small:
        return None
    free = [each for each in STAND_INS if each not in sizes.values()]
    tops = {place.expr.name: top_of(request.said[place.leaf], place.axis) for place in named}
    for name, size in zip(small, free, strict=False):
        sizes[name] = min(size, tops[name])
    return examples_at(request, sizes)


def top_of(said: LeafStatement, axis: int) -> int:
    """The greatest size that the user allows at a dimension."""
    top = range_of(said[axis] if isinstance(said, dict) else said)[1]
    return 1 << 30 if top is None else top


def examples_at(request: Request, sizes: dict[str, int]) -> list[Any]:
    """The example leaves at these sizes of the named dimensions; a longer one repeats its last row."""
    examples = [leaf.value for leaf in request.leaves]
    for place in request.places:
        size = expected_size(place, sizes)
        if size is None or size < 0:
            continue
        if place.axis < 0:
            examples[place.leaf] = size
            continue
        examples[place.leaf] = stretch_axis(examples[place.leaf], place.axis, size)
    return examples


def repeated_rows(size: int, there: int, device: torch.device) -> torch.Tensor:
    """The places of the rows of a tensor that has another size: the first so many, or all and then the last again."""
    return torch.arange(size, device=device).clamp(max=there - 1)


def stretch_axis(
    tensor: torch.Tensor, axis: int, size: int, rows: Callable[..., torch.Tensor] = repeated_rows
) -> torch.Tensor:
    """The tensor with another size at one axis: cut off, or its last row repeated (zeros where it has none); `rows`
    gives the places of these."""
    there = tensor.shape[axis]
    if there == size:
        return tensor
    if there == 0:
        shape = list(tensor.shape)
        shape[axis] = size
        return tensor.new_zeros(shape)
    return tensor.detach().index_select(axis, rows(size, there, tensor.device))
