"""Operators that move elements and compute nothing: shapes, slices, joins, pads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.common import Array, Content, attr, axes_of, axis_of, fail, ints, results


def kernel_Identity(node: Value, x: Content) -> Content:
    """x itself: a tensor, a sequence or an optional."""
    return x


def kernel_Shape(node: Value, x: Array) -> Array:
    """The dimensions from `start` up to `end`, which are cut to the rank."""
    start, end = attr(node, "start") or 0, attr(node, "end")
    return np.array(x.shape[slice(start, end)], dtype=np.int64)


def kernel_Size(node: Value, x: Array) -> Array:
    """How many elements there are."""
    return np.array(x.size, dtype=np.int64)


def kernel_Reshape(node: Value, x: Array, shape: Array) -> Array:
    """The elements under new dimensions: 0 keeps a dimension (unless `allowzero`), one -1 takes what is left.

    A symbolic dimension of a ShapeVector that happens to be 0 is a size: only a 0 that is written there is a copy.
    """
    sizes = list(ints(shape))
    if not attr(node, "allowzero"):
        source = node.inputs[1]
        written = source.attribute("dims", sizes) if source is not None else sizes
        sizes = [x.shape[i] if size == 0 and type(written[i]) is int else size for i, size in enumerate(sizes)]
    if -1 in sizes:
        known = int(np.prod([size for size in sizes if size != -1], dtype=np.int64))
        if known:
            sizes[sizes.index(-1)] = x.size // known
        else:
            sizes[sizes.index(-1)] = 0
    return x.reshape(sizes)


def kernel_Flatten(node: Value, x: Array) -> Array:
    """A matrix: the dimensions before `axis` times those from it on."""
    axis = attr(node, "axis")
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), int(np.prod(x.shape[axis:], dtype=np.int64)))


def kernel_Transpose(node: Value, x: Array) -> Array:
    """Result dimension i is dimension perm[i] of x; reversed where `perm` is not given."""
    return np.transpose(x, attr(node, "perm"))


def kernel_Squeeze(node: Value, x: Array, axes: Array | None = None) -> Array:
    """x without the dimensions `axes`, which are 1; without all that are 1 where none are given."""
    return np.squeeze(x, axis=None if axes is None else axes_of(node, ints(axes), x.ndim))


def kernel_Unsqueeze(node: Value, x: Array, axes: Array) -> Array:
    """x with dimensions of 1 at the places `axes` of the result."""
    rank = x.ndim + axes.size
    return np.expand_dims(x, axes_of(node, ints(axes), rank)) if axes.size else x


def kernel_Expand(node: Value, x: Array, shape: Array) -> Array:
    """x broadcast with `shape`."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, ints(shape)))


def kernel_Tile(node: Value, x: Array, repeats: Array) -> Array:
    """x repeated along each dimension."""
    return np.tile(x, ints(repeats))


def kernel_Concat(node: Value, *operands: Array) -> Array:
    """The operands joined along `axis`."""
    return np.concatenate(operands, axis=axis_of(node, attr(node, "axis"), operands[0].ndim))


