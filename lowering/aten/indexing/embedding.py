"""Look-ups in tables: rows, sums of rows, one-hot vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit import dims
from irkit.build import dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.indexing.places import from_front
from lowering.errors import LoweringError, Unsupported
from lowering.tensors.pieces import as_recorded, full, p_norm, total, widen
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import expand, flat, ints, iota, slice_axis, squeeze, unsqueeze, up_to
from passes.rules.nan import may_be_nan

SUM, MEAN, MAX = 0, 1, 2
"""torch's numbers for the modes of embedding_bag."""

SUMMED_TO_THE_END = (DType.FLOAT, DType.FLOAT16, DType.BFLOAT16)
"""Where no row is left out, torch adds up these in a kernel that ends the last bag at the last offset; its other
kernels, and the sizes that it divides by, take what follows into the last bag."""


def aten_embedding(
    weight: Value, indices: Value, padding_idx: Dim = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    """Rows of a table.  weight: (n, d); indices: (*) -> (*, d). The options concern gradients."""
    return op.Gather(weight, from_front(indices), axis=0)


def aten_embedding_renorm(self: Value, indices: Value, max_norm: float, norm_type: float) -> Value:
    """The table with the rows that `indices` name scaled down to a norm of `max_norm` where theirs is larger."""
    if self.shape[0] == 0 and all(type(n) is int and n > 0 for n in indices.shape):
        raise LoweringError("embedding scales rows of a table that has none", hint="give a table with rows")
    rows = flat(from_front(indices))
    taken = op.Gather(self, rows, axis=0)
    norm = p_norm(taken, norm_type, [1], keepdims=True)
    limit = scalar(max_norm, self.dtype)
    smaller = op.Div(limit, op.Add(norm, scalar(1e-7, self.dtype)))
    factor = op.Where(op.Greater(norm, limit), smaller, scalar(1, self.dtype))
    # A row named twice is written twice, with the same numbers.
    return op.ScatterND(self, unsqueeze(cast(rows, DType.INT64), 1), op.Mul(taken, factor))


def aten_one_hot(self: Value, num_classes: Dim = -1) -> Value:
    """0 everywhere but for 1 at the place that each index names.  (*) -> (*, num_classes) of int64"""
    depth: Any = num_classes
    if num_classes == -1:
        depth = op.Add(op.ReduceMax(flat(self), keepdims=0), scalar(1, self.dtype))  # which the data of each call tells
    if isinstance(depth, int) and not depth and all(type(n) is int and n > 0 for n in self.shape):
        raise LoweringError("one_hot of an index has at least one class", hint="give a larger num_classes")
    if not isinstance(depth, Value):
        depth = dim_scalar(depth)
    if self.rank == 0:
        return squeeze(op.OneHot(unsqueeze(self, 0), depth, ints(0, 1), axis=-1), 0)
    return op.OneHot(self, depth, ints(0, 1), axis=-1)


# ---------------------------------------------------------------------------------------------- bags


def aten_embedding_bag(
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: Dim | None = None,
    *,
    expected: Any = None,
) -> tuple[Value, ...]:
    """(sums, means or maxima of bags of rows, bag of each index, size of each bag, where maxima stand).

    weight: (n, d); indices: (i,); offsets: (bags,), where each bag begins, with the end of the last one where
    `include_last_offset`. Rows `padding_idx` are left out. The last three results serve torch's backward pass.
    """
    if indices.rank != 1:
        raise Unsupported("embedding_bag takes its indices in one dimension")
    indices = from_front(indices)
    # The number of bags is counted here: the type of a slice with a symbolic end does not say its length.
    count = dims.sub(offsets.shape[0], 1) if include_last_offset else offsets.shape[0]
    # torch refuses a first bag that does not begin at 0, and one that begins beyond the indices.
    late = op.Not(op.Equal(slice_axis(offsets, 0, 0, 1), scalar(0, offsets.dtype)))
    offsets = up_to(cast(offsets, DType.INT64), indices.shape[0], late)
    starts = slice_axis(offsets, 0, 0, count) if include_last_offset else offsets
    place = iota(indices.shape[0])
    begun = op.GreaterOrEqual(unsqueeze(place, 1), unsqueeze(starts, 0))
    bag = op.Sub(total(cast(begun, DType.INT64), [1]), scalar(1, DType.INT64))
    kept = None
    if padding_idx is not None and padding_idx != -1:
        kept = op.Not(op.Equal(indices, cast(dim_scalar(padding_idx), indices.dtype)))
    rows = op.Gather(weight, indices, axis=0)
    ones = expand(scalar(1, DType.INT64), indices.shape) if kept is None else cast(kept, DType.INT64)
    sizes = op.ScatterElements(full(0, (count,), DType.INT64), bag, ones, axis=0, reduction="add")
    if mode == MAX:
        made = maxima(rows, bag, sizes, kept, count)
    else:
        if include_last_offset and kept is None and weight.dtype in SUMMED_TO_THE_END:
            kept = op.Less(place, slice_axis(offsets, 0, -1, None))
        made = sums(widen(rows), bag, kept, count, per_sample_weights)
        if mode == MEAN:
            made = op.Div(made, unsqueeze(cast(op.Max(sizes, scalar(1, DType.INT64)), made.dtype), 1))
        made = cast(made, weight.dtype)
    kind = indices.dtype
    most = rows_of_maxima(rows, made, bag, kept, indices) if mode == MAX else full(0, (count,), kind)
    rest = (cast(bag, kind), cast(sizes, kind), most)
    recorded = expected[1:] if expected is not None else (None, None, None)
    return made, *(as_recorded(value, wanted) for value, wanted in zip(rest, recorded, strict=True))


def aten_embedding_bag_padding_idx(
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Value | None,
    include_last_offset: bool,
    padding_idx: int | None,
    *,
    expected: Any = None,
) -> tuple[Value, ...]:
    """As embedding_bag; `padding_idx` may be counted from the end, which to the other overloads means none."""
    left_out: Any = padding_idx
    if padding_idx is not None and padding_idx < 0:
        left_out = dims.add(weight.shape[0], padding_idx)
    return aten_embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        left_out,
        expected=expected,
    )


