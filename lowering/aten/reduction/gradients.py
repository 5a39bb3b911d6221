"""Gradients of losses of margins, and of distances between rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from irkit.build import dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.normalization.norm import rows_of_pairs
from lowering.aten.reduction.loss import listed_labels
from lowering.tensors.pieces import as_recorded, full, total
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import add_rows, flat, iota, reshape, unsqueeze

# ---------------------------------------------------------------------------------------------- distances


def aten__cdist_backward(grad: Value, x1: Value, x2: Value, p: float, cdist: Value, *, expected: Any = None) -> Value:
    """The gradient of x1, of the distance of each of its rows from each of those of x2.

    grad, cdist: (*, n, m); x1: (*, n, k); x2: (*, m, k) -> (*, n, k). Where there are no rows, torch gives zeros of
    the shape of x1 without the broadcast dimensions.
    """
    gap = op.Sub(unsqueeze(x1, -2), unsqueeze(x2, -3))
    found = total(slopes_of_norm(gap, unsqueeze(grad, -1), unsqueeze(cdist, -1), p), [gap.rank - 2])
    return as_recorded(found, expected)


def aten__pdist_backward(grad: Value, self: Value, p: float, pdist: Value) -> Value:
    """The gradient of every row, of its distances from the others.  grad, pdist: (n * (n - 1) / 2,); self: (n, k)"""
    first, second = rows_of_pairs(self.shape[0])
    gap = op.Sub(op.Gather(self, first, axis=0), op.Gather(self, second, axis=0))
    each = slopes_of_norm(gap, unsqueeze(grad, 1), unsqueeze(pdist, 1), p)
    return op.Sub(add_rows(each, first, self.shape[0], 0), add_rows(each, second, self.shape[0], 0))


def slopes_of_norm(gap: Value, grad: Value, norm: Value, p: float) -> Value:
    """The gradient of the elements whose p-norm is `norm`; 0 where that is 0."""
    kind = gap.dtype
    zero, size, sign = scalar(0, kind), op.Abs(gap), op.Sign(gap)
    if p == 0:
        return op.Mul(gap, zero)
    if p == 1:
        return op.Mul(grad, sign)
    if math.isinf(p):
        return op.Where(op.Equal(size, norm), op.Mul(grad, sign), zero)
    nothing = op.Equal(norm, zero)
    if p == 2:
        return op.Where(nothing, zero, op.Div(op.Mul(grad, gap), norm))
    power = scalar(p - 1, kind)
    if p < 1:
        nothing = op.Or(nothing, op.Equal(gap, zero))
    found = op.Mul(op.Mul(sign, op.Pow(size, power)), op.Div(grad, op.Pow(norm, power)))
    return op.Where(nothing, zero, found)


# ---------------------------------------------------------------------------------------------- margins


def as_rows(x: Value, target: Value) -> tuple[Value, Value]:
    """(scores and labels with items as their first dimension)"""
    return (x, target) if x.rank == 2 else (unsqueeze(flat(x), 0), unsqueeze(flat(target), 0))


def share_of_each(x: Value, grad: Value, reduction: int) -> Value:
    """The gradient of the loss of each item, divided by the classes that it is a mean over.  (n, 1) or (1, 1)"""
    classes = cast(dim_scalar(x.shape[1]), x.dtype)
    if reduction == 1:
        classes = op.Mul(classes, cast(dim_scalar(x.shape[0]), x.dtype))
    return op.Div(reshape(grad, (x.shape[0] if reduction == 0 else 1, 1)), classes)


def aten_multi_margin_loss_backward(
    grad_output: Value,
    self: Value,
    target: Value,
    p: Any,
    margin: Any,
    weight: Value | None = None,
    reduction: int = 1,
) -> Value:
    """The gradient of the scores.  self: (n, c) or (c,); target: (n,) or ()"""
    x = self if self.rank == 2 else unsqueeze(flat(self), 0)
    t = unsqueeze(cast(flat(target), DType.INT64), 1)
    gap = op.Add(op.Sub(x, op.GatherElements(x, t, axis=1)), scalar(margin, x.dtype))
    zero, other = scalar(0, x.dtype), op.Not(op.Equal(iota(x.shape[1]), t))
    steep = op.Mul(gap, scalar(2, x.dtype)) if p == 2 else op.Add(op.Mul(gap, zero), scalar(1, x.dtype))
    if weight is not None:
        steep = op.Mul(steep, op.Gather(weight, t, axis=0))
    each = op.Where(op.And(other, op.Greater(gap, zero)), op.Mul(steep, share_of_each(x, grad_output, reduction)), zero)
    return reshape(op.Where(other, each, op.Neg(total(each, [1], keepdims=True))), self.shape)


def aten_multilabel_margin_loss_backward(
    grad_output: Value, self: Value, target: Value, reduction: int, is_target: Value
) -> Value:
    """The gradient of the scores.  self, target, is_target: (n, c) or (c,)"""
    x, t = as_rows(self, target)
    place, listed = listed_labels(t)
    chosen = op.GatherElements(x, place, axis=1)
    gap = op.Add(op.Sub(unsqueeze(x, 1), unsqueeze(chosen, 2)), scalar(1, x.dtype))  # (n, labels, classes)
    free = op.Equal(reshape(is_target, x.shape), scalar(0, is_target.dtype))
    counts = op.And(op.And(unsqueeze(listed, 2), unsqueeze(free, 1)), op.Greater(gap, scalar(0, x.dtype)))
    each = op.Mul(cast(counts, x.dtype), unsqueeze(share_of_each(x, grad_output, reduction), 2))
    of_labels = total(each, [2])
    down = op.ScatterElements(full(0, x.shape, x.dtype), place, of_labels, axis=1, reduction="add")
    return reshape(op.Sub(total(each, [1]), down), self.shape)


# ---------------------------------------------------------------------------------------------- weights of a norm


def aten__weight_norm_interface_backward(
    grad_w: Value, saved_v: Value, saved_g: Value, saved_norms: Value, dim: int
) -> tuple[Value, Value]:
    """(the gradient of v, of g) in w = v * (g / norm)."""
    over: Sequence[int] = [i for i in range(saved_v.rank) if i != dim % saved_v.rank]
    norms = saved_norms
    sums = total(op.Mul(grad_w, saved_v), over, keepdims=True)
    within = op.Div(sums, op.Mul(norms, norms))
    of_v = op.Mul(op.Div(saved_g, norms), op.Sub(grad_w, op.Mul(saved_v, within)))
    return of_v, op.Div(sums, norms)
