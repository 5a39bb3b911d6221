"""Histograms over given edges, or over equal parts of the range of what is counted, in any number of dimensions.

An element belongs to the bin whose edges it lies between, the lower one included; the last bin includes its upper edge
too. What lies outside all bins, and NaN, is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.creation.creation import linspace
from lowering.aten.indexing.sorting import count_bounds
from lowering.tensors.pieces import full
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import align_axis, expand, flat, may_be_empty, numel, pick_index, reshape, slice_axis


def counted(points: Value, edges: Sequence[Value], weight: Value | None, density: bool) -> Value:
    """How many of `points` (n, d), or which share of their weights, lie in each bin; one size for each of `edges`."""
    inside, place = scalar(True, DType.BOOL), const(0)
    for i, edge in enumerate(edges):
        x, bins = pick_index(points, 1, i), dims.sub(edge.shape[0], 1)
        last = dim_scalar(dims.sub(bins, 1))
        at = op.Min(op.Sub(count_bounds(x, edge, True, DType.INT64), const(1)), last)
        low, high = pick_index(edge, 0, 0), op.Squeeze(slice_axis(edge, 0, -1, None), [0])
        inside = op.And(inside, op.And(op.GreaterOrEqual(x, low), op.LessOrEqual(x, high)))
        place = op.Add(op.Mul(place, dim_scalar(bins)), at)
    shape = [dims.sub(edge.shape[0], 1) for edge in edges]
    total = dims.product(shape)
    count = points.shape[0]
    place = expand(op.Where(inside, place, dim_scalar(total)), (count,))
    added = full(1, (count,), points.dtype) if weight is None else cast(flat(weight), points.dtype)
    start = full(0, (dims.add(total, 1),), points.dtype)
    found = reshape(slice_axis(op.ScatterElements(start, place, added, axis=0, reduction="add"), 0, 0, total), shape)
    return dense(found, edges) if density else found


def dense(found: Value, edges: Sequence[Value]) -> Value:
    """Counts as shares of their sum for each unit of length, area, ..."""
    share = op.Div(found, op.ReduceSum(found, keepdims=0))
    for i, edge in enumerate(edges):
        widths = op.Sub(slice_axis(edge, 0, 1, None), slice_axis(edge, 0, 0, -1))
        share = op.Div(share, align_axis(widths, i, len(edges)))
    return share


def equal_parts(x: Value, bins: int, given: Sequence[float] | None) -> Value:
    """bins + 1 edges from the least to the largest of x, or over the range that is given; over (0, 1) for no x.

    A range of one number is widened by 1/2 to both sides.
    """
    if given is not None:
        low, high = float(given[0]), float(given[1])
        if low == high:
            low, high = low - 0.5, high + 0.5
        return linspace(scalar(low, x.dtype), scalar(high, x.dtype), bins + 1, x.dtype)
    low, high = op.ReduceMin(x, keepdims=0), op.ReduceMax(x, keepdims=0)
    alike, half = op.Equal(low, high), scalar(0.5, x.dtype)
    low, high = op.Where(alike, op.Sub(low, half), low), op.Where(alike, op.Add(high, half), high)
    if may_be_empty(numel(x)):
        some = op.Greater(dim_scalar(numel(x)), const(0))
        low, high = op.Where(some, low, scalar(0, x.dtype)), op.Where(some, high, scalar(1, x.dtype))
    return linspace(low, high, bins + 1, x.dtype)


def aten_histogram_bin_ct(
    self: Value,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> tuple[Value, Value]:
    """(how many elements lie in each of `bins` equal parts of the range, the edges of these)"""
    x = flat(self)
    edges = equal_parts(x, bins, range)
    return counted(reshape(x, (numel(x), 1)), [edges], weight, density), edges


def aten_histogram_bins_tensor(
    self: Value, bins: Value, *, weight: Value | None = None, density: bool = False
) -> tuple[Value, Value]:
    """(how many elements lie between neighbours of `bins`, `bins`)"""
    return counted(reshape(self, (numel(self), 1)), [bins], weight, density), bins


def points_of(x: Value) -> Value:
    """(*, d) as (n, d)"""
    return reshape(x, (dims.product(x.shape[:-1]), x.shape[-1]))


def aten__histogramdd_bin_edges(
    self: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> list[Value]:
    """The edges of `bins` equal parts along each coordinate.  self: (*, d)."""
    x = points_of(self)
    given = [None] * len(bins) if range is None else list(zip(range[::2], range[1::2], strict=True))
    return [equal_parts(pick_index(x, 1, i), count, given[i]) for i, count in enumerate(bins)]


def aten__histogramdd_from_bin_cts(
    self: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> Value:
    """How many points lie in each of bins[0] x bins[1] x ... equal boxes.  self: (*, d)."""
    edges = aten__histogramdd_bin_edges(self, bins, range=range)
    return counted(points_of(self), edges, weight, density)


def aten__histogramdd_from_bin_tensors(
    self: Value, bins: Sequence[Value], *, weight: Value | None = None, density: bool = False
) -> Value:
    """How many points lie in each box between neighbours of bins[0], bins[1], ...  self: (*, d)."""
    return counted(points_of(self), bins, weight, density)
