"""Convolutions over any number of spatial dimensions, by windows and one matrix product per group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.common import Array, attr, narrowed_to, wide
from irkit.evaluation.kernels.linear_algebra import requantized_to

Ints = tuple[int, ...]


def numbers(node: Value, name: str, rank: int, default: int) -> Ints:
    """An attribute with one number for each spatial dimension (or `default` for each)."""
    found = attr(node, name)
    return (default,) * rank if not found else tuple(found)


def same_pads(total: Sequence[int], mode: str) -> tuple[Ints, Ints]:
    """(before, after): padding shared out evenly, what is left over at the end for SAME_UPPER."""
    small, large = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    return (large, small) if mode == "SAME_LOWER" else (small, large)


def pads_of(node: Value, size: Sequence[int], kernel: Ints, strides: Ints, dilations: Ints) -> tuple[Ints, Ints]:
    """(before, after) for each spatial dimension, from `pads` or by `auto_pad`."""
    mode, rank = node.attribute("auto_pad", "NOTSET"), len(kernel)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        total = [
            max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)
        ]
        return same_pads(total, mode)
    if mode == "VALID" or not attr(node, "pads"):
        return (0,) * rank, (0,) * rank
    pads = tuple(attr(node, "pads"))
    return pads[:rank], pads[rank:]


def padded_space(x: Array, before: Sequence[int], after: Sequence[int], value: Any = 0) -> Array:
    """x with `value` put around its last dimensions; negative numbers take elements away."""
    lead = x.ndim - len(before)
    cut = [slice(None)] * lead + [
        slice(max(-b, 0), n - max(-a, 0)) for b, a, n in zip(before, after, x.shape[lead:], strict=True)
    ]
    widths = [(0, 0)] * lead + [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    return np.pad(x[tuple(cut)], widths, constant_values=value) if any(map(any, widths)) else x[tuple(cut)]


def windows(x: Array, kernel: Ints, strides: Ints, dilations: Ints, out: Sequence[int] | None = None) -> Array:
    """A view (N, C, *out, *kernel): the window at each place. `out` is how many there are, by default all that fit."""
    rank = len(kernel)
    spatial = x.shape[2:]
    if out is None:
        out = [
            max((n - (k - 1) * d - 1) // s + 1, 0)
            for n, k, s, d in zip(spatial, kernel, strides, dilations, strict=True)
        ]
    steps = x.strides[2:]
    return np.lib.stride_tricks.as_strided(
        x,
        shape=(*x.shape[:2], *out, *kernel),
        strides=(
            *x.strides[:2],
            *(steps[i] * strides[i] for i in range(rank)),
            *(steps[i] * dilations[i] for i in range(rank)),
        ),
        writeable=False,
    )


def convolved(x: Array, w: Array, groups: int, strides: Ints, dilations: Ints) -> Array:
    """The convolution of a padded x (N, C, ...) with w (M, C / groups, *kernel): (N, M, *out)."""
    kernel = w.shape[2:]
    rank = len(kernel)
    view = windows(x, kernel, strides, dilations)
    n, c, out = x.shape[0], x.shape[1], view.shape[2 : 2 + rank]
    m, depth = w.shape[0], w.shape[1]
    # (N, groups, places, C / groups * kernel) @ (groups, C / groups * kernel, M / groups)
    split = view.reshape(n, groups, c // groups, *out, *kernel) if groups > 1 else view[:, None]
    order = (0, 1, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    taps = depth * math.prod(kernel)
    columns = split.transpose(order).reshape(n, groups, math.prod(out), taps)
    weights = w.reshape(groups, m // groups, taps).transpose(0, 2, 1)
    found = np.matmul(columns, weights)
    return found.transpose(0, 1, 3, 2).reshape(n, m, *out)


def channelwise(vector: Array, rank: int) -> Array:
    """A vector by channel, shaped to broadcast with (N, C, ...) of that rank."""
    return vector.reshape(1, -1, *(1,) * (rank - 2))


def run_conv(node: Value, x: Array, w: Array) -> Array:
    """The convolution with the node's pads, strides, dilations and groups."""
    rank = x.ndim - 2
    strides, dilations = numbers(node, "strides", rank, 1), numbers(node, "dilations", rank, 1)
    before, after = pads_of(node, x.shape[2:], w.shape[2:], strides, dilations)
    return convolved(padded_space(x, before, after), w, attr(node, "group"), strides, dilations)


