"""Elementwise arithmetic, comparison, logic and bits, with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.common import Array, Kernel, attr, is_float, narrowed_to, unary, wide


def erf(x: Array) -> Array:
    """The error function, with the accuracy of float64."""
    flat = np.asarray(x, dtype=np.float64).ravel().tolist()
    found = np.fromiter(map(math.erf, flat), dtype=np.float64, count=len(flat))
    return found.reshape(np.shape(x)).astype(x.dtype, copy=False)


def binary(function: Callable[[Array, Array], Array]) -> Kernel:
    """The kernel of a function of two operands of one type, whose result has that type."""

    def kernel(node: Value, a: Array, b: Array) -> Array:
        return narrowed_to(function(wide(a), wide(b)), a.dtype)

    return kernel


def predicate(function: Kernel) -> Kernel:
    """The kernel of a function of one or two operands whose result is bool."""

    def kernel(node: Value, *operands: Array) -> Array:
        return narrowed_to(function(*map(wide, operands)), np.bool_)

    return kernel


def variadic(function: Callable[[Array, Array], Array]) -> Kernel:
    """The kernel that folds a function of two operands over any number of them."""

    def kernel(node: Value, *operands: Array) -> Array:
        return narrowed_to(reduce(function, map(wide, operands)), operands[0].dtype)

    return kernel


kernel_Abs, kernel_Neg, kernel_Sign = unary(np.abs), unary(np.negative), unary(np.sign)
kernel_Ceil, kernel_Floor, kernel_Round = unary(np.ceil), unary(np.floor), unary(np.rint)

kernel_Exp, kernel_Log, kernel_Sqrt, kernel_Reciprocal = (
    unary(np.exp),
    unary(np.log),
    unary(np.sqrt),
    unary(lambda x: 1 / x),
)

kernel_Sin, kernel_Cos, kernel_Tan = unary(np.sin), unary(np.cos), unary(np.tan)
kernel_Asin, kernel_Acos, kernel_Atan = unary(np.arcsin), unary(np.arccos), unary(np.arctan)
kernel_Sinh, kernel_Cosh, kernel_Tanh = unary(np.sinh), unary(np.cosh), unary(np.tanh)
kernel_Asinh, kernel_Acosh, kernel_Atanh = unary(np.arcsinh), unary(np.arccosh), unary(np.arctanh)
kernel_Erf = unary(erf)
kernel_BitwiseNot = unary(np.invert)
kernel_Add, kernel_Sub, kernel_Mul = binary(np.add), binary(np.subtract), binary(np.multiply)
kernel_BitwiseAnd, kernel_BitwiseOr = binary(np.bitwise_and), binary(np.bitwise_or)
kernel_BitwiseXor = binary(np.bitwise_xor)
kernel_Not, kernel_And = predicate(np.logical_not), predicate(np.logical_and)
kernel_Or, kernel_Xor = predicate(np.logical_or), predicate(np.logical_xor)
kernel_Equal, kernel_IsNaN = predicate(np.equal), predicate(np.isnan)
kernel_Less, kernel_LessOrEqual = predicate(np.less), predicate(np.less_equal)
kernel_Greater, kernel_GreaterOrEqual = predicate(np.greater), predicate(np.greater_equal)
kernel_Max, kernel_Min, kernel_Sum = variadic(np.maximum), variadic(np.minimum), variadic(np.add)


def kernel_Mean(node: Value, *operands: Array) -> Array:
    """The arithmetic mean of the operands, broadcast."""
    total = reduce(np.add, map(wide, operands))
    return narrowed_to(total / np.asarray(len(operands), total.dtype), operands[0].dtype)


def truncated_division(a: Array, b: Array) -> Array:
    """a / b for integers, rounded towards zero; 0 for a zero divisor, where ONNX says nothing."""
    quotient = np.floor_divide(a, b)
    if np.asarray(a).dtype.kind == "u":
        return quotient
    inexact = ((a - quotient * b) != 0) & (b != 0)
    return quotient + (inexact & ((a < 0) != (b < 0))).astype(quotient.dtype)


def kernel_Div(node: Value, a: Array, b: Array) -> Array:
    """a / b; integers are rounded towards zero, and wrap where the quotient does not fit."""
    if is_float(a.dtype):
        return narrowed_to(wide(a) / wide(b), a.dtype)
    return narrowed_to(truncated_division(wide(a), wide(b)), a.dtype)


def kernel_Mod(node: Value, a: Array, b: Array) -> Array:
    """The remainder: with the sign of the divisor, or of the dividend where `fmod` is 1."""
    function = np.fmod if attr(node, "fmod") else np.mod
    return narrowed_to(function(wide(a), wide(b)), a.dtype)


def kernel_Pow(node: Value, a: Array, b: Array) -> Array:
    """a ** b in the type of a. Integer powers wrap; an integer to a negative power is the truncated reciprocal."""
    base, exponent = wide(a), wide(b)
    if is_float(a.dtype) or is_float(b.dtype):  # not np.power, which takes the root for one exponent of 0.5
        return narrowed_to(np.float_power(base, exponent), a.dtype)
    exponent = exponent.astype(np.int64)
    whole = np.power(base.astype(np.int64), np.maximum(exponent, 0))
    odd = np.where(exponent % 2 == 0, 1, base)
    return narrowed_to(np.where(exponent >= 0, whole, np.where(np.abs(base) == 1, odd, 0)), a.dtype)


def kernel_BitShift(node: Value, x: Array, by: Array) -> Array:
    """x shifted left or right by `by` bits; 0 where that is the width of the type or more."""
    shift = np.left_shift if attr(node, "direction") == "LEFT" else np.right_shift
    return narrowed_to(shift(x, by), x.dtype)


def kernel_IsInf(node: Value, x: Array) -> Array:
    """True for the infinities that `detect_positive` and `detect_negative` ask for."""
    value = wide(x)
    found = np.zeros(x.shape, dtype=np.bool_)
    if attr(node, "detect_positive"):
        found = found | np.isposinf(value)
    if attr(node, "detect_negative"):
        found = found | np.isneginf(value)
    return found


def kernel_Where(node: Value, condition: Array, x: Array, y: Array) -> Array:
    """x where the condition holds, else y, broadcast."""
    return np.where(condition, x, y)


def kernel_Clip(node: Value, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """min(max(x, low), high): `high` wins where the bounds cross. NaN stays NaN."""
    found = wide(x)
    if low is not None:
        found = np.maximum(found, wide(low))
    if high is not None:
        found = np.minimum(found, wide(high))
    return narrowed_to(found, x.dtype)
