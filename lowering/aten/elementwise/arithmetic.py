"""Arithmetic on operands of any types: torch's promotion first, then one ONNX operator where there is one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType
from lowering.errors import LoweringError, Unsupported
from lowering.tensors.complex_numbers import copy_sign, hypotenuse, is_negative
from lowering.tensors.pieces import widen
from lowering.tensors.promotion import (
    Number,
    Operand,
    cast,
    finite_limits,
    floating_all,
    in_digits,
    is_beyond,
    promote,
    result_dtype,
    scalar,
    to_float,
    truth,
)
from lowering.tensors.shaping import expand
from passes.rules.nan import may_be_nan

# ---------------------------------------------------------------------------------------------- sums and products


def scaled(x: Value, factor: Number) -> Value:
    """factor * x, in the element type of x; x itself where the factor is 1."""
    return x if is_one(factor) else aten_mul(x, factor) if is_beyond(factor, x.dtype) else times(x, factor)


def times(x: Value, factor: Number) -> Value:
    """factor * x, the factor in the element type of x."""
    return multiply(x, scalar(factor, x.dtype))


def is_one(number: Number) -> bool:
    """True for the Python number 1 (or True)."""
    return isinstance(number, int | float) and number == 1


def multiply(a: Value, b: Value) -> Value:
    """a * b of one element type; `and` for bools."""
    return op.And(a, b) if a.dtype is DType.BOOL else op.Mul(a, b)


def aten_add(self: Operand, other: Operand, *, alpha: Number = 1) -> Value:
    """self + alpha * other, broadcast; `or` for bools."""
    a, b = promote(self, other)
    b = scaled(b, alpha)
    return op.Or(a, b) if a.dtype is DType.BOOL else op.Add(a, b)


def aten_sub(self: Operand, other: Operand, *, alpha: Number = 1) -> Value:
    """self - alpha * other, broadcast."""
    a, b = promote(self, other)
    return op.Sub(a, scaled(b, alpha))


def aten_rsub(self: Operand, other: Operand, *, alpha: Number = 1) -> Value:
    """other - alpha * self, broadcast."""
    return aten_sub(other, self, alpha=alpha)


def aten_rsub_Scalar(self: Value, other: Number, alpha: Number = 1) -> Value:
    """other - alpha * self."""
    return aten_sub(other, self, alpha=alpha)


def aten_mul(self: Operand, other: Operand) -> Value:
    """self * other, broadcast; `and` for bools."""
    (a, b), dtype = in_digits(self, other)
    return cast(multiply(a, b), dtype)


def aten_neg(self: Value) -> Value:
    """-self; unsigned integers wrap around."""
    return op.Sub(0, self) if self.dtype.is_unsigned else op.Neg(self)


def aten_abs(self: Value) -> Value:
    """|self|"""
    return self if self.dtype is DType.BOOL else op.Abs(self)


def aten_square(self: Value) -> Value:
    """self * self; an i64 for bools."""
    x = cast(self, DType.INT64) if self.dtype is DType.BOOL else self
    return op.Mul(x, x)


def aten_addcmul(self: Value, tensor1: Value, tensor2: Value, *, value: Number = 1) -> Value:
    """self + value * tensor1 * tensor2, broadcast."""
    x, a, b = promote(self, tensor1, tensor2)
    if x.dtype is DType.BFLOAT16 or is_beyond(value, x.dtype):  # which would be rounded at every step
        return cast(op.Add(widen(x), op.Mul(times(widen(a), value), widen(b))), x.dtype)
    return op.Add(x, op.Mul(scaled(a, value), b))


def aten_addcdiv(self: Value, tensor1: Value, tensor2: Value, *, value: Number = 1) -> Value:
    """self + value * tensor1 / tensor2, broadcast, in floating point."""
    x, a, b = promote(self, tensor1, tensor2)
    made = op.Add(widen(x), op.Div(scaled(widen(a), value), widen(b)))  # of half numbers in f32, as torch does
    return cast(made, x.dtype)


def aten_lerp(self: Value, end: Value, weight: Value | Number) -> Value:
    """self + weight * (end - self), from the nearer end so that weight 1 gives `end`."""
    a, b = promote(self, end)
    steps = a.dtype is DType.BFLOAT16 or isinstance(weight, Value)
    if (a.dtype in HALVES and steps) or is_beyond(weight, a.dtype):
        return cast(aten_lerp(widen(a), widen(b), widen(weight) if isinstance(weight, Value) else weight), a.dtype)
    gap = op.Sub(b, a)
    if not isinstance(weight, Value):
        near = not isinstance(weight, int | float) or abs(weight) < 0.5
        w = scalar(weight if near else 1 - weight, a.dtype)  # type: ignore[operator]
        return op.Add(a, op.Mul(gap, w)) if near else op.Sub(b, op.Mul(gap, w))
    w = cast(weight, a.dtype)
    below = op.Add(a, op.Mul(gap, w))
    above = op.Sub(b, op.Mul(gap, op.Sub(1, w)))
    return op.Where(op.Less(op.Abs(w), 0.5), below, above)


# ---------------------------------------------------------------------------------------------- division


def aten_div(self: Operand, other: Operand, *, rounding_mode: str | None = None) -> Value:
    """self / other, broadcast: floating point, or rounded as `rounding_mode` ("trunc", "floor") says."""
    if rounding_mode == "floor":
        return aten_floor_divide(self, other)
    if rounding_mode == "trunc":
        (a, b), dtype = in_digits(self, other)
        return op.Div(a, b) if a.dtype.is_integer else cast(truncated(op.Div(a, b)), dtype)
    (a, b), dtype = in_digits(self, other)
    if a.dtype.is_integer or a.dtype is DType.BOOL:
        return op.Div(*floating_all(self, other))
    return cast(op.Div(a, b), dtype)


def truncated(x: Value) -> Value:
    """x rounded towards zero; ONNX Runtime's Where keeps a -0.0 of its last operand only."""
    return op.Where(op.Greater(x, 0), op.Floor(x), op.Ceil(x))


