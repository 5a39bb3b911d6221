"""One model from its class to numbers: does it run in eager, is it exported, does it agree at every size."""

from __future__ import annotations

import copy
import re
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import torch
from torch.overrides import TorchFunctionMode

from irkit.doors.to_onnx import to_onnx
from irkit.errors import IrkitError
from lowering.architectures.inputs import Sets
from lowering.architectures.validation import last_line
from lowering.capture.capture import capture
from lowering.program.check import copied, run
from lowering.program.program import Program
from lowering.records.pytrees import register_classes
from lowering.records.torch_internals import pytree
from tests.tables.architectures.places import Place, line_at_work
from tests.tables.architectures.sources import subjects_of
from tests.tables.architectures.subject import Block, Subject

Job = tuple[str, str, bool, float]
"""The source, the name of a subject, whether torch.export alone is timed, too, and CPU seconds that all may take."""
MEMORY = 10 << 30
"""Bytes that a model may take beside what the process has when it starts."""
PARAMETERS = 150_000_000
"""A model of more is not measured: it was not made tiny."""
RIGHT, REWRITTEN, PREPARED, RANDOM = GOOD = "right", "rewritten", "prepared", "random"
REFUSES, FIXED = PARTLY = "refuses", "fixed"
DIFFERS, FAILS, NOT_EAGER = "differs", "fails", "no eager"


@attrs.frozen
class Row:
    """What became of a subject.

    `verdict` is "right"; "rewritten", where it is so with `rewrite=True`, and a size is fixed or refused without;
    "prepared", where it is so as the library's own exporters do it, with or without `rewrite=True`; "random", where
    eager does not agree with itself and so structure, element types and shapes are all that is compared; "refuses",
    where the program is right but takes a size or data of a call not, by a condition that it keeps; "fixed", where it
    is right with a size that does not vary; "differs"; "fails", without a program; or "no eager", where eager does not
    run here. `sizes` is at how many the program was compared, `seconds` the CPU seconds from module to file,
    `reference` those of torch.export alone (None where it was not asked, -1 where it raises), `line` the line of the
    model or of irkit, `inputs` the names of the arguments of the example.
    """

    source: str
    name: str
    kind: str
    verdict: str
    sizes: int = 0
    error: float = 0.0
    nodes: int = 0
    seconds: float = 0.0
    reference: float | None = None
    capture: str = ""
    inputs: str = ""
    problem: str = ""
    line: str = ""


def measured(job: Job) -> Row:
    """The row of a subject."""
    source, name, timed, seconds = job
    bound_memory()
    warmed()
    subject = subjects_of(source)[name]
    signal.signal(signal.SIGPROF, partial(stop, seconds))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return row_of(subject, timed)
    except Ended as error:
        return Row(source, name, subject.kind, FAILS, problem=str(error), line=error.line)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class Ended(BaseException):
    """A measurement took too long, at a line; no `except Exception` on the way keeps it."""

    def __init__(self, problem: str, line: str) -> None:
        super().__init__(problem)
        self.line = line


def stop(seconds: float, _: int, frame: FrameType | None) -> None:
    """Ends a measurement that takes more CPU seconds than that, and names the line that was at work. Raises Ended."""
    stack = [Place(f.filename, f.lineno or 0, f.name) for f in traceback.extract_stack(frame)]
    raise Ended(f"more than {seconds:g} CPU seconds", line_at_work(stack))


