"""The regularized incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x), computed in float64.

Three regions, each a fixed number of terms summed along a new last axis, so that no loop is needed:

- a <= 20 and x <= a + 1: P = x**a e**-x / gamma(a + 1) * (1 + x/(a+1) + x**2/((a+1)(a+2)) + ...). The terms fall at
  least as fast as those at a = 20, x = 21, where 56 terms leave less than 1e-16 of the sum.
- a <= 20 and x > a + 1: Q = x**(a-1) e**-x / gamma(a) * the integral of e**-u (1 + u/x)**(a-1) from 0 to infinity, by
  Gauss and Laguerre. The integrand is singular at u = -x < -1 only, which leaves about e**(-4 sqrt(64 x)) < 1e-13.
- a > 20: the smaller of P and Q is the integral of t**(a-1) e**-t / gamma(a) from x away from its peak at a - 1, by
  Gauss and Legendre over the stretch beyond which less than 1e-13 of it lies; gamma(a) by Stirling's series.

The absolute error of both is below 1e-12 for a up to 1e4, and below 1e-9 beyond.
"""

from __future__ import annotations

import math

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.special.gamma import aten_lgamma
from lowering.tensors.polynomial import polynomial
from lowering.tensors.promotion import cast, floating_all, scalar
from lowering.tensors.shaping import broadcast_all, ints, unsqueeze

LARGE = 20.0
"""Above it the distribution is near enough to a normal one for the integral along a fixed number of places."""
TERMS = 56
"""Terms of the series."""
LAGUERRE = np.polynomial.laguerre.laggauss(64)
LEGENDRE = np.polynomial.legendre.leggauss(64)
"""(places, weights) of the two quadratures."""
LOGARITHM = tuple((-1) ** (k + 1) / k for k in range(2, 11))
"""(log(1 + d) - d) / d**2 in powers of d"""
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
"""log gamma(n + 1) - log(sqrt(2 pi n) (n/e)**n) in powers of 1/n, 1/n**3, ..."""


def double(number: float) -> Value:
    """A number of float64."""
    return scalar(number, DType.DOUBLE)


def summed(terms: Value) -> Value:
    """The sum along the last axis, which goes away."""
    return op.ReduceSum(terms, ints(terms.rank - 1), keepdims=0)


def by_series(a: Value, x: Value) -> Value:
    """P for a <= 20 and x <= a + 1"""
    steps = const(np.arange(1.0, TERMS))
    shares = op.Log(op.Div(unsqueeze(x, -1), op.Add(unsqueeze(a, -1), steps)))
    terms = summed(op.Exp(op.CumSum(shares, const(a.rank))))
    front = op.Sub(op.Sub(op.Mul(a, op.Log(x)), x), aten_lgamma(op.Add(a, 1)))
    return op.Mul(op.Exp(front), op.Add(terms, 1))


def by_laguerre(a: Value, x: Value) -> Value:
    """Q for a <= 20 and x > a + 1"""
    places, weights = (const(part) for part in LAGUERRE)
    power = op.Pow(op.Add(op.Div(places, unsqueeze(x, -1)), 1), op.Sub(unsqueeze(a, -1), 1))
    front = op.Sub(op.Sub(op.Mul(op.Sub(a, 1), op.Log(x)), x), aten_lgamma(a))
    return op.Mul(op.Exp(front), summed(op.Mul(power, weights)))


