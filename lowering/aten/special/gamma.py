"""Gamma functions by published approximations, in float64; numbers and their bits."""

from __future__ import annotations

import math

import numpy as np

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.elementwise.arithmetic import aten_fmod
from lowering.aten.reduction.reduce import some
from lowering.tensors.pieces import widen
from lowering.tensors.polynomial import polynomial
from lowering.tensors.promotion import cast, floating_all, promote, scalar, to_float


def in_double(x: Value) -> Value:
    """x as float64."""
    return cast(x, DType.DOUBLE)


# Lanczos' approximation of the gamma function with g = 7 and nine terms (P. Godfrey's coefficients), good to 1e-15.
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip


def aten_lgamma(self: Value) -> Value:
    """log |gamma(self)|; below 1/2 by the reflection log(pi / |sin(pi x)|) - lgamma(1 - x)."""
    x = in_double(to_float(self))
    low = op.Less(x, 0.5)
    y = op.Sub(op.Where(low, op.Sub(1, x), x), 1)
    series = scalar(_LANCZOS[0], DType.DOUBLE)
    for k, coefficient in enumerate(_LANCZOS[1:], 1):
        series = op.Add(series, op.Div(scalar(coefficient, DType.DOUBLE), op.Add(y, k)))
    t = op.Add(y, 7.5)
    body = op.Sub(op.Mul(op.Add(y, 0.5), op.Log(t)), t)
    value = op.Add(op.Add(body, op.Log(series)), 0.5 * math.log(2 * math.pi))
    fraction = op.Sub(x, op.Round(x))  # sin(pi x) has the period of whole numbers, but for the sign
    sine = op.Abs(op.Sin(op.Mul(fraction, math.pi)))
    reflected = op.Sub(op.Sub(math.log(math.pi), op.Log(sine)), value)
    result = op.Where(low, reflected, value)
    pole = op.Or(op.IsInf(x), op.And(low, op.Equal(fraction, 0)))
    return cast(op.Where(pole, scalar(math.inf, DType.DOUBLE), result), to_float(self).dtype)


# Bernoulli numbers B(2k) / 2k of the asymptotic series of digamma, Abramowitz and Stegun 6.3.18.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def aten_digamma(self: Value) -> Value:
    """The derivative of lgamma: steps up to where the asymptotic series is good, and below 1/2 the reflection."""
    x = in_double(to_float(self))
    low = op.Less(x, 0.5)
    y = op.Where(low, op.Sub(1, x), x)
    steps = scalar(0, DType.DOUBLE)
    for k in range(8):
        steps = op.Add(steps, op.Reciprocal(op.Add(y, k)))
    far = op.Add(y, 8)
    inverse = op.Reciprocal(op.Mul(far, far))
    tail = op.Mul(inverse, polynomial(inverse, _DIGAMMA))
    value = op.Sub(op.Sub(op.Sub(op.Log(far), op.Mul(op.Reciprocal(far), 0.5)), tail), steps)
    turn = op.Mul(op.Sub(x, op.Round(x)), math.pi)
    reflected = op.Sub(value, op.Div(op.Mul(op.Cos(turn), math.pi), op.Sin(turn)))
    result = op.Where(low, reflected, value)
    pole = op.And(op.Less(x, 0), op.Equal(x, op.Floor(x)))
    result = op.Where(pole, scalar(math.nan, DType.DOUBLE), result)
    zero = op.Where(op.Less(op.Reciprocal(x), 0), scalar(math.inf, DType.DOUBLE), scalar(-math.inf, DType.DOUBLE))
    return cast(op.Where(op.Equal(x, 0), zero, result), to_float(self).dtype)


def aten_mvlgamma(self: Value, p: int) -> Value:
    """The logarithm of the gamma function of p dimensions."""
    x = widen(to_float(self))
    result = scalar(p * (p - 1) / 4 * math.log(math.pi), x.dtype)
    for i in range(p):
        result = op.Add(result, aten_lgamma(op.Sub(x, i / 2) if i else x))
    return cast(result, to_float(self).dtype)


# ---------------------------------------------------------------------------------------------- numbers and their bits