def aten_floor_divide(self: Operand, other: Operand) -> Value:
    """self // other, broadcast, rounded down.

    Floats go the way of Python and torch: the remainder is taken first, because floor(1 / 0.1) is 10 where 1 // 0.1
    is 9.
    """
    a, b = promote(self, other)
    if a.dtype.is_integer:
        return floor_divided(a, b)
    if a.dtype in HALVES:  # as torch does: a third has other digits in f16, and 1 // (1 / 3) another result
        return cast(aten_floor_divide(*promote(self, other, to=DType.FLOAT)), a.dtype)
    rest = op.Mod(a, b, fmod=1)
    quotient = op.Div(op.Sub(a, rest), b)
    lower = op.Less(op.Mul(op.Sign(rest), op.Sign(b)), 0)
    rounded = op.Round(op.Where(lower, op.Sub(quotient, 1), quotient))
    # A quotient of 0 has the sign of a / b, half of which is below 1 there; it is infinite or NaN where b is 0.
    signed = op.Floor(op.Mul(op.Div(a, b), 0.5))
    return op.Where(op.And(truth(b), truth(rounded)), rounded, signed)


def floor_divided(a: Value, b: Value) -> Value:
    """a // b of integers of one type; ONNX's Div truncates. No step leaves the range of i64."""
    if a.dtype.is_unsigned:
        return op.Div(a, b)
    x, y = promote(a, b, to=DType.INT64)
    if a.dtype is not DType.INT64:
        return cast(op.Div(op.Sub(x, op.Mod(x, y)), y), a.dtype)
    quotient = op.Div(x, y)
    product = op.Mul(quotient, y)
    if y.blob is not None and y.blob.size == 1:
        lower = op.Greater(product, x) if int(y.blob.array.item()) > 0 else op.Less(product, x)
    else:
        lower = op.Less(op.Mul(op.Sign(op.Sub(x, product)), op.Sign(y)), scalar(0, DType.INT64))
    return op.Sub(quotient, cast(lower, DType.INT64))


def aten_remainder(self: Operand, other: Operand) -> Value:
    """self - other * (self // other), broadcast: the sign is that of `other`."""
    a, b = promote(self, other)
    if a.dtype.is_integer:
        return op.Mod(a, b)
    rest = op.Mod(a, b, fmod=1)
    if isinstance(other, int | float) and other > 0:
        return op.Where(op.Less(rest, 0), op.Add(rest, b), rest)
    return op.Where(op.Less(op.Mul(op.Sign(rest), op.Sign(b)), 0), op.Add(rest, b), rest)


