"""Gathering, scattering, searching and sorting."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.common import Array, attr, axis_of, fail, ints, narrowed_to, wide


def checked(node: Value, indices: Array, size: int) -> Array:
    """Indices into a dimension counted from its front. Raises EvaluateError for one out of range."""
    index = indices.astype(np.int64)
    if index.size and (index.min() < -size or index.max() >= size):
        raise fail(node, f"an index is out of range: [{index.min()}, {index.max()}] into {size} elements")
    return np.where(index < 0, index + size, index)


def kernel_Gather(node: Value, x: Array, indices: Array) -> Array:
    """The slices of x along `axis` at the indices: x.shape[:axis] + indices.shape + x.shape[axis + 1:]."""
    axis = axis_of(node, attr(node, "axis"), x.ndim)
    return np.take(x, checked(node, indices, x.shape[axis]), axis=axis)


def grid(shape: tuple[int, ...], axis: int, index: Array) -> tuple[Array, ...]:
    """An index for each dimension: the place itself, but `index` along the axis."""
    return tuple(index if i == axis else place for i, place in enumerate(np.indices(shape, sparse=True)))


def kernel_GatherElements(node: Value, x: Array, indices: Array) -> Array:
    """x at the place of each index, with the index in place of the coordinate along `axis`."""
    axis = axis_of(node, attr(node, "axis"), x.ndim)
    return x[grid(indices.shape, axis, checked(node, indices, x.shape[axis]))]


def kernel_GatherND(node: Value, x: Array, indices: Array) -> Array:
    """The slices of x at the index tuples in the last dimension, the first `batch_dims` dimensions in step."""
    batch: int = attr(node, "batch_dims")
    depth = indices.shape[-1]
    tuples = [checked(node, indices[..., i], x.shape[batch + i]) for i in range(depth)]
    shape = indices.shape[:-1]
    leading = [p.reshape(p.shape[:batch] + (1,) * (len(shape) - batch)) for p in np.indices(shape[:batch], sparse=True)]
    if not tuples:
        return x[tuple(leading)] if leading else np.broadcast_to(x, (*shape, *x.shape))
    return x[(*leading, *tuples)]


_UPDATES: Mapping[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scattered(x: Array, place: tuple[np.ndarray, ...], updates: Array, reduction: str) -> Array:
    """A copy of x with updates written, or combined, at a place; of several writes to one place the last stays."""
    if reduction == "none":
        found = np.array(x)
        found[place] = updates
        return found
    found = np.array(wide(x))
    _UPDATES[reduction].at(found, place, wide(updates))
    return narrowed_to(found, x.dtype)


def kernel_ScatterElements(node: Value, x: Array, indices: Array, updates: Array) -> Array:
    """x with each update at its place, with the index in place of the coordinate along `axis`."""
    axis = axis_of(node, attr(node, "axis"), x.ndim)
    place = grid(indices.shape, axis, checked(node, indices, x.shape[axis]))
    return scattered(x, place, updates, attr(node, "reduction"))


def kernel_ScatterND(node: Value, x: Array, indices: Array, updates: Array) -> Array:
    """x with each update at the index tuple in the last dimension of `indices`."""
    wanted = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
    if updates.shape != wanted:
        raise fail(node, f"updates have the shape {updates.shape}, where {wanted} is needed")
    place = tuple(checked(node, indices[..., i], x.shape[i]) for i in range(indices.shape[-1]))
    return scattered(x, place, updates, attr(node, "reduction"))


def kernel_TensorScatter(node: Value, cache: Array, update: Array, starts: Array | None = None) -> Array:
    """The cache with `update` written along `axis` from each batch's start, around the end where mode is circular."""
    axis = axis_of(node, attr(node, "axis"), cache.ndim)
    size, length = cache.shape[axis], update.shape[axis]
    if any(a != b for i, (a, b) in enumerate(zip(cache.shape, update.shape, strict=True)) if i != axis):
        raise fail(node, f"an update of the shape {update.shape} for a cache of {cache.shape}")
    first = np.zeros(cache.shape[0], np.int64) if starts is None else starts.astype(np.int64)
    place = first[:, None] + np.arange(length)[None, :]
    if attr(node, "mode") == "circular":
        place = place % max(size, 1)
    elif place.size and (place.max() >= size or place.min() < 0):
        raise fail(node, f"the update reaches place {place.max()} of {size}")
    found = np.moveaxis(np.array(cache), axis, 1)
    found[np.arange(cache.shape[0])[:, None], place] = np.moveaxis(update, axis, 1)
    return np.moveaxis(found, 1, axis)


