"""Logarithms of sums of exponentials for runtimes that take those of the numbers as they are, which overflow."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.rewriting.face import Match
from passes.legal.others.exact_integers import reduced_axes, without_axes
from passes.legal.runtime.long_sums import finite_peak

FAR = {DType.FLOAT16: 10, DType.BFLOAT16: 20, DType.FLOAT: 20, DType.DOUBLE: 40}
"""From there on log(1 + exp(x)) is x, in each element type."""


def log_sum_exp(m: Match, value: Value) -> Value | None:
    """ReduceLogSumExp(x) -> log(sum(exp(x - peak))) + peak"""
    x, axes = value.inputs[0], reduced_axes(value)
    if x is None or not axes:
        return None
    peak = finite_peak(x, axes)
    found = op.Add(op.Log(op.ReduceSum(op.Exp(op.Sub(x, peak)), np.array(axes))), peak)
    return without_axes(value, found, axes)


def may_be_far(value: Value) -> bool:
    """True for a Softplus of numbers that are not cut off where it is the number itself."""
    x = value.inputs[0]
    return value.dtype in FAR and not (x is not None and x.op == "Min")


def softplus_of_near(m: Match, value: Value) -> Value | None:
    """Softplus(x) -> Softplus(min(x, k)) + max(x - k, 0)"""
    x = value.inputs[0]
    if x is None:
        return None
    far = const(np.array(FAR[value.dtype], x.dtype.numpy))
    return op.Add(op.Softplus(op.Min(x, far)), op.Relu(op.Sub(x, far)))
