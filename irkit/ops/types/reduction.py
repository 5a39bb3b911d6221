"""Type rules of reductions, running sums and losses."""

from __future__ import annotations

from irkit import dims
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context, broadcast_dim
from irkit.support.counts import count_text


def infer_reduction(c: Context) -> Type:
    """x[...], axes[k]? -> x with those axes 1, or gone where `keepdims` is 0"""
    x = c.tensor(0)
    keep = bool(c.attr("keepdims"))
    if c.has(1):
        axes = c.numbers(1)
        if axes is None:
            return Tensor(x.dtype, reduced_blindly(c, x.shape, keep))
    else:
        axes = ()
    if not axes:
        if c.attr("noop_with_empty_axes"):
            return x
        return Tensor(x.dtype, (1,) * len(x.shape) if keep else ())
    return Tensor(x.dtype, reduced(x.shape, c.axes(axes, len(x.shape)), keep))


def reduced(shape: tuple[Dim, ...], axes: tuple[int, ...], keep: bool) -> tuple[Dim, ...]:
    """`shape` with the axes set to 1, or without them."""
    if keep:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def reduced_blindly(c: Context, shape: tuple[Dim, ...], keep: bool) -> tuple[Dim, ...]:
    """The shape of a reduction over axes that are not known; where they go, only their number must be."""
    if keep:
        return tuple(1 if type(d) is int and d == 1 else dims.fresh() for d in shape)
    count = c.length(1)
    if count == 0:
        return shape if c.attr("noop_with_empty_axes") else ()
    if count > len(shape):
        raise c.fail(f"{count_text(count, 'axis', 'axes')} are too many for rank {len(shape)}")
    return tuple(dims.fresh() for _ in range(len(shape) - count))


infer_ReduceSum = infer_ReduceMean = infer_ReduceMax = infer_ReduceMin = infer_ReduceProd = infer_reduction
infer_ReduceL1 = infer_ReduceL2 = infer_ReduceLogSum = infer_ReduceLogSumExp = infer_reduction
infer_ReduceSumSquare = infer_reduction


def infer_ArgMax(c: Context) -> Type:
    """x[...] -> i64 of x without the axis, or with it 1 where `keepdims` is 1"""
    shape = c.shape(0)
    return Tensor(DType.INT64, reduced(shape, (c.axis(c.attr("axis"), len(shape)),), bool(c.attr("keepdims"))))


infer_ArgMin = infer_ArgMax


def infer_along(c: Context) -> Type:
    """x[...] -> x[...], worked along attribute `axis`"""
    x = c.tensor(0)
    c.axis(c.attr("axis"), len(x.shape))
    return x


def infer_CumSum(c: Context) -> Type:
    """x[...], axis[] -> x[...]"""
    x = c.tensor(0)
    axis = c.scalar(1)
    if type(axis) is int:
        c.axis(axis, len(x.shape))
    return x


infer_CumProd = infer_CumSum


def loss(c: Context) -> Tensor:
    """scores[n, c, d...], labels[n, d...], weight[c]? -> [] or, with `reduction` none, [n, d...]"""
    x, labels = c.tensor(0), c.shape(1)
    if len(x.shape) < 2:
        raise c.fail(f"the scores must have a batch and a class axis, and have rank {len(x.shape)}")
    shape = c.unify_shapes((x.shape[0], *x.shape[2:]), labels, "scores without their classes, and labels,")
    if c.has(2):
        broadcast_dim(c, c.ranked(2, 1).shape[0], x.shape[1])
    return Tensor(x.dtype, shape if c.attr("reduction") == "none" else ())


def infer_NegativeLogLikelihoodLoss(c: Context) -> Type:
    """See `loss`."""
    return loss(c)


def infer_SoftmaxCrossEntropyLoss(c: Context) -> tuple[Type, ...]:
    """See `loss`; the second result is the log-probabilities[n, c, d...]"""
    return c.several(loss(c), c.tensor(0))