def aten_fmod(self: Operand, other: Operand) -> Value:
    """self - other * trunc(self / other), broadcast: the sign is that of `self`."""
    a, b = promote(self, other)
    if a.dtype not in (DType.INT64, DType.UINT64):
        return op.Mod(a, b, fmod=1)
    rest = op.Mod(a, b)  # ONNX Runtime computes the other one in f64, which rounds
    if a.dtype is DType.UINT64:
        return rest
    zero = scalar(0, DType.INT64)
    astray = op.And(op.Not(op.Equal(rest, zero)), op.Xor(op.Less(rest, zero), op.Less(a, zero)))
    return op.Where(astray, op.Sub(rest, b), rest)


def aten_reciprocal(self: Value) -> Value:
    """1 / self"""
    return op.Reciprocal(to_float(self))


# ---------------------------------------------------------------------------------------------- powers


def aten_pow(self: Operand, exponent: Operand) -> Value:
    """self ** exponent, broadcast; integers wrap around, and below 0 the exponent of one rounds towards 0."""
    dtype = result_dtype(self, exponent)
    if isinstance(self, Value) and dtype.is_float and isinstance(exponent, int | float):
        special = _POWERS.get(float(exponent))
        if special is not None:
            x = cast(self, dtype)
            return special(rooted(x) if dtype is DType.FLOAT16 and abs(exponent) == 0.5 else x)
    if dtype.is_complex:
        raise Unsupported("ONNX has no powers of complex numbers")
    small = dtype.is_integer and dtype not in (DType.INT32, DType.INT64)
    a, b = promote(self, exponent, to=DType.INT64 if small or dtype is DType.BOOL else dtype)
    if dtype is DType.FLOAT and isinstance(exponent, float) and exponent and not np.float32(exponent):
        b = scalar(math.copysign(float(np.finfo(np.float32).tiny), exponent), dtype)  # torch's is no 0 in float64
    if dtype.is_float:
        return op.Pow(a, b)
    if type(exponent) is int and not (dtype.is_unsigned and exponent < 0):
        require_fits(exponent, dtype)
    known = exponent if type(exponent) is int and exponent >= 0 else None
    return cast(whole_power(a, b, known), dtype)


def require_fits(number: int, dtype: DType) -> None:
    """Raises LoweringError for a number that a type of integers does not hold: torch refuses to convert it."""
    if dtype.is_integer and not int(np.iinfo(dtype.numpy).min) <= number <= int(np.iinfo(dtype.numpy).max):
        raise LoweringError(
            f"{number} does not fit {dtype.short}, and torch refuses to convert it", hint="cast the tensor first"
        )


def rooted(x: Value) -> Value:
    """x, of which torch takes powers in f16, and roots in other types: those of -inf and -0.0 are those of inf and 0.

    Only these and their opposites are their own halves.
    """
    return op.Where(op.Equal(op.Mul(x, 0.5), x), op.Abs(x), x)


_BITS = 6
"""The bits of an exponent in a tensor for which squares are written out; the others have a loop, where one has them."""


def whole_power(a: Value, b: Value, known: int | None) -> Value:
    """a ** b of integers by squaring, for ONNX Runtime's Pow rounds to f64; `known` is b where it is a number."""
    one, zero = scalar(1, a.dtype), scalar(0, a.dtype)
    result, square = one, a
    for bit in range(_BITS if known is None else known.bit_length()):
        if bit:
            square = op.Mul(square, square)
        if known is not None:
            result = result if not known >> bit & 1 else square if result is one else op.Mul(result, square)
            continue
        chosen = op.Equal(op.BitwiseAnd(b, scalar(1 << bit, a.dtype)), zero)
        result = op.Mul(result, op.Where(chosen, one, square))
    if known is not None:
        return result if known else expand(one, a.shape)
    result = with_high_bits(result, op.Mul(square, square), op.Div(b, scalar(1 << _BITS, a.dtype)))
    lost = op.And(op.Less(b, zero), op.Not(op.Equal(op.Abs(a), one)))
    return op.Where(lost, zero, result)


