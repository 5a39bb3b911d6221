"""Losses. `reduction`: 0 leaves one loss for each element, 1 takes their mean, 2 their sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit import dims
from irkit.build import dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.elementwise.arithmetic import aten_neg
from lowering.aten.elementwise.compare import aten_eq
from lowering.aten.normalization.norm import aten_pairwise_distance
from lowering.tensors.pieces import mean, reduce_loss, total
from lowering.tensors.promotion import cast, floating_all, promote, scalar, to_float
from lowering.tensors.shaping import expand, flat, iota, reshape, squeeze, unsqueeze

REDUCTIONS = ("none", "mean", "sum")


def number(x: Value, value: Any) -> Value:
    """A number of the element type of x."""
    return scalar(value, x.dtype)


def hinge(x: Value) -> Value:
    """max(x, 0)"""
    return op.Relu(x) if x.dtype.is_float else op.Max(x, number(x, 0))


def log_or(x: Value, floor: float) -> Value:
    """max(log(x), floor)"""
    return op.Max(op.Log(x), number(x, floor))


# ---------------------------------------------------------------------------------------------- of differences


def aten_mse_loss(self: Value, target: Value, reduction: int = 1) -> Value:
    """(x - t)^2"""
    gap = op.Sub(*promote(self, target))
    return reduce_loss(op.Mul(gap, gap), reduction)


def aten_l1_loss(self: Value, target: Value, reduction: int = 1) -> Value:
    """|x - t|"""
    return reduce_loss(op.Abs(op.Sub(*promote(self, target))), reduction)


def aten_smooth_l1_loss(self: Value, target: Value, reduction: int = 1, beta: float = 1.0) -> Value:
    """(x - t)^2 / (2 beta) where |x - t| < beta, else |x - t| - beta / 2"""
    if beta == 0:
        return aten_l1_loss(self, target, reduction)
    gap = op.Abs(op.Sub(*promote(self, target)))
    near = op.Mul(op.Mul(gap, gap), number(gap, 0.5 / beta))
    loss = op.Where(op.Less(gap, number(gap, beta)), near, op.Sub(gap, number(gap, 0.5 * beta)))
    return reduce_loss(loss, reduction)


def aten_huber_loss(self: Value, target: Value, reduction: int = 1, delta: float = 1.0) -> Value:
    """(x - t)^2 / 2 where |x - t| <= delta, else delta * (|x - t| - delta / 2)"""
    gap = op.Abs(op.Sub(*promote(self, target)))
    near = op.Mul(op.Mul(gap, gap), number(gap, 0.5))
    far = op.Mul(op.Sub(gap, number(gap, 0.5 * delta)), number(gap, delta))
    return reduce_loss(op.Where(op.LessOrEqual(gap, number(gap, delta)), near, far), reduction)


# ---------------------------------------------------------------------------------------------- of probabilities


def aten_binary_cross_entropy(self: Value, target: Value, weight: Value | None = None, reduction: int = 1) -> Value:
    """-(t log(x) + (1 - t) log(1 - x)), logarithms at least -100"""
    x, t = promote(self, target)
    one = number(x, 1)
    loss = op.Neg(op.Add(op.Mul(t, log_or(x, -100)), op.Mul(op.Sub(one, t), log_or(op.Sub(one, x), -100))))
    return reduce_loss(loss if weight is None else op.Mul(loss, weight), reduction)


def aten_binary_cross_entropy_with_logits(
    self: Value, target: Value, weight: Value | None = None, pos_weight: Value | None = None, reduction: int = 1
) -> Value:
    """(1 - t) x + (1 + (pos_weight - 1) t) log(1 + exp(-x))"""
    x, t = promote(self, target)
    one = number(x, 1)
    tail = op.Softplus(op.Neg(x))
    if pos_weight is not None:
        tail = op.Mul(tail, op.Add(op.Mul(op.Sub(pos_weight, one), t), one))
    loss = op.Add(op.Mul(op.Sub(one, t), x), tail)
    return reduce_loss(loss if weight is None else op.Mul(loss, weight), reduction)


def aten_kl_div(self: Value, target: Value, reduction: int = 1, *, log_target: bool = False) -> Value:
    """t (log(t) - x), 0 where t is; or exp(t) (t - x) where `log_target`"""
    x, t = promote(self, target)
    if log_target:
        return reduce_loss(op.Mul(op.Exp(t), op.Sub(t, x)), reduction)
    entropy = op.Where(op.Equal(t, number(t, 0)), number(t, 0), op.Mul(t, op.Log(t)))
    return reduce_loss(op.Sub(entropy, op.Mul(t, x)), reduction)


def aten_poisson_nll_loss(
    input: Value, target: Value, log_input: bool, full: bool, eps: float, reduction: int
) -> Value:
    """exp(x) - t x, or x - t log(x + eps); and Stirling's approximation of log(t!) where `full` and t > 1"""
    x, t = floating_all(input, target)
    rate, logs = (op.Exp(x), x) if log_input else (x, op.Log(op.Add(x, number(x, eps))))
    loss = op.Sub(rate, op.Mul(t, logs))
    if full:
        half = op.Mul(op.Log(op.Mul(t, number(t, 2 * np.pi))), number(t, 0.5))
        stirling = op.Add(op.Sub(op.Mul(t, op.Log(t)), t), half)
        loss = op.Add(loss, op.Where(op.LessOrEqual(t, number(t, 1)), number(t, 0), stirling))
    return reduce_loss(loss, reduction)


