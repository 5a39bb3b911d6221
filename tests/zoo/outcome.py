"""One model of the zoo exported and compared with eager at every size: the row of the table, and the test."""

from __future__ import annotations

import time
import warnings
from typing import Any

import attrs
import torch

from lowering.checking import SizeReport, run
from lowering.export import to_onnx
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


def outcome_of(case: Case, sizes: int | None = None, **options: Any) -> Outcome:
    """The outcome of a case at its traced sizes and the first `sizes` of its other assignments (all where None)."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, args, kwargs = case.build()
        try:
            start = time.perf_counter()
            program = to_onnx(model, args, kwargs, dynamic_shapes=case.dynamic_shapes, **options)
            total = time.perf_counter() - start
            runs = [measured(program, case, case.traced)]
            runs += [measured(program, case, dims) for dims in case.assignments[:sizes]]
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            return Outcome(case.name, case.family, (), problem=problem, note=case.note, refused=case.refused)
    report = program.report
    capture = report.seconds["capture"]
    return Outcome(
        case.name, case.family, tuple(runs), report.nodes["FX"], report.nodes["ONNX"], capture, total - capture,
        tuple(report.decomposed), note=case.note,
    )  # fmt: skip


def measured(program: Any, case: Case, dims: Any) -> tuple[dict[str, int], float, str]:
    """(sizes, largest absolute error, problem) of one comparison."""
    args, kwargs = case.inputs(dims)
    torch.manual_seed(0)
    report: SizeReport = run(program, args, kwargs)
    return dict(dims), max((e[1] for e in report.errors), default=0.0), report.problem