def by_legendre(a: Value, x: Value) -> tuple[Value, Value]:
    """(Q where x lies beyond the peak, else P; whether it does) for a > 20"""
    peak = op.Sub(a, 1)
    away = op.Add(op.Sub(x, a), 1)  # from the peak, without the digits that a - 1 loses
    beyond = op.Greater(away, 0)
    # The logarithm of the height falls by at least abs(away) / x for each step away from the peak.
    decay = op.Div(op.Mul(x, 40.0), op.Abs(away))
    spread = op.Sqrt(peak)
    above = op.Min(decay, op.Mul(spread, 14.0))
    below = op.Min(op.Min(decay, op.Mul(spread, 9.5)), x)
    reach = op.Where(beyond, above, op.Neg(below))
    places, weights = const((LEGENDRE[0] + 1) / 2), const(LEGENDRE[1] / 2)
    steps, wide = op.Mul(unsqueeze(reach, -1), places), unsqueeze(peak, -1)
    t = op.Add(unsqueeze(x, -1), steps)
    share = op.Div(op.Add(unsqueeze(away, -1), steps), wide)
    near = op.Mul(op.Mul(share, share), polynomial(share, LOGARITHM))
    fall = op.Where(op.Less(op.Abs(share), 0.02), near, op.Sub(op.Log(op.Div(t, wide)), share))
    heights = op.Exp(op.Mul(wide, fall))
    inverse = op.Reciprocal(peak)
    square, rest = op.Mul(inverse, inverse), double(0.0)
    for factor in reversed(STIRLING):
        rest = op.Add(op.Mul(rest, square), factor)
    scale = op.Div(op.Exp(op.Neg(op.Mul(rest, inverse))), op.Mul(spread, math.sqrt(2 * math.pi)))
    return op.Mul(op.Mul(summed(op.Mul(heights, weights)), op.Abs(reach)), scale), beyond


def both(self: Value, other: Value) -> tuple[Value, Value, DType]:
    """(P, Q, element type): NaN below 0 and at (0, 0) and (inf, inf)"""
    operands = floating_all(self, other)
    a, x = broadcast_all(*(cast(v, DType.DOUBLE) for v in operands))
    zero, one, nan = double(0.0), double(1.0), double(math.nan)
    # Numbers within the regions stand in for what is settled below, so that nothing overflows on the way.
    plain = op.And(op.And(op.Greater(a, zero), op.Greater(x, zero)), op.Not(op.Or(op.IsInf(a), op.IsInf(x))))
    at, to = op.Where(plain, a, one), op.Where(plain, x, one)
    few, near = op.LessOrEqual(at, double(LARGE)), op.LessOrEqual(to, op.Add(at, 1))
    small, close = op.Where(few, at, one), op.Where(op.And(few, near), to, one)
    tail, beyond = by_legendre(op.Where(few, double(2 * LARGE), at), to)
    series, far = by_series(small, close), by_laguerre(small, op.Where(op.And(few, op.Not(near)), to, double(30.0)))
    found = op.Where(few, op.Where(near, series, far), tail)
    lower = op.Where(few, near, op.Not(beyond))
    other_side = op.Sub(one, found)
    p, q = op.Where(lower, found, other_side), op.Where(lower, other_side, found)
    return *settled(a, x, op.Where(plain, p, nan), op.Where(plain, q, nan)), operands[0].dtype


def settled(a: Value, x: Value, p: Value, q: Value) -> tuple[Value, Value]:
    """P and Q where a limit or a convention says what they are; a NaN beside 0 or an infinity may not matter."""
    zero, one, nan = double(0.0), double(1.0), double(math.nan)
    none = op.Equal(a, zero)
    endless, beyond = op.IsInf(a), op.IsInf(x)
    full = op.Or(none, op.And(beyond, op.Not(endless)))
    empty = op.And(op.Or(op.Equal(x, zero), endless), op.Not(none))
    bad = op.Or(op.Or(op.Less(a, zero), op.Less(x, zero)), op.And(endless, beyond))
    bad = op.Or(bad, op.And(none, op.Not(op.Greater(x, zero))))
    p = op.Where(empty, zero, op.Where(full, one, p))
    q = op.Where(empty, one, op.Where(full, zero, q))
    return op.Where(bad, nan, p), op.Where(bad, nan, q)


def aten_igamma(self: Value, other: Value) -> Value:
    """P(self, other), the share of the gamma distribution of shape self that lies below other."""
    p, _, dtype = both(self, other)
    return cast(p, dtype)


def aten_igammac(self: Value, other: Value) -> Value:
    """Q(self, other), the share of the gamma distribution of shape self that lies above other."""
    _, q, dtype = both(self, other)
    return cast(q, dtype)
