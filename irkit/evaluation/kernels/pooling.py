"""Pooling over windows, and over all of the spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.common import Array, attr, lowest, mean_of, narrowed_to, wide
from irkit.evaluation.kernels.convolution import Ints, numbers, padded_space, pads_of, windows


@attrs.frozen
class Pool:
    """The geometry of one pooling: how many windows there are, and how far the last ones reach beyond the padding."""

    kernel: Ints
    strides: Ints
    dilations: Ints
    before: Ints
    after: Ints
    out: Ints
    beyond: Ints

    def views(self, x: Array, fill: object, extra: object | None = None) -> Array:
        """(N, C, *out, taps): the elements of each window, `fill` in the padding, `extra` beyond it."""
        filled = padded_space(x, self.before, self.after, fill)
        filled = padded_space(filled, (0,) * len(self.kernel), self.beyond, fill if extra is None else extra)
        found = windows(filled, self.kernel, self.strides, self.dilations, self.out)
        return found.reshape(*found.shape[: 2 + len(self.kernel)], math.prod(self.kernel))


def pool_of(node: Value, size: Sequence[int]) -> Pool:
    """The geometry that the node's attributes give over spatial dimensions of those sizes."""
    kernel: Ints = tuple(attr(node, "kernel_shape"))
    rank = len(kernel)
    strides, dilations = numbers(node, "strides", rank, 1), numbers(node, "dilations", rank, 1)
    before, after = pads_of(node, size, kernel, strides, dilations)
    round_up = bool(attr(node, "ceil_mode")) and attr(node, "auto_pad") == "NOTSET"
    out, beyond = list[int](), list[int]()
    for i in range(rank):
        reach = (kernel[i] - 1) * dilations[i] + 1
        full = size[i] + before[i] + after[i]
        steps = full - reach
        count = (-(-steps // strides[i]) if round_up else steps // strides[i]) + 1
        if round_up and (count - 1) * strides[i] >= size[i] + before[i]:
            count -= 1  # a window that would start in the padding after the input
        out.append(max(count, 0))
        # Only the last window of ceil_mode can ask for more than there is.
        beyond.append(max((count - 1) * strides[i] + reach - full, 0))
    return Pool(kernel, strides, dilations, before, after, tuple(out), tuple(beyond))


def kernel_MaxPool(node: Value, x: Array) -> tuple[Array, Array]:
    """(maxima, their places in the flat input)."""
    pool = pool_of(node, x.shape[2:])
    value = wide(x)
    taps = pool.views(value, lowest(value.dtype))
    if not taps.size:
        return np.zeros(taps.shape[:-1], x.dtype), np.zeros(taps.shape[:-1], np.int64)
    best = taps.argmax(axis=-1)
    found = np.take_along_axis(taps, best[..., None], axis=-1)[..., 0]
    return narrowed_to(found, x.dtype), places(node, pool, best, x.shape)


def places(node: Value, pool: Pool, best: Array, shape: Sequence[int]) -> Array:
    """The flat index into the input of tap number `best` of each window; column-major where `storage_order` is 1."""
    rank = len(pool.kernel)
    taps = np.unravel_index(best, pool.kernel)
    spatial: list[Array] = []
    for i in range(rank):
        start = (np.arange(pool.out[i]) * pool.strides[i] - pool.before[i]).reshape((-1,) + (1,) * (rank - 1 - i))
        spatial.append(np.clip(start + taps[i] * pool.dilations[i], 0, shape[2 + i] - 1))
    sizes = list(shape[2:])
    if attr(node, "storage_order"):
        spatial, sizes = spatial[::-1], sizes[::-1]
    flat = np.zeros(best.shape, dtype=np.int64)
    for place, size in zip(spatial, sizes, strict=True):
        flat = flat * size + place
    image = np.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], *(1,) * rank)
    return image * math.prod(sizes) + flat


def kernel_AveragePool(node: Value, x: Array) -> Array:
    """The mean of each window, over the input's elements, or with `count_include_pad` over the padding too."""
    pool = pool_of(node, x.shape[2:])
    value = wide(x)
    taps = pool.views(value, 0)
    inside = pool.views(np.ones((1, 1, *x.shape[2:]), value.dtype), 1 if attr(node, "count_include_pad") else 0, 0)
    return narrowed_to(taps.sum(axis=-1) / inside.sum(axis=-1), x.dtype)


def kernel_LpPool(node: Value, x: Array) -> Array:
    """sum(|x| ** p) ** (1 / p) of each window."""
    p = attr(node, "p")
    taps = pool_of(node, x.shape[2:]).views(np.abs(wide(x)), 0)
    return narrowed_to((taps**p).sum(axis=-1) ** (1 / p), x.dtype)


def over_space(x: Array) -> tuple[int, ...]:
    """The spatial axes of (N, C, ...)."""
    return tuple(range(2, x.ndim))


def kernel_GlobalAveragePool(node: Value, x: Array) -> Array:
    """The mean of each channel: (N, C, 1, ...)."""
    return narrowed_to(mean_of(wide(x), over_space(x)), x.dtype)


def kernel_GlobalMaxPool(node: Value, x: Array) -> Array:
    """The maximum of each channel: (N, C, 1, ...)."""
    value = wide(x)
    return narrowed_to(value.max(axis=over_space(x), keepdims=True, initial=lowest(value.dtype)), x.dtype)


def kernel_GlobalLpPool(node: Value, x: Array) -> Array:
    """sum(|x| ** p) ** (1 / p) of each channel: (N, C, 1, ...)."""
    p = attr(node, "p")
    return narrowed_to((np.abs(wide(x)) ** p).sum(axis=over_space(x), keepdims=True) ** (1 / p), x.dtype)


def kernel_MaxUnpool(node: Value, x: Array, indices: Array, shape: Array | None = None) -> Array:
    """Zeros with the elements of x at the places that MaxPool gave."""
    kernel = tuple(attr(node, "kernel_shape"))
    rank = len(kernel)
    strides, pads = numbers(node, "strides", rank, 1), numbers(node, "pads", 2 * rank, 0)
    natural = tuple(
        (n - 1) * s + k - b - a
        for n, s, k, b, a in zip(x.shape[2:], strides, kernel, pads[:rank], pads[rank:], strict=True)
    )
    # Indices count in the natural size; a larger `output_shape` leaves zeros at the end.
    size = tuple(map(int, shape))[2:] if shape is not None else natural
    coordinates = np.unravel_index(indices.astype(np.int64), (*x.shape[:2], *natural))
    found = np.zeros((*x.shape[:2], *size), dtype=x.dtype)
    found[coordinates] = x
    return found
