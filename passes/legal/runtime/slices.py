"""Ends of a Slice that ONNX Runtime takes for no end: 2**31 - 1, and 2**63 - 1.

For ONNX an end beyond the axis is cut off at the last place, from where a negative step finds nothing. ONNX Runtime
looks for these two numbers first, in ends of either type, and goes to the far end of the axis: with a negative step to
the first place. An end that is one less is cut off as ONNX says.
"""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import hole
from irkit.rewriting.face import Made, Match, Rule, Rules, decline
from passes.analysis.questions import number
from passes.legal.runtime.int64 import COUNTS, MOVES

FARTHEST = (2**31 - 1, 2**63 - 1)


def may_turn(value: Value) -> bool:
    """True for a Slice that may count downwards to an end that the runtime takes for none."""
    if len(value.inputs) < 5 or value.inputs[2] is None or value.inputs[4] is None:
        return False
    end, step = value.inputs[2], value.inputs[4]
    if step.blob is not None and bool((step.blob.array > 0).all()):
        return False
    if end.blob is None:
        return not is_place(end)
    far = np.isin(end.blob.array, FARTHEST)
    return bool((far if step.blob is None else far & (step.blob.array < 0)).any())


def is_place(end: Value) -> bool:
    """True for what is certainly no such number: a size, or an end that was compared with them already."""
    while end.op in MOVES and end.inputs[0] is not None:
        end = end.inputs[0]
    return end.op in COUNTS or (end.op == "Sub" and end.inputs[1] is not None and is_answer(end.inputs[1]))


def is_answer(value: Value) -> bool:
    """True for a Cast of a comparison with one of these numbers, or of several, by which an end is made less."""
    pending = [value.inputs[0] if value.op == "Cast" else None]
    while pending:
        flag = pending.pop()
        if flag is not None and flag.op in ("And", "Or"):
            pending += flag.inputs
        elif flag is not None and flag.op == "Equal":
            asked = [v.blob.array for v in flag.inputs if v is not None and v.blob is not None]
            if any(np.isin(array, FARTHEST).all() for array in asked):
                return True
    return False


def one_less(m: Match) -> Made:
    """The same with an end that is one less, where it is one of these numbers and the step negative"""
    x, start, end, axes, step = m.root.inputs
    if start is None or end is None or step is None:
        return decline("no end, or no step")
    if end.blob is not None and step.blob is not None:
        far = np.isin(end.blob.array, FARTHEST) & (step.blob.array < 0)
        return op.Slice(x, start, const(end.blob.array - far.astype(end.dtype.numpy)), axes, step)
    far = op.Equal(end, number(end, FARTHEST[0]))
    if end.dtype is DType.INT64:
        far = op.Or(far, op.Equal(end, number(end, FARTHEST[1])))
    turned = op.And(far, op.Less(step, number(step, 0)))
    return op.Slice(x, start, op.Sub(end, op.Cast(turned, to=end.dtype)), axes, step)


def _sample(rng: np.random.Generator) -> Value:
    dtype = np.int32 if rng.random() < 0.3 else np.int64
    end = FARTHEST[0] if dtype is np.int32 or rng.random() < 0.5 else FARTHEST[1]
    start, axes = np.array([2, 1], dtype), np.array([0, -1], dtype)
    ends, steps = np.array([end, end if rng.random() < 0.5 else 0], dtype), np.array([-1, 1 - 2 * (rng.random() < 0.5)])
    x = param(tensor("f32", "n", 3))
    if rng.random() < 0.5:
        return op.Slice(x, start, ends, axes, steps.astype(dtype))
    given = param(tensor("i32" if dtype is np.int32 else "i64", 2))
    return op.Slice(x, start, op.Where(op.Less(given, np.zeros((), dtype)), ends, given), axes, steps.astype(dtype))


SLICES: Rules = (
    Rule("slice_backward_to_an_end", hole("root", ops=("Slice",), where=may_turn), one_less, True,
         "Slice(x, start, 2**63 - 1, axes, -1) -> Slice(x, start, 2**63 - 2, axes, -1)", sample=_sample),
)  # fmt: skip
"""What ONNX Runtime takes for another Slice, on every provider."""
