"""Does the ONNX model compute what the torch model computes: on the traced sizes, and on others."""

from __future__ import annotations

import copy
import random
import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import attrs
import torch

from irkit import dims
from irkit.checking.comparison import compare
from irkit.contract.sizes import check_sizes
from irkit.core.types import DType, Tensor
from irkit.errors import ContractError, EvaluateError, IrkitError
from irkit.rewriting.numbering import is_random
from irkit.support.arguments import require_count
from lowering.capture.inputs.calls import as_module
from lowering.capture.inputs.contents import Parts, keep_unchanged
from lowering.capture.inputs.scalars import as_numbers
from lowering.capture.inputs.training import (
    Training,
    contents_kept,
    tensors_kept,
    training_state_kept,
)
from lowering.capture.patches.table import Occasion, patch_torch
from lowering.errors import LoweringError
from lowering.program.roundings import evaluated_result, has_roundings, within_room
from lowering.records.programs import first_line
from lowering.records.pytrees import register_classes
from lowering.records.torch_internals import FakeTensor, pytree
from lowering.records.types import array_of

if TYPE_CHECKING:
    from lowering.program.program import Program

TRIES = 200
"""Random assignments drawn in search of one that the guards allow."""
DRAWS = "the model draws random numbers, and torch draws others"
"""Why the results of such a model differ."""
REFUSES = "nothing was compared, as torch refuses random inputs of these sizes, and elements of the example too"
"""What is said of such an assignment: the model takes less than its sizes say, offsets within a length for instance."""
POOL = (1, 2, 3, 5, 7, 4, 8, 6, 16)
"""Sizes that are tried for a dimension, besides those its range starts with."""


@attrs.frozen
class SizeReport:
    """One assignment: the sizes, the largest absolute and relative error of each output, and what went wrong; or why
    torch and the program both refuse the inputs. `redrawn` is why torch refused random content, where elements of
    the example were taken in its place, and `untaken` why it refused these too, so that nothing was compared."""

    sizes: tuple[tuple[str, int], ...]
    errors: tuple[tuple[str, float, float], ...]
    problem: str = ""
    refusal: str = ""
    redrawn: str = ""
    untaken: str = ""
    rounds: str = ""

    def __str__(self) -> str:
        at = ", ".join(f"{k}={v}" for k, v in self.sizes) or "static sizes"
        if self.untaken:
            return f"{at}: {REFUSES}: {self.untaken}"
        worst = max((e[1] for e in self.errors), default=0.0)
        said = f" ({self.rounds})" if self.rounds else ""
        agrees = f"agrees, largest error {worst:.2g}{said}"
        agreed = f"both refuse it: {self.refusal}" if self.refusal else agrees
        taken = f", on elements of the example, as torch refuses random ones: {self.redrawn}" if self.redrawn else ""
        return f"{at}: {self.problem or agreed}{taken}"


@attrs.frozen
class CheckReport:
    """The outcome of a check; true where all that torch takes agreed. `runs` are the assignments that were compared,
    `refused` those at which torch's operators took no inputs: they say nothing for the program or against it. What only
    the model itself refuses, by an `assert` or `torch._check`, is a problem of its run."""

    runs: tuple[SizeReport, ...]
    refused: tuple[SizeReport, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.runs) and not any(run.problem for run in self.runs)

    def __str__(self) -> str:
        return "\n".join(str(run) for run in (*self.runs, *self.refused))


def check_program(program: Program, n: int, seed: int = 0) -> CheckReport:
    """The report over the traced sizes and `n` others. Raises LoweringError where no torch model is at hand, or `n`
    is no count."""
    n, seed = require_count(n, "n", LoweringError), require_count(seed, "seed", LoweringError)
    if program.reference is None:
        raise LoweringError("the torch model is not at hand to check against", hint="give to_onnx the model itself")
    args, kwargs = rebuilt(program, examples(program))
    runs, untaken = [run(program, args, kwargs)], []
    for sizes in assignments(program, n, seed):
        new_args, new_kwargs = resized(program, sizes, seed)
        report = run(program, new_args, new_kwargs)
        error = raised(program, new_args, new_kwargs) if report.problem else None
        if error is not None and not is_asserted(error):  # boxes that end before they begin, say
            why = f"{type(error).__name__}: {first_line(error)}"
            picked_args, picked_kwargs = resized(program, sizes, None)
            if raised(program, picked_args, picked_kwargs) is not None:
                untaken.append(SizeReport(report.sizes or tuple(sorted(sizes.items())), (), untaken=why))
                continue
            report = attrs.evolve(run(program, picked_args, picked_kwargs), redrawn=why)
        runs.append(report)
    return CheckReport(tuple(runs), tuple(untaken))


