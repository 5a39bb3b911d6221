"""One model of the zoo exported and compared with eager at every size: the row of the table, and the test."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import torch

from irkit.doors.to_onnx import to_onnx
from irkit.rewriting.numbering import is_random
from lowering.program.check import SizeReport, run
from lowering.program.program import Program
from tests.support.retargeted import retargeted
from tests.support.same_results import is_same
from tests.zoo.case import Case


@attrs.frozen
class Outcome:
    """What became of a model. `seconds` is irkit's own share: lowering to materialized, without torch.export."""

    case: str
    family: str
    runs: tuple[tuple[dict[str, int], float, str], ...]
    fx_nodes: int = 0
    nodes: int = 0
    capture: float = 0.0
    seconds: float = 0.0
    decomposed: tuple[str, ...] = ()
    problem: str = ""
    note: str = ""
    refused: str = ""

    @property
    def passed(self) -> bool:
        """True where the model was exported and agreed with eager at every size."""
        return not self.problem and bool(self.runs) and not any(problem for _, _, problem in self.runs)

    @property
    def as_expected(self) -> bool:
        """True where it passed, or where torch.export itself cannot capture the model, as its case says."""
        return self.passed or (bool(self.refused) and self.problem.startswith("CaptureError"))


def outcome_of(case: Case, capture: str = "torch.export") -> Outcome:
    """The outcome of a case on the default target, captured this way, at its traced sizes and all others."""
    return outcomes_of(case, way=capture)[0]


def outcomes_of(
    case: Case, targets: Sequence[str] = (), sizes: int | None = None, way: str = "torch.export"
) -> list[Outcome]:
    """The outcomes of a case, captured once in a `way`: on the default target at its traced sizes and all others, then
    on each of `targets` at the traced sizes and the first `sizes` of the others."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, args, kwargs = case.build()
        try:
            start = time.perf_counter()
            program = to_onnx(model, args, kwargs, dynamic_shapes=case.dynamic_shapes, capture=way)
            total = time.perf_counter() - start
        except Exception as error:
            return [failed(case, error)] * (1 + len(targets))
        capture = program.report.seconds["capture"]
        found = [outcome_at(case, lambda: program, None, capture, total - capture)]
        for target in targets:
            found.append(outcome_at(case, partial(retargeted, program, target), sizes))
        return found


def outcome_at(
    case: Case, made: Callable[[], Program], sizes: int | None, capture: float = 0.0, seconds: float = 0.0
) -> Outcome:
    """The outcome of a case on one target, at its traced sizes and the first `sizes` of its others (all where None)."""
    try:
        program = made()
        runs = [measured(program, case, dims) for dims in (case.traced, *case.assignments[:sizes])]
        if sizes is None and (problem := bound_problem(program, case)):
            runs.append((dict(case.traced), 0.0, problem))
    except Exception as error:
        return failed(case, error)
    report = program.report
    return Outcome(
        case.name,
        case.family,
        tuple(runs),
        report.nodes["FX"],
        report.nodes["ONNX"],
        capture,
        seconds,
        tuple(report.decomposed),
        note=case.note,
    )


def bound_problem(program: Program, case: Case) -> str:
    """What is wrong with a call of the bound program, which shall give what the program gives."""
    if any(is_random(value) for value in program.ready.order):
        return ""
    args, kwargs = case.inputs(case.traced)
    same = is_same(program.bound()(*args, **kwargs), program(*args, **kwargs))
    return "" if same else "the bound program gives another result than the program"


def failed(case: Case, error: Exception) -> Outcome:
    """The outcome of a case that raised an error."""
    problem = f"{type(error).__name__}: {error}"
    return Outcome(case.name, case.family, (), problem=problem, note=case.note, refused=case.refused)


def measured(program: Any, case: Case, dims: Any) -> tuple[dict[str, int], float, str]:
    """(sizes, largest absolute error, problem) of one comparison."""
    args, kwargs = case.inputs(dims)
    torch.manual_seed(0)
    report: SizeReport = run(program, args, kwargs)
    return dict(dims), max((e[1] for e in report.errors), default=0.0), report.problem
