"""Gradients of elementwise operators."""

from __future__ import annotations

import math

from irkit.build import op
from irkit.core.ir import Value
from passes.gradients.node import Node, Slopes, is_float, keep_where, num, sum_back


def grad_Identity(n: Node) -> Slopes:
    """The same."""
    return (n.slope,)


def grad_Cast(n: Node) -> Slopes:
    """Cast back, between floats."""
    return (op.Cast(n.slope, to=n.x.dtype),) if is_float(n.x) else (None,)


def grad_CastLike(n: Node) -> Slopes:
    """Cast back, between floats."""
    return (*grad_Cast(n), None)


def grad_Add(n: Node) -> Slopes:
    """a + b."""
    a, b = n.inputs
    return sum_back(n.slope, a), sum_back(n.slope, b)


def grad_Sub(n: Node) -> Slopes:
    """a - b."""
    a, b = n.inputs
    return sum_back(n.slope, a), sum_back(op.Neg(n.slope), b)


def grad_Mul(n: Node) -> Slopes:
    """a * b."""
    a, b = n.inputs
    return sum_back(op.Mul(n.slope, b), a), sum_back(op.Mul(n.slope, a), b)


def grad_Div(n: Node) -> Slopes:
    """a / b: 1 / b, and -a / b^2."""
    a, b = n.inputs
    return sum_back(op.Div(n.slope, b), a), sum_back(op.Neg(op.Mul(n.slope, op.Div(n.y, b))), b)


def grad_Pow(n: Node) -> Slopes:
    """a ** b: b a^(b-1), where b is not 0; a^b log(a), where a is not 0."""
    a, b = n.inputs
    power = op.Cast(b, to=a.dtype) if b.dtype is not a.dtype else b
    base = op.Mul(power, op.Pow(a, op.Sub(power, num(a, 1))))
    first = sum_back(op.Mul(n.slope, op.Where(op.Equal(power, num(a, 0)), num(a, 0), base)), a)
    if not is_float(b):
        return first, None
    positive = op.Greater(a, num(a, 0))
    logs = op.Mul(n.y, op.Cast(op.Log(op.Where(positive, a, num(a, 1))), to=n.y.dtype))
    return first, sum_back(op.Cast(op.Mul(n.slope, logs), to=b.dtype), b)


def grad_Mod(n: Node) -> Slopes:
    """fmod(a, b): 1, and what the quotient is, cut off."""
    a, b = n.inputs
    quotient = op.Div(op.Sub(a, n.y), b)
    return sum_back(n.slope, a), sum_back(op.Neg(op.Mul(n.slope, op.Round(quotient))), b)


def grad_Sum(n: Node) -> Slopes:
    """The same for each."""
    return tuple(sum_back(n.slope, x) for x in n.inputs)


def grad_Mean(n: Node) -> Slopes:
    """A share for each."""
    share = op.Div(n.slope, num(n.slope, len(n.inputs)))
    return tuple(sum_back(share, x) for x in n.inputs)


def grad_Max(n: Node) -> Slopes:
    """For those that are the result, in equal shares."""
    equal = [op.Cast(op.Equal(x, n.y), to=n.y.dtype) for x in n.inputs]
    count = op.Sum(*equal) if len(equal) > 1 else equal[0]
    return tuple(sum_back(op.Div(op.Mul(n.slope, e), count), x) for e, x in zip(equal, n.inputs, strict=True))


grad_Min = grad_Max


def grad_Where(n: Node) -> Slopes:
    """For the one that was taken."""
    condition, a, b = n.inputs
    return None, sum_back(keep_where(condition, n.slope), a), sum_back(keep_where(op.Not(condition), n.slope), b)


def grad_Clip(n: Node) -> Slopes:
    """Within the bounds; for a bound, beyond it."""
    x, low, high = n.x, n.operand(1), n.operand(2)
    inside: Value | None = None
    found: list[Value | None] = []
    if low is not None:
        inside = op.GreaterOrEqual(x, low)
    if high is not None:
        below = op.LessOrEqual(x, high)
        inside = below if inside is None else op.And(inside, below)
    found.append(n.slope if inside is None else keep_where(inside, n.slope))
    if low is not None:
        under = op.Less(x, low) if high is None else op.And(op.Less(x, low), op.Less(low, high))
        found.append(sum_back(keep_where(under, n.slope), low))
    if high is not None:
        found += [None] * (2 - len(found))
        over = op.Greater(x, high) if low is None else op.Or(op.Greater(x, high), op.Not(op.Less(low, high)))
        found.append(sum_back(keep_where(over, n.slope), high))
    return tuple(found)