# ---------------------------------------------------------------------------------------------- of classes


def aten_nll_loss(
    self: Value, target: Value, weight: Value | None = None, reduction: int = 1, ignore_index: int = -100
) -> Value:
    """-x[target] * weight[target]; the mean divides by the sum of the weights.

    self: (c,), (n, c) or (n, c, *); target: without the axis of c, indices of classes.
    """
    if has_no_class(self) and not has_no_item(target):
        return of_ignored(self, target, reduction)
    lone = self.rank == 1
    x, t = (unsqueeze(self, 0), unsqueeze(target, 0)) if lone else (self, target)
    made = op.NegativeLogLikelihoodLoss(
        x, classes(t), weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction]
    )
    return squeeze(made, 0) if lone and reduction == 0 else made


def has_no_class(x: Value) -> bool:
    """True for scores of which there certainly are none."""
    size = x.shape[min(1, x.rank - 1)]
    return type(size) is int and size == 0


def has_no_item(target: Value) -> bool:
    """True where nothing is scored."""
    return 0 in target.shape


def of_ignored(x: Value, target: Value, reduction: int) -> Value:
    """The loss where there is no class, and so every item is ignored: 0 of each, and their mean is that of none"""
    nothing = expand(number(x, 0), target.shape)
    return nothing if reduction == 0 else number(x, 0.0 if reduction == 2 else np.nan)


def classes(target: Value) -> Value:
    """Indices of classes as ONNX takes them."""
    return target if target.dtype is DType.INT32 else cast(target, DType.INT64)


def aten_nll_loss_forward(
    self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, Value]:
    """(loss, sum of the weights that count)"""
    loss = aten_nll_loss(self, target, weight, reduction, ignore_index)
    if reduction == 0:
        return loss, number(self, 0)
    used = op.Not(op.Equal(target, number(target, ignore_index)))
    if weight is None:
        return loss, total(cast(used, self.dtype))
    chosen = op.Gather(weight, op.Where(used, target, number(target, 0)), axis=0)
    return loss, total(op.Where(used, chosen, number(chosen, 0)))


