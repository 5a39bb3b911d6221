"""What is made of the error function: its complement, its inverses, the normal distribution.

float64 is served by longer formulas, those of `lowering.algorithms.error_function`.
"""

from __future__ import annotations

import math

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.algorithms import error_function
from lowering.aten.elementwise.transcendental import kept_zero, log1p, of_wide
from lowering.tensors.polynomial import polynomial
from lowering.tensors.promotion import cast, scalar, to_float

# Coefficients of the rational approximation of erfcx on [0.5, inf) in Press et al., Numerical Recipes, 6.2 ("erfcc").
_ERFCC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip


def erfc(x: Value) -> Value:
    """1 - erf(x), whose tail keeps a relative error of 1.2e-7 (the difference would be 0 above 4 in f32)."""
    size = op.Abs(x)
    t = op.Div(scalar(1, x.dtype), op.Add(op.Mul(size, 0.5), 1))
    tail = op.Mul(t, op.Exp(op.Sub(polynomial(t, _ERFCC), op.Mul(size, size))))
    return op.Where(op.Less(x, 0.5), op.Sub(1, op.Erf(x)), tail)


@of_wide
def aten_erfc(self: Value) -> Value:
    """1 - erf(self), accurate in the tail."""
    return error_function.erfc(self) if self.dtype is DType.DOUBLE else erfc(self)


# Giles, "Approximating the erfinv function" (2010): polynomials in w = -log(1 - x * x), below and above w = 5.
_ERFINV_CENTRE = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.000218580870,
    -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08,
)  # fmt: skip
_ERFINV_TAIL = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
    -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257,
)  # fmt: skip


@of_wide
def aten_erfinv(self: Value) -> Value:
    """The number whose erf is self; refined by one step of Newton's method."""
    x = self
    if x.dtype is DType.DOUBLE:
        return error_function.erfinv(x)
    w = op.Neg(op.Log(op.Mul(op.Sub(1, x), op.Add(x, 1))))
    centre = polynomial(op.Sub(w, 2.5), _ERFINV_CENTRE)
    tail = polynomial(op.Sub(op.Sqrt(op.Max(w, 5)), 3), _ERFINV_TAIL)
    start = op.Mul(op.Where(op.Less(w, 5), centre, tail), x)
    slope = op.Mul(op.Exp(op.Neg(op.Mul(start, start))), 2 / math.sqrt(math.pi))
    refined = op.Sub(start, op.Div(op.Sub(op.Erf(start), x), slope))
    # Near the ends erf(start) rounds to 1, and a step would divide noise by nothing.
    value = op.Where(op.Less(w, 5), refined, start)
    return kept_zero(x, op.Where(op.Equal(op.Abs(x), 1), op.Mul(x, math.inf), value))


@of_wide
def aten_special_ndtr(self: Value) -> Value:
    """The area under the standard normal density to the left of self."""
    return op.Mul(aten_erfc(op.Mul(self, -math.sqrt(0.5))), 0.5)


def aten_special_ndtri(self: Value) -> Value:
    """The number that has area `self` under the standard normal density to its left; in doubles, for twice a small area
    less 1 has no digits of it."""
    p = to_float(self)
    return cast(error_function.ndtri(cast(p, DType.DOUBLE)), p.dtype)


@of_wide
def aten_special_log_ndtr(self: Value) -> Value:
    """log(ndtr(self)); far to the left by the exponent of the tail, which does not vanish."""
    x = self
    if x.dtype is DType.DOUBLE:
        return error_function.log_ndtr(x)
    size = op.Mul(op.Abs(x), math.sqrt(0.5))
    t = op.Div(scalar(1, x.dtype), op.Add(op.Mul(size, 0.5), 1))
    tail = op.Add(op.Sub(polynomial(t, _ERFCC), op.Mul(size, size)), op.Log(op.Mul(t, 0.5)))
    return op.Where(op.Less(x, -1), tail, log1p(op.Mul(erfc(op.Mul(x, math.sqrt(0.5))), -0.5)))


@of_wide
def aten_special_erfcx(self: Value) -> Value:
    """exp(self * self) * erfc(self)"""
    x = self
    if x.dtype is DType.DOUBLE:
        return error_function.erfcx(x)
    size = op.Abs(x)
    t = op.Div(scalar(1, x.dtype), op.Add(op.Mul(size, 0.5), 1))
    tail = op.Mul(t, op.Exp(polynomial(t, _ERFCC)))
    square = op.Exp(op.Mul(x, x))
    return op.Where(op.Less(x, 0.5), op.Mul(square, op.Sub(1, op.Erf(x))), tail)