def kernel_Conv(node: Value, x: Array, w: Array, bias: Array | None = None) -> Array:
    """x (N, C, ...) with w (M, C / group, ...) and bias (M,): (N, M, ...)."""
    found = run_conv(node, wide(x), wide(w))
    if bias is not None:
        found = found + channelwise(wide(bias), found.ndim)
    return narrowed_to(found, x.dtype)


def kernel_ConvInteger(
    node: Value, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None
) -> Array:
    """The convolution of x - x_zero with w - w_zero in int32; zero points of w go by its first dimension."""
    value, weight = x.astype(np.int32), w.astype(np.int32)
    if x_zero is not None:
        value = value - x_zero.astype(np.int32).reshape(())
    if w_zero is not None:
        weight = weight - w_zero.astype(np.int32).reshape(-1, *(1,) * (w.ndim - 1))
    return run_conv(node, value, weight)


def kernel_QLinearConv(
    node: Value,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    w: Array,
    w_scale: Array,
    w_zero: Array,
    y_scale: Array,
    y_zero: Array,
    bias: Array | None = None,
) -> Array:
    """The convolution of quantized tensors, quantized again; bias is int32 in units of x_scale * w_scale."""
    exact = kernel_ConvInteger(node, x, w, x_zero, w_zero)
    if bias is not None:
        exact = exact + channelwise(bias, exact.ndim)
    scale = wide(x_scale).reshape(()) * wide(w_scale).reshape(-1) / wide(y_scale).reshape(())
    return requantized_to(exact, channelwise(scale, exact.ndim), y_zero.reshape(()))


def fold(columns: Array, size: Sequence[int], strides: Ints, dilations: Ints) -> Array:
    """The sum of windows: (N, C, *kernel, *places) -> (N, C, *size), each window added at its place."""
    rank = len(size)
    kernel, places = columns.shape[2 : 2 + rank], columns.shape[2 + rank :]
    found = np.zeros((*columns.shape[:2], *size), dtype=columns.dtype)
    for tap in product(*(range(k) for k in kernel)):
        where = tuple(
            slice(t * d, t * d + (p - 1) * s + 1, s) if p else slice(0, 0)
            for t, d, s, p in zip(tap, dilations, strides, places, strict=True)
        )
        found[(slice(None), slice(None), *where)] += columns[(slice(None), slice(None), *tap)]
    return found


def transposed_pads(node: Value, full: Ints, size: Ints, strides: Ints) -> tuple[Ints, Ints, Ints]:
    """(before, after, shape) of a transposed convolution whose uncropped result has the dimensions `full`."""
    rank = len(full)
    extra = numbers(node, "output_padding", rank, 0)
    full = tuple(f + e for f, e in zip(full, extra, strict=True))
    mode, wanted = attr(node, "auto_pad"), attr(node, "output_shape")
    if mode in ("SAME_UPPER", "SAME_LOWER") and not wanted:
        wanted = tuple(n * s for n, s in zip(size, strides, strict=True))
    if wanted:
        wanted = tuple(wanted[-rank:])
        total = [f - w for f, w in zip(full, wanted, strict=True)]
        before, after = same_pads(total, "SAME_UPPER" if mode == "SAME_UPPER" else "SAME_LOWER")
    else:
        before, after = pads_of(node, size, (1,) * rank, strides, (1,) * rank)
    return before, after, tuple(f - b - a for f, b, a in zip(full, before, after, strict=True))


