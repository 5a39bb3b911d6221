"""A program for another target, opset or precision, from what was captured and lowered once: torch.export is most of an
export."""

from __future__ import annotations

from lowering.program.clock import Clock
from lowering.program.program import Program
from lowering.program.to_onnx import Goal, finished, optimized
from lowering.records.options import ExportOptions
from passes.precision import Precision


def retargeted(
    program: Program,
    target: str = "onnxruntime-cpu",
    opset: int | None = None,
    precision: Precision | str | None = None,
) -> Program:
    """What `to_onnx` makes with these options, of the model and the arguments that `program` was made of."""
    goal, low, clock = Goal.of(ExportOptions(target=target, opset=opset, precision=precision)), program.lowered, Clock()
    return finished(low, optimized(low.watched, goal, clock), goal, clock, program.model)
