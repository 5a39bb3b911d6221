"""Orthogonal polynomials by their three-term recurrences, in float64: a Loop up to the largest degree."""

from __future__ import annotations

from collections.abc import Callable

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.tensors.promotion import Number, cast, floating_all, scalar
from lowering.tensors.shaping import broadcast_shape, expand, reshape

Operand = Value | Number
Step = Callable[[Value, Value, Value, Value], Value]
"""(x, k, p(k), p(k - 1)) -> p(k + 1)"""

HERMITE_LIMIT = {DType.FLOAT: 128, DType.DOUBLE: 512}
"""Beyond this degree torch gives NaN for Hermite polynomials; 1024 for other types."""


def evaluated(x: Operand, n: Operand, first: Callable[[Value], Value], step: Step, limit: bool = False) -> Value:
    """p(n, x) with p(0) = 1 and p(1) = first(x), broadcast; 0 for negative degrees. The degree is cut to an integer."""
    a, b = floating_all(x, n)
    dtype = a.dtype
    degree = cast(cast(b, DType.DOUBLE), DType.INT64)
    shape = broadcast_shape(a.shape, b.shape)
    where, degrees = expand(cast(a, DType.DOUBLE), shape), expand(degree, shape)
    count = reshape(degrees, (dims.product(degrees.shape),))
    trips = op.Add(op.ReduceMax(op.Concat(count, const([-1]), axis=0), keepdims=0), const(1))
    one = expand(scalar(1, DType.DOUBLE), shape)
    start = first(where)

    def body(i: Value, go_on: Value, low: Value, high: Value, found: Value) -> tuple[Value, ...]:
        k = op.Add(cast(i, DType.DOUBLE), 1)
        return go_on, high, step(where, k, high, low), op.Where(op.Equal(degrees, i), low, found)

    zero = expand(scalar(0, DType.DOUBLE), shape)
    result = op.Loop(trips, scalar(True, DType.BOOL), one, start, zero, body=body)[2]
    if limit:
        beyond = op.Greater(degrees, HERMITE_LIMIT.get(dtype, 1024))
        result = op.Where(beyond, scalar(float("nan"), DType.DOUBLE), result)
    return cast(result, dtype)


def twice(x: Value) -> Value:
    """2 x"""
    return op.Add(x, x)


def shifted(x: Value) -> Value:
    """2 x - 1"""
    return op.Sub(twice(x), 1)


def chebyshev(x: Value, k: Value, high: Value, low: Value) -> Value:
    """2 x p(k) - p(k - 1)"""
    return op.Sub(op.Mul(twice(x), high), low)


def shifted_chebyshev(x: Value, k: Value, high: Value, low: Value) -> Value:
    """2 (2 x - 1) p(k) - p(k - 1)"""
    return chebyshev(shifted(x), k, high, low)


def polynomial(first: Callable[[Value], Value], step: Step, limit: bool = False) -> Callable[[Operand, Operand], Value]:
    """The converter of p(n, x) with p(0) = 1 and p(1) = first(x), as `evaluated` says."""

    def convert(x: Operand, n: Operand) -> Value:
        return evaluated(x, n, first, step, limit)

    return convert


def laguerre(x: Value, k: Value, high: Value, low: Value) -> Value:
    """(k + 1) p(k + 1) = (2 k + 1 - x) p(k) - k p(k - 1)"""
    slope = op.Add(twice(k), op.Sub(1, x))
    return op.Div(op.Sub(op.Mul(slope, high), op.Mul(k, low)), op.Add(k, 1))


def legendre(x: Value, k: Value, high: Value, low: Value) -> Value:
    """(k + 1) p(k + 1) = (2 k + 1) x p(k) - k p(k - 1)"""
    slope = op.Mul(op.Add(twice(k), 1), x)
    return op.Div(op.Sub(op.Mul(slope, high), op.Mul(k, low)), op.Add(k, 1))


aten_special_chebyshev_polynomial_t = polynomial(lambda x: x, chebyshev)
aten_special_chebyshev_polynomial_u = polynomial(twice, chebyshev)
aten_special_chebyshev_polynomial_v = polynomial(shifted, chebyshev)
aten_special_chebyshev_polynomial_w = polynomial(lambda x: op.Add(twice(x), 1), chebyshev)
# Those of 2 x - 1:
aten_special_shifted_chebyshev_polynomial_t = polynomial(shifted, shifted_chebyshev)
aten_special_shifted_chebyshev_polynomial_u = polynomial(lambda x: twice(shifted(x)), shifted_chebyshev)
aten_special_shifted_chebyshev_polynomial_v = polynomial(lambda x: shifted(shifted(x)), shifted_chebyshev)
aten_special_shifted_chebyshev_polynomial_w = polynomial(lambda x: op.Add(twice(shifted(x)), 1), shifted_chebyshev)
# The physicist's, p(k + 1) = 2 x p(k) - 2 k p(k - 1), and the probabilist's, p(k + 1) = x p(k) - k p(k - 1):
aten_special_hermite_polynomial_h = polynomial(
    twice, lambda x, k, p, q: op.Sub(op.Mul(twice(x), p), op.Mul(twice(k), q)), limit=True
)
aten_special_hermite_polynomial_he = polynomial(
    lambda x: x, lambda x, k, p, q: op.Sub(op.Mul(x, p), op.Mul(k, q)), limit=True
)
aten_special_laguerre_polynomial_l = polynomial(lambda x: op.Sub(1, x), laguerre)
aten_special_legendre_polynomial_p = polynomial(lambda x: x, legendre)