def aten_frexp_Tensor(self: Value) -> tuple[Value, Value]:
    """(m, e) with self = m * 2**e and 1/2 <= |m| < 1; (self, 0) for 0, infinities and NaN."""
    ordinary = op.And(op.Greater(op.Abs(self), 0), op.Less(op.Abs(self), math.inf))
    safe = in_double(op.Where(ordinary, self, scalar(1, self.dtype)))
    guess = op.Add(op.Floor(op.Div(op.Log(op.Abs(safe)), math.log(2))), 1)
    guess = op.Min(guess, 1023) if self.dtype is DType.DOUBLE else guess  # 2**1024 is beyond float64
    mantissa = op.Div(safe, op.Pow(scalar(2, DType.DOUBLE), guess))
    size = op.Abs(mantissa)  # the logarithm may be off by one at powers of two
    shift = op.Sub(cast(op.GreaterOrEqual(size, 1), DType.DOUBLE), cast(op.Less(size, 0.5), DType.DOUBLE))
    exact = op.Div(mantissa, op.Pow(scalar(2, DType.DOUBLE), shift))
    exponent = cast(op.Add(guess, shift), DType.INT32)
    return (
        op.Where(ordinary, cast(exact, self.dtype), self),  # whose last operand keeps the sign of zero
        op.Where(ordinary, exponent, scalar(0, DType.INT32)),
    )


def aten_nextafter(self: Value, other: Value) -> Value:
    """The next number from self in the direction of `other`: the bits of a float count its neighbours."""
    a, b = promote(self, other)
    whole = {16: DType.INT16, 32: DType.INT32, 64: DType.INT64}[a.dtype.bits]
    away = op.Equal(op.Greater(b, a), op.Greater(a, 0))
    step = op.Where(away, scalar(1, whole), scalar(-1, whole))
    moved = op.Add(op.BitCast(a, to=int(whole)), step)
    from_zero = op.Where(op.Greater(b, 0), scalar(1, whole), scalar(np.iinfo(whole.numpy).min + 1, whole))
    bits = op.Where(op.Equal(a, 0), from_zero, moved)
    bits = op.Where(op.Equal(a, b), op.BitCast(b, to=int(whole)), bits)
    value = op.BitCast(bits, to=int(a.dtype))
    return op.Where(op.Or(op.IsNaN(a), op.IsNaN(b)), op.Add(a, b), value)


def aten_gcd(self: Value, other: Value) -> Value:
    """The greatest common divisor, by Euclid's algorithm, until every remainder is 0. That of the least integer, which
    is its own size, has the sign that torch's remainders give it."""
    a, b = (op.Abs(v) for v in promote(self, other))
    a, b = op.Add(a, op.Sub(b, b)), op.Add(b, op.Sub(a, a))

    def step(turn: Value, go_on: Value, large: Value, small: Value) -> tuple[Value, Value, Value]:
        done = op.Equal(small, 0)
        divisor = op.Where(done, scalar(1, small.dtype), small)
        rest = op.Where(done, small, aten_fmod(large, divisor))
        kept = op.Where(done, large, small)
        return some(op.Not(op.Equal(rest, 0)), None, False), kept, rest

    return op.Loop(None, scalar(True, DType.BOOL), a, b, body=step)[0]


def aten_lcm(self: Value, other: Value) -> Value:
    """The least common multiple; 0 where either is 0."""
    a, b = promote(self, other)
    dtype = a.dtype
    if dtype in (DType.INT8, DType.INT16):  # torch cuts the product back after it took its size
        a, b = cast(a, DType.INT32), cast(b, DType.INT32)
    divisor = aten_gcd(a, b)
    safe = op.Where(op.Equal(divisor, 0), scalar(1, a.dtype), divisor)
    return cast(op.Abs(op.Mul(op.Div(a, safe), b)), dtype)


def aten_angle(self: Value) -> Value:
    """The angle of a real number: pi below 0, else 0; NaN stays."""
    x = floating_all(self)[0]
    value = op.Where(op.Less(x, 0), scalar(math.pi, x.dtype), scalar(0, x.dtype))
    return op.Where(op.IsNaN(x), x, value)