def with_high_bits(result: Value, square: Value, rest: Value) -> Value:
    """result * square ** rest, by squaring as often as the greatest `rest` has bits: not at all where all are 0."""
    one, zero, two = (scalar(n, rest.dtype) for n in (1, 0, 2))

    def is_left(rest: Value) -> Value:
        """Whether an exponent has bits left"""
        return op.Greater(op.ReduceSum(cast(op.Greater(rest, zero), DType.INT64), keepdims=0), const(0, "i64"))

    def step(i: Value, going: Value, result: Value, square: Value, rest: Value) -> tuple[Value, Value, Value, Value]:
        """One bit"""
        factor = op.Where(op.Equal(op.BitwiseAnd(rest, one), zero), one, square)
        left = op.Div(rest, two)
        return is_left(left), op.Mul(result, factor), op.Mul(square, square), left

    return op.Loop(const(64, "i64"), is_left(rest), result, square, rest, body=step)[0]


_POWERS: dict[float, Callable[[Value], Value]] = {
    0.5: lambda x: op.Sqrt(x),
    -0.5: lambda x: op.Reciprocal(op.Sqrt(x)),
    -1.0: lambda x: op.Reciprocal(x),
    1.0: lambda x: x,
}


def aten_float_power(self: Operand, exponent: Operand) -> Value:
    """self ** exponent in float64."""
    return op.Pow(*promote(self, exponent, to=DType.DOUBLE))


def aten_sqrt(self: Value) -> Value:
    """The square root."""
    return op.Sqrt(to_float(self))


def aten_rsqrt(self: Value) -> Value:
    """1 / sqrt(self)"""
    return op.Reciprocal(op.Sqrt(to_float(self)))


def aten_hypot(self: Value, other: Value) -> Value:
    """sqrt(self**2 + other**2), without overflow on the way."""
    return hypotenuse(*promote(self, other))


# ---------------------------------------------------------------------------------------------- rounding and signs


def whole(self: Value, function: Callable[[Value], Value]) -> Value:
    """function(self) for floats; integers are whole already."""
    return self if self.dtype.is_integer or self.dtype is DType.BOOL else function(self)


def aten_floor(self: Value) -> Value:
    """self rounded down."""
    return whole(self, op.Floor)


def aten_ceil(self: Value) -> Value:
    """self rounded up."""
    return whole(self, op.Ceil)


def aten_trunc(self: Value) -> Value:
    """self rounded towards zero."""
    return whole(self, truncated)


def aten_frac(self: Value) -> Value:
    """self - trunc(self)"""
    return op.Sub(self, truncated(self))


def aten_round(self: Value, *, decimals: int = 0) -> Value:
    """self rounded to so many decimals, halves to even."""
    if self.dtype.is_integer:
        return self
    if decimals == 0:
        return op.Round(self)
    x = widen(self)
    ten = scalar(10.0 ** abs(decimals), x.dtype)
    if decimals > 0:
        return cast(op.Div(op.Round(op.Mul(x, ten)), ten), self.dtype)
    return cast(op.Mul(op.Round(op.Div(x, ten)), ten), self.dtype)


def aten_sign(self: Value) -> Value:
    """-1, 0 or 1."""
    if self.dtype is DType.BOOL or not may_be_nan(self):
        return self if self.dtype is DType.BOOL else op.Sign(self)
    if self.dtype not in HALVES:  # which takes less time than Sign does
        above, below = (cast(found, self.dtype) for found in (op.Greater(self, 0), op.Less(self, 0)))
        return op.Sub(above, below)
    return op.Where(op.IsNaN(self), scalar(0, self.dtype), op.Sign(self))


def aten_signbit(self: Value) -> Value:
    """True where the sign bit is set, that of -0.0 included."""
    if self.dtype is DType.BOOL:
        return expand(scalar(False, DType.BOOL), self.shape)
    return is_negative(self) if self.dtype.is_float else op.Less(self, 0)


def aten_copysign(self: Operand, other: Operand) -> Value:
    """|self| with the sign of `other`."""
    a, b = floating_all(self, other)
    return copy_sign(op.Abs(a), b)


# ---------------------------------------------------------------------------------------------- limits and choices