def kernel_ConvTranspose(node: Value, x: Array, w: Array, bias: Array | None = None) -> Array:
    """x (N, C, ...) with w (C, M / group, ...): each element spreads its kernel over the result (N, M, ...)."""
    value, weight, groups = wide(x), wide(w), attr(node, "group")
    rank, kernel = x.ndim - 2, w.shape[2:]
    strides, dilations = numbers(node, "strides", rank, 1), numbers(node, "dilations", rank, 1)
    n, c, size = x.shape[0], x.shape[1], x.shape[2:]
    m = w.shape[1]
    taps = weight.reshape(groups, c // groups, m * math.prod(kernel)).transpose(0, 2, 1)
    columns = np.matmul(taps, value.reshape(n, groups, c // groups, math.prod(size)))
    columns = columns.reshape(n, groups * m, *kernel, *size)
    full = tuple((i - 1) * s + (k - 1) * d + 1 for i, s, k, d in zip(size, strides, kernel, dilations, strict=True))
    found = fold(columns, full, strides, dilations)
    before, _, shape = transposed_pads(node, full, size, strides)
    # Positive pads crop the result; output_padding and negative pads reach beyond what the kernels cover.
    lacking = [b + s - f for b, s, f in zip(before, shape, full, strict=True)]
    found = padded_space(found, [-b for b in before], lacking)
    if bias is not None:
        found = found + channelwise(wide(bias), found.ndim)
    return narrowed_to(found, x.dtype)


def kernel_Col2Im(node: Value, x: Array, image_shape: Array, block_shape: Array) -> Array:
    """(N, C * prod(block), L) -> (N, C, *image): the sum of the columns' blocks at their places."""
    image, block = tuple(map(int, image_shape)), tuple(map(int, block_shape))
    rank = len(image)
    strides, dilations = numbers(node, "strides", rank, 1), numbers(node, "dilations", rank, 1)
    pads = numbers(node, "pads", 2 * rank, 0)
    size = [i + a + b for i, a, b in zip(image, pads[:rank], pads[rank:], strict=True)]
    places = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(size, block, dilations, strides, strict=True)]
    columns = wide(x).reshape(x.shape[0], x.shape[1] // math.prod(block), *block, *places)
    found = fold(columns, size, strides, dilations)
    return narrowed_to(padded_space(found, [-p for p in pads[:rank]], [-p for p in pads[rank:]]), x.dtype)


def kernel_DeformConv(
    node: Value, x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None
) -> Array:
    """A 2-D convolution whose taps are moved by `offset` and weighed by `mask`, sampled bilinearly, 0 outside."""
    strides, dilations = numbers(node, "strides", 2, 1), numbers(node, "dilations", 2, 1)
    before, _ = pads_of(node, x.shape[2:], w.shape[2:], strides, dilations)
    (n, c, _, _), (kh, kw) = x.shape, w.shape[2:]
    (oh, ow), shared = offset.shape[2:], attr(node, "offset_group")
    moved = wide(offset).reshape(n, shared, kh, kw, 2, oh, ow)
    weight = np.ones((), np.float32) if mask is None else wide(mask).reshape(n, shared, 1, kh, kw, oh, ow)
    rows = np.arange(kh)[:, None, None, None] * dilations[0] + np.arange(oh)[:, None] * strides[0] - before[0]
    columns = np.arange(kw)[:, None, None] * dilations[1] + np.arange(ow) * strides[1] - before[1]
    sampled = bilinear(
        wide(x).reshape(n, shared, c // shared, *x.shape[2:]),
        rows + moved[:, :, :, :, 0],
        columns + moved[:, :, :, :, 1],
    )
    taps = (sampled * weight).reshape(n, attr(node, "group"), -1, oh * ow)
    weights = wide(w).reshape(attr(node, "group"), w.shape[0] // attr(node, "group"), -1)
    found = np.matmul(weights, taps).reshape(n, w.shape[0], oh, ow)
    if bias is not None:
        found = found + channelwise(wide(bias), 4)
    return narrowed_to(found, x.dtype)


def bilinear(x: Array, rows: Array, columns: Array) -> Array:
    """x (N, G, C, H, W) at fractional places (N, G, ...): (N, G, C, ...). Places outside the image are 0."""
    n, groups, channels, height, width = x.shape
    flat = x.reshape(n, groups, channels, height * width)
    top, left = np.floor(rows), np.floor(columns)
    found = np.zeros((n, groups, channels, *rows.shape[2:]), dtype=x.dtype)
    for down, right in product((0, 1), (0, 1)):
        row, column = top + down, left + right
        share = (1 - np.abs(rows - row)) * (1 - np.abs(columns - column))
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        place = np.where(inside, row * width + column, 0).astype(np.int64).reshape(n, groups, 1, -1)
        taken = np.take_along_axis(flat, place, axis=3).reshape(found.shape)
        found += taken * np.where(inside, share, 0).astype(x.dtype)[:, :, None]
    return found