def aten_cross_entropy_loss(
    self: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    """nll_loss of log_softmax(x) for indices of classes; -sum(t * log_softmax(x) * weight) for probabilities.

    self: (c,), (n, c) or (n, c, *).
    """
    lone = self.rank == 1
    x, t = (unsqueeze(self, 0), unsqueeze(target, 0)) if lone else (self, target)
    if not target.dtype.is_float and has_no_class(self) and not has_no_item(target):
        loss = of_ignored(self, target, reduction)
        return (
            op.Add(loss, number(loss, np.nan)) if label_smoothing else loss
        )  # a share of each class, of which none is
    if target.dtype.is_float:
        shares = of_probabilities(x, t, weight, label_smoothing)
        loss = op.Neg(total(shares, [1]) if reduction == 0 else total(shares))
        if reduction == 1:  # the mean is over items, classes not counted
            return op.Div(loss, items(x, loss.dtype))
    elif label_smoothing:
        loss = smoothed(x, t, weight, reduction, ignore_index, label_smoothing)
    else:
        loss = op.SoftmaxCrossEntropyLoss(
            x, classes(t), weight, ignore_index=ignore_index, reduction=REDUCTIONS[reduction]
        )
    return squeeze(loss, 0) if lone and reduction == 0 else loss


def items(x: Value, dtype: DType) -> Value:
    """How many items there are, each with scores for all classes: not a number where there are no classes"""
    count, classes = dims.product(x.shape), x.shape[1]
    if type(classes) is int and classes > 0:
        return cast(dim_scalar(dims.floordiv(count, classes)), dtype)
    return op.Div(cast(dim_scalar(count), dtype), cast(dim_scalar(classes), dtype))


def over_classes(x: Value, weight: Value) -> Value:
    """(c,) shaped to broadcast along axis 1 of x"""
    return reshape(weight, (weight.shape[0], *(1,) * (x.rank - 2)))


def of_probabilities(x: Value, t: Value, weight: Value | None, smoothing: float) -> Value:
    """t * log_softmax(x) * weight, of which a sum over classes or over all is rounded once"""
    logs = op.LogSoftmax(x, axis=1)
    if smoothing:
        share = op.Div(number(x, smoothing), cast(dim_scalar(x.shape[1]), x.dtype))
        t = op.Add(op.Mul(t, number(t, 1 - smoothing)), share)
    made = op.Mul(logs, t)
    return made if weight is None else op.Mul(made, over_classes(x, weight))


def smoothed(x: Value, t: Value, weight: Value | None, reduction: int, ignore: int, smoothing: float) -> Value:
    """(1 - s) times the loss of the class, s / c times that of all classes together"""
    logs = op.LogSoftmax(x, axis=1)
    main = aten_nll_loss(logs, t, weight, reduction, ignore)
    every = op.Neg(total(logs if weight is None else op.Mul(logs, over_classes(x, weight)), [1]))
    used = op.Not(op.Equal(t, number(t, ignore)))
    every = op.Where(used, every, number(every, 0))
    if reduction == 1:
        every = op.Div(total(every), aten_nll_loss_forward(logs, t, weight, 1, ignore)[1])
    elif reduction == 2:
        every = total(every)
    share = op.Div(number(x, smoothing), cast(dim_scalar(x.shape[1]), x.dtype))
    return op.Add(op.Mul(main, number(main, 1 - smoothing)), op.Mul(every, share))


# ---------------------------------------------------------------------------------------------- of margins


def aten_hinge_embedding_loss(self: Value, target: Value, margin: float = 1.0, reduction: int = 1) -> Value:
    """x where t is 1, max(0, margin - x) where t is -1; where t is neither, their sum"""
    away = op.Where(aten_eq(target, 1), number(self, 0), hinge(op.Sub(number(self, margin), self)))
    near = op.Where(aten_eq(target, -1), number(self, 0), self)
    return reduce_loss(op.Add(away, near), reduction)


def aten_margin_ranking_loss(
    input1: Value, input2: Value, target: Value, margin: float = 0.0, reduction: int = 1
) -> Value:
    """max(0, -t (x1 - x2) + margin)"""
    a, b, t = promote(input1, input2, target)
    turned = to_float(op.Mul(aten_neg(t), op.Sub(a, b)))
    return reduce_loss(hinge(op.Add(turned, number(turned, margin))), reduction)


def aten_soft_margin_loss(self: Value, target: Value, reduction: int = 1) -> Value:
    """log(1 + exp(-t x))"""
    x, t = promote(self, target)
    return reduce_loss(op.Softplus(op.Neg(op.Mul(x, t))), reduction)


def aten_triplet_margin_loss(
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Value:
    """max(0, margin + |a - p| - |a - n|); with `swap` the smaller of |a - n| and |p - n|"""
    near = aten_pairwise_distance(anchor, positive, p, eps)
    far = aten_pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = op.Min(far, aten_pairwise_distance(positive, negative, p, eps))
    return reduce_loss(hinge(op.Add(op.Sub(near, far), number(near, margin))), reduction)


def aten_cosine_embedding_loss(
    input1: Value, input2: Value, target: Value, margin: float = 0.0, reduction: int = 1
) -> Value:
    """1 - cos where t is 1, max(0, cos - margin) where t is -1.  input1, input2: (n, d) or (d,)."""
    a, b = floating_all(input1, input2)
    axis = target.rank
    small = number(a, 1e-12)

    def dot(x: Value, y: Value) -> Value:
        return total(op.Mul(x, y), [axis])

    cos = op.Div(dot(a, b), op.Sqrt(op.Mul(op.Add(dot(a, a), small), op.Add(dot(b, b), small))))
    zero = number(cos, 0)
    near = op.Where(aten_eq(target, 1), op.Sub(number(cos, 1), cos), zero)
    away = op.Where(aten_eq(target, -1), hinge(op.Sub(cos, number(cos, margin))), zero)
    return reduce_loss(op.Add(near, away), reduction)


def aten_multi_margin_loss(
    self: Value, target: Value, p: Any = 1, margin: Any = 1, weight: Value | None = None, reduction: int = 1
) -> Value:
    """sum over classes but t of max(0, margin - x[t] + x[i])^p * weight[t] / c.  self: (n, c) or (c,)."""
    x = self if self.rank == 2 else unsqueeze(flat(self), 0)
    t = unsqueeze(cast(flat(target), DType.INT64), 1)
    gap = op.Add(op.Sub(x, op.GatherElements(x, t, axis=1)), number(x, margin))
    counts = op.And(op.Not(op.Equal(iota(x.shape[1]), t)), op.Greater(gap, number(x, 0)))  # a NaN does not count
    gap = op.Mul(gap, gap) if p == 2 else gap
    if weight is not None:
        gap = op.Mul(gap, op.Gather(weight, t, axis=0))
    loss = mean(op.Where(counts, gap, number(x, 0)), [1])
    if target.rank == 0 and reduction == 0:
        loss = squeeze(loss, 0)
    return reduce_loss(loss, reduction)


def aten_multilabel_margin_loss_forward(self: Value, target: Value, reduction: int) -> tuple[Value, Value]:
    """(loss, 1 where a class is a label).  self: (n, c) or (c,); target: labels, those after the first -1 left out.

    The loss sums max(0, 1 - (x[label] - x[i])) over labels and classes that are none, divided by c.
    """
    lone = self.rank < 2
    x, t = (unsqueeze(flat(self), 0), unsqueeze(flat(target), 0)) if lone else (self, target)
    place, listed = listed_labels(t)
    hit = op.And(op.Equal(unsqueeze(place, 2), iota(x.shape[1])), unsqueeze(listed, 2))
    labels = op.Greater(total(cast(hit, DType.INT64), [1]), scalar(0, DType.INT64))
    chosen = op.GatherElements(x, place, axis=1)
    gap = op.Add(op.Sub(unsqueeze(x, 1), unsqueeze(chosen, 2)), number(x, 1))
    counts = op.And(unsqueeze(listed, 2), unsqueeze(op.Not(labels), 1))
    counts = op.And(counts, op.Greater(gap, number(x, 0)))  # a NaN does not count
    summed = total(op.Where(counts, gap, number(x, 0)), [1, 2])
    loss = op.Div(summed, cast(dim_scalar(x.shape[1]), x.dtype))
    loss = squeeze(loss, 0) if lone and reduction == 0 else loss
    is_label = cast(labels, x.dtype)
    return reduce_loss(loss, reduction), reshape(is_label, target.shape) if lone else is_label


def listed_labels(t: Value) -> tuple[Value, Value]:
    """(labels, 0 for those from the first -1 on; where they come before it).  t: (n, c)"""
    none = cast(op.Equal(t, number(t, -1)), DType.INT64)
    listed = op.Equal(op.CumSum(none, 1), scalar(0, DType.INT64))
    return op.Where(listed, t, number(t, 0)), listed


def aten_multilabel_margin_loss(self: Value, target: Value, reduction: int = 1) -> Value:
    """The first result of multilabel_margin_loss_forward"""
    return aten_multilabel_margin_loss_forward(self, target, reduction)[0]
