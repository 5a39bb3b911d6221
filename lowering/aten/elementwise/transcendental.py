"""Exponentials, logarithms, trigonometry and the error function; integers become f32 first."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.tensors.complex_numbers import is_negative, is_sum
from lowering.tensors.pieces import widen
from lowering.tensors.promotion import Operand, cast, finite_limits, floating_all, scalar, to_float, truth

# ---------------------------------------------------------------------------------------------- exp and log


def of_floats(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """The converter that applies a function to self, of which integers become f32 first."""

    def convert(self: Value) -> Value:
        return function(to_float(self))

    return convert


def of_wide(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """The same for a function of several steps: of half numbers in f32, rounded once, as torch does."""

    @functools.wraps(function)
    def convert(self: Value) -> Value:
        x = to_float(self)
        return cast(function(widen(x)), x.dtype)

    return convert


def kept_zero(x: Value, value: Value) -> Value:
    """value, and x where it is 0, whose sign it keeps: ONNX Runtime's Where loses that of its second operand."""
    return op.Where(truth(x), value, x)


aten_exp, aten_log, aten_erf = map(of_floats, (op.Exp, op.Log, op.Erf))


def aten_exp2(self: Value) -> Value:
    """2 ** self"""
    x = to_float(self)
    return op.Pow(scalar(2, x.dtype), x)


def aten_expm1(self: Value) -> Value:
    """exp(self) - 1, accurate near zero: tanh(x / 2) * (exp(x) + 1)."""
    x = to_float(self)
    return op.Mul(op.Tanh(op.Mul(x, 0.5)), op.Add(op.Exp(x), 1))


def aten_log2(self: Value) -> Value:
    """The logarithm to the base 2."""
    return op.Div(op.Log(to_float(self)), math.log(2))


def aten_log10(self: Value) -> Value:
    """The logarithm to the base 10."""
    return op.Div(op.Log(to_float(self)), math.log(10))


def log1p(x: Value) -> Value:
    """log(1 + x) of a float, accurate near zero.

    What the rounded sum u = 1 + x kept of x, u - 1, is off as the logarithm of u is, and so gives the factor. Where it
    kept nothing, x is its own logarithm, -0.0 too.
    """
    u = op.Add(x, 1)
    kept = op.Sub(u, 1)
    factor = op.Div(x, op.Min(kept, finite_limits(x.dtype)[1]))  # infinity is infinitely more than the greatest number
    return op.Where(truth(kept), op.Mul(op.Log(u), factor), x)


@of_wide
def aten_log1p(self: Value) -> Value:
    """log(1 + self), accurate near zero."""
    return log1p(self)


def aten_logaddexp(self: Value, other: Value) -> Value:
    """log(exp(self) + exp(other)), broadcast, without overflow."""
    left, right = floating_all(self, other)
    a, b = widen(left), widen(right)
    # The difference of equal infinities is NaN; equal operands differ by 0.
    gap = op.Where(op.Equal(a, b), scalar(0, a.dtype), op.Sub(a, b))
    return cast(op.Add(op.Max(a, b), op.Softplus(op.Neg(op.Abs(gap)))), left.dtype)


def aten_logaddexp2(self: Value, other: Value) -> Value:
    """log2(2 ** self + 2 ** other), broadcast, without overflow."""
    left, right = floating_all(self, other)
    a, b = widen(left), widen(right)
    gap = op.Where(op.Equal(a, b), scalar(0, a.dtype), op.Mul(op.Sub(a, b), math.log(2)))
    return cast(op.Add(op.Max(a, b), op.Div(op.Softplus(op.Neg(op.Abs(gap))), math.log(2))), left.dtype)


def aten_xlogy(self: Operand, other: Operand) -> Value:
    """self * log(other), and 0 where self is 0 (NaN where other is)."""
    a, b = floating_all(self, other)
    return times_unless_zero(a, b, op.Log(b))


def aten_special_xlog1py(self: Operand, other: Operand) -> Value:
    """self * log1p(other), and 0 where self is 0."""
    a, b = floating_all(self, other)
    x, y = widen(a), widen(b)
    return cast(times_unless_zero(x, y, log1p(y)), a.dtype)


def times_unless_zero(a: Value, b: Value, factor: Value) -> Value:
    """a * factor, 0 where a is 0, NaN where b is."""
    product = op.Where(op.Equal(a, 0), scalar(0, a.dtype), op.Mul(a, factor))
    return op.Where(op.IsNaN(b), b, product)


def aten_special_entr(self: Value) -> Value:
    """-self * log(self), 0 at 0, -inf below."""
    x = to_float(self)
    value = op.Where(op.Equal(x, 0), scalar(0, x.dtype), op.Neg(op.Mul(x, op.Log(x))))
    return op.Where(op.Less(x, 0), scalar(-math.inf, x.dtype), value)


# ---------------------------------------------------------------------------------------------- trigonometry


aten_sin, aten_cos = map(of_floats, (op.Sin, op.Cos))
aten_asin, aten_acos, aten_atan = map(of_floats, (op.Asin, op.Acos, op.Atan))
aten_sinh, aten_cosh, aten_tanh = map(of_floats, (op.Sinh, op.Cosh, op.Tanh))
aten_asinh, aten_acosh, aten_atanh = map(of_floats, (op.Asinh, op.Acosh, op.Atanh))


def aten_tan(self: Value) -> Value:
    """The tangent; of f64, for which ONNX Runtime has no Tan, by sine and cosine."""
    x = to_float(self)
    return op.Div(op.Sin(x), op.Cos(x)) if x.dtype is DType.DOUBLE else op.Tan(x)


@of_wide
def aten_sinc(self: Value) -> Value:
    """sin(pi * self) / (pi * self), and 1 at 0."""
    x = op.Mul(self, math.pi)
    return op.Where(op.Equal(x, 0), scalar(1, x.dtype), op.Div(op.Sin(x), x))


def aten_atan2(self: Value, other: Value) -> Value:
    """The angle of the point (other, self) from the first axis, in (-pi, pi]."""
    # Sums of -0 are 0 in torch and -0 in ONNX Runtime, and the angle of two zeros hangs on their signs.
    y, x = (op.Where(op.Equal(z, 0), scalar(0, z.dtype), z) if is_sum(z) else z for z in floating_all(self, other))
    both = op.And(op.IsInf(y), op.IsInf(x))
    divisor = op.Where(op.And(op.Equal(y, 0), op.Equal(x, 0)), scalar(1, y.dtype), x)
    ratio = op.Where(both, op.Mul(op.Sign(y), op.Sign(x)), op.Div(y, divisor))
    turn = op.Where(is_negative(y), scalar(-math.pi, y.dtype), scalar(math.pi, y.dtype))
    return op.Add(op.Atan(ratio), op.Where(is_negative(x), turn, scalar(-0.0, y.dtype)))


def aten_deg2rad(self: Value) -> Value:
    """Degrees in radians."""
    return op.Mul(to_float(self), math.pi / 180)


def aten_rad2deg(self: Value) -> Value:
    """Radians in degrees."""
    return op.Mul(to_float(self), 180 / math.pi)


# ---------------------------------------------------------------------------------------------- error function
