"""The error function of float64 and what is made of it, to some units of the last digits.

Narrower types are served by shorter formulas (`lowering.aten.elementwise.transcendental`), which are good to 1e-7.
"""

from __future__ import annotations

import math

from irkit.build import op
from irkit.core.ir import Value
from lowering.tensors.polynomial import polynomial
from lowering.tensors.promotion import scalar
from passes.legal.float64.functions import erf_near, erfc, log1p, scaled_tail

# Abramowitz and Stegun, 26.2.23: the quantile of the normal distribution to 4.5e-4, from t = sqrt(-2 * log(p)).
_ABOVE = (2.515517, 0.802853, 0.010328)
_BELOW = (1.0, 1.432788, 0.189269, 0.001308)
NEAR = 1e-9
"""Up to here the second term of the series of erfinv is below 2**-52 of the first."""
STEPS = 2
"""Halley's steps: each triples the number of good digits."""


def inverse(size: Value, rest: Value) -> Value:
    """The number y >= 0 with erf(y) = size and erfc(y) = rest, where rest is 1 - size; infinite for a rest of 0.

    Both are taken, for whichever is small holds the digits.
    """
    t = op.Sqrt(op.Mul(op.Log(op.Mul(rest, 0.5)), -2))
    y = op.Mul(op.Sub(t, op.Div(polynomial(t, _ABOVE), polynomial(t, _BELOW))), math.sqrt(0.5))
    for _ in range(STEPS):
        missing = op.Where(op.Less(size, 0.5), op.Sub(erf_near(y), size), op.Sub(rest, erfc(y)))
        slope = op.Mul(op.Exp(op.Neg(op.Mul(y, y))), 2 / math.sqrt(math.pi))
        step = op.Div(missing, slope)
        y = op.Sub(y, op.Div(step, op.Add(op.Mul(step, y), 1)))
    return op.Where(op.Equal(rest, 0), scalar(math.inf, y.dtype), y)


def erfinv(x: Value) -> Value:
    """The number whose erf is x; NaN beyond -1 and 1."""
    size = op.Abs(x)
    found = inverse(size, op.Sub(1, size))
    signed = op.Where(op.Less(x, 0), op.Neg(found), found)
    # The first term of the series near 0, where the steps above lose the digits, and the sign of 0.
    return op.Where(op.Greater(size, NEAR), signed, op.Mul(x, math.sqrt(math.pi) / 2))


def ndtri(p: Value) -> Value:
    """The number that has area p under the standard normal density to its left; NaN beyond 0 and 1."""
    left = op.Less(p, 0.5)
    rest = op.Mul(op.Where(left, p, op.Sub(1, p)), 2)
    found = op.Mul(inverse(op.Abs(op.Sub(op.Mul(p, 2), 1)), rest), math.sqrt(2))
    return op.Where(left, op.Neg(found), found)


def log_ndtr(x: Value) -> Value:
    """The logarithm of the area to the left of x; far to the left by the exponent of the tail."""
    size = op.Mul(op.Abs(x), math.sqrt(0.5))
    t, exponent = scaled_tail(size)
    tail = op.Add(op.Sub(exponent, op.Mul(size, size)), op.Log(op.Mul(t, 0.5)))
    return op.Where(op.Less(x, -1), tail, log1p(op.Mul(erfc(op.Mul(x, math.sqrt(0.5))), -0.5)))


def erfcx(x: Value) -> Value:
    """exp(x * x) * erfc(x)"""
    t, exponent = scaled_tail(op.Abs(x))
    tail = op.Mul(t, op.Exp(exponent))
    return op.Where(op.Less(x, 0), op.Sub(op.Mul(op.Exp(op.Mul(x, x)), 2), tail), tail)
