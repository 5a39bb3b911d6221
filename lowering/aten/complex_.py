"""Converters of operators on complex tensors.

A function `complex_<name>` serves the ATen operator where an operand or a result is complex, beside the one of the same
name for real tensors; see `lowering.complexes` and `lowering.complex_dispatch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from irkit.build import op
from irkit.ir import Value
from irkit.types import DType, Tensor
from lowering.aten.elementwise import chosen
from lowering.aten.joining import aten_cat, aten_stack
from lowering.aten.movement import aten_view
from lowering.aten.transcendental import aten_atan2
from lowering.complexes import PARTS, Parts, pair, parts
from lowering.errors import Unsupported
from lowering.promotion import cast, result_dtype, scalar, truth
from lowering.shaping import expand, picked, unsqueeze


def split(x: Any, dtype: DType) -> Parts:
    """The parts, of `dtype`, of a value or a number."""
    if isinstance(x, Value):
        real, imaginary = parts(x)
        return cast(real, dtype), cast(imaginary, dtype)
    number = x if isinstance(x, sympy.Basic) else complex(x)
    if isinstance(number, complex):
        return scalar(number.real, dtype), scalar(number.imag, dtype)
    return scalar(number, dtype), scalar(0, dtype)


def both(self: Any, other: Any) -> tuple[Parts, Parts]:
    """The parts of two operands in the element type that they promote to."""
    part = PARTS[result_dtype(self, other)]
    return split(self, part), split(other, part)


# ---------------------------------------------------------------------------------------------- in and out


def aten_view_as_real(self: Value) -> Value:
    """(...) -> (..., 2): real and imaginary parts along a new last dimension."""
    real, imaginary = parts(self)
    return op.Concat(unsqueeze(real, -1), unsqueeze(imaginary, -1), axis=-1)


def aten_view_as_complex(self: Value) -> Value:
    """(..., 2) -> (...)"""
    last = self.rank - 1
    return pair(picked(self, last, 0), picked(self, last, 1))


def aten_complex(real: Value, imag: Value) -> Value:
    """real + i * imag, broadcast."""
    a, b = real, imag
    zero = scalar(0, a.dtype)
    return pair(a, b) if a.shape == b.shape else pair(op.Add(a, op.Mul(b, zero)), op.Add(b, op.Mul(a, zero)))


def aten_polar(abs: Value, angle: Value) -> Value:
    """abs * exp(i * angle)"""
    return pair(op.Mul(abs, op.Cos(angle)), op.Mul(abs, op.Sin(angle)))


def complex_real(self: Value) -> Value:
    """The real part."""
    return parts(self)[0]


def complex_imag(self: Value) -> Value:
    """The imaginary part."""
    return parts(self)[1]


def complex_abs(self: Value) -> Value:
    """sqrt(real**2 + imag**2)"""
    a, b = parts(self)
    return op.Sqrt(op.Add(op.Mul(a, a), op.Mul(b, b)))


def complex_angle(self: Value) -> Value:
    """The angle from the real axis."""
    a, b = parts(self)
    return aten_atan2(b, a)


def aten_real(self: Value) -> Value:
    """self, which is real."""
    return self


def aten__conj(self: Value) -> Value:
    """self, which is real."""
    return self


def aten_conj_physical(self: Value) -> Value:
    """self, which is real."""
    return self


def aten_resolve_conj(self: Value) -> Value:
    """self: nothing is conjugated lazily here."""
    return self


def complex_to(self: Value, dtype: DType | None = None) -> Value:
    """self as another complex type, a real tensor as a complex one, or the real part of a complex one."""
    wanted = self.dtype if dtype is None else dtype
    a, b = parts(self)
    if not wanted.is_complex:
        return cast(a, wanted)
    return pair(cast(a, PARTS[wanted]), cast(b, PARTS[wanted]))


def complex_to_device(self: Value, device: object, dtype: DType) -> Value:
    """self as another type."""
    return complex_to(self, dtype)


def complex_to_other(self: Value, other: Value) -> Value:
    """self in the type of `other`."""
    return complex_to(self, other.dtype)


def complex_type_as(self: Value, other: Value) -> Value:
    """self in the type of `other`."""
    return complex_to(self, other.dtype)


def complex_full(size: Sequence[Any], fill_value: Any, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """One number everywhere."""
    wanted = expected.dtype if isinstance(expected, Tensor) else dtype
    if wanted is None or wanted not in PARTS:
        raise Unsupported(f"a tensor of {wanted} out of a complex one")
    real, imaginary = split(fill_value, PARTS[wanted])
    return pair(expand(real, size), expand(imaginary, size))


def complex_zeros(size: Sequence[Any], *, dtype: DType | None = None, expected: Any = None) -> Value:
    """0 everywhere."""
    return complex_full(size, 0, expected=expected)


def complex_ones(size: Sequence[Any], *, dtype: DType | None = None, expected: Any = None) -> Value:
    """1 everywhere."""
    return complex_full(size, 1, expected=expected)


def complex_zeros_like(self: Value, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """0 everywhere, in the shape of self."""
    return complex_full(self.shape, 0, expected=expected)


def complex_ones_like(self: Value, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """1 everywhere, in the shape of self."""
    return complex_full(self.shape, 1, expected=expected)


# ---------------------------------------------------------------------------------------------- arithmetic


def complex_conj(self: Value) -> Value:
    """real - i * imag"""
    a, b = parts(self)
    return pair(a, op.Neg(b))


def complex_add(self: Any, other: Any, *, alpha: Any = 1) -> Value:
    """self + alpha * other"""
    if not (isinstance(alpha, int | float) and alpha == 1):
        other = complex_mul(other, alpha)
    (a, b), (c, d) = both(self, other)
    return pair(op.Add(a, c), op.Add(b, d))


def complex_sub(self: Any, other: Any, *, alpha: Any = 1) -> Value:
    """self - alpha * other"""
    if not (isinstance(alpha, int | float) and alpha == 1):
        other = complex_mul(other, alpha)
    (a, b), (c, d) = both(self, other)
    return pair(op.Sub(a, c), op.Sub(b, d))


def complex_rsub(self: Any, other: Any, *, alpha: Any = 1) -> Value:
    """other - alpha * self"""
    return complex_sub(other, self, alpha=alpha)


def is_real(x: Any) -> bool:
    """True for a real value or number."""
    return not (x.dtype.is_complex if isinstance(x, Value) else isinstance(x, complex))


def complex_mul(self: Any, other: Any) -> Value:
    """self * other: four products, two where an operand is real."""
    (a, b), (c, d) = both(self, other)
    if is_real(other):
        return pair(op.Mul(a, c), op.Mul(b, c))
    if is_real(self):
        return pair(op.Mul(a, c), op.Mul(a, d))
    return pair(op.Sub(op.Mul(a, c), op.Mul(b, d)), op.Add(op.Mul(a, d), op.Mul(b, c)))


def complex_div(self: Any, other: Any) -> Value:
    """self / other"""
    (a, b), (c, d) = both(self, other)
    if is_real(other):
        return pair(op.Div(a, c), op.Div(b, c))
    size = op.Add(op.Mul(c, c), op.Mul(d, d))
    real = op.Div(op.Add(op.Mul(a, c), op.Mul(b, d)), size)
    return pair(real, op.Div(op.Sub(op.Mul(b, c), op.Mul(a, d)), size))


def complex_reciprocal(self: Value) -> Value:
    """1 / self"""
    return complex_div(1.0, self)


def complex_square(self: Value) -> Value:
    """self * self"""
    return complex_mul(self, self)


def complex_pow(self: Any, exponent: Any) -> Value:
    """self ** exponent, for small whole exponents."""
    if isinstance(exponent, Value) or exponent not in (1, 2, 3, 4, -1, -2):
        raise Unsupported(f"complex numbers to the power {exponent}")
    result = self
    for _ in range(abs(int(exponent)) - 1):
        result = complex_mul(result, self)
    return result if exponent > 0 else complex_reciprocal(result)


def complex_exp(self: Value) -> Value:
    """exp(real) * (cos(imag) + i * sin(imag))"""
    a, b = parts(self)
    return aten_polar(op.Exp(a), b)


def complex_log(self: Value) -> Value:
    """log |self| + i * angle"""
    return pair(op.Log(complex_abs(self)), complex_angle(self))


def complex_sqrt(self: Value) -> Value:
    """The root whose real part is not negative."""
    a, b = parts(self)
    # Of the two roots the larger is exact; the smaller one, a difference, comes from imag = 2 * large * small.
    large = op.Sqrt(op.Mul(op.Add(complex_abs(self), op.Abs(a)), 0.5))
    small = op.Where(op.Equal(large, 0), scalar(0, a.dtype), op.Div(op.Abs(b), op.Mul(large, 2)))
    right = op.GreaterOrEqual(a, 0)
    imaginary = op.Where(right, small, large)
    return pair(op.Where(right, large, small), op.Where(op.Less(b, 0), op.Neg(imaginary), imaginary))


def complex_sgn(self: Value) -> Value:
    """self / |self|, and 0 at 0."""
    a, b = parts(self)
    size = complex_abs(self)
    safe = op.Where(op.Equal(size, 0), scalar(1, a.dtype), size)
    return pair(op.Div(a, safe), op.Div(b, safe))


# ---------------------------------------------------------------------------------------------- choices and joining


def complex_cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    """The tensors one after the other along `dim`."""
    halves = [split(t, PARTS[result_dtype(*tensors)]) for t in tensors]
    return pair(aten_cat([h[0] for h in halves], dim), aten_cat([h[1] for h in halves], dim))


def complex_stack(tensors: Sequence[Value], dim: int = 0) -> Value:
    """The tensors side by side along a new dimension."""
    halves = [split(t, PARTS[result_dtype(*tensors)]) for t in tensors]
    return pair(aten_stack([h[0] for h in halves], dim), aten_stack([h[1] for h in halves], dim))


def complex_where(condition: Value, self: Any, other: Any) -> Value:
    """self where the condition holds, else other."""
    (a, b), (c, d) = both(self, other)
    flag = truth(condition)
    return pair(chosen(flag, a, c), chosen(flag, b, d))


def complex_masked_fill(self: Value, mask: Value, value: Any) -> Value:
    """self, and `value` where the mask holds."""
    return complex_where(mask, value, self)


def complex_eq(self: Any, other: Any) -> Value:
    """Both parts are equal."""
    (a, b), (c, d) = both(self, other)
    return op.And(op.Equal(a, c), op.Equal(b, d))


def complex_ne(self: Any, other: Any) -> Value:
    """Some part differs."""
    return op.Not(complex_eq(self, other))


def complex_view_dtype(self: Value, dtype: DType, *, expected: Any = None) -> Value:
    """(..., n) complex -> (..., 2 n) real."""
    if dtype.is_complex or not isinstance(expected, Tensor):
        raise Unsupported(f"the bits of {self.dtype.short} read as {dtype.short}")
    return aten_view(aten_view_as_real(self), expected.shape)
