"""Classification losses."""

from __future__ import annotations

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.activations import log_softmax
from irkit.evaluation.kernels.common import Array, attr, fail, narrowed, wide


def weighted_loss(node: Value, scores: Array, target: Array, weight: Array | None) -> Array:
    """-scores[target] * weight[target] by sample, 0 where the target is `ignore_index`; then reduced."""
    ignored = attr(node, "ignore_index")
    skip = np.zeros(target.shape, np.bool_) if ignored is None else target == ignored
    place = np.where(skip, 0, target).astype(np.int64)
    if not ((place >= 0) & (place < scores.shape[1])).all():
        raise fail(node, f"a target is none of {scores.shape[1]} classes")
    picked = np.take_along_axis(scores, np.expand_dims(place, 1), axis=1).squeeze(1)
    share = np.ones(target.shape, scores.dtype) if weight is None else wide(weight)[place]
    share = np.where(skip, 0, share).astype(scores.dtype)
    # The product is not taken where it is skipped: -inf * 0 would be NaN.
    loss = np.where(skip, 0, -picked * share).astype(scores.dtype)
    reduction = attr(node, "reduction")
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / share.sum()


def kernel_NegativeLogLikelihoodLoss(node: Value, x: Array, target: Array, weight: Array | None = None) -> Array:
    """The negative of the score of each target class, weighted by class, ignored ones left out, reduced."""
    return narrowed(weighted_loss(node, wide(x), target, weight), x.dtype)


def kernel_SoftmaxCrossEntropyLoss(
    node: Value, x: Array, target: Array, weight: Array | None = None
) -> tuple[Array, Array]:
    """(loss, log probabilities): NegativeLogLikelihoodLoss of the log softmax over dimension 1."""
    scores = log_softmax(wide(x), 1)
    return narrowed(weighted_loss(node, scores, target, weight), x.dtype), narrowed(scores, x.dtype)