def sums(rows: Value, bag: Value, kept: Value | None, count: Dim, weights: Value | None) -> Value:
    """(count, d): the rows of each bag added up, each times its weight; rows that are not kept count nothing"""
    if kept is not None:
        rows = op.Where(unsqueeze(kept, 1), rows, scalar(0, rows.dtype))
    if weights is not None:
        rows = op.Mul(rows, unsqueeze(cast(weights, rows.dtype), 1))
    ground = full(0, (count, rows.shape[1]), rows.dtype)
    return op.ScatterND(ground, unsqueeze(bag, 1), rows, reduction="add")


def maxima(rows: Value, bag: Value, sizes: Value, kept: Value | None, count: Dim) -> Value:
    """(count, d): the largest number in each column of a bag; 0 for an empty one.

    torch begins with the first row and takes what is greater, so that NaN stays where it comes first only.
    """
    low, places = scalar(-np.inf, rows.dtype), unsqueeze(bag, 1)
    missing = op.IsNaN(rows) if may_be_nan(rows) else None
    out = missing if kept is None else op.Not(unsqueeze(kept, 1))
    if kept is not None and missing is not None:
        out = op.Or(missing, op.Not(unsqueeze(kept, 1)))
    numbers = rows if out is None else op.Where(out, low, rows)
    made = op.ScatterND(expand(low, (count, rows.shape[1])), places, numbers, reduction="max")
    if missing is not None:
        end = dim_scalar(rows.shape[0])
        order = iota(rows.shape[0]) if kept is None else op.Where(kept, iota(rows.shape[0]), end)
        first = op.ScatterElements(expand(end, (count,)), bag, order, axis=0, reduction="min")
        some = op.Concat(missing, full(False, (1, rows.shape[1]), DType.BOOL), axis=0)  # an empty bag begins nowhere
        made = op.Where(op.Gather(some, first, axis=0), scalar(np.nan, rows.dtype), made)
    return op.Where(unsqueeze(op.Greater(sizes, scalar(0, DType.INT64)), 1), made, scalar(0, rows.dtype))


def rows_of_maxima(rows: Value, made: Value, bag: Value, kept: Value | None, indices: Value) -> Value:
    """Which row of the table the largest number in each column of a bag came from, the first of equal ones; 0 for an
    empty bag.  rows: (i, d); made: (bags, d) -> (bags, d)"""
    own = op.Gather(made, bag, axis=0)
    taken = op.Equal(rows, own)
    if may_be_nan(rows):
        taken = op.Or(taken, op.And(op.IsNaN(rows), op.IsNaN(own)))
    if kept is not None:
        taken = op.And(taken, unsqueeze(kept, 1))
    end = dim_scalar(rows.shape[0])
    order = op.Where(taken, unsqueeze(iota(rows.shape[0]), 1), end)
    where = expand(unsqueeze(bag, 1), rows.shape)
    first = op.ScatterElements(expand(end, made.shape), where, order, axis=0, reduction="min")
    listed = op.Concat(indices, full(0, (1,), indices.dtype), axis=0)  # an empty bag names none
    return op.Gather(listed, first, axis=0)