def raised(program: Program, args: Any, kwargs: Mapping[str, Any]) -> Exception | None:
    """What torch raises for these inputs; None where it takes them."""
    try:
        reference(program, copied(args), copied(dict(kwargs)))
    except Exception as error:  # a model may raise anything
        return error
    return None


def is_asserted(error: Exception) -> bool:
    """True for what an `assert` or `torch._check` raised: a condition of the model, which its program has to keep."""
    codes = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, AssertionError) or any(code.co_qualname == "_check_with" for code in codes)


def run(program: Program, args: Any, kwargs: Mapping[str, Any], rtol: float | None = None) -> SizeReport:
    """One comparison on given inputs; an exception of either side is reported as the problem."""
    sizes: tuple[tuple[str, int], ...] = ()
    try:
        feeds = program.feeds(copied(args), copied(dict(kwargs)))
        sizes = tuple(sorted(program.sizes_of(feeds).items()))
        expected, left = reference(program, copied(args), copied(dict(kwargs)))
        actual, after = program.run(copied(args), copied(dict(kwargs)))
    except Exception as error:  # ONNX Runtime's own classes have no common base
        refusal = "" if not sizes or isinstance(error, ContractError) else refused(program, args, kwargs)
        problem = "" if refusal else f"{type(error).__name__}: {error}"
        return SizeReport(sizes, (), problem, refusal)
    report = compared(program, expected, actual, sizes, rtol)
    if report.problem and rtol is None and program.quantized is None and has_roundings(program.ready):
        report = rounded_report(program, expected, actual, program.narrowed(feeds), sizes)
    elif rtol is None and program.quantized is not None:
        report = quantized_report(program, actual, program.narrowed(feeds), report)
    elif rtol is None and program.precision is not None:
        name, off = program.precision.name.lower(), HALF[program.precision]
        report = attrs.evolve(report, rounds=f"computed in {name}, which may be {off:.2g} of the largest number off")
    if report.problem and any(map(is_random, program.graph.order)):
        report = attrs.evolve(report, problem=f"{report.problem}; {DRAWS}")
    for name, mine in () if report.problem else after.items():
        difference = compare(array_of(left[name]), array_of(mine), rtol=rtol, atol=rtol) if name in left else None
        if difference is not None:
            return attrs.evolve(report, problem=f"state {name}: {difference}")
    return report


def refused(program: Program, args: Any, kwargs: Mapping[str, Any]) -> str:
    """Why a program refuses data whose sizes it takes; empty where it does not."""
    try:
        program.run(copied(args), copied(dict(kwargs)))
    except ContractError as error:
        return error.what
    except Exception:  # ONNX Runtime's own classes have no common base
        return ""
    return ""


def reference(program: Program, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, torch.Tensor]]:
    """(result, state): what torch gives, and what the buffers and inputs that it writes hold afterwards.

    The buffers hold at first what they held at capture; the model itself is left as it was.
    """
    owner, captured = as_module(program.reference), program.lowered.captured
    parts = Parts.of(owner)
    start, held = program.lowered.initial_state, Training.present(owner, parts)
    written = {name: tensor for name, tensor in held.named_tensors(owner).items() if name in start}
    leaves = captured.leaves_of(args, kwargs)
    around = tensors_kept(each for each in parts.around.tensors if each.layout is torch.strided)
    own = contents_kept(owner, held) if captured.records or held.optimizers else tensors_kept(written.values())
    kept = keep_unchanged(owner, parts), training_state_kept(owner, parts=parts)
    with around, own, kept[0], kept[1], patch_torch(Occasion("comparison")):
        with torch.no_grad():
            for name, tensor in written.items():
                tensor.copy_(start[name])
        # a program of torch.export's opens its arguments by torch's pytree, a model by itself
        opened = captured.pytrees() if captured.parameters is None else nullcontext()
        with torch.set_grad_enabled(captured.records), opened:
            result = program.reference(*args, **kwargs)
        if captured.records:
            with captured.pytrees():
                result = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result)
        result = copied(result) if written else result  # it may be a buffer
        after = held.named_tensors(owner).items()
        found = {name: tensor.detach().clone() for name, tensor in after if name in start}
    inputs = dict(zip(captured.input_names, leaves, strict=True))
    return result, found | {name: leaf for name, leaf in inputs.items() if isinstance(leaf, torch.Tensor)}