def row_of(subject: Subject, timed: bool = False) -> Row:
    """The row of a subject; torch.export alone is timed, too, where that is asked."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = Row(subject.source, subject.name, subject.kind, NOT_EAGER)
        try:
            with torch.no_grad():  # or what `weight_norm` computes of parameters hangs on them, and has no copy
                model = subject.build().eval()
            count = sum(p.numel() for p in model.parameters())
            if count > PARAMETERS:
                return attrs.evolve(told, problem=f"it has {count:,} parameters and was not made tiny")
            sets = subject.sets(model)
            told = attrs.evolve(told, inputs=", ".join(sets.example))
            answers = eager_answers(model, sets)
        except Exception as error:  # models raise anything
            return attrs.evolve(told, problem=said(error), line=line_of(error))
        row = exported(told, model, sets, answers)
        try:
            row = second_try(row, told, subject, model, sets, answers)
        except Ended as error:
            row = attrs.evolve(row, problem=f"{row.problem}; another way took {error}", line=row.line or error.line)
        return attrs.evolve(row, reference=torch_export_seconds(model, sets)) if timed else row


def second_try(
    row: Row, told: Row, subject: Subject, model: torch.nn.Module, sets: Sets, answers: tuple[bool, dict[str, str]]
) -> Row:
    """The row of a model with what else irkit offers where it is not right: its loops and branches rewritten, a size
    fixed, what its library prepares for exports; the row as it was where that does not help."""
    fixes = row.verdict == FAILS and bool(FIXED_SIZE.search(row.problem) or UNTOLD.search(row.problem))
    ready = subject.prepared(model, sets) if row.verdict not in GOOD else None
    first = fixes and ready is not None
    if ready and first:
        row = as_prepared(row, model, *ready)
        fixes = row.verdict == FAILS
    if fixes or row.verdict == REFUSES or (row.verdict == FAILS and ready is None):
        rewritten = exported(told, model, sets, answers, rewrite=True)
        if rewritten.verdict in (RIGHT, RANDOM):
            return attrs.evolve(rewritten, verdict=REWRITTEN)
    if ready and not first:
        row = as_prepared(row, model, *ready)
    if ready and row.verdict not in GOOD:
        row = as_prepared(row, model, *ready, rewrite=True)
    return with_fixed(row, told, model, sets, answers) if fixes and row.verdict == FAILS else row


def as_prepared(row: Row, model: torch.nn.Module, sets: Sets, block: Block, rewrite: bool = False) -> Row:
    """The row of a model that is exported as its library's exporters do it: with other inputs, and within a block that
    replaces functions of the library; the row as it was where it is not right then."""
    told = Row(row.source, row.name, row.kind, FAILS, inputs=", ".join(sets.example))
    answers = eager_answers(model, sets)
    with block():
        found = exported(told, model, sets, answers, rewrite)
    return attrs.evolve(found, verdict=PREPARED) if found.verdict == RIGHT else row


def eager_answers(model: torch.nn.Module, sets: Sets) -> tuple[bool, dict[str, str]]:
    """Whether eager answers the example the same way twice, and why it refuses other calls, by their name. Raises what
    it raises for the example. A copy answers: some models keep the size of the last call."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        first, second = (model(**copied(dict(sets.example))) for _ in range(2))
    with register_classes(first):
        pairs = zip(pytree.tree_leaves(first), pytree.tree_leaves(second), strict=True)
        same = all(
            torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in pairs if isinstance(a, torch.Tensor)
        )
    refused: dict[str, str] = {}
    for name, call in sets.others.items():
        try:
            with torch.no_grad():
                model(**copied(dict(call)))
        except Exception as error:  # models raise anything
            refused[name] = said(error)
    return same, refused


def exported(
    row: Row, model: torch.nn.Module, sets: Sets, answers: tuple[bool, Mapping[str, str]], rewrite: bool = False
) -> Row:
    """The row of a model that runs in eager; `row` names it."""
    row = attrs.evolve(row, verdict=FAILS)
    try:
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            example = copied(dict(sets.example))
            program = to_onnx(model, (), example, dynamic_shapes=sets.dynamic_shapes, rewrite=rewrite)
            program.save(str(Path(folder) / "model.onnx"))
        seconds = round(time.process_time() - start, 3)
    except Exception as error:  # exporters raise anything
        return attrs.evolve(row, problem=said(error), line=line_of(error))
    nodes = program.report.nodes.get("ONNX", 0)
    row = attrs.evolve(row, nodes=nodes, seconds=seconds, capture=program.report.capture)
    return compared(row, program, sets, answers)


def compared(row: Row, program: Program, sets: Sets, answers: tuple[bool, Mapping[str, str]]) -> Row:
    """The row with what the program says at each size that eager takes."""
    same, refused = answers
    calls = {"example": sets.example, **{k: v for k, v in sets.others.items() if k not in refused}}
    problems, error = [], 0.0
    for name, call in calls.items():
        report = run(program, (), dict(call), *(() if same else (float("inf"),)))
        if not same and DRAWN.search(report.problem):
            report = attrs.evolve(report, problem=unlike(program, call))
        error = max([error, *(each[1] for each in report.errors)])
        if "differ by more than" in report.problem and same and no_worse(program, call):
            error = max([error, *map(float, LARGEST_ERROR.findall(report.problem))])
            continue
        if report.problem or report.refusal:
            problems.append(f"{name}: {report.problem or report.refusal}")
    good = RIGHT if same else RANDOM
    problem = " ".join("; ".join(problems).split())[:600]
    verdict = (REFUSES if all(map(is_refused, problems)) else DIFFERS) if problems else good
    line = told[1] if (told := SOURCE.search(problem)) else ""
    told_error = error if same else 0.0
    return attrs.evolve(row, verdict=verdict, sizes=len(calls), error=told_error, problem=problem, line=line)