def times(n: Node, factor: Value) -> Slopes:
    """The gradient of one operand, times its derivative."""
    return (op.Mul(n.slope, factor),)


def grad_Neg(n: Node) -> Slopes:
    """-1."""
    return (op.Neg(n.slope),)


def grad_Abs(n: Node) -> Slopes:
    """The sign, 0 at 0."""
    return times(n, op.Sign(n.x))


def grad_Exp(n: Node) -> Slopes:
    """exp(x)."""
    return times(n, n.y)


def grad_Log(n: Node) -> Slopes:
    """1 / x."""
    return (op.Div(n.slope, n.x),)


def grad_Sqrt(n: Node) -> Slopes:
    """1 / (2 sqrt(x))."""
    return (op.Div(n.slope, op.Mul(num(n.y, 2), n.y)),)


def grad_Reciprocal(n: Node) -> Slopes:
    """-1 / x^2."""
    return times(n, op.Neg(op.Mul(n.y, n.y)))


def grad_Sin(n: Node) -> Slopes:
    """cos(x)."""
    return times(n, op.Cos(n.x))


def grad_Cos(n: Node) -> Slopes:
    """-sin(x)."""
    return times(n, op.Neg(op.Sin(n.x)))


def grad_Tan(n: Node) -> Slopes:
    """1 + tan(x)^2."""
    return times(n, op.Add(num(n.y, 1), op.Mul(n.y, n.y)))


def under_root(n: Node, sign: int, shift: int) -> Value:
    """The root of shift + sign x^2."""
    square = op.Mul(n.x, n.x)
    return op.Sqrt(op.Add(num(n.x, shift), square if sign > 0 else op.Neg(square)))


def grad_Asin(n: Node) -> Slopes:
    """1 / sqrt(1 - x^2)."""
    return (op.Div(n.slope, under_root(n, -1, 1)),)


def grad_Acos(n: Node) -> Slopes:
    """-1 / sqrt(1 - x^2)."""
    return (op.Neg(op.Div(n.slope, under_root(n, -1, 1))),)


def grad_Atan(n: Node) -> Slopes:
    """1 / (1 + x^2)."""
    return (op.Div(n.slope, op.Add(num(n.x, 1), op.Mul(n.x, n.x))),)


def grad_Sinh(n: Node) -> Slopes:
    """cosh(x)."""
    return times(n, op.Cosh(n.x))


def grad_Cosh(n: Node) -> Slopes:
    """sinh(x)."""
    return times(n, op.Sinh(n.x))


def grad_Tanh(n: Node) -> Slopes:
    """1 - tanh(x)^2."""
    return times(n, op.Sub(num(n.y, 1), op.Mul(n.y, n.y)))


def grad_Asinh(n: Node) -> Slopes:
    """1 / sqrt(1 + x^2)."""
    return (op.Div(n.slope, under_root(n, 1, 1)),)


def grad_Acosh(n: Node) -> Slopes:
    """1 / sqrt(x^2 - 1)."""
    return (op.Div(n.slope, under_root(n, 1, -1)),)


def grad_Atanh(n: Node) -> Slopes:
    """1 / (1 - x^2)."""
    return (op.Div(n.slope, op.Sub(num(n.x, 1), op.Mul(n.x, n.x))),)


def grad_Erf(n: Node) -> Slopes:
    """2 / sqrt(pi) exp(-x^2)."""
    bell = op.Exp(op.Neg(op.Mul(n.x, n.x)))
    return times(n, op.Mul(num(n.x, 2 / math.sqrt(math.pi)), bell))


def nothing(n: Node) -> Slopes:
    """No gradient for any operand: what is given is flat, or no float."""
    return (None,) * len(n.inputs)


grad_Ceil = grad_Floor = grad_Round = grad_Sign = nothing