def rounded_report(
    program: Program, expected: Any, actual: Any, feeds: Mapping[str, Any], sizes: tuple[tuple[str, int], ...]
) -> SizeReport:
    """The comparison of a model that rounds to integers by itself: the graph with torch, but for ties, and ONNX Runtime
    with the graph, within a tenth of the largest result."""
    try:
        exact = evaluated_result(program, feeds)
        graph = compared(program, expected, within_room(program, expected, exact, feeds), sizes, None)
    except EvaluateError as error:
        report = compared(program, expected, actual, sizes, None, ROUGH)
        return attrs.evolve(report, rounds=f"the graph itself was not evaluated: {error.what}")
    if graph.problem:
        return attrs.evolve(graph, problem=f"{graph.problem}, as irkit evaluates the graph")
    report = compared(program, exact, actual, sizes, None, ROUGH)
    if report.problem:
        return attrs.evolve(report, problem=f"{report.problem}, by ONNX Runtime, of the graph as irkit evaluates it")
    off = max((each[1] for each in report.errors), default=0.0)
    told = f"the graph itself agrees but for ties, and ONNX Runtime's integers are {off:.2g} off it"
    return attrs.evolve(compared(program, expected, actual, sizes, None, ROUGH), rounds=told)


def quantized_report(program: Program, actual: Any, feeds: Mapping[str, Any], report: SizeReport) -> SizeReport:
    """The report of a program of which weights were made integers, with what room it had, after ONNX Runtime was
    compared with the graph as irkit evaluates it: within a tenth of the largest result where it rounds activations,
    and as tightly as any other model where it does not."""
    if program.quantized is None or report.problem:
        return report
    request = program.quantized.request
    room = f"weights are integers, which may be {request.tolerance:.2g} of the largest number off"
    try:
        exact = evaluated_result(program, feeds)
    except EvaluateError as error:
        return attrs.evolve(report, rounds=f"{room}; the graph itself was not evaluated: {error.what}")
    other = getattr(program, "runtime", None)  # another runtime, which may round activations where it likes to
    rounds = other is not None or request.activations is not None or request.accuracy != "float32"
    own = compared(program, exact, actual, report.sizes, None, ROUGH if rounds else 0.0)
    name = "ONNX Runtime" if other is None else other.name
    if own.problem:
        return attrs.evolve(own, problem=f"{own.problem}, by {name}, of the graph as irkit evaluates it")
    off = max((each[1] for each in own.errors), default=0.0)
    return attrs.evolve(report, rounds=f"{room}; {name} is {off:.2g} off the graph")


def compared(
    program: Program, expected: Any, actual: Any, sizes: Any, rtol: float | None, rough: float | None = None
) -> SizeReport:
    """The comparison of two results: structure, then element type, shape and values of each leaf. `rough` is how far
    floating-point numbers may be off, as a part of the largest; None is what the program's quantization says."""
    with program.lowered.captured.pytrees(), register_classes(expected, actual):
        ours, our_spec = pytree.tree_flatten(actual)
        theirs, their_spec = pytree.tree_flatten(expected)
    if our_spec != their_spec:
        return SizeReport(sizes, (), f"the structure differs: {our_spec} where torch gives {their_spec}")
    errors: list[tuple[str, float, float]] = []
    paths = [*program.lowered.captured.output_names, *("" for _ in ours)]
    for i, (path, mine, reference) in enumerate(zip(paths, ours, theirs, strict=False)):
        name = path or str(i)
        if not isinstance(reference, torch.Tensor):
            if isinstance(mine, torch.Tensor) and mine.ndim == 0:
                mine = mine.item()
            if mine != reference:
                return SizeReport(sizes, tuple(errors), f"output {name} is {mine!r} where torch gives {reference!r}")
            continue
        options = half_way(program, reference, rough) if rtol is None else {"rtol": rtol, "atol": rtol}
        difference = compare(array_of(reference), array_of(mine), **options)
        if difference is not None:
            return SizeReport(sizes, tuple(errors), f"output {name}: {difference}")
        errors.append((name, *largest_error(reference, mine)))
    return SizeReport(sizes, tuple(errors))


