"""Hurwitz' zeta function and polygamma, in float64, by the Euler-Maclaurin sum."""

from __future__ import annotations

import math

import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.special.gamma import aten_digamma
from lowering.tensors.promotion import Number, cast, floating_all, scalar, to_float
from lowering.tensors.shaping import broadcast_shape, expand, reshape

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
"""B(2), B(4), ..., B(20)."""
STEPS = 10
"""Terms that are added before the sum is closed by its integral: the remainder is below 1e-15 of the whole."""


def zeta(s: Value, q: Value) -> Value:
    """The sum of (q + k)**-s over k = 0, 1, ..., for s > 1 and q of one shape, in float64. Negative q step up to 0
    first, which takes as many turns of a loop as the least of them is below it; whole ones do not: they are poles, and
    numbers beyond 2**52 are all whole."""
    count = dims.product(q.shape)
    zeros = scalar(0, DType.DOUBLE)
    up = op.Ceil(op.Neg(q))
    below = op.Where(op.And(op.Less(q, 0), op.Greater(op.Add(q, up), 0)), up, zeros)
    all_below = op.Concat(reshape(below, (count,)), const(np.zeros(1)), axis=0)
    turns = cast(op.ReduceMax(all_below, keepdims=0), DType.INT64)

    def step(i: Value, go_on: Value, total: Value) -> tuple[Value, Value]:
        k = cast(i, DType.DOUBLE)
        term = op.Pow(op.Add(q, k), op.Neg(s))
        return go_on, op.Add(total, op.Where(op.Less(k, below), term, zeros))

    total = op.Loop(turns, scalar(True, DType.BOOL), expand(zeros, q.shape), body=step)
    total = total[0] if isinstance(total, tuple) else total
    start = op.Add(q, below)
    for k in range(STEPS):
        total = op.Add(total, op.Pow(op.Add(start, k), op.Neg(s)))
    end = op.Add(start, STEPS)
    power = op.Pow(end, op.Neg(s))
    total = op.Add(total, op.Add(op.Div(op.Mul(power, end), op.Sub(s, 1)), op.Mul(power, 0.5)))
    factor, inverse = op.Div(op.Mul(power, s), end), op.Reciprocal(op.Mul(end, end))
    for j, bernoulli in enumerate(BERNOULLI, 1):
        total = op.Add(total, op.Mul(factor, bernoulli / math.factorial(2 * j)))
        factor = op.Mul(op.Mul(factor, inverse), op.Mul(op.Add(s, 2 * j - 1), op.Add(s, 2 * j)))
    return total


def aten_special_zeta(self: Value | Number, other: Value | Number) -> Value:
    """zeta(self, other): inf for self = 1 and at 0, -1, -2, ...; NaN for self < 1, and for the negative `other` that a
    self which is not an integer would raise to it."""
    a, b = floating_all(self, other)
    shape = broadcast_shape(a.shape, b.shape)
    s, q = (expand(cast(v, DType.DOUBLE), shape) for v in (a, b))
    whole = op.Equal(op.Floor(q), q)
    value = zeta(s, q)
    nan, inf = scalar(math.nan, DType.DOUBLE), scalar(math.inf, DType.DOUBLE)
    low = op.LessOrEqual(q, 0)
    value = op.Where(op.And(low, op.Not(op.Equal(op.Floor(s), s))), nan, value)
    value = op.Where(op.And(low, whole), inf, value)
    value = op.Where(op.Equal(s, 1), inf, op.Where(op.Less(s, 1), nan, value))
    return cast(value, a.dtype)


def aten_polygamma(n: int, self: Value) -> Value:
    """The derivative of order n of digamma: (-1)**(n + 1) n! zeta(n + 1, self)"""
    if n == 0:
        return aten_digamma(self)
    x = to_float(self)
    y = cast(x, DType.DOUBLE)
    order = expand(scalar(float(n + 1), DType.DOUBLE), y.shape)
    value = op.Mul(aten_special_zeta(order, y), (-1.0) ** (n + 1) * math.gamma(n + 1))
    if n == 1:  # which torch computes by itself: 0 at the end, where the sum is NaN, and NaN at the other
        value = op.Where(op.IsInf(y, detect_negative=0), scalar(0, DType.DOUBLE), value)
        value = op.Where(op.IsInf(y, detect_positive=0), scalar(math.nan, DType.DOUBLE), value)
    return cast(value, x.dtype)


def aten_polygamma_(self: Value, n: int) -> Value:
    """The derivative of order n of digamma, in place: the same with the arguments the other way round."""
    return aten_polygamma(n, self)
