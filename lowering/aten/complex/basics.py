"""Converters of operators on complex tensors.

A function `complex_<name>` serves the ATen operator where an operand or a result is complex, beside the one of the same
name for real tensors; see `lowering.tensors.complex_pairs` and `lowering.fold.complex_registry`.
"""

from __future__ import annotations

from typing import Any

import sympy

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from lowering.aten.elementwise.transcendental import aten_atan2
from lowering.aten.movement.views import aten_view
from lowering.errors import Unsupported
from lowering.tensors.complex_numbers import conjugate, minus, modulus, plus, product, quotient
from lowering.tensors.complex_pairs import PARTS, Parts, as_type, expand_pair, from_real, pair, parts, to_real
from lowering.tensors.promotion import cast, result_dtype, scalar


def split_parts(x: Any, dtype: DType) -> Parts:
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
    return split_parts(self, part), split_parts(other, part)


# ---------------------------------------------------------------------------------------------- in and out


def aten_view_as_real(self: Value) -> Value:
    """(...) -> (..., 2): real and imaginary parts along a new last dimension."""
    return to_real(self)


def aten_view_as_complex(self: Value) -> Value:
    """(..., 2) -> (...)"""
    return from_real(self)


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
    return modulus(parts(self))


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
    return self if dtype is None else as_type(self, dtype)


def complex_to_device(self: Value, device: object, dtype: DType) -> Value:
    """self as another type."""
    return complex_to(self, dtype)


def complex_to_other(self: Value, other: Value) -> Value:
    """self in the type of `other`."""
    return complex_to(self, other.dtype)


def complex_prims_convert_element_type(a: Value, dtype: DType) -> Value:
    """a as another type."""
    return complex_to(a, dtype)


def complex_copy(self: Value, src: Value) -> Value:
    """src, in the shape and the element type of self."""
    return expand_pair(as_type(src, self.dtype), self.shape)


def complex_view_dtype(self: Value, dtype: DType, *, expected: Any = None) -> Value:
    """(..., n) complex -> (..., 2 n) real, or back."""
    if dtype is self.dtype:
        return self
    if not isinstance(expected, Tensor):
        raise Unsupported(f"the bits of {self.dtype.short} read as {dtype.short}")
    if PARTS.get(dtype) is self.dtype:
        return from_real(aten_view(self, (*expected.shape, 2)))
    if PARTS.get(self.dtype) is dtype:
        return aten_view(to_real(self), expected.shape)
    raise Unsupported(f"the bits of {self.dtype.short} read as {dtype.short}")


# ---------------------------------------------------------------------------------------------- arithmetic


def complex_conj(self: Value) -> Value:
    """real - i * imag"""
    return pair(*conjugate(parts(self)))


def complex_add(self: Any, other: Any, *, alpha: Any = 1) -> Value:
    """self + alpha * other"""
    if not (isinstance(alpha, int | float) and alpha == 1):
        other = complex_mul(other, alpha)
    return pair(*plus(*both(self, other)))


def complex_sub(self: Any, other: Any, *, alpha: Any = 1) -> Value:
    """self - alpha * other"""
    if not (isinstance(alpha, int | float) and alpha == 1):
        other = complex_mul(other, alpha)
    return pair(*minus(*both(self, other)))


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
    return pair(*product((a, b), (c, d)))


def complex_div(self: Any, other: Any, *, rounding_mode: str | None = None) -> Value:
    """self / other"""
    if rounding_mode is not None:
        raise Unsupported("complex numbers cannot be rounded")
    (a, b), (c, d) = both(self, other)
    if is_real(other):
        return pair(op.Div(a, c), op.Div(b, c))
    return pair(*quotient((a, b), (c, d)))


def complex_prims_div(self: Value, other: Value) -> Value:
    """self / other"""
    return complex_div(self, other)


def complex_reciprocal(self: Value) -> Value:
    """1 / self"""
    return complex_div(1.0, self)


def complex_square(self: Value) -> Value:
    """self * self"""
    return complex_mul(self, self)


def complex_sgn(self: Value) -> Value:
    """self / |self|, and 0 at 0."""
    a, b = parts(self)
    size = complex_abs(self)
    safe = op.Where(op.Equal(size, 0), scalar(1, a.dtype), size)
    return pair(op.Div(a, safe), op.Div(b, safe))
