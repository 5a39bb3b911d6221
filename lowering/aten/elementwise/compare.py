"""Comparisons, logic on truth values, and the tests for NaN and infinity. Every result is bool."""

from __future__ import annotations

from collections.abc import Callable

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.tensors.promotion import Operand, cast, floating_all, promote, scalar, truth
from lowering.tensors.shaping import expand


def compared(function: Callable[..., Value], self: Operand, other: Operand) -> Value:
    """function(self, other) in the element type that both promote to; bools are compared as integers."""
    a, b = promote(self, other)
    if a.dtype is DType.BOOL:
        a, b = cast(a, DType.INT32), cast(b, DType.INT32)
    return function(a, b)


def aten_eq(self: Operand, other: Operand) -> Value:
    """self == other, broadcast."""
    return op.Equal(*promote(self, other))


def aten_ne(self: Operand, other: Operand) -> Value:
    """self != other, broadcast."""
    a, b = promote(self, other)
    return op.Xor(a, b) if a.dtype is DType.BOOL else op.Not(op.Equal(a, b))


def aten_lt(self: Operand, other: Operand) -> Value:
    """self < other, broadcast."""
    return compared(op.Less, self, other)


def aten_le(self: Operand, other: Operand) -> Value:
    """self <= other, broadcast."""
    return compared(op.LessOrEqual, self, other)


def aten_gt(self: Operand, other: Operand) -> Value:
    """self > other, broadcast."""
    return compared(op.Greater, self, other)


def aten_ge(self: Operand, other: Operand) -> Value:
    """self >= other, broadcast."""
    return compared(op.GreaterOrEqual, self, other)


def aten_isclose(self: Value, other: Value, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Value:
    """|self - other| <= atol + rtol * |other|, or both equal (infinities; NaN too where `equal_nan`)."""
    exact = aten_eq(self, other)
    a, b = floating_all(self, other)
    gap = op.Abs(op.Sub(a, b))
    within = op.LessOrEqual(gap, op.Add(op.Abs(op.Mul(b, rtol)), atol))
    close = op.Or(exact, op.And(within, finite(gap)))
    return op.Or(close, op.And(op.IsNaN(a), op.IsNaN(b))) if equal_nan else close


# ---------------------------------------------------------------------------------------------- logic


def aten_logical_and(self: Value, other: Value) -> Value:
    """Both are not 0."""
    return op.And(truth(self), truth(other))


def aten_logical_or(self: Value, other: Value) -> Value:
    """One is not 0, or both."""
    return op.Or(truth(self), truth(other))


def aten_logical_xor(self: Value, other: Value) -> Value:
    """Just one is not 0."""
    return op.Xor(truth(self), truth(other))


def aten_logical_not(self: Value) -> Value:
    """self is 0."""
    return op.Not(truth(self))


# ---------------------------------------------------------------------------------------------- NaN and infinity


def always(x: Value, answer: bool) -> Value:
    """The same truth value everywhere, in the shape of x."""
    return expand(scalar(answer, DType.BOOL), x.shape)


def finite(x: Value) -> Value:
    """True where a float is neither NaN nor infinite."""
    return op.Not(op.Or(op.IsNaN(x), op.IsInf(x)))


def aten_isnan(self: Value) -> Value:
    """True where NaN."""
    return op.IsNaN(self) if self.dtype.is_float else always(self, False)


def aten_isinf(self: Value) -> Value:
    """True where inf or -inf."""
    return op.IsInf(self) if self.dtype.is_float else always(self, False)


def aten_isposinf(self: Value) -> Value:
    """True where inf."""
    return op.IsInf(self, detect_negative=0) if self.dtype.is_float else always(self, False)


def aten_isneginf(self: Value) -> Value:
    """True where -inf."""
    return op.IsInf(self, detect_positive=0) if self.dtype.is_float else always(self, False)


def aten_isfinite(self: Value) -> Value:
    """True where neither NaN nor infinite."""
    return finite(self) if self.dtype.is_float else always(self, True)
