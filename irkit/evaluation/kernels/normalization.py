"""Normalization by mean and variance, or by a norm. Statistics of narrow floats are taken in float32."""

from __future__ import annotations

import numpy as np

from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.evaluation.kernels.common import Array, attr, axis_of, mean_of, narrowed_to, results, wide
from irkit.evaluation.kernels.convolution import channelwise


def normalized(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    """((x - mean) / sqrt(variance + epsilon), mean, 1 / sqrt(variance + epsilon)) over the axes, which are kept."""
    mean = mean_of(x, axes)
    centred = x - mean
    inverse = 1 / np.sqrt(mean_of(centred * centred, axes) + np.asarray(epsilon, x.dtype))
    return centred * inverse, mean, inverse


def kernel_LayerNormalization(node: Value, x: Array, scale: Array, bias: Array | None = None) -> tuple[Array, ...]:
    """(y, mean, 1 / deviation): x normalized over the axes from `axis` on, times scale, plus bias."""
    axis = axis_of(node, attr(node, "axis"), x.ndim)
    found, mean, inverse = normalized(wide(x), tuple(range(axis, x.ndim)), attr(node, "epsilon"))
    found = found * wide(scale)
    if bias is not None:
        found = found + wide(bias)
    stash = DType(attr(node, "stash_type")).numpy
    return narrowed_to(found, x.dtype), narrowed_to(mean, stash), narrowed_to(inverse, stash)


def kernel_RMSNormalization(node: Value, x: Array, scale: Array) -> Array:
    """x / sqrt(mean(x * x) + epsilon) over the axes from `axis` on, times scale."""
    axes = tuple(range(axis_of(node, attr(node, "axis"), x.ndim), x.ndim))
    value = wide(x)
    mean = mean_of(value * value, axes)
    return narrowed_to(value / np.sqrt(mean + np.asarray(attr(node, "epsilon"), value.dtype)) * wide(scale), x.dtype)


def kernel_BatchNormalization(
    node: Value, x: Array, scale: Array, bias: Array, mean: Array, variance: Array
) -> tuple[Array, ...] | Array:
    """x normalized by channel with the given statistics, or in training with its own; those update the running ones."""
    value, rank, epsilon = wide(x), x.ndim, attr(node, "epsilon")

    def by_channel(vector: Array) -> Array:
        return channelwise(vector, rank) if rank > 1 else vector.reshape(-1)

    used_mean, used_variance = wide(mean), wide(variance)
    if attr(node, "training_mode"):
        axes = tuple(i for i in range(rank) if i != 1)
        average = mean_of(value, axes)
        used_mean = average.reshape(-1)
        used_variance = mean_of((value - average) ** 2, axes).reshape(-1)
    found = (value - by_channel(used_mean)) / np.sqrt(by_channel(used_variance) + epsilon)
    found = narrowed_to(found * by_channel(wide(scale)) + by_channel(wide(bias)), x.dtype)
    if not attr(node, "training_mode") or results(node) == 1:
        return found
    momentum = attr(node, "momentum")
    running_mean = wide(mean) * momentum + used_mean * (1 - momentum)
    running_variance = wide(variance) * momentum + used_variance * (1 - momentum)
    return found, narrowed_to(running_mean, mean.dtype), narrowed_to(running_variance, variance.dtype)


def kernel_InstanceNormalization(node: Value, x: Array, scale: Array, bias: Array) -> Array:
    """Each channel of each sample normalized over its spatial dimensions."""
    found, _, _ = normalized(wide(x), tuple(range(2, x.ndim)), attr(node, "epsilon"))
    return narrowed_to(found * channelwise(wide(scale), x.ndim) + channelwise(wide(bias), x.ndim), x.dtype)


def kernel_GroupNormalization(node: Value, x: Array, scale: Array, bias: Array) -> Array:
    """Each group of channels of each sample normalized over its channels and spatial dimensions."""
    groups = attr(node, "num_groups")
    value = wide(x).reshape(x.shape[0], groups, int(np.prod(x.shape[1:], dtype=np.int64)) // groups)
    found, _, _ = normalized(value, (2,), attr(node, "epsilon"))
    found = found.reshape(x.shape)
    return narrowed_to(found * channelwise(wide(scale), x.ndim) + channelwise(wide(bias), x.ndim), x.dtype)


def kernel_MeanVarianceNormalization(node: Value, x: Array) -> Array:
    """(x - mean) / deviation over `axes`."""
    axes = attr(node, "axes")
    value = wide(x)
    over = tuple(axis_of(node, a, x.ndim) for a in axes)
    centred = value - mean_of(value, over)
    # The function body of the operator adds 1e-9 to the deviation.
    deviation = np.sqrt(mean_of(centred * centred, over)) + np.asarray(1e-9, value.dtype)
    return narrowed_to(centred / deviation, x.dtype)


def kernel_LpNormalization(node: Value, x: Array) -> Array:
    """x divided by its norm along `axis`; 0 where the norm is 0."""
    value, axis = wide(x), axis_of(node, attr(node, "axis"), x.ndim)
    if attr(node, "p") == 1:
        norm = np.abs(value).sum(axis=axis, keepdims=True)
    else:
        norm = np.sqrt((value * value).sum(axis=axis, keepdims=True))
    return narrowed_to(np.where(norm == 0, 0, value / np.where(norm == 0, 1, norm)), x.dtype)


def kernel_LRN(node: Value, x: Array) -> Array:
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ** beta"""
    value, size = wide(x), attr(node, "size")
    squares = value * value
    channels = x.shape[1]
    total = np.zeros_like(value)
    for channel in range(channels):
        first, last = max(0, channel - (size - 1) // 2), min(channels, channel + size // 2 + 1)
        total[:, channel] = squares[:, first:last].sum(axis=1)
    scale = attr(node, "bias") + attr(node, "alpha") / size * total
    return narrowed_to(value / scale ** attr(node, "beta"), x.dtype)
