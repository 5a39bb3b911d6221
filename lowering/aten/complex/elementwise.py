"""Exponentials, logarithms, trigonometry and powers of complex tensors.

Everything is computed in parts twice as wide where there are such, so that nothing overflows on the way and differences
of nearly equal numbers keep their digits; complex128 has no wider parts, and takes the careful forms. Branch cuts and
signed zeros are those of W. Kahan, "Branch Cuts for Complex Elementary Functions, or Much Ado About Nothing's Sign Bit"
(1987), which C99 and torch follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.complex.basics import both, complex_mul, complex_reciprocal, complex_square
from lowering.aten.elementwise.transcendental import aten_atan2, aten_expm1, log1p
from lowering.tensors.complex_numbers import copy_sign, hypotenuse, near_modulus, product, quotient, root
from lowering.tensors.complex_pairs import PARTS, WIDER, Parts, pair, parts
from lowering.tensors.promotion import cast, result_dtype, scalar

STEEP = 300.0
"""Beyond this tanh is 1 in every type, and the square of sinh still is a number of float64."""

FAR = 1e150
"""Beyond this atanh is +-i pi / 2 in every type, and squares still are numbers of float64."""


@attrs.frozen(eq=False)
class Wide:
    """A complex number in the making: its parts, and whether squares of them stay in range."""

    x: Value
    y: Value
    roomy: bool

    @property
    def parts(self) -> Parts:
        """(real, imaginary)"""
        return self.x, self.y

    @property
    def root(self) -> Parts:
        """The square root whose real part is not negative."""
        return root(self.parts, roomy=self.roomy)

    def with_parts(self, made: Parts) -> Wide:
        """Another number, as roomy as this one."""
        return Wide(*made, self.roomy)

    def shifted(self, by: float) -> Wide:
        """self + by"""
        return self.with_parts((op.Add(self.x, by), self.y))

    def negated(self) -> Wide:
        """-self"""
        return self.with_parts((op.Neg(self.x), op.Neg(self.y)))

    def turned(self) -> Wide:
        """i * self"""
        return self.with_parts((op.Neg(self.y), self.x))

    def turned_back(self) -> Wide:
        """-i * self"""
        return self.with_parts((self.y, op.Neg(self.x)))


def wide(x: Value) -> Wide:
    """A complex or real tensor in the parts that it is computed in."""
    a, b = parts(x)
    to = WIDER[a.dtype]
    return Wide(cast(a, to), cast(b, to), to is not a.dtype)


def narrow(made: Parts, like: Value) -> Value:
    """The complex tensor of parts, in the element type of `like`."""
    part = PARTS.get(like.dtype, like.dtype)
    return pair(cast(made[0], part), cast(made[1], part))


def times(a: Value, b: Value) -> Value:
    """a * b, and a where it is 0, though b be infinite."""
    return op.Where(op.Equal(a, 0), a, op.Mul(a, b))


def length(z: Wide) -> Value:
    """|z|"""
    return near_modulus(z.parts) if z.roomy else hypotenuse(z.x, z.y)


# ---------------------------------------------------------------------------------------------- formulas on parts


def exp_of(z: Wide) -> Parts:
    """exp x (cos y + i sin y); where there is no room the factor comes in two halves, which overflow later."""
    if z.roomy:
        size = op.Exp(z.x)
        return times(op.Cos(z.y), size), times(op.Sin(z.y), size)
    half = op.Exp(op.Mul(z.x, 0.5))
    return times(times(op.Cos(z.y), half), half), times(times(op.Sin(z.y), half), half)


def log_of(z: Wide) -> Parts:
    """log |z| + i angle; near |z| = 1, log |z| = log1p((m - 1) (m + 1) + n^2) / 2 with m and n the parts by size."""
    angle = aten_atan2(z.y, z.x)
    size = length(z)
    if z.roomy:
        return op.Log(size), angle
    m, n = op.Max(op.Abs(z.x), op.Abs(z.y)), op.Min(op.Abs(z.x), op.Abs(z.y))
    near = op.And(op.Greater(size, 0.6), op.Less(size, 1.5))
    safe = op.Where(near, m, scalar(1, m.dtype))
    excess = op.Add(op.Mul(op.Sub(safe, 1), op.Add(safe, 1)), op.Mul(n, n))
    return op.Where(near, op.Mul(log1p(op.Where(near, excess, scalar(0, m.dtype))), 0.5), op.Log(size)), angle


def log1p_of(z: Wide) -> Parts:
    """log1p(x (x + 2) + y^2) / 2 + i atan2(y, 1 + x)"""
    moved = z.shifted(1)
    excess = op.Add(op.Mul(z.x, op.Add(z.x, 2)), op.Mul(z.y, z.y))
    small = op.Less(op.Max(op.Abs(z.x), op.Abs(z.y)), 0.5)
    real = op.Mul(log1p(op.Where(small, excess, scalar(0, excess.dtype))), 0.5)
    return op.Where(small, real, op.Log(length(moved))), aten_atan2(z.y, moved.x)


def sinh_of(z: Wide) -> Parts:
    """sinh x cos y + i cosh x sin y"""
    return times(op.Cos(z.y), op.Sinh(z.x)), times(op.Sin(z.y), op.Cosh(z.x))


def cosh_of(z: Wide) -> Parts:
    """cosh x cos y + i sinh x sin y"""
    return times(op.Cos(z.y), op.Cosh(z.x)), times(op.Sin(z.y), op.Sinh(z.x))


def tanh_of(z: Wide) -> Parts:
    """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y)"""
    x = op.Clip(z.x, -STEEP, STEEP)
    sinh, cos = op.Sinh(x), op.Cos(z.y)
    size = op.Add(op.Mul(sinh, sinh), op.Mul(cos, cos))
    return op.Div(op.Mul(sinh, op.Cosh(x)), size), op.Div(op.Mul(op.Sin(z.y), cos), size)


def bounded(z: Wide) -> Wide:
    """z with infinite parts made so large that only the angle of z matters; products of its roots stay in range."""
    end = FAR if z.roomy else 1e307
    return z.with_parts((op.Clip(z.x, -end, end), op.Clip(z.y, -end, end)))


def asinh_of(x: Value, z: Wide) -> Value:
    """The inverse of the hyperbolic sine of what was made of z `bounded`: infinite where z is."""
    endless = op.Or(op.IsInf(z.x), op.IsInf(z.y))
    return op.Asinh(op.Where(endless, op.Mul(x, math.inf), x))


def roots(z: Wide) -> tuple[Parts, Parts]:
    """sqrt(1 - z) and sqrt(1 + z)"""
    return z.negated().shifted(1).root, z.shifted(1).root


def asin_of(z: Wide) -> Parts:
    """atan2(x, Re(sqrt(1 - z) sqrt(1 + z))) + i asinh(Im(conj(sqrt(1 - z)) sqrt(1 + z)))"""
    near = bounded(z)
    (a, b), (c, d) = roots(near)
    real = aten_atan2(near.x, op.Sub(op.Mul(a, c), op.Mul(b, d)))
    return real, asinh_of(op.Sub(op.Mul(a, d), op.Mul(b, c)), z)


def acos_of(z: Wide) -> Parts:
    """2 atan2(Re sqrt(1 - z), Re sqrt(1 + z)) + i asinh(Im(conj(sqrt(1 + z)) sqrt(1 - z)))"""
    (a, b), (c, d) = roots(bounded(z))
    return op.Mul(aten_atan2(a, c), 2), asinh_of(op.Sub(op.Mul(c, b), op.Mul(d, a)), z)


def acosh_of(z: Wide) -> Parts:
    """asinh(Re(conj(sqrt(z - 1)) sqrt(z + 1))) + 2 i atan2(Im sqrt(z - 1), Re sqrt(z + 1))"""
    near = bounded(z)
    (a, b), (c, d) = near.shifted(-1).root, near.shifted(1).root
    return asinh_of(op.Add(op.Mul(a, c), op.Mul(b, d)), z), op.Mul(aten_atan2(b, c), 2)


def atanh_of(z: Wide) -> Parts:
    """log1p(4 |x| / ((1 - |x|)^2 + y^2)) / 4 with the sign of x, + i atan2(2 y, (1 - x) (1 + x) - y^2) / 2"""
    size, y = op.Clip(op.Abs(z.x), 0.0, FAR), op.Clip(z.y, -FAR, FAR)
    below = op.Sub(scalar(1, size.dtype), size)
    square = op.Mul(y, y)
    real = op.Mul(log1p(op.Div(op.Mul(size, 4), op.Add(op.Mul(below, below), square))), 0.25)
    angle = aten_atan2(op.Mul(y, 2), op.Sub(op.Mul(below, op.Add(size, 1)), square))
    return copy_sign(real, z.x), op.Mul(angle, 0.5)


# ---------------------------------------------------------------------------------------------- exp and log


def of_wide(function: Callable[[Wide], Parts]) -> Callable[[Value], Value]:
    """The converter that applies a function to the parts of self in a wider type, and rounds what it gives."""

    def convert(self: Value) -> Value:
        return narrow(function(wide(self)), self)

    return convert


def turned_by_i(function: Callable[[Wide], Parts]) -> Callable[[Value], Value]:
    """The converter of -i * function(i * self)"""
    return of_wide(lambda z: z.with_parts(function(z.turned())).turned_back().parts)


complex_exp, complex_log, complex_log1p = map(of_wide, (exp_of, log_of, log1p_of))


def complex_exp2(self: Value) -> Value:
    """2 ** self = exp(self * log 2)"""
    z = wide(self)
    scaled = z.with_parts((op.Mul(z.x, math.log(2)), op.Mul(z.y, math.log(2))))
    return narrow(exp_of(scaled), self)


def complex_expm1(self: Value) -> Value:
    """expm1(x) cos y - 2 sin(y / 2)^2 + i exp(x) sin y"""
    z = wide(self)
    half = op.Sin(op.Mul(z.y, 0.5))
    real = op.Sub(op.Mul(aten_expm1(z.x), op.Cos(z.y)), op.Mul(op.Mul(half, half), 2))
    return narrow((real, exp_of(z)[1]), self)


def complex_log2(self: Value) -> Value:
    """log self / log 2"""
    a, b = log_of(wide(self))
    return narrow((op.Div(a, math.log(2)), op.Div(b, math.log(2))), self)


def complex_log10(self: Value) -> Value:
    """log self / log 10"""
    a, b = log_of(wide(self))
    return narrow((op.Div(a, math.log(10)), op.Div(b, math.log(10))), self)


complex_sqrt = of_wide(lambda z: z.root)


def complex_rsqrt(self: Value) -> Value:
    """1 / sqrt(self)"""
    z = wide(self)
    one = scalar(1, z.x.dtype)
    return narrow(quotient((one, scalar(0, z.x.dtype)), z.root), self)


def complex_logaddexp(self: Value, other: Value) -> Value:
    """log(exp self + exp other) = a + log1p(exp(b - a)) with a the one of the larger real part"""
    part = PARTS[result_dtype(self, other)]
    (a, b), (c, d) = both(self, other)
    wider = WIDER[part]
    made = logaddexp_of(*(cast(v, wider) for v in (a, b, c, d)), roomy=wider is not part)
    return pair(cast(made[0], part), cast(made[1], part))


def logaddexp_of(a: Value, b: Value, c: Value, d: Value, *, roomy: bool) -> Parts:
    """log(exp(a + ib) + exp(c + id))"""
    swap = op.Less(a, c)
    high, low = (op.Where(swap, c, a), op.Where(swap, d, b)), (op.Where(swap, a, c), op.Where(swap, b, d))
    nothing = op.And(op.IsInf(low[0]), op.Less(low[0], 0))
    gap = op.Where(nothing, low[0], op.Sub(low[0], high[0]))
    turn = op.Where(nothing, scalar(0, gap.dtype), op.Sub(low[1], high[1]))
    more = log1p_of(Wide(*exp_of(Wide(gap, turn, roomy)), roomy))
    return op.Add(high[0], more[0]), op.Add(high[1], more[1])


# ---------------------------------------------------------------------------------------------- trigonometry


# Cuts: of asin, acos and atanh along the real axis beyond -1 and 1, of acosh below 1, of atan and asinh along the
# imaginary axis beyond -i and i.
complex_sin, complex_tan = map(turned_by_i, (sinh_of, tanh_of))
complex_atan, complex_asinh = map(turned_by_i, (atanh_of, asin_of))
complex_cos = of_wide(lambda z: cosh_of(z.turned()))
complex_sinh, complex_cosh, complex_tanh = map(of_wide, (sinh_of, cosh_of, tanh_of))
complex_asin, complex_acos = map(of_wide, (asin_of, acos_of))
complex_acosh, complex_atanh = map(of_wide, (acosh_of, atanh_of))


def complex_sinc(self: Value) -> Value:
    """sin(pi self) / (pi self), and 1 at 0"""
    z = wide(self)
    angle = z.with_parts((op.Mul(z.x, math.pi), op.Mul(z.y, math.pi)))
    sine = angle.with_parts(sinh_of(angle.turned())).turned_back()
    zero = op.And(op.Equal(z.x, 0), op.Equal(z.y, 0))
    one, nothing = scalar(1, z.x.dtype), scalar(0, z.x.dtype)
    a, b = quotient(sine.parts, (op.Where(zero, one, angle.x), angle.y))
    return narrow((op.Where(zero, one, a), op.Where(zero, nothing, b)), self)


# ---------------------------------------------------------------------------------------------- powers


def complex_pow(self: Any, exponent: Any) -> Value:
    """self ** exponent = exp(exponent log self); 0 ** exponent is 0, and 1 for 0."""
    dtype = result_dtype(self, exponent)
    if isinstance(self, Value) and isinstance(exponent, int | float) and self.dtype is dtype:
        special = _POWERS.get(float(exponent))
        if special is not None:
            return special(self)
    (a, b), (c, d) = both(self, exponent)
    part, wider = a.dtype, WIDER[a.dtype]
    zero, none = (op.And(op.Equal(x, 0), op.Equal(y, 0)) for x, y in ((a, b), (c, d)))
    x, y = cast(a, wider), cast(b, wider)
    logarithm = log_of(Wide(op.Where(zero, scalar(1, wider), x), y, wider is not part))
    scaled = product((cast(c, wider), cast(d, wider)), logarithm)
    real, imaginary = exp_of(Wide(*scaled, wider is not part))
    at_zero = op.Where(none, scalar(1, part), scalar(0, part))
    return pair(op.Where(zero, at_zero, cast(real, part)), op.Where(zero, scalar(0, part), cast(imaginary, part)))


_POWERS: Mapping[float, Callable[[Value], Value]] = {
    0.5: complex_sqrt, -0.5: complex_rsqrt, 1.0: lambda x: x, 2.0: complex_square, -1.0: complex_reciprocal,
    3.0: lambda x: complex_mul(complex_square(x), x), -2.0: lambda x: complex_reciprocal(complex_square(x)),
}  # fmt: skip


def complex_prims_pow(self: Value, other: Value) -> Value:
    """self ** other"""
    return complex_pow(self, other)


def complex_float_power(self: Any, exponent: Any) -> Value:
    """self ** exponent in complex128"""
    return complex_pow(doubled(self), doubled(exponent))


def doubled(x: Any) -> Any:
    """A tensor as complex128; a number as it is."""
    if not isinstance(x, Value):
        return x
    a, b = parts(x)
    return pair(cast(a, DType.DOUBLE), cast(b, DType.DOUBLE))


def complex_ldexp(self: Value, other: Value) -> Value:
    """self * 2 ** other"""
    if other.dtype.is_complex:
        return complex_mul(self, complex_exp2(other))
    return complex_mul(self, op.Pow(scalar(2, PARTS[self.dtype]), cast(other, PARTS[self.dtype])))