DRAWN = re.compile(r"\d+ of \d+ elements differ;|expected the shape")
"""What is said of integers, bools and shapes that differ, of which there is no tolerance: a model may draw them."""
DRAWS = 8
"""How often eager answers a call of a model that draws numbers."""


def unlike(program: Program, call: Mapping[str, Any]) -> str:
    """How the element types or shapes of a program differ from eager's, where the model draws numbers; a size that the
    draws decide, as eager's own answers tell, may be any."""
    model: Any = program.reference
    with torch.no_grad():
        every = [leaves_of(model(**copied(dict(call)))) for _ in range(DRAWS)]
        ours = leaves_of(program(**copied(dict(call))))
    if any(len(each) != len(ours) for each in every):
        return f"{len(ours)} tensors, and eager gives {len(every[0])}"
    for mine, *theirs in zip(ours, *every, strict=True):
        for their in theirs:
            drawn = {i for one in theirs for i, size in enumerate(one.shape) if size != their.size(i)}
            sizes = [(a, b) for i, (a, b) in enumerate(zip(mine.shape, their.shape, strict=False)) if i not in drawn]
            if mine.dtype != their.dtype or mine.dim() != their.dim() or any(a != b for a, b in sizes):
                return f"a result is {mine.dtype} {list(mine.shape)}, and eager's {their.dtype} {list(their.shape)}"
    return ""


LARGEST_ERROR = re.compile(r"max abs error ([\d.e+-]+)")
FACTOR = 4.0
"""How much further from float64 than eager's a number of the program may be, where they are not close."""


def no_worse(program: Program, call: Mapping[str, Any]) -> bool:
    """Whether the results of the program are as near as eager's to what the model gives in float64."""

    def doubled(leaf: Any) -> Any:
        return leaf.to(WIDER.get(leaf.dtype, leaf.dtype)) if isinstance(leaf, torch.Tensor) else leaf

    model: Any = program.reference
    try:
        with torch.no_grad(), register_classes(call), Wider():
            exact = leaves_of(in_float64(model)(**pytree.tree_map(doubled, copied(dict(call)))))
        with torch.no_grad():
            theirs, ours = leaves_of(model(**copied(dict(call)))), leaves_of(program(**copied(dict(call))))
    except Exception:  # models that are not made for float64 raise anything
        return False
    if not len(exact) == len(theirs) == len(ours):
        return False
    return all(is_no_worse(*three) for three in zip(exact, theirs, ours, strict=True))


def in_float64(model: torch.nn.Module) -> torch.nn.Module:
    """A copy of a model in float64, those modules too that it keeps in plain lists, which torch does not know of."""
    wide = copy.deepcopy(model).double()
    for each in list(wide.modules()):
        for held in vars(each).values():
            for inner in held if isinstance(held, list | tuple) else ():
                if isinstance(inner, torch.nn.Module):
                    inner.double()
    return wide


WIDER: Mapping[Any, Any] = {torch.float32: torch.float64, torch.complex64: torch.complex128}


class Wider(TorchFunctionMode):
    """A block in which a model that asks for 32-bit numbers by name gets those of 64 bits."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What torch gives for the wider types."""
        given = {k: WIDER.get(v, v) if isinstance(v, torch.dtype) else v for k, v in (kwargs or {}).items()}
        wider = [WIDER.get(each, each) if isinstance(each, torch.dtype) else each for each in args]
        if getattr(func, "__name__", "") == "_grouped_mm" and [each.dim() for each in args] == [2, 3]:
            return grouped_product(wider[0], wider[1], given["offs"])
        return (torch.Tensor.double if func is torch.Tensor.float else func)(*wider, **given)


