"""Pooling to a given size: windows of nearly equal length, or drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.tensors.nan import is_set, nan_flag
from lowering.tensors.pieces import largest, per_axis, widen
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import expand, iota, reshape, slice_axis, unsqueeze
from passes.rules.nan import may_be_nan

Pair = tuple[Value, Value]


def bounds(size: Dim, count: Dim) -> Pair:
    """Where window i of `count` over `size` elements begins, floor(i * size / count), and ends, ceil((i + 1) * ...)."""
    if type(size) is int and type(count) is int:
        i = np.arange(count)
        return const(i * size // count), const(-(-(i + 1) * size // count))
    n = dim_scalar(size)
    if type(count) is int:
        i = np.arange(count)
        return op.Div(op.Mul(n, i), count), op.Div(op.Add(op.Mul(n, i + 1), count - 1), count)
    m, i = dim_scalar(dims.maximum(count, 1)), iota(count)
    following = op.Add(op.Mul(op.Add(i, 1), n), op.Sub(m, 1))
    return op.Div(op.Mul(i, n), m), op.Div(following, m)


# ---------------------------------------------------------------------------------------------- average


def aten_adaptive_avg_pool2d(self: Value, output_size: Sequence[Dim]) -> Value:
    """(n, c, *size) or (c, *size) -> the means of `output_size` windows along every axis"""
    spatial = len(output_size)
    axes = range(self.rank - spatial, self.rank)
    if all(d == 1 for d in output_size) and spatial + 2 == self.rank:
        return op.GlobalAveragePool(self)
    sizes = self.shape[-spatial:]
    pairs = list(zip(sizes, output_size, strict=True))
    if spatial + 2 == self.rank and all(d and _divides(s, d) for s, d in pairs):
        kernel = tuple(s // d for s, d in pairs)
        return op.AveragePool(self, kernel_shape=kernel, strides=kernel)
    made = widen(self)
    for axis, size, count in zip(axes, sizes, output_size, strict=True):
        made = averaged(made, axis, size, count)
    return cast(made, self.dtype)


def averaged(x: Value, axis: int, size: Dim, count: Dim) -> Value:
    """Means of windows along one axis. Each window is taken by itself: what is infinite or NaN stays in its own."""
    if dims.same(size, count) is True:
        return x
    if count == 1:
        return op.ReduceMean(x, [axis], keepdims=1)
    start, end = bounds(size, count)
    reach = op.Add(unsqueeze(start, 1), unsqueeze(iota(longest(size, count)), 0))
    behind = range(1, x.rank - axis)
    inside = unsqueeze(op.Less(reach, unsqueeze(end, 1)), *(1 + i for i in behind))
    taken = op.Gather(x, windows(size, count), axis=axis)
    total = op.ReduceSum(op.Where(inside, taken, scalar(0, x.dtype)), [axis + 1], keepdims=0)
    return op.Div(total, unsqueeze(cast(op.Sub(end, start), x.dtype), *behind))


# ---------------------------------------------------------------------------------------------- max


def aten_adaptive_max_pool2d(self: Value, output_size: Sequence[Dim]) -> Pair:
    """(largest elements of `output_size` windows along every axis, their positions in the flattened image)"""
    sizes = self.shape[-len(output_size) :]
    return from_windows(self, [windows(size, count) for size, count in zip(sizes, output_size, strict=True)])


def windows(size: Dim, count: Dim) -> Value:
    """The places in each of `count` windows over `size` elements: (count, length of the longest)"""
    if count == 1:
        return unsqueeze(iota(size), 0)
    if dims.same(size, count) is True:
        return unsqueeze(iota(size), 1)
    start, end = bounds(size, count)
    # A window shorter than the longest repeats its last element, which changes neither its maximum nor the first place
    # where that stands.
    reach = op.Add(unsqueeze(start, 1), unsqueeze(iota(longest(size, count)), 0))
    return op.Min(reach, op.Sub(unsqueeze(end, 1), 1))


def longest(size: Dim, count: Dim) -> Dim:
    """How many elements the longest of `count` windows over `size` has."""
    return dims.add(dims.ceildiv(size, dims.maximum(count, 1)), 0 if _divides(size, count) else 1)


def _divides(size: Dim, count: Dim) -> bool:
    return type(size) is int and type(count) is int and size % count == 0


def from_windows(x: Value, places: Sequence[Value]) -> Pair:
    """(largest elements, positions) of windows that are products of places along every axis.

    places: (windows, length) for each spatial axis, or with leading axes of x that windows depend on.
    """
    spatial, lead = len(places), x.rank - len(places)
    positions = flattened(x.shape[lead:], places)
    table = reshape(positions, (*positions.shape[: -2 * spatial], *_merged(positions, spatial)))
    batch = x.shape[:lead]
    flat = reshape(x, (*batch, dims.product(x.shape[lead:])))
    wanted = expand(table, (*batch, *table.shape[-spatial - 1 :]))
    every = reshape(wanted, (*batch, dims.product(wanted.shape[lead:])))
    if table.rank == spatial + 1:  # the same places in every image
        taken = op.Gather(flat, reshape(table, (dims.product(table.shape),)), axis=lead)
    else:
        taken = op.GatherElements(flat, every, axis=lead)
    taken = reshape(taken, wanted.shape)
    last = taken.rank - 1
    best = op.ArgMax(taken, axis=last, keepdims=1)
    if may_be_nan(x):  # the last NaN of a window is its largest element
        flags = nan_flag(taken)
        some = op.ReduceMax(flags, [last], keepdims=1)
        best = op.Where(is_set(some), op.ArgMax(flags, axis=last, keepdims=1, select_last_index=1), best)
    return largest(taken, [last]), op.Squeeze(op.GatherElements(wanted, best, axis=last), [last])


def _merged(positions: Value, spatial: int) -> tuple[Dim, ...]:
    """(*windows, elements of a window) out of (*windows, *lengths)"""
    shape = positions.shape[-2 * spatial :]
    return (*shape[:spatial], dims.product(shape[spatial:]))


def flattened(sizes: Sequence[Dim], places: Sequence[Value]) -> Value:
    """Positions in the flattened image: (*lead, *windows, *lengths) out of (*lead, windows, length) for each axis"""
    spatial = len(sizes)
    made: Value | None = None
    for d, place in enumerate(places):
        lead = place.rank - 2
        holes = [lead + i for i in range(2 * spatial) if i not in (d, spatial + d)]
        spread = unsqueeze(place, *holes)
        stride = dims.product(sizes[d + 1 :])
        if stride != 1:
            spread = op.Mul(spread, dim_scalar(stride))
        made = spread if made is None else op.Add(made, spread)
    if made is None:
        raise ValueError("an image has at least one axis")
    return made


def aten_fractional_max_pool2d(self: Value, kernel_size: Any, output_size: Any, random_samples: Value) -> Pair:
    """(largest elements, positions) of windows whose starts are drawn.  random_samples: (n, c, axes)."""
    spatial = random_samples.shape[-1]
    if type(spatial) is not int:
        raise ValueError("random_samples has one number for each axis")
    kernel, counts = per_axis(kernel_size, spatial), per_axis(output_size, spatial)
    x = self if self.rank == spatial + 2 else unsqueeze(self, 0)
    if x is not self:
        random_samples = slice_axis(random_samples, 0, 0, 1)  # torch reads those of the first image only
    elif dims.same(random_samples.shape[0], x.shape[0]) is not True:
        random_samples = slice_axis(random_samples, 0, 0, x.shape[0])  # there may be more than images
    # In two dimensions the first number is of the last axis; in three they are in the order of the axes.
    order = (1, 0) if spatial == 2 else tuple(range(spatial))
    places = []
    for d in range(spatial):
        drawn = op.Gather(random_samples, scalar(order[d], DType.INT64), axis=2)
        starts = drawn_starts(drawn, x.shape[2 + d], kernel[d], counts[d])
        places.append(op.Add(unsqueeze(starts, -1), np.arange(kernel[d])))
    values, where = from_windows(x, places)
    if x is self:
        return values, where
    return op.Squeeze(values, [0]), op.Squeeze(where, [0])


def drawn_starts(drawn: Value, size: Dim, kernel: int, count: int) -> Value:
    """Starts of windows: floor((i + u) * alpha) - floor(u * alpha), alpha = (size - kernel) / (count - 1); the last one
    is size - kernel.  drawn: (n, c) -> (n, c, count)."""
    room = dim_scalar(dims.sub(size, kernel))
    lead = tuple(drawn.shape)
    last = expand(unsqueeze(room, 0), (*lead, 1))
    if count == 1:
        return last
    alpha = op.Div(cast(room, drawn.dtype), scalar(count - 1, drawn.dtype))
    u = unsqueeze(drawn, -1)
    ahead = op.Add(u, const(np.arange(count - 1).astype(drawn.dtype.numpy)))
    first = op.Sub(op.Floor(op.Mul(ahead, alpha)), op.Floor(op.Mul(u, alpha)))
    return op.Concat(cast(first, DType.INT64), last, axis=-1)
