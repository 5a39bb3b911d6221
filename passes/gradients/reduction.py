"""Gradients of reductions, running sums and losses."""

from __future__ import annotations

from irkit.build import op
from irkit.core.ir import Value
from passes.analysis.questions import axes_of
from passes.gradients.node import Node, Slopes, expand_to, ints, keep_where, num, regain_axes, zeros


def with_axes(n: Node, value: Value) -> Value:
    """What a reduction gave, or the gradient for it, such that it broadcasts with what was reduced."""
    given, keeps = n.operand(1), n.get("keepdims", 1)
    if given is None:
        axes = [] if n.get("noop_with_empty_axes", 0) else list(range(n.x.rank))
    else:
        known = axes_of(given)
        if known is None:
            if keeps:
                return value
            raise n.refuse("its axes are no constant")
        axes = [axis % max(n.x.rank, 1) for axis in known]
        if not axes and not n.get("noop_with_empty_axes", 0):
            axes = list(range(n.x.rank))
    return value if keeps else regain_axes(value, sorted(axes))


def back(n: Node, slope: Value) -> Slopes:
    """The gradient of the first operand, and none for the axes."""
    return (slope,) + (None,) * (len(n.inputs) - 1)


def grad_ReduceSum(n: Node) -> Slopes:
    """1."""
    return back(n, expand_to(with_axes(n, n.slope), n.x))


def grad_ReduceMean(n: Node) -> Slopes:
    """A share for each place."""
    slope = with_axes(n, n.slope)
    count = op.Div(op.Size(n.x), op.Max(op.Size(slope), ints([1]))) if n.x.rank else ints([1])
    share = op.Div(slope, op.Cast(count, to=slope.dtype))
    return back(n, expand_to(share, n.x))


def grad_ReduceMax(n: Node) -> Slopes:
    """For the places that hold the result, in equal shares, as torch has it."""
    equal = op.Cast(op.Equal(n.x, with_axes(n, n.y)), to=n.x.dtype)
    again = op.ReduceSum(equal, n.operand(1), **{k: v for k, v in n.value.attributes})  # noqa: C416
    share = op.Div(n.slope, again)
    return back(n, op.Mul(equal, with_axes(n, share)))


grad_ReduceMin = grad_ReduceMax


def grad_ReduceProd(n: Node) -> Slopes:
    """The product of the others, where one of them is 0 too."""
    zero = op.Equal(n.x, num(n.x, 0))
    filled = op.Where(zero, num(n.x, 1), n.x)
    attributes = dict(n.value.attributes)
    product = with_axes(n, op.ReduceProd(filled, n.operand(1), **attributes))
    count = with_axes(n, op.ReduceSum(op.Cast(zero, to=n.x.dtype), n.operand(1), **attributes))
    none = keep_where(op.Equal(count, num(n.x, 0)), op.Div(product, filled))
    one = keep_where(op.Equal(count, num(n.x, 1)), product)
    return back(n, op.Mul(with_axes(n, n.slope), op.Where(zero, one, none)))


def grad_ReduceL1(n: Node) -> Slopes:
    """The sign."""
    return back(n, op.Mul(op.Sign(n.x), with_axes(n, n.slope)))


def grad_ReduceL2(n: Node) -> Slopes:
    """x / y, 0 where y is 0."""
    y = with_axes(n, n.y)
    nothing = op.Equal(y, num(y, 0))
    part = op.Div(n.x, op.Where(nothing, num(y, 1), y))
    return back(n, op.Mul(op.Where(nothing, num(y, 0), part), with_axes(n, n.slope)))


def grad_ReduceSumSquare(n: Node) -> Slopes:
    """2 x."""
    return back(n, op.Mul(op.Mul(num(n.x, 2), n.x), with_axes(n, n.slope)))


def grad_ReduceLogSum(n: Node) -> Slopes:
    """1 / sum(x)."""
    return back(n, expand_to(op.Div(with_axes(n, n.slope), op.Exp(with_axes(n, n.y))), n.x))


def grad_ReduceLogSumExp(n: Node) -> Slopes:
    """exp(x - y)."""
    return back(n, op.Mul(with_axes(n, n.slope), op.Exp(op.Sub(n.x, with_axes(n, n.y)))))


def grad_CumSum(n: Node) -> Slopes:
    """The running sum from the other end."""
    turned = 0 if n.get("reverse", 0) else 1
    return op.CumSum(n.slope, n.inputs[1], reverse=turned, exclusive=n.get("exclusive", 0)), None


def grad_NegativeLogLikelihoodLoss(n: Node) -> Slopes:
    """Minus the weight at the label, over the sum of the weights for a mean; for a weight, minus what stands there."""
    x, label, weight = n.x, n.inputs[1], n.operand(2)
    ignored, how = n.get("ignore_index"), n.get("reduction", "mean")
    counts = op.Cast(op.Equal(label, label) if ignored is None else op.Not(op.Equal(label, ignored)), to=x.dtype)
    safe = label if ignored is None else op.Where(op.Equal(label, ignored), 0, label)
    factor = counts if weight is None else op.Mul(counts, op.Gather(weight, safe, axis=0))
    slope, places = n.slope, op.Unsqueeze(safe, ints([1]))
    if how == "mean":
        slope = op.Div(slope, op.ReduceSum(factor, keepdims=0))
    each = op.Unsqueeze(op.Neg(op.Mul(slope, factor)), ints([1]))
    found = op.ScatterElements(zeros(x), places, each, axis=1)
    if weight is None:
        return found, None
    chosen = op.Neg(op.Squeeze(op.GatherElements(x, places, axis=1), ints([1])))
    shares = op.Mul(op.Mul(slope, counts), op.Sub(chosen, n.y) if how == "mean" else chosen)
    flat = op.Reshape(safe, ints([-1]))
    return found, None, op.ScatterElements(zeros(weight), flat, op.Reshape(shares, ints([-1])), reduction="add")


def grad_SoftmaxCrossEntropyLoss(n: Node) -> Slopes:
    """softmax(x) less 1 at the label, weighted as the loss is."""
    logs = op.LogSoftmax(n.x, axis=1)
    loss = op.NegativeLogLikelihoodLoss(logs, *n.inputs[1:], **dict(n.value.attributes))
    slope, *rest = grad_NegativeLogLikelihoodLoss(Node(loss, n.slopes[:1]))
    slope = op.Add(slope, n.slopes[1]) if slope is not None and len(n.slopes) > 1 else slope
    return op.Sub(slope, op.Mul(op.Exp(logs), op.ReduceSum(slope, ints([1]), keepdims=1))), *rest