ROUGH = 0.1
"""How far ONNX Runtime may be off the graph of a model that rounds what it computes to integers, relative to the
largest number of a result: the graph itself has to agree with torch but for ties (`lowering.program.roundings`), or
within what its quantization is allowed."""

HALF: Mapping[DType, float] = {DType.FLOAT16: 2e-2, DType.BFLOAT16: 6e-2}
"""How far a model that computes in 16 bits may be off, relative to the largest number of a result."""


def half_way(program: Program, expected: torch.Tensor, rough: float | None = None) -> dict[str, float]:
    """The tolerances for a result of a program that was made one of half precision or of integers; none of its own for
    others."""
    integers = 0.0 if program.quantized is None else program.quantized.request.tolerance
    off = max(
        integers if rough is None else rough,
        0.0 if program.precision is None else HALF[program.precision],
    )
    if not off or not expected.is_floating_point():
        return {}
    finite = expected.double()[torch.isfinite(expected)].abs()
    scale = float(finite.max()) if finite.numel() else 1.0
    return {"rtol": off, "atol": off * max(scale, 1e-3)}


def largest_error(expected: torch.Tensor, actual: torch.Tensor) -> tuple[float, float]:
    """(absolute, relative) largest difference of two tensors of one shape; zeros where there is none to take."""
    if expected.numel() == 0 or expected.dtype is torch.bool:
        return 0.0, 0.0
    wide = torch.complex128 if expected.is_complex() else torch.float64
    gap = (expected.to(wide) - actual.to(wide)).abs()
    gap = gap[torch.isfinite(gap)]
    if gap.numel() == 0:
        return 0.0, 0.0
    absolute = float(gap.max())
    scale = float(expected.to(wide).abs()[torch.isfinite(expected)].max()) if torch.isfinite(expected).any() else 0.0
    return absolute, absolute / scale if scale else 0.0


def copied(tree: Any) -> Any:
    """A copy that a model may write to."""
    leaves = (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))
    # copy knows no sparse tensors.
    sparse = {id(leaf): leaf.clone() for leaf in leaves if leaf.layout is not torch.strided}
    return copy.deepcopy(tree, sparse) if sparse else copy.deepcopy(tree)


# ---------------------------------------------------------------------------------------------- other sizes


def assignments(program: Program, n: int, seed: int) -> list[dict[str, int]]:
    """Up to `n` assignments of the graph's input dimensions that its ranges and guards allow, other than the traced
    one: the smallest first, then random ones."""
    graph = program.graph
    numbers = {port.binds for port in graph.signature.params if port.role == "input" and port.binds}
    symbols = sorted({s.name for p in graph.params for d in p.shape for s in dims.symbols_of(d)} | numbers)
    if not symbols and not program.lowered.captured.numbers:
        return []
    traced = traced_sizes(program)
    ranges = {s: (max(r.lo, 1), r.hi) for s, r in graph.symbols.items()}
    for name in counted(program):  # what a tensor holds may be a place in another: no more than in the example
        low, high = ranges.get(name, (1, None))
        low = min(low, traced[name])
        ranges[name] = (low, traced[name] if high is None else high)
    rng = random.Random(seed)
    found: list[dict[str, int]] = []
    for attempt in range(TRIES):
        if len(found) == n:
            break
        sizes = {s: choice(ranges.get(s), traced.get(s, 2), rng, first=attempt == 0) for s in symbols}
        new = (sizes != traced and sizes not in found) or not symbols  # floats alone vary
        if new and allowed(program.ready, sizes):
            found.append(sizes)
    return found


def counted(program: Program) -> list[str]:
    """The symbols that are the number in an input tensor."""
    bound = {port.name: port.binds for port in program.graph.signature.params if port.role == "input" and port.binds}
    named = zip(program.lowered.captured.input_names, program.lowered.captured.examples(), strict=True)
    return [bound[name] for name, leaf in named if name in bound and isinstance(leaf, torch.Tensor)]


def traced_sizes(program: Program) -> dict[str, int]:
    """The sizes of the example inputs."""
    return program.sizes_of(program.feeds(*rebuilt(program, examples(program))))


def choice(known: tuple[int, int | None] | None, traced: int, rng: random.Random, *, first: bool) -> int:
    """A size for one dimension: its least one first, then one of a pool or near the traced one."""
    low, high = known or (1, None)
    pool = [s for s in (*POOL, traced, traced + 1, 2 * traced, low) if s >= low and (high is None or s <= high)]
    return low if first else rng.choice(pool or [low])


