"""Normalization by means and variances of batches, layers, groups and instances, and by norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from irkit import dims
from irkit.build import dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.errors import LoweringError
from lowering.tensors.pieces import full, mean, p_norm, total, widen
from lowering.tensors.promotion import cast, floating_all, promote, scalar, to_float
from lowering.tensors.shaping import broadcast_shape, expand, may_be_empty, reshape, unsqueeze
from passes.rules.nan import may_be_nan

Triple = tuple[Value, Value, Value]

SILENT = "{} in training mode updates running statistics, which its schema does not tell"


def channels(x: Value, vector: Value) -> Value:
    """(c,) shaped to broadcast along axis 1 of x"""
    return unsqueeze(vector, *range(1, x.rank - 1)) if x.rank > 2 else vector


def ones_for(weight: Value | None, shape: Sequence[Dim], dtype: DType) -> Value:
    """A weight, or ones where there is none."""
    return full(1, shape, dtype) if weight is None else weight


def zeros_for(bias: Value | None, shape: Sequence[Dim], dtype: DType) -> Value:
    """A bias, or zeros where there is none."""
    return full(0, shape, dtype) if bias is None else bias


def statistics(x: Value, axes: Sequence[int], eps: float) -> Triple:
    """(mean, biased variance, 1 / sqrt(variance + eps)) over axes, which are kept with size 1"""
    centre = mean(x, axes, keepdims=True)
    gap = op.Sub(x, centre)
    variance = mean(op.Mul(gap, gap), axes, keepdims=True)
    return centre, variance, op.Reciprocal(op.Sqrt(op.Add(variance, scalar(eps, x.dtype))))


# ---------------------------------------------------------------------------------------------- batches


def with_running(
    x: Value, weight: Value | None, bias: Value | None, average: Value, variance: Value, eps: float
) -> Value:
    """(x - mean) / sqrt(variance + eps) * weight + bias, along axis 1"""
    if x.rank < 2:  # torch takes vectors that are empty
        return x
    shape = (x.shape[1],)
    kind = average.dtype
    scale, shift = (ones_for(weight, shape, kind), zeros_for(bias, shape, kind))
    return op.BatchNormalization(x, scale, shift, average, variance, epsilon=eps)


def with_batch(x: Value, weight: Value | None, bias: Value | None, eps: float) -> tuple[Value, Value, Value, Value]:
    """(y, mean, variance, 1 / sqrt(variance + eps)) by the statistics of the batch itself; the last three (c,)"""
    wide = widen(x)
    if x.rank < 2:  # torch takes vectors that are empty
        return x, wide, wide, wide
    axes = [i for i in range(x.rank) if i != 1]
    centre, variance, scale = statistics(wide, axes, eps)
    made = op.Mul(op.Sub(wide, centre), scale)
    if weight is not None:
        made = op.Mul(made, channels(x, cast(weight, wide.dtype)))
    if bias is not None:
        made = op.Add(made, channels(x, cast(bias, wide.dtype)))
    flat = (x.shape[1],)
    return cast(made, x.dtype), *(reshape(v, flat) for v in (centre, variance, scale))  # type: ignore[return-value]


def moving(
    running: tuple[Value, Value], batch: tuple[Value, Value], momentum: float, count: Dim
) -> tuple[Value, Value]:
    """The running mean and variance after a batch of `count` numbers a channel; the variance that enters is the
    unbiased one. A batch of nothing changes nothing."""
    if dims.same(count, 0) is True:
        return running
    whole = dim_scalar(count)
    size = cast(whole, batch[1].dtype)
    unbiased = op.Mul(batch[1], op.Div(size, op.Sub(size, 1.0)))

    def moved(old: Value, new: Value) -> Value:
        new = cast(new, old.dtype)
        made = op.Add(op.Mul(old, scalar(1.0 - momentum, old.dtype)), op.Mul(new, scalar(momentum, old.dtype)))
        return op.Where(op.Greater(whole, scalar(0, whole.dtype)), made, old) if may_be_empty(count) else made

    return moved(running[0], batch[0]), moved(running[1], unbiased)


def aten_batch_norm(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    """Normalization along axis 1, by running statistics or, where `training`, by those of the batch."""
    if not training and running_mean is not None and running_var is not None:
        return with_running(input, weight, bias, running_mean, running_var, eps)
    if running_mean is not None:
        raise LoweringError(SILENT.format("batch_norm"), hint="export the model in eval mode: model.eval()")
    return with_batch(input, weight, bias, eps)[0]


def aten_native_batch_norm(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Triple:
    """(y, mean of the batch, 1 / sqrt(variance + eps)); the last two are empty where `training` is false"""
    if not training and running_mean is not None and running_var is not None:
        empty = full(0, (0,), statistics_dtype(input, weight, bias, running_mean))
        return with_running(input, weight, bias, running_mean, running_var, eps), empty, empty
    made, centre, _, scale = with_batch(input, weight, bias, eps)
    kind = statistics_dtype(input, weight, bias, running_mean)
    return made, cast(centre, kind), cast(scale, kind)


def statistics_dtype(x: Value, *params: Value | None) -> DType:
    """The element type of the statistics of x: that of the parameters, where there are any."""
    return next((each.dtype for each in params if each is not None), x.dtype)


def aten__native_batch_norm_legit_no_stats(
    input: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> Triple:
    """(y, mean of the batch, 1 / sqrt(variance + eps))"""
    made, centre, _, scale = with_batch(input, weight, bias, eps)
    kind = statistics_dtype(input, weight, bias)
    return made, cast(centre, kind), cast(scale, kind)


def aten__native_batch_norm_legit_no_training(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> Triple:
    """(y, empty, empty)"""
    return aten_native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


def aten__native_batch_norm_legit_functional(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value, Value, Value]:
    """(y, mean of the batch, 1 / sqrt(variance + eps), new running mean, new running variance)"""
    if not training:
        three = aten_native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
        return *three, running_mean, running_var
    made, centre, variance, scale = with_batch(input, weight, bias, eps)
    kind = statistics_dtype(input, weight, bias, running_mean)
    count = dims.product(d for i, d in enumerate(input.shape) if i != 1)
    return (
        made,
        cast(centre, kind),
        cast(scale, kind),
        *moving((running_mean, running_var), (centre, variance), momentum, count),
    )


def aten__batch_norm_with_update_functional(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """(y, mean of the batch, 1 / sqrt(variance + eps), reserve, new running mean, new running variance)"""
    made, centre, scale, *new = aten__native_batch_norm_legit_functional(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return made, centre, scale, full(0, (0,), DType.UINT8), *new


def aten__batch_norm_no_update(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """(y, empty, empty, reserve)"""
    three = aten_native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    return *three, full(0, (0,), DType.UINT8)


def aten_instance_norm(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    """Normalization of every channel of every item, or by running statistics.  input: (n, c, *)."""
    if not use_input_stats and running_mean is not None and running_var is not None:
        return with_running(input, weight, bias, running_mean, running_var, eps)
    if running_mean is not None:
        raise LoweringError(SILENT.format("instance_norm"), hint="export the model in eval mode: model.eval()")
    shape = (input.shape[1],)
    scale, shift = ones_for(weight, shape, input.dtype), zeros_for(bias, shape, input.dtype)
    return op.InstanceNormalization(input, cast(scale, input.dtype), cast(shift, input.dtype), epsilon=eps)


def instance_norm_with_update(
    x: Value, weight: Value | None, bias: Value | None, average: Value, variance: Value, momentum: float, eps: float
) -> Triple:
    """(y, new running mean, new running variance): every item of the batch counts alike in what is new"""
    over = range(2, x.rank)
    wide = widen(x)
    centre, spread, _ = statistics(wide, list(over), eps)
    average_now, spread_now = (mean(reshape(v, x.shape[:2]), [0]) for v in (centre, spread))
    count = dims.product(x.shape[i] for i in over)
    made = aten_instance_norm(x, weight, bias, None, None, True, momentum, eps)
    return made, *moving((average, variance), (average_now, spread_now), momentum, count)


# ---------------------------------------------------------------------------------------------- layers and groups


def aten_layer_norm(
    input: Value,
    normalized_shape: Sequence[Dim],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes, whose sizes are `normalized_shape`"""
    scale = cast(ones_for(weight, normalized_shape, input.dtype), input.dtype)
    shift = None if bias is None else cast(bias, input.dtype)
    return op.LayerNormalization(input, scale, shift, axis=-len(normalized_shape), epsilon=eps)


