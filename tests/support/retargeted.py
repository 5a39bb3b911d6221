"""A program for another target, opset or precision, from what was captured and lowered once: torch.export is most of an
export."""

from __future__ import annotations

from lowering.fold.assertions import watched
from lowering.program.program import Program
from lowering.program.to_onnx import Clock, finished
from passes import optimize
from passes.precision import Precision
from passes.targets import target_of


def retargeted(
    program: Program,
    target: str = "onnxruntime-cpu",
    opset: int | None = None,
    precision: Precision | str | None = None,
) -> Program:
    """What `to_onnx` makes with these options, of the model and the arguments that `program` was made of."""
    low = program.lowered
    better = optimize(watched(low.graph, low.checks))
    mixed = None if precision is None else Precision.of(precision).mixed(better)
    return finished(low, better, mixed, target_of(target, opset), Clock({}), opset is None, program.model, "")