def split_sizes(size: int, parts: int) -> tuple[int, ...]:
    """`size` in `parts` pieces of equal size, the last smaller where it does not divide."""
    piece = -(-size // parts)
    return tuple(max(0, min(piece, size - i * piece)) for i in range(parts))


def pieces(x: Array, axis: int, sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """x cut along an axis into pieces of those sizes."""
    ends = np.cumsum((0, *sizes))
    whole = (slice(None),) * axis
    return tuple(x[(*whole, slice(a, b))] for a, b in pairwise(ends))


def kernel_Split(node: Value, x: Array, split: Array | None = None) -> tuple[Array, ...]:
    """x cut along `axis` into pieces of the sizes `split`, or into equal ones."""
    axis = axis_of(node, attr(node, "axis"), x.ndim)
    parts = results(node)
    sizes = split_sizes(x.shape[axis], parts) if split is None else ints(split)
    if sum(sizes) != x.shape[axis]:
        raise fail(node, f"the sizes {sizes} do not add up to {x.shape[axis]}")
    return pieces(x, axis, sizes)


def kernel_Slice(
    node: Value, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    """x[start:end:step] along each axis; negative bounds count from the end, bounds outside are moved to the ends."""
    count = starts.size
    chosen = axes_of(node, range(count) if axes is None else ints(axes), x.ndim)
    strides = (1,) * count if steps is None else ints(steps)
    cut = [slice(None)] * x.ndim
    for axis, start, end, step in zip(chosen, ints(starts), ints(ends), strides, strict=True):
        cut[axis] = bounded(start, end, step, x.shape[axis])
    return x[tuple(cut)]


def bounded(start: int, end: int, step: int, size: int) -> slice:
    """The slice that ONNX means. Python differs where a backward slice starts before the first element."""
    if step > 0 or size == 0:
        return slice(start, end, step)
    first = min(max(start + size if start < 0 else start, 0), size - 1)
    last = min(max(end + size if end < 0 else end, -1), size - 1)
    return slice(first, last if last >= 0 else None, step)


def padded_index(mode: str, size: int, before: int, after: int) -> Array:
    """For each place along a padded axis the place it is copied from; -1 for a constant."""
    place = np.arange(-before, size + after)
    if mode == "edge":
        return np.clip(place, 0, size - 1)
    if mode == "wrap":
        return place % size
    if mode == "reflect":
        period = max(2 * (size - 1), 1)
        place = place % period
        return np.where(place >= size, period - place, place)
    return np.where((place >= 0) & (place < size), place, -1)


def kernel_Pad(node: Value, x: Array, pads: Array, constant: Array | None = None, axes: Array | None = None) -> Array:
    """x with `pads` elements put before and after each axis; a negative number takes as many away."""
    chosen = axes_of(node, range(x.ndim) if axes is None else ints(axes), x.ndim)
    sizes, mode = ints(pads), attr(node, "mode")
    fill = constant.reshape(()) if constant is not None else np.zeros((), x.dtype)
    if x.dtype == np.object_ and constant is None:
        fill = np.array("", dtype=object)
    found = x
    for i, axis in enumerate(chosen):
        before, after = sizes[i], sizes[i + len(chosen)]
        if before == 0 and after == 0:
            continue
        index = padded_index(mode, x.shape[axis], before, after)
        if mode != "constant":
            found = np.take(found, index, axis=axis)
            continue
        shape = [1] * x.ndim
        shape[axis] = len(index)
        outside = (index < 0).reshape(shape)
        if x.shape[axis] == 0:
            found = np.full((*found.shape[:axis], len(index), *found.shape[axis + 1 :]), fill, dtype=x.dtype)
        else:
            found = np.where(outside, fill, np.take(found, np.maximum(index, 0), axis=axis))
    return found


def kernel_CenterCropPad(node: Value, x: Array, shape: Array) -> Array:
    """x cut or padded with zeros, evenly on both sides, to the sizes `shape` of the dimensions `axes`."""
    axes = attr(node, "axes")
    chosen = axes_of(node, range(x.ndim) if axes is None else axes, x.ndim)
    found = x
    for axis, size in zip(chosen, ints(shape), strict=True):
        extra = size - found.shape[axis]
        index = padded_index(
            "constant", found.shape[axis], *((extra // 2, extra - extra // 2) if extra > 0 else (0, 0))
        )
        if extra < 0:
            index = index[-extra // 2 : -extra // 2 + size]
        outside = (index < 0).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        if not found.shape[axis]:  # nothing is there to be read
            found = np.zeros((*found.shape[:axis], size, *found.shape[axis + 1 :]), x.dtype)
            continue
        found = np.where(outside, np.zeros((), x.dtype), np.take(found, np.maximum(index, 0), axis=axis))
    return found


def kernel_Trilu(node: Value, x: Array, k: Array | None = None) -> Array:
    """The upper (or lower) triangle of the last two dimensions, from diagonal k on; zeros elsewhere."""
    diagonal = 0 if k is None else ints(k)[0]
    rows, columns = x.shape[-2:]
    offset = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    kept = offset >= diagonal if attr(node, "upper") else offset <= diagonal
    return np.where(kept, x, np.zeros((), x.dtype))


def kernel_DepthToSpace(node: Value, x: Array) -> Array:
    """(N, C, H, W) -> (N, C / b**2, H * b, W * b)"""
    n, c, h, w = x.shape
    b = attr(node, "blocksize")
    if attr(node, "mode") == "DCR":
        return x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)
    return x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)


def kernel_SpaceToDepth(node: Value, x: Array) -> Array:
    """(N, C, H, W) -> (N, C * b**2, H / b, W / b)"""
    n, c, h, w = x.shape
    b = attr(node, "blocksize")
    return x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b**2, h // b, w // b)


def kernel_ReverseSequence(node: Value, x: Array, lengths: Array) -> Array:
    """For each index along `batch_axis` the first `lengths` elements along `time_axis` in reverse order."""
    time, batch = axis_of(node, attr(node, "time_axis"), x.ndim), axis_of(node, attr(node, "batch_axis"), x.ndim)
    moved = np.moveaxis(x, (batch, time), (0, 1))
    place = np.arange(moved.shape[1])[None, :]
    length = lengths.astype(np.int64)[:, None]
    index = np.where(place < length, length - 1 - place, place)
    return np.moveaxis(moved[np.arange(moved.shape[0])[:, None], index], (0, 1), (batch, time))
