"""Reductions, running sums and losses."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.activations import log_softmax
from irkit.evaluation.kernels.common import (
    Array,
    Kernel,
    attr,
    axes_of,
    axis_of,
    fail,
    highest,
    ints,
    is_float,
    lowest,
    narrowed_to,
    wide,
)
from irkit.evaluation.kernels.elementwise import truncated_division


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
    return narrowed_to(weighted_loss(node, wide(x), target, weight), x.dtype)


def kernel_SoftmaxCrossEntropyLoss(
    node: Value, x: Array, target: Array, weight: Array | None = None
) -> tuple[Array, Array]:
    """(loss, log probabilities): NegativeLogLikelihoodLoss of the log softmax over dimension 1."""
    scores = log_softmax(wide(x), 1)
    return narrowed_to(weighted_loss(node, scores, target, weight), x.dtype), narrowed_to(scores, x.dtype)


Axes = tuple[int, ...]


def reduction(function: Callable[[Array, Axes, bool], Array]) -> Kernel:
    """The kernel of a function of (values, axes, keepdims).

    No axes mean all of them; with `noop_with_empty_axes` they mean none, and each element is reduced by itself.
    """

    def kernel(node: Value, x: Array, axes: Array | None = None) -> Array:
        chosen = () if axes is None else axes_of(node, ints(axes), x.ndim)
        if not chosen and not attr(node, "noop_with_empty_axes"):
            chosen = tuple(range(x.ndim))
        if x.ndim == 0:
            chosen = ()
        return narrowed_to(function(wide(x), chosen, bool(attr(node, "keepdims"))), x.dtype)

    return kernel


def total(x: Array, axes: Axes, keep: bool) -> Array:
    """The sum in the type of x, so that integers wrap."""
    return np.sum(x, axis=axes, keepdims=keep, dtype=x.dtype)


def mean(x: Array, axes: Axes, keep: bool) -> Array:
    """The mean; that of integers is cut towards zero."""
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    summed = total(x, axes, keep)
    if is_float(x.dtype):
        return summed / np.asarray(count, x.dtype)
    return truncated_division(summed, np.asarray(count, summed.dtype)) if count else summed


def log_sum(x: Array, axes: Axes, keep: bool) -> Array:
    """log(sum(x))"""
    return np.log(total(x, axes, keep))


def log_sum_exp(x: Array, axes: Axes, keep: bool) -> Array:
    """log(sum(exp(x))), without overflow."""
    value = x if is_float(x.dtype) else x.astype(np.float64)
    top = np.max(value, axis=axes, keepdims=True, initial=-np.inf)
    safe = np.where(np.isfinite(top), top, 0).astype(value.dtype)
    found = np.log(np.sum(np.exp(value - safe), axis=axes, keepdims=True)) + safe
    return found if keep else np.squeeze(found, axis=axes)


def l2(x: Array, axes: Axes, keep: bool) -> Array:
    """sqrt(sum(x * x))"""
    value = x if is_float(x.dtype) else x.astype(np.float64)
    return np.sqrt(total(value * value, axes, keep))


def l1(x: Array, axes: Axes, keep: bool) -> Array:
    """sum(|x|)"""
    return total(np.abs(x), axes, keep)


def product(x: Array, axes: Axes, keep: bool) -> Array:
    """The product in the type of x, so that integers wrap."""
    return np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype)


def largest(x: Array, axes: Axes, keep: bool) -> Array:
    """The maximum; the smallest number of the type over nothing."""
    return np.max(x, axis=axes, keepdims=keep, initial=lowest(x.dtype))


def smallest(x: Array, axes: Axes, keep: bool) -> Array:
    """The minimum; the largest number of the type over nothing."""
    return np.min(x, axis=axes, keepdims=keep, initial=highest(x.dtype))


kernel_ReduceSum, kernel_ReduceMean, kernel_ReduceProd = reduction(total), reduction(mean), reduction(product)
kernel_ReduceMax, kernel_ReduceMin = reduction(largest), reduction(smallest)
kernel_ReduceL1, kernel_ReduceL2 = reduction(l1), reduction(l2)
kernel_ReduceSumSquare = reduction(lambda x, axes, keep: total(x * x, axes, keep))
kernel_ReduceLogSum, kernel_ReduceLogSumExp = reduction(log_sum), reduction(log_sum_exp)


def extreme_index(function: Callable[..., Array]) -> Kernel:
    """The kernel of argmax or argmin: the first such index along `axis`, or with `select_last_index` the last."""

    def kernel(node: Value, x: Array) -> Array:
        value = wide(x).reshape(x.shape or (1,))
        axis = axis_of(node, attr(node, "axis"), value.ndim)
        if attr(node, "select_last_index"):
            found = value.shape[axis] - 1 - function(np.flip(value, axis), axis=axis)
        else:
            found = function(value, axis=axis)
        if attr(node, "keepdims") and x.ndim:
            found = np.expand_dims(found, axis)
        return narrowed_to(found, np.int64).reshape(() if x.ndim == 0 else np.shape(found))

    return kernel


kernel_ArgMax, kernel_ArgMin = extreme_index(np.argmax), extreme_index(np.argmin)


def accumulated(function: np.ufunc, value: Array) -> Array:
    """What the elements along the first axis give one after the other: plane by plane where these are large, since
    numpy goes through memory once for each element of a plane."""
    if len(value) < 2 or value[0].size < PLANE or value.strides[0] < value.strides[-1]:
        return function.accumulate(value, axis=0, dtype=value.dtype)
    found = np.array(value, order="K")
    for last, here in pairwise(found):
        function(last, here, out=here)
    return found


PLANE = 1024
"""A plane of so many elements is large."""


def running(function: np.ufunc, start: int) -> Kernel:
    """The kernel of a running sum or product along an axis, from either end, with or without the element itself."""

    def kernel(node: Value, x: Array, axis: Array) -> Array:
        along = axis_of(node, ints(axis)[0], x.ndim)
        value = np.moveaxis(wide(x), along, 0)
        if attr(node, "reverse"):
            value = value[::-1]
        found = accumulated(function, value)
        if attr(node, "exclusive") and len(value):
            found = np.concatenate([np.full_like(value[:1], start), found[:-1]])
        if attr(node, "reverse"):
            found = found[::-1]
        return narrowed_to(np.moveaxis(found, 0, along), x.dtype)

    return kernel


kernel_CumSum, kernel_CumProd = running(np.add, 0), running(np.multiply, 1)