def kernel_NonZero(node: Value, x: Array) -> Array:
    """(rank, count): the coordinates of the elements that are not zero, in row-major order."""
    if x.ndim == 0:
        return np.zeros((0, int(bool(wide(x) != 0))), dtype=np.int64)
    return np.array(np.nonzero(wide(x)), dtype=np.int64).reshape(x.ndim, -1)


def kernel_Compress(node: Value, x: Array, condition: Array) -> Array:
    """The slices along `axis` where the condition holds; of the flat tensor where no axis is given."""
    axis = attr(node, "axis")
    kept = np.flatnonzero(condition)
    rows, place = (x.reshape(-1), 0) if axis is None else (x, axis_of(node, axis, x.ndim))
    if kept.size and kept[-1] >= rows.shape[place]:
        raise fail(node, f"the condition keeps place {kept[-1]} of {rows.shape[place]}")
    return np.take(rows, kept, axis=place)


def kernel_Unique(node: Value, x: Array) -> tuple[Array, Array, Array, Array]:
    """(values, first place of each, place among the values of each element, how often each occurs)."""
    axis = attr(node, "axis")
    rows = x.reshape(-1) if axis is None else np.moveaxis(x, axis_of(node, axis, x.ndim), 0)
    flat = (ranks_of(rows) if x.dtype == object else wide(rows)).reshape(len(rows), math.prod(rows.shape[1:]))
    if flat.shape[1] == 1:
        _, first, inverse, counts = np.unique(flat[:, 0], return_index=True, return_inverse=True, return_counts=True)
    else:
        _, first, inverse, counts = np.unique(flat, return_index=True, return_inverse=True, return_counts=True, axis=0)
    inverse = inverse.reshape(-1)
    if not attr(node, "sorted"):
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first, counts, inverse = first[order], counts[order], rank[inverse]
    values = rows[first]
    if axis is not None:
        values = np.moveaxis(values, 0, axis_of(node, axis, x.ndim))
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def ranks_of(texts: Array) -> Array:
    """The place of each string among all of them, sorted."""
    return np.unique(texts, return_inverse=True)[1].reshape(texts.shape)


def kernel_OneHot(node: Value, indices: Array, depth: Array, values: Array) -> Array:
    """A new dimension `axis` of `depth` places: values[1] at the index, values[0] elsewhere and for indices outside."""
    size = ints(depth)[0]
    axis = axis_of(node, attr(node, "axis"), indices.ndim + 1)
    index: Array = np.expand_dims(indices.astype(np.int64), axis)
    place = np.arange(size).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
    off, on = np.asarray(values[0]), np.asarray(values[1])
    return np.where(np.where(index < 0, index + size, index) == place, on, off)


def kernel_TopK(node: Value, x: Array, k: Array) -> tuple[Array, Array]:
    """(values, indices) of the k largest or smallest elements along `axis`, in order; of equal ones the first."""
    axis = axis_of(node, attr(node, "axis"), x.ndim)
    value = wide(x)
    if attr(node, "largest"):
        # A stable sort of the reversed axis, read from its end, is descending with equal elements in their order.
        order = value.shape[axis] - 1 - np.flip(np.argsort(np.flip(value, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(value, axis=axis, kind="stable")
    index = np.take(order, np.arange(min(ints(k)[0], value.shape[axis] + 1)), axis=axis)
    return np.take_along_axis(x, index, axis=axis), index.astype(np.int64)
