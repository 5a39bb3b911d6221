"""Gradients of activations."""

from __future__ import annotations

import math

from irkit.build import op
from irkit.core.ir import Value
from passes.gradients.elementwise import times
from passes.gradients.node import Node, Slopes, ints, keep_where, num, sum_back


def positive(x: Value) -> Value:
    """Where x > 0."""
    return op.Greater(x, num(x, 0))


def grad_Relu(n: Node) -> Slopes:
    """1 where x > 0."""
    return (keep_where(positive(n.x), n.slope),)


def grad_LeakyRelu(n: Node) -> Slopes:
    """1, and alpha for negative numbers."""
    slow = op.Mul(num(n.x, n.get("alpha", 0.01)), n.slope)
    return (op.Where(op.Less(n.x, num(n.x, 0)), slow, n.slope),)


def grad_PRelu(n: Node) -> Slopes:
    """1, and the slope for negative numbers; for the slope, the number."""
    x, slope = n.inputs
    negative = op.Less(x, num(x, 0))
    return (
        op.Where(negative, op.Mul(slope, n.slope), n.slope),
        sum_back(keep_where(negative, op.Mul(x, n.slope)), slope),
    )


def grad_ThresholdedRelu(n: Node) -> Slopes:
    """1 above the threshold."""
    return (keep_where(op.Greater(n.x, num(n.x, n.get("alpha", 1.0))), n.slope),)


def grad_Sigmoid(n: Node) -> Slopes:
    """y (1 - y)."""
    return times(n, op.Mul(n.y, op.Sub(num(n.y, 1), n.y)))


def exponential(n: Node, alpha: float, gamma: float, scale: float = 1.0) -> Slopes:
    """gamma where x > 0, gamma alpha exp(x / scale) / scale elsewhere."""
    below = op.Where(positive(n.x), num(n.x, 0), n.x)  # no overflow where it is not taken
    bent = op.Mul(num(n.x, gamma * alpha / scale), op.Exp(op.Div(below, num(n.x, scale))))
    return times(n, op.Where(positive(n.x), num(n.x, gamma), bent))


def grad_Elu(n: Node) -> Slopes:
    """1, and alpha exp(x)."""
    return exponential(n, n.get("alpha", 1.0), 1.0)


def grad_Selu(n: Node) -> Slopes:
    """gamma, and gamma alpha exp(x)."""
    return exponential(n, n.get("alpha", 1.67326319217681884765625), n.get("gamma", 1.05070102214813232421875))


def grad_Celu(n: Node) -> Slopes:
    """1, and exp(x / alpha)."""
    alpha = n.get("alpha", 1.0)
    return exponential(n, alpha, 1.0, alpha)


def grad_Softplus(n: Node) -> Slopes:
    """sigmoid(x)."""
    return times(n, op.Sigmoid(n.x))


def grad_Softsign(n: Node) -> Slopes:
    """1 / (1 + |x|)^2."""
    wide = op.Add(num(n.x, 1), op.Abs(n.x))
    return (op.Div(n.slope, op.Mul(wide, wide)),)


def grad_Mish(n: Node) -> Slopes:
    """t + x (1 - t^2) sigmoid(x) with t = tanh(softplus(x))."""
    t = op.Tanh(op.Softplus(n.x))
    bend = op.Mul(op.Mul(n.x, op.Sigmoid(n.x)), op.Sub(num(n.x, 1), op.Mul(t, t)))
    return times(n, op.Add(t, bend))


def grad_HardSigmoid(n: Node) -> Slopes:
    """alpha between 0 and 1."""
    inside = op.And(op.Greater(n.y, num(n.y, 0)), op.Less(n.y, num(n.y, 1)))
    return (keep_where(inside, op.Mul(num(n.x, n.get("alpha", 0.2)), n.slope)),)


def grad_HardSwish(n: Node) -> Slopes:
    """0 to -3, (2 x + 3) / 6 to 3, then 1."""
    x = n.x
    bend = op.Div(op.Add(op.Mul(num(x, 2), x), num(x, 3)), num(x, 6))
    above = op.Where(op.Greater(x, num(x, 3)), num(x, 1), bend)
    return times(n, op.Where(op.Less(x, num(x, -3)), num(x, 0), above))


def grad_Swish(n: Node) -> Slopes:
    """s + alpha x s (1 - s) with s = sigmoid(alpha x)."""
    alpha = num(n.x, n.get("alpha", 1.0))
    inner = op.Mul(alpha, n.x)
    s = op.Sigmoid(inner)
    return times(n, op.Add(s, op.Mul(inner, op.Mul(s, op.Sub(num(n.x, 1), s)))))


def grad_Gelu(n: Node) -> Slopes:
    """phi(x) + x phi'(x), of the normal distribution or its approximation by tanh."""
    x = n.x
    half, one = num(x, 0.5), num(x, 1)
    if n.get("approximate", "none") == "tanh":
        root, cube = math.sqrt(2 / math.pi), op.Mul(x, op.Mul(x, x))
        t = op.Tanh(op.Mul(num(x, root), op.Add(x, op.Mul(num(x, 0.044715), cube))))
        inner = op.Mul(num(x, root), op.Add(one, op.Mul(num(x, 3 * 0.044715), op.Mul(x, x))))
        bend = op.Mul(op.Mul(half, x), op.Mul(op.Sub(one, op.Mul(t, t)), inner))
        return times(n, op.Add(op.Mul(half, op.Add(one, t)), bend))
    whole = op.Mul(half, op.Add(one, op.Erf(op.Mul(x, num(x, math.sqrt(0.5))))))
    bell = op.Mul(num(x, 1 / math.sqrt(2 * math.pi)), op.Exp(op.Mul(num(x, -0.5), op.Mul(x, x))))
    return times(n, op.Add(whole, op.Mul(x, bell)))


def grad_Shrink(n: Node) -> Slopes:
    """1 beyond lambd on either side."""
    return (keep_where(op.Greater(op.Abs(n.x), num(n.x, n.get("lambd", 0.5))), n.slope),)


def grad_Softmax(n: Node) -> Slopes:
    """y (slope - sum(slope y))."""
    axis = ints([n.axis(-1)]) if n.x.rank else None
    weighted = op.Mul(n.slope, n.y)
    return (op.Mul(n.y, op.Sub(n.slope, op.ReduceSum(weighted, axis, keepdims=1))),)


def grad_LogSoftmax(n: Node) -> Slopes:
    """slope - exp(y) sum(slope)."""
    axis = ints([n.axis(-1)]) if n.x.rank else None
    return (op.Sub(n.slope, op.Mul(op.Exp(n.y), op.ReduceSum(n.slope, axis, keepdims=1))),)