def aten_native_layer_norm(
    input: Value, normalized_shape: Sequence[Dim], weight: Value | None, bias: Value | None, eps: float
) -> Triple:
    """(y, mean, 1 / sqrt(variance + eps)); the last two keep the normalized axes with size 1"""
    kind = input.dtype if weight is None else weight.dtype
    axes = range(input.rank - len(normalized_shape), input.rank)
    centre, _, scale = statistics(widen(input), list(axes), eps)
    return aten_layer_norm(input, normalized_shape, weight, bias, eps), cast(centre, kind), cast(scale, kind)


def aten_group_norm(
    input: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    """Normalization of every group of channels of every item.  input: (n, c, *); weight, bias: (c,)."""
    if any(dims.same(d, 0) is True for d in input.shape):
        return input
    shape, x = (input.shape[1],), widen(input)  # ONNX rounds halves before the weight is applied, torch does not
    scale, shift = cast(ones_for(weight, shape, x.dtype), x.dtype), cast(zeros_for(bias, shape, x.dtype), x.dtype)
    return cast(op.GroupNormalization(x, scale, shift, num_groups=num_groups, epsilon=eps), input.dtype)


def aten_native_group_norm(
    input: Value, weight: Value | None, bias: Value | None, N: Dim, C: Dim, HxW: Dim, group: int, eps: float
) -> Triple:
    """(y, mean, 1 / sqrt(variance + eps)); the last two (n, group)"""
    flat = widen(reshape(input, (N, group, dims.mul(dims.floordiv(C, group), HxW))))
    centre, _, scale = statistics(flat, [2], eps)
    kind = input.dtype if weight is None else weight.dtype
    centre, scale = (cast(reshape(v, (N, group)), kind) for v in (centre, scale))
    return aten_group_norm(input, group, weight, bias, eps), centre, scale


def root_epsilon(x: Value, eps: float | None) -> float:
    """The eps of rms_norm: that of the type it is computed in, unless given."""
    if eps is not None:
        return eps
    return 2.220446049250313e-16 if x.dtype is DType.DOUBLE else 1.1920928955078125e-07


def aten_rms_norm(
    input: Value, normalized_shape: Sequence[Dim], weight: Value | None = None, eps: float | None = None
) -> Value:
    """x / sqrt(mean(x^2) + eps) * weight over the last axes, whose sizes are `normalized_shape`"""
    scale = cast(ones_for(weight, normalized_shape, input.dtype), input.dtype)
    return op.RMSNormalization(input, scale, axis=-len(normalized_shape), epsilon=root_epsilon(input, eps))


def aten__fused_rms_norm(
    input: Value, normalized_shape: Sequence[Dim], weight: Value | None, eps: float | None
) -> tuple[Value, Value]:
    """(y, 1 / sqrt(mean(x^2) + eps)); the second keeps the normalized axes with size 1"""
    wide = widen(input)
    axes = list(range(input.rank - len(normalized_shape), input.rank))
    square = mean(op.Mul(wide, wide), axes, keepdims=True)
    scale = op.Reciprocal(op.Sqrt(op.Add(square, scalar(root_epsilon(input, eps), wide.dtype))))
    return aten_rms_norm(input, normalized_shape, weight, eps), scale


# ---------------------------------------------------------------------------------------------- weights and distances


def aten_norm_except_dim(v: Value, pow: int = 2, dim: int = 0) -> Value:
    """The p-norm over every axis but one, which keeps its size; over all, without axes, where `dim` is -1"""
    if dim == -1:
        return p_norm(v, pow, range(v.rank))
    return p_norm(v, pow, [i for i in range(v.rank) if i != dim % v.rank], keepdims=True)


def aten__weight_norm(v: Value, g: Value, dim: int = 0) -> Value:
    """v * (g / norm of v over every axis but one)"""
    return op.Mul(v, op.Div(g, aten_norm_except_dim(v, 2, dim)))


def aten__weight_norm_interface(v: Value, g: Value, dim: int = 0) -> tuple[Value, Value]:
    """(v * (g / norm), norm), the norm over every axis but one"""
    norm = aten_norm_except_dim(v, 2, dim)
    return op.Mul(v, op.Div(g, norm)), norm


def aten_renorm(self: Value, p: Any, dim: int, maxnorm: Any) -> Value:
    """Slices along `dim` scaled down to a p-norm of `maxnorm` where theirs is larger"""
    norm = p_norm(widen(self), float(p), [i for i in range(self.rank) if i != dim % self.rank], keepdims=True)
    limit = scalar(maxnorm, norm.dtype)
    smaller = op.Div(limit, op.Add(norm, scalar(1e-7, norm.dtype)))
    factor = op.Where(op.Greater(norm, limit), smaller, scalar(1, norm.dtype))
    return op.Mul(self, cast(factor, self.dtype))


def aten_cosine_similarity(x1: Value, x2: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    """sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps)) along an axis, broadcast"""
    a, b = floating_all(x1, x2)
    shape = broadcast_shape(a.shape, b.shape, (1,))
    rank = len(shape)
    axis = dim % rank

    def unit(x: Value) -> Value:
        x = unsqueeze(x, *range(rank - x.rank))
        x = expand(x, (*x.shape[:axis], shape[axis], *x.shape[axis + 1 :]))  # a norm is of the elements repeated
        return op.Div(x, op.Max(p_norm(x, 2, [axis], keepdims=True), scalar(eps, x.dtype)))

    return total(op.Mul(unit(a), unit(b)), [axis])


def aten_pairwise_distance(x1: Value, x2: Value, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Value:
    """The p-norm of x1 - x2 + eps along the last axis, broadcast"""
    a, b = promote(x1, x2)
    gap = to_float(op.Sub(a, b))  # of integers, the difference wraps around
    gap = op.Add(gap, scalar(eps, gap.dtype))
    return p_norm(gap, p, [gap.rank - 1], keepdims=keepdim)


def aten_cdist(x1: Value, x2: Value, p: float = 2.0, compute_mode: int | None = None) -> Value:
    """The p-norm of every difference.  x1: (*, n, k); x2: (*, m, k) -> (*, n, m)."""
    gap = op.Sub(unsqueeze(x1, -2), unsqueeze(x2, -3))
    if p == math.inf and may_be_nan(gap):  # torch leaves NaN out of the largest difference
        gap = op.Where(op.IsNaN(gap), scalar(0, gap.dtype), gap)
    if p == math.inf and may_be_empty(gap.shape[-1]):  # and of nothing 0 the largest
        gap = op.Concat(gap, full(0, (*gap.shape[:-1], 1), gap.dtype), axis=-1)
    return p_norm(gap, p, [gap.rank - 1])


def aten__euclidean_dist(x1: Value, x2: Value) -> Value:
    """The 2-norm of every difference."""
    return aten_cdist(x1, x2, 2.0)


def aten_pdist(self: Value, p: float = 2.0) -> Value:
    """The p-norm of the difference of every two different rows, (0, 1), (0, 2), ... -> (n * (n - 1) / 2,)."""
    first, second = (op.Gather(self, rows, axis=0) for rows in rows_of_pairs(self.shape[0]))
    return p_norm(op.Sub(first, second), p, [1])


def rows_of_pairs(size: Dim) -> tuple[Value, Value]:
    """(0, 0, ... 1, ...), (1, 2, ... 2, ...): the pairs of different numbers below `size`.  (size * (size - 1) / 2,)"""
    ones = full(True, (size, size), DType.BOOL)
    above = op.Trilu(ones, scalar(1, DType.INT64), upper=1)
    pairs = op.NonZero(above)  # (2, pairs)
    count = dims.floordiv(dims.mul(size, dims.sub(size, 1)), 2)
    first, second = (reshape(op.Gather(pairs, scalar(i, DType.INT64), axis=0), (count,)) for i in (0, 1))
    return first, second
