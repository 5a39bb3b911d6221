"""Sums of float32 over more rows than ONNX Runtime adds rightly, in steps: see `passes.legal.runtime.limits`, which has
conditions for those whose sizes are not known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import product
from irkit.pattern import attribute_of, hole
from irkit.rewriting.face import Made, Match, Rule, decline
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import axes_of, positive
from passes.legal.runtime.limits import MOST, SUMS, one_by_one

RUN = 1 << 12
"""How many numbers are added in the first of two steps."""


def is_long(value: Value) -> bool:
    """True where more numbers are certainly added one by one than the runtime adds rightly."""
    x = value.inputs[0]
    sizes = () if x is None else (x.shape[axis] for axis in one_by_one(value))
    return math.prod(size for size in sizes if type(size) is int) > MOST


def in_steps(m: Match) -> Made:
    """The sum axis by axis, and of an axis that is too long in runs: each step adds few enough"""
    value, x = m.root, m.root.inputs[0]
    if x is None or not is_bound(m, x.shape, bound_by(x)):
        return decline("nothing tells the sizes")
    if value.op == "CumSum":
        given = {name: attribute_of(value, name) for name in ("exclusive", "reverse")}
        return op.Cast(op.CumSum(op.Cast(x, to=DType.DOUBLE), value.inputs[1], **given), to=DType.FLOAT)
    reduced = positive(axes_of(value.inputs[1]) or (), x.rank)
    shift = finite_peak(x, reduced) if value.op == "ReduceLogSumExp" else None
    whole = before(value.op, x) if shift is None else op.Exp(op.Sub(x, shift))
    for axis in reversed(reduced):
        size = whole.shape[axis]
        if type(size) is int and size > MOST:
            whole = added_in_runs(m, whole, axis, size)
        else:
            whole = op.ReduceSum(whole, [axis])
    if value.op == "ReduceMean":
        count = sizes_value(m, (product(x.shape[a] for a in reduced),), 0, bound_by(x))
        whole = op.Div(whole, op.Cast(count, to=DType.FLOAT))
    whole = op.Sqrt(whole) if value.op == "ReduceL2" else op.Log(whole) if value.op == "ReduceLogSum" else whole
    whole = whole if shift is None else op.Add(op.Log(whole), shift)
    return whole if attribute_of(value, "keepdims") != 0 else op.Squeeze(whole, list(reduced))


def added_in_runs(m: Match, x: Value, axis: int, size: int) -> Value:
    """The sum along an axis, which keeps it: of each run first, then of those, and of what is left."""
    even = size // RUN * RUN
    runs = sizes_value(m, (*x.shape[:axis], even // RUN, RUN, *x.shape[axis + 1 :]), 1, bound_by(x))
    head = op.Reshape(op.Slice(x, [0], [even], [axis]), runs, allowzero=1)
    whole = op.ReduceSum(op.ReduceSum(head, [axis + 1], keepdims=0), [axis])
    return op.Add(whole, op.ReduceSum(op.Slice(x, [even], [size], [axis]), [axis])) if size > even else whole


def finite_peak(x: Value, axes: Sequence[int]) -> Value:
    """The greatest number along axes, which are kept; 0 where that is infinite, for inf - inf is no number."""
    peak = op.ReduceMax(x, list(axes))
    return op.Where(op.IsInf(peak), const(np.zeros((), x.dtype.numpy)), peak)


def before(name: str, x: Value) -> Value:
    """What a reduction adds."""
    if name in ("ReduceL2", "ReduceSumSquare"):
        return op.Mul(x, x)
    return op.Abs(x) if name == "ReduceL1" else x


LONG_SUMS = (
    Rule("sum_in_steps", hole("whole", ops=(*sorted(SUMS), "CumSum"), where=is_long), in_steps, False,
         "ReduceSum(x[n, k], 0) -> ReduceSum(ReduceSum(Reshape(x), 1), 0), where n is above 2**24"),
)  # fmt: skip
"""What ONNX Runtime's CPU provider would add one by one, in float32, for too long."""
