"""Bessel and Airy functions in float64: power series near 0, Hankel's asymptotic series far out.

The coefficients are exact, made here from their recurrences (Abramowitz and Stegun 9.1.10 to 9.2.10, 9.6.10 to 9.7.2,
10.4.2 to 10.4.60). Where the two series meet, either is good to 1e-9 of the largest terms; K is good to 1e-7 of itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.elementwise.transcendental import kept_zero
from lowering.tensors.polynomial import polynomial
from lowering.tensors.promotion import cast, scalar, to_float

EULER = 0.57721566490153286
MEET = 12.0
"""Where the series of J, Y and I meet."""
MEET_K = 8.5
MEET_AIRY = 5.5
NAN, INF = math.nan, math.inf


def double(number: float) -> Value:
    """A number in float64."""
    return scalar(number, DType.DOUBLE)


@lru_cache(maxsize=64)
def near(order: int, sign: int, count: int = 32) -> tuple[float, ...]:
    """sign**k / (k! (k + order)!)"""
    return tuple(float(sign**k) / (math.factorial(k) * math.factorial(k + order)) for k in range(count))


@lru_cache(maxsize=64)
def near_sums(order: int, sign: int, count: int = 32) -> tuple[float, ...]:
    """The same times psi(k + 1) + psi(k + order + 1), but for Euler's constant."""
    harmonic = [math.fsum(1 / j for j in range(1, k + 1)) for k in range(count + order)]
    return tuple(c * (harmonic[k] + harmonic[k + order]) for k, c in enumerate(near(order, sign, count)))