def grouped_product(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """torch._grouped_mm(rows, matrices, offs=ends), which torch does not have for float64: the rows up to each end
    times a matrix of their own."""
    parts = rows.split(torch.diff(ends, prepend=ends.new_zeros(1)).tolist())
    return torch.cat([part @ matrix for part, matrix in zip(parts, matrices, strict=True)])


def leaves_of(result: Any) -> list[torch.Tensor]:
    """The tensors of a result."""
    with register_classes(result):
        return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def is_no_worse(exact: torch.Tensor, theirs: torch.Tensor, ours: torch.Tensor) -> bool:
    """Whether one result is; others than floats have to be equal, and so has what is infinite, or no number."""
    if theirs.dtype != ours.dtype or theirs.shape != ours.shape or theirs.dtype not in WIDER:
        return theirs.dtype == ours.dtype and torch.equal(theirs, ours)
    finite = exact.isfinite()
    if not torch.equal(torch.nan_to_num(theirs[~finite]), torch.nan_to_num(ours[~finite])):
        return False
    exact, theirs, ours = exact[finite], theirs[finite], ours[finite]
    if torch.equal(theirs, ours):
        return True
    bound = FACTOR * (theirs - exact).abs().max() + 1e-5 + 1e-4 * exact.abs()
    return bool(((ours - exact).abs() <= bound).all()) and bool(((ours - exact).abs() < 0.01 * exact.abs().max()).all())


SOURCE = re.compile(r"in your model: (\S+\.py:\d+ .*?)(?= try: |; |$)")
FIXED_SIZE = re.compile(r"was to vary as '(\w+)', and the model works for \d+ only")
UNTOLD = re.compile(r"requires of \w+ was not found")
"""What is said of a size that an operator fixes in a way that is not understood."""


def is_refused(problem: str) -> bool:
    """Whether a problem is a condition of the program that a call breaks."""
    return problem.partition(": ")[2].startswith("ContractError")


def with_fixed(row: Row, told: Row, model: torch.nn.Module, sets: Sets, answers: tuple[bool, Mapping[str, str]]) -> Row:
    """The row of a model with those sizes fixed that it fixes; the row as it was where that does not help."""
    first, fixed = row, list[str]()
    while row.verdict == FAILS and (found := FIXED_SIZE.search(row.problem)) and found[1] not in fixed:
        fixed.append(found[1])
        sets = without_size(sets, found[1])
        row = exported(told, model, sets, answers)
    if not fixed or row.verdict not in GOOD:
        return first
    return attrs.evolve(row, verdict=FIXED, problem=first.problem, line=first.line)


def without_size(sets: Sets, name: str) -> Sets:
    """The sets in which a size is that of the example."""

    def kept(axes: Any) -> Any:
        return {k: v for k, v in axes.items() if v != name} if is_axes(axes) else axes

    shapes = pytree.tree_map(kept, dict(sets.dynamic_shapes), is_leaf=is_axes)
    same = {
        k: call for k, call in sets.others.items() if fixed_sizes(call, shapes) == fixed_sizes(sets.example, shapes)
    }
    return Sets(sets.example, shapes, same)


def is_axes(axes: Any) -> bool:
    """Whether a value says which axes of a tensor are dynamic."""
    return isinstance(axes, dict) and bool(axes) and all(isinstance(k, int) for k in axes)


def fixed_sizes(call: Mapping[str, Any], shapes: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """The sizes of the tensors of a call without those that vary."""
    found: list[tuple[int, ...]] = []
    for name, value in call.items():
        if isinstance(value, torch.Tensor):
            axes = shapes.get(name) or {}
            found.append(tuple(size for axis, size in enumerate(value.shape) if axis not in axes))
    return found


def torch_export_seconds(model: torch.nn.Module, sets: Sets) -> float:
    """CPU seconds of torch.export alone, of the same example with the same dynamic axes; -1 where it raises."""
    example = copied(dict(sets.example))
    start = time.process_time()
    try:
        capture(model, (), example, dynamic_shapes=sets.dynamic_shapes, widen=False)
    except Exception:  # it raises anything
        return -1.0
    return round(time.process_time() - start, 3)


@cache
def warmed() -> bool:
    """Whether a small model is right: what a process imports at its first export is in nobody's seconds."""
    x = torch.randn(2, 3)
    capture(torch.nn.Linear(3, 3), (x,), widen=False)
    return bool(to_onnx(torch.nn.Linear(3, 3), (x,), dynamic_shapes=({0: "batch"},)).check(n=1))


@cache
def bound_memory() -> None:
    """Bounds the memory that the process may take."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (held + MEMORY, held + MEMORY))


def said(error: Exception) -> str:
    """An error in one line."""
    text = error.what if isinstance(error, IrkitError) else str(error)
    return " ".join(without_folders(f"{type(error).__name__}: {text}").split())[:600]


def without_folders(text: str) -> str:
    """A text with the paths of files from the packages on."""
    return re.sub(r"[^\s(]*/site-packages/", "", text)


def line_of(error: Exception) -> str:
    """The line that an error names, or was raised at: the model's own, where it was met in one."""
    if isinstance(error, IrkitError) and error.source:
        return without_folders(error.source)
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/torch/" not in f.filename]
    frame = (ours or frames)[-1] if frames else None
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.line}" if frame else last_line(error)