def allowed(graph: Any, sizes: Mapping[str, int]) -> bool:
    """True where ranges, guards and every parameter's own dimensions allow the sizes."""
    try:
        check_sizes(graph, sizes)
        return all(
            dims.evaluate(d, sizes) >= 0 for p in graph.params if isinstance(p.type, Tensor) for d in p.type.shape
        )
    except (ContractError, IrkitError):
        return False


def resized(program: Program, sizes: Mapping[str, int], seed: int | None) -> tuple[Any, dict[str, Any]]:
    """(args, kwargs) like the example inputs, with every tensor at the sizes asked for and new random content; without
    a seed, with elements of the example itself."""
    captured = program.lowered.captured
    generator = torch.Generator().manual_seed((seed or 0) + sum(sizes.values()))
    bound = {port.name: port.binds for port in program.graph.signature.params if port.role == "input" and port.binds}
    leaves: list[Any] = []
    for name, leaf in zip(captured.input_names, examples(program), strict=True):
        if name in bound:
            size = sizes[bound[name]]
            leaves.append(torch.full_like(leaf, size) if isinstance(leaf, torch.Tensor) else size)
        elif captured.numbers.get(name) is float:
            leaves.append(leaf * (0.5 + torch.rand((), generator=generator).item()))
        elif isinstance(leaf, torch.Tensor) and name in program.inputs:
            shape = [dims.evaluate(d, sizes) for d in program.inputs[name].shape]
            shape = shape[:-1] if leaf.is_complex() else shape
            leaves.append(picked(leaf, shape) if seed is None else like(leaf, shape, generator))
        else:
            leaves.append(leaf)
    return rebuilt(program, leaves)


def examples(program: Program) -> tuple[Any, ...]:
    """The leaves of the example inputs: the caller's, those an exported program carries, or of the recorded sizes."""
    captured = program.lowered.captured
    leaves = as_numbers(captured.examples(), captured.input_names, captured.numbers)
    carried = getattr(captured.program, "example_inputs", None)
    if any(isinstance(leaf, FakeTensor) for leaf in leaves) and carried is not None:
        with captured.pytrees():
            found = pytree.tree_leaves(carried)
        if len(found) == len(leaves):
            return tuple(found)
    return tuple(drawn(leaf) if isinstance(leaf, FakeTensor) else leaf for leaf in leaves)


def drawn(recorded: FakeTensor) -> torch.Tensor:
    """A tensor of the element type and the traced sizes of a recorded one: random for floats, else zeros."""
    shape = [int(d.node.hint) if isinstance(d, torch.SymInt) else d for d in recorded.shape]
    if recorded.dtype.is_floating_point or recorded.dtype.is_complex:
        return torch.rand(shape, dtype=torch.complex64 if recorded.dtype.is_complex else None).to(recorded.dtype)
    return torch.zeros(shape, dtype=recorded.dtype)


def rebuilt(program: Program, leaves: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    """(args, kwargs) in the structure of the example inputs, from their leaves."""
    captured = program.lowered.captured
    with captured.pytrees():
        args, kwargs = pytree.tree_unflatten(list(leaves), captured.in_spec)
    return args, kwargs


def picked(example: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The example with some of its places along each axis, or some of them more than once, in their order."""
    if example.numel() == 0:
        return torch.zeros(tuple(shape), dtype=example.dtype)
    for axis, size in enumerate(shape):
        example = example.index_select(axis, torch.arange(size) * example.shape[axis] // max(size, 1))
    return example


def like(example: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """A random tensor of that shape with the element type and the range of values of the example; where the example
    is constant along everything (a mask of ones), so is the result."""
    if list(example.shape) == list(shape):
        return example.clone()
    if example.dtype.is_floating_point or example.dtype.is_complex:
        wide = torch.complex64 if example.dtype.is_complex else torch.float32
        drawn = torch.randn(shape, generator=generator, dtype=wide)
        if example.numel() and bool((example == example.reshape(-1)[0]).all()):
            return torch.full(tuple(shape), example.reshape(-1)[0].item(), dtype=example.dtype)
        return drawn.to(example.dtype)
    if example.numel() == 0:
        return torch.zeros(tuple(shape), dtype=example.dtype)
    low, high = int(example.min()), int(example.max())
    return torch.randint(low, high + 1, tuple(shape), generator=generator).to(example.dtype)