@lru_cache(maxsize=64)
def far(order: int, count: int = 20) -> tuple[float, ...]:
    """a(k) = (4 n^2 - 1) (4 n^2 - 9) ... (4 n^2 - (2 k - 1)^2) / (k! 8^k)"""
    found = [1.0]
    for k in range(1, count):
        found.append(found[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return tuple(found)


def alternating(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """c(0), -c(1), c(2), ..."""
    return tuple(-c if k % 2 else c for k, c in enumerate(coefficients))


def power_series(x: Value, order: int, coefficients: tuple[float, ...]) -> Value:
    """(x / 2)**order * sum of c(k) (x^2 / 4)^k"""
    half = op.Mul(x, 0.5)
    made = polynomial(op.Mul(half, half), coefficients)
    return op.Mul(made, half) if order else made


def inside(x: Value, edge: float) -> Value:
    """x cut to [-edge, edge], so that a series is not asked where it is not good."""
    return op.Min(op.Max(x, double(-edge)), double(edge))


def waves(x: Value, order: int) -> tuple[Value, Value]:
    """(J, Y) for x >= MEET: sqrt(2 / (pi x)) (P cos - Q sin, P sin + Q cos) of x - (order / 2 + 1 / 4) pi"""
    inverse = op.Reciprocal(x)
    square = op.Mul(inverse, inverse)
    a = far(order)
    p = polynomial(square, alternating(a[0::2]))
    q = op.Mul(inverse, polynomial(square, alternating(a[1::2])))
    angle = op.Sub(x, (order / 2 + 0.25) * math.pi)
    size = op.Sqrt(op.Mul(inverse, 2 / math.pi))
    cosine, sine = op.Cos(angle), op.Sin(angle)
    return (
        op.Mul(size, op.Sub(op.Mul(p, cosine), op.Mul(q, sine))),
        op.Mul(size, op.Add(op.Mul(p, sine), op.Mul(q, cosine))),
    )


def first_kind(x: Value, order: int) -> Value:
    """J of order 0 or 1"""
    size = op.Abs(x)
    close = power_series(inside(size, MEET), order, near(order, -1))
    value = op.Where(op.Less(size, MEET), close, waves(op.Max(size, double(MEET)), order)[0])
    return kept_zero(x, op.Mul(value, op.Sign(x))) if order else value


def second_kind(x: Value, order: int) -> Value:
    """Y of order 0 or 1: -inf at 0, NaN below"""
    close = inside(x, MEET)
    logarithm = op.Add(op.Log(op.Mul(close, 0.5)), EULER)
    value = op.Mul(op.Mul(logarithm, 2), power_series(close, order, near(order, -1)))
    value = op.Sub(value, power_series(close, order, near_sums(order, -1)))
    if order:
        value = op.Sub(value, op.Div(2, close))
    value = op.Mul(value, 1 / math.pi)
    value = op.Where(op.Less(x, MEET), value, waves(op.Max(x, double(MEET)), order)[1])
    return below_zero(x, value, -INF)


def below_zero(x: Value, value: Value, at_zero: float) -> Value:
    """The value for x > 0; `at_zero` at 0, NaN below, and for NaN"""
    value = op.Where(op.Equal(x, 0), double(at_zero), value)
    return op.Where(op.Or(op.Less(x, 0), op.IsNaN(x)), double(NAN), value)


def modified(x: Value, order: int, scaled: bool) -> Value:
    """I of order 0 or 1; times exp(-|x|) where `scaled`"""
    size = op.Abs(x)
    close = inside(size, MEET)
    value = power_series(close, order, near(order, 1))
    if scaled:
        value = op.Mul(value, op.Exp(op.Neg(close)))
    distant = op.Max(size, double(MEET))
    tail = op.Mul(polynomial(op.Reciprocal(distant), alternating(far(order))), op.Sqrt(op.Div(0.5 / math.pi, distant)))
    if not scaled:
        tail = op.Mul(tail, op.Exp(distant))
    value = op.Where(op.Less(size, MEET), value, tail)
    value = op.Where(op.IsNaN(x), x, value)
    return op.Mul(value, op.Sign(x)) if order else value


def modified_second(x: Value, order: int, scaled: bool) -> Value:
    """K of order 0 or 1: inf at 0, NaN below; times exp(x) where `scaled`"""
    close = op.Max(inside(x, MEET_K), double(0))
    logarithm = op.Add(op.Log(op.Mul(close, 0.5)), EULER)
    value = op.Mul(logarithm, power_series(close, order, near(order, 1)))
    value = op.Sub(value, op.Mul(power_series(close, order, near_sums(order, 1)), 0.5))
    value = op.Add(value, op.Reciprocal(close)) if order else op.Neg(value)
    if scaled:
        value = op.Mul(value, op.Exp(close))
    distant = op.Max(x, double(MEET_K))
    tail = op.Mul(polynomial(op.Reciprocal(distant), far(order)), op.Sqrt(op.Div(math.pi / 2, distant)))
    if not scaled:
        tail = op.Mul(tail, op.Exp(op.Neg(distant)))
    return below_zero(x, op.Where(op.Less(x, MEET_K), value, tail), INF)


def in_double(function: Callable[..., Value], x: Value, *order: int | bool) -> Value:
    """A function in double precision, rounded to the type that torch gives"""
    x = to_float(x)
    return cast(function(cast(x, DType.DOUBLE), *order), x.dtype)


def of_double(function: Callable[..., Value], *rest: int) -> Callable[[Value], Value]:
    """The converter that computes a Bessel function in f64: of order `rest[0]`, times exp(-|self|) where `rest[1]` is
    true."""

    def convert(self: Value) -> Value:
        return in_double(function, self, *rest)

    return convert


aten_special_bessel_j0, aten_special_bessel_j1 = (of_double(first_kind, order) for order in (0, 1))
aten_special_bessel_y0, aten_special_bessel_y1 = (of_double(second_kind, order) for order in (0, 1))
aten_i0, aten_special_i1 = (of_double(modified, order, False) for order in (0, 1))
aten_special_i0e, aten_special_i1e = (of_double(modified, order, True) for order in (0, 1))
aten_special_modified_bessel_k0 = of_double(modified_second, 0, False)
aten_special_modified_bessel_k1 = of_double(modified_second, 1, False)


def aten_special_scaled_modified_bessel_k0(x: Value) -> Value:
    """K of order 0 times exp(x)"""
    return in_double(modified_second, x, 0, True)


def aten_special_scaled_modified_bessel_k1(x: Value) -> Value:
    """K of order 1 times exp(x)"""
    return in_double(modified_second, x, 1, True)


def aten_special_spherical_bessel_j0(x: Value) -> Value:
    """sin(x) / x; 1 at 0, and 0 at infinity"""
    y = to_float(x)
    z = cast(y, DType.DOUBLE)
    value = op.Where(op.Equal(z, 0), double(1), op.Div(op.Sin(z), z))
    return cast(op.Where(op.IsInf(z), double(0), value), y.dtype)


# ---------------------------------------------------------------------------------------------- Airy

AIRY = 0.35502805388781724, 0.25881940379280680
"""Ai(0) and -Ai'(0)."""


@lru_cache(maxsize=64)
def airy_near(start: int, count: int = 24) -> tuple[float, ...]:
    """The series of the solution of y'' = x y that begins with x**start, in powers of x^3"""
    found = [1.0]
    for k in range(1, count):
        found.append(found[-1] / ((3 * k + start) * (3 * k + start - 1)))
    return tuple(found)


@lru_cache(maxsize=64)
def airy_far(count: int = 14) -> tuple[float, ...]:
    """u(k) of the asymptotic series in 1 / zeta"""
    found = [1.0]
    for k in range(1, count):
        found.append(found[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    return tuple(found)


def aten_special_airy_ai(x: Value) -> Value:
    """Airy's function Ai; NaN at infinity, as torch gives it"""
    y = to_float(x)
    z = cast(y, DType.DOUBLE)
    close = inside(z, MEET_AIRY)
    cube = op.Mul(op.Mul(close, close), close)
    value = op.Sub(
        op.Mul(polynomial(cube, airy_near(0)), AIRY[0]), op.Mul(op.Mul(polynomial(cube, airy_near(1)), close), AIRY[1])
    )
    size = op.Max(op.Abs(z), double(MEET_AIRY))
    root = op.Sqrt(size)
    zeta = op.Mul(op.Mul(size, root), 2 / 3)
    inverse = op.Reciprocal(zeta)
    scale = op.Reciprocal(op.Mul(op.Sqrt(root), math.sqrt(math.pi)))
    u = airy_far()
    falling = op.Mul(op.Mul(op.Mul(polynomial(inverse, alternating(u)), op.Exp(op.Neg(zeta))), scale), 0.5)
    square = op.Mul(inverse, inverse)
    even, odd = polynomial(square, alternating(u[0::2])), op.Mul(inverse, polynomial(square, alternating(u[1::2])))
    angle = op.Add(zeta, math.pi / 4)
    wave = op.Mul(scale, op.Sub(op.Mul(op.Sin(angle), even), op.Mul(op.Cos(angle), odd)))
    value = op.Where(op.Greater(z, MEET_AIRY), falling, op.Where(op.Less(z, -MEET_AIRY), wave, value))
    return cast(op.Where(op.Or(op.IsInf(z), op.IsNaN(z)), double(NAN), value), y.dtype)