def aten_clamp(self: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    """self kept within [min, max]; either may be missing. NaN stays, in bounds too, and `max` wins below `min`."""
    bounds = [b for b in (min, max) if b is not None]
    dtype = result_dtype(self, *bounds)
    x = cast(self, dtype)
    low, high = (None if b is None else promote(b, to=dtype)[0] for b in (min, max))
    # A Clip takes a bound that is NaN for none.
    numbers = dtype.is_integer or not any(isinstance(b, Value) or b != b for b in bounds)
    if low is not None and high is not None and low.rank == high.rank == 0 and dtype is not DType.BOOL and numbers:
        return op.Clip(x, low, high)
    if high is None and dtype.is_float and isinstance(min, int | float) and min == 0:
        return op.Relu(x)
    # A Clip without an end would clip infinity to the greatest number.
    x = x if low is None else larger(x, low)
    return x if high is None else smaller(x, high)


def aten_clamp_min(self: Value, min: Operand) -> Value:
    """self, but at least `min`."""
    return aten_clamp(self, min)


def aten_clamp_max(self: Value, max: Operand) -> Value:
    """self, but at most `max`."""
    return aten_clamp(self, None, max)


def larger(a: Value, b: Value) -> Value:
    """The larger of two values of one type; NaN where either is."""
    return op.Or(a, b) if a.dtype is DType.BOOL else op.Max(a, b)


def smaller(a: Value, b: Value) -> Value:
    """The smaller of two values of one type; NaN where either is."""
    return op.And(a, b) if a.dtype is DType.BOOL else op.Min(a, b)


def aten_maximum(self: Operand, other: Operand) -> Value:
    """The larger, broadcast; NaN where either is."""
    return larger(*promote(self, other))


def aten_minimum(self: Operand, other: Operand) -> Value:
    """The smaller, broadcast; NaN where either is."""
    return smaller(*promote(self, other))


def aten_fmax(self: Value, other: Value) -> Value:
    """The larger, broadcast; of a number and NaN the number."""
    a, b = promote(self, other)
    if not a.dtype.is_float:
        return larger(a, b)
    return op.Where(op.Or(op.GreaterOrEqual(a, b), op.IsNaN(b)), a, b)


def aten_fmin(self: Value, other: Value) -> Value:
    """The smaller, broadcast; of a number and NaN the number."""
    a, b = promote(self, other)
    if not a.dtype.is_float:
        return smaller(a, b)
    return op.Where(op.Or(op.LessOrEqual(a, b), op.IsNaN(b)), a, b)


def aten_where(condition: Value, self: Operand, other: Operand) -> Value:
    """self where the condition holds, else other; all three broadcast."""
    return choose(truth(condition), *promote(self, other))


def choose(condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b; bools, for which ONNX Runtime has no Where, by logic."""
    if a.dtype is not DType.BOOL:
        return op.Where(condition, a, b)
    return op.Or(op.And(condition, a), op.And(op.Not(condition), b))


def aten_heaviside(self: Value, values: Value) -> Value:
    """0 below zero, `values` at zero, 1 above."""
    x, at_zero = promote(self, values)
    above = x if x.dtype is DType.BOOL else cast(op.Greater(x, 0), x.dtype)
    return choose(truth(x), above, at_zero)


def aten_nan_to_num(
    self: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    """self with NaN, inf and -inf replaced: by 0, the greatest and the least finite number where nothing is given."""
    if not self.dtype.is_float:
        return self
    least, greatest = finite_limits(self.dtype)
    x = op.Where(op.IsNaN(self), nan or 0.0, self)
    x = op.Where(op.Equal(self, np.inf), greatest if posinf is None else posinf, x)
    return op.Where(op.Equal(self, -np.inf), least if neginf is None else neginf, x)


def aten_ldexp(self: Value, other: Value) -> Value:
    """self * 2 ** other, rounded once: 2 ** other alone may be beyond the numbers of the type."""
    x, exponent = floating_all(self, other)
    if not other.dtype.is_integer:
        return op.Mul(x, op.Pow(scalar(2, x.dtype), exponent))
    two = scalar(2, DType.DOUBLE)
    if x.dtype is not DType.DOUBLE:  # whose products with 2 ** +-600 a float64 holds, as 0 and infinity of the type
        power = op.Pow(two, cast(op.Clip(cast(other, DType.INT64), -600, 600), DType.DOUBLE))
        return cast(op.Mul(cast(x, DType.DOUBLE), power), x.dtype)
    count = op.Clip(cast(other, DType.INT64), -2046, 2046)
    once = op.And(op.GreaterOrEqual(count, -1022), op.LessOrEqual(count, 1023))
    first = op.Where(once, count, op.Div(count, 2))
    part, rest = (op.Pow(two, cast(each, DType.DOUBLE)) for each in (first, op.Sub(count, first)))
    return op.Mul(op.Mul(x, part), rest)
