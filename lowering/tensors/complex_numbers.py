"""Arithmetic on complex numbers, given as their real and their imaginary parts: the formulas of the whole package.

`quotient` and `modulus` hold up to the ends of the floats. Algorithms whose numbers are about 1, or 0, skip the scaling
with `near_quotient` and `near_modulus`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from irkit.build import op
from irkit.core.ir import Value
from lowering.tensors.complex_pairs import WIDER, Parts
from lowering.tensors.promotion import cast, finite_limits, scalar


def plus(a: Parts, b: Parts) -> Parts:
    """a + b"""
    return op.Add(a[0], b[0]), op.Add(a[1], b[1])


def minus(a: Parts, b: Parts) -> Parts:
    """a - b"""
    return op.Sub(a[0], b[0]), op.Sub(a[1], b[1])


def conjugate(a: Parts) -> Parts:
    """real - i * imaginary"""
    return a[0], op.Neg(a[1])


def either(flag: Value, a: Parts, b: Parts) -> Parts:
    """a where the flag is set, else b"""
    return op.Where(flag, a[0], b[0]), op.Where(flag, a[1], b[1])


def product(a: Parts, b: Parts, function: Callable[[Value, Value], Value] = op.Mul) -> Parts:
    """a * b, or another bilinear function of a and b."""
    real = op.Sub(function(a[0], b[0]), function(a[1], b[1]))
    return real, op.Add(function(a[0], b[1]), function(a[1], b[0]))


def squared_modulus(a: Parts) -> Value:
    """|a| ** 2"""
    return op.Add(op.Mul(a[0], a[0]), op.Mul(a[1], a[1]))


def near_modulus(a: Parts) -> Value:
    """|a| of numbers whose squares neither overflow nor vanish."""
    return op.Sqrt(squared_modulus(a))


def modulus(a: Parts) -> Value:
    """|a|, in wider parts where there are such, so that no square overflows."""
    to = WIDER[a[0].dtype]
    if to is a[0].dtype:
        return hypotenuse(*a)
    return cast(near_modulus((cast(a[0], to), cast(a[1], to))), a[0].dtype)


def hypotenuse(a: Value, b: Value) -> Value:
    """sqrt(a ** 2 + b ** 2), without overflow on the way."""
    a, b = op.Abs(a), op.Abs(b)
    large, small = op.Max(a, b), op.Min(a, b)
    ratio = op.Where(op.Equal(large, small), op.Sign(large), op.Div(small, large))  # inf / inf and 0 / 0 are NaN
    length = op.Mul(large, op.Sqrt(op.Add(op.Mul(ratio, ratio), 1)))
    return op.Where(op.Or(op.IsInf(a), op.IsInf(b)), scalar(np.inf, a.dtype), length)


def near_quotient(a: Parts, b: Parts) -> Parts:
    """a / b, and a where b is 0, of numbers b whose squares neither overflow nor vanish."""
    size = squared_modulus(b)
    nothing, one = op.Equal(size, 0), scalar(1, size.dtype)
    size = op.Where(nothing, one, size)
    made = product(a, (op.Where(nothing, one, b[0]), op.Neg(b[1])))
    return op.Div(made[0], size), op.Div(made[1], size)


def quotient(a: Parts, b: Parts) -> Parts:
    """a / b. The second number is divided by the larger of its parts first, so that no square overflows; where it is 0
    the parts of the first are divided by 0, and where it is infinite the result is 0."""
    larger = op.Max(op.Abs(b[0]), op.Abs(b[1]))
    zero, end = op.Equal(larger, 0), finite_limits(larger.dtype)[1]
    scale = op.Where(zero, scalar(1, larger.dtype), larger)
    c, d = (op.Div(op.Clip(v, -end, end), op.Clip(scale, -end, end)) for v in b)
    made = near_quotient(a, (c, d))
    return op.Div(made[0], larger), op.Div(made[1], larger)


def root(a: Parts, *, roomy: bool) -> Parts:
    """The square root whose real part is not negative, on the side of the cut that the sign of the imaginary part
    tells; `roomy` where squares stay in range.

    Of the two parts the larger, sqrt((|a| + |x|) / 2), is exact; the smaller one, a difference, comes from
    y = 2 large small.
    """
    x, y = a
    if roomy:
        large = op.Sqrt(op.Mul(op.Add(near_modulus(a), op.Abs(x)), 0.5))
    else:
        quarter = op.Mul(x, 0.25), op.Mul(y, 0.25)
        large = op.Mul(op.Sqrt(op.Add(hypotenuse(*quarter), op.Abs(quarter[0]))), math.sqrt(2))
    height = op.Abs(y)
    small = op.Div(height, op.Mul(large, 2))
    small = op.Where(op.Or(op.Equal(height, 0), op.IsInf(height)), height, small)
    left = op.Less(x, 0)
    return op.Where(left, small, large), copy_sign(op.Where(left, large, small), y)


def copy_sign(size: Value, sign: Value) -> Value:
    """size with the sign of another number, of -0 too."""
    return op.Mul(size, op.Where(is_negative(sign), scalar(-1, size.dtype), scalar(1, size.dtype)))


def is_negative(x: Value) -> Value:
    """True where a float is below zero or is -0.0. A sum is never -0 in torch, and of -0 is in ONNX Runtime."""
    if is_sum(x):
        return op.Less(x, 0)
    return op.Or(op.Less(x, 0), op.Less(op.Reciprocal(x), 0))


def is_sum(x: Value) -> bool:
    """Whether the elements of a value are sums, which are never -0 in torch, and may be in ONNX Runtime."""
    found: Value | None = x
    while found is not None and found.op in MOVES:
        found = found.inputs[0]
    return found is not None and found.op in SUMS


SUMS = ("ReduceSum", "CumSum")
"""Operators that add to 0 in torch, and to the first number in ONNX Runtime. Means are none: small ones round to -0."""
MOVES = ("Slice", "Gather", "Squeeze", "Unsqueeze", "Reshape", "Transpose", "Expand")
"""Operators that take elements of their first operand as they are."""
