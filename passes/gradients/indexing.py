"""Gradients of what takes rows by conditions, by lengths, by classes."""

from __future__ import annotations

from irkit.build import op
from passes.gradients.node import Node, Slopes, in_shape_of, ints, is_float, keep_where, scatter_along, zeros


def grad_OneHot(n: Node) -> Slopes:
    """For the values of places that are off and on: the sums of what they were given."""
    indices, depth, values = n.inputs
    if not is_float(values):
        return None, None, None
    axis = int(n.get("axis", -1))
    held = op.OneHot(indices, depth, [False, True], axis=axis)
    on = op.ReduceSum(keep_where(held, n.slope), keepdims=0)
    off = op.ReduceSum(keep_where(op.Not(held), n.slope), keepdims=0)
    return None, None, op.Concat(op.Reshape(off, ints([1])), op.Reshape(on, ints([1])), axis=0)


def grad_Compress(n: Node) -> Slopes:
    """For the rows that were kept."""
    x, condition = n.inputs
    kept = op.Squeeze(op.NonZero(condition), ints([0]))
    if n.get("axis") is None:
        flat = op.Reshape(zeros(x), ints([-1]))
        return in_shape_of(op.ScatterElements(flat, kept, n.slope, reduction="add"), x), None
    return scatter_along(n.slope, kept, n.axis(0), x), None


def grad_ReverseSequence(n: Node) -> Slopes:
    """The same reversal of the slope."""
    return op.ReverseSequence(n.slope, n.inputs[1], **dict(n.value.attributes)), None
