"""Gradients of look-ups: of bags of rows, of elements that a mask chose, of reductions of stretches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from irkit import dims
from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.indexing.embedding import MAX, MEAN, SUM
from lowering.aten.indexing.segment import EMPTY, bounds_of_stretches, reduced_into, slots
from lowering.errors import Unsupported
from lowering.tensors.pieces import full, total, widen
from lowering.tensors.promotion import Number, cast, scalar, truth
from lowering.tensors.shaping import (
    add_rows,
    broadcast_shape,
    concat,
    expand,
    flat,
    iota,
    reshape,
    slice_axis,
    unsqueeze,
)

# ---------------------------------------------------------------------------------------------- bags


def bag_of_each(indices: Value, offsets: Value) -> Value:
    """The bag that each index belongs to.  indices: (i,); offsets: where the bags begin -> (i,)"""
    begun = op.GreaterOrEqual(unsqueeze(iota(indices.shape[0]), 1), unsqueeze(cast(offsets, DType.INT64), 0))
    return op.Sub(total(cast(begun, DType.INT64), [1]), scalar(1, DType.INT64))


def aten__embedding_bag_backward(
    grad: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    bag_size: Value,
    maximum_indices: Value,
    num_weights: Dim,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Value | None,
    padding_idx: int = -1,
) -> Value:
    """As _embedding_bag_dense_backward; the forward operator may have left out which bag an index belongs to."""
    if sparse:
        raise Unsupported("a sparse gradient: make the embedding with sparse=False")
    return aten__embedding_bag_dense_backward(
        grad,
        indices,
        bag_of_each(indices, offsets),
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )


def aten__embedding_bag_dense_backward(
    grad: Value,
    indices: Value,
    offset2bag: Value,
    bag_size: Value,
    maximum_indices: Value,
    num_weights: Dim,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Value | None,
    padding_idx: int = -1,
) -> Value:
    """The gradient of the table: what a bag was given, added to each row that it summed, as a share of a mean, times
    its weight; the gradient of a largest element to the row that it came from.

    grad: (bags, d); indices, offset2bag: (i,) -> (num_weights, d)
    """
    kind, gradient = grad.dtype, widen(grad)
    if mode == MAX:
        some = op.Greater(bag_size, scalar(0, bag_size.dtype))
        rows = op.Where(unsqueeze(some, 1), gradient, scalar(0, gradient.dtype))
        return cast(add_rows(rows, cast(maximum_indices, DType.INT64), num_weights, 0), kind)
    bags, places = cast(offset2bag, DType.INT64), cast(indices, DType.INT64)
    if mode == MEAN:
        shares = op.Max(bag_size, scalar(1, bag_size.dtype))
        gradient = op.Div(gradient, unsqueeze(cast(shares, gradient.dtype), 1))
    rows = op.Gather(gradient, bags, axis=0)
    if per_sample_weights is not None:
        rows = op.Mul(rows, unsqueeze(cast(per_sample_weights, rows.dtype), 1))
    if scale_grad_by_freq:
        often = add_rows(full(1, places.shape, rows.dtype), places, num_weights, 0)
        rows = op.Div(rows, unsqueeze(op.Gather(often, places, axis=0), 1))
    if padding_idx >= 0:
        left_out = op.Equal(places, scalar(padding_idx, DType.INT64))
        rows = op.Where(unsqueeze(left_out, 1), scalar(0, rows.dtype), rows)
    return cast(add_rows(rows, places, num_weights, 0), kind)


def aten__embedding_bag_per_sample_weights_backward(
    grad: Value,
    weight: Value,
    indices: Value,
    offsets: Value,
    offset2bag: Value,
    mode: int,
    padding_idx: int = -1,
) -> Value:
    """The gradient of the weight of each index: its row times the gradient of its bag; 0 for `padding_idx`.

    grad: (bags, d); weight: (n, d); indices: (i,) -> (i,)
    """
    if mode != SUM:
        raise Unsupported("weights of samples where a bag is no sum: give mode='sum'")
    bags = bag_of_each(indices, offsets)
    rows = op.Mul(op.Gather(widen(grad), bags, axis=0), op.Gather(widen(weight), indices, axis=0))
    found = total(rows, [1])
    if padding_idx >= 0:
        found = op.Where(op.Equal(indices, scalar(padding_idx, indices.dtype)), scalar(0, found.dtype), found)
    return cast(found, grad.dtype)


# ---------------------------------------------------------------------------------------------- masks


def aten_masked_scatter_backward(grad_output: Value, mask: Value, sizes: Sequence[Dim]) -> Value:
    """The gradient of the source: the gradients where the mask holds, in order, then zeros, as `sizes` say."""
    shape = broadcast_shape(grad_output.shape, mask.shape)
    held = flat(expand(truth(mask), shape))
    chosen = op.Compress(flat(expand(widen(grad_output), shape)), held, axis=0)
    count = dims.product(sizes)
    filled = slice_axis(concat([chosen, full(0, (count,), chosen.dtype)], 0), 0, 0, count)
    return cast(reshape(filled, sizes), grad_output.dtype)


# ---------------------------------------------------------------------------------------------- stretches


def aten__segment_reduce_backward(
    grad: Value,
    output: Value,
    data: Value,
    reduce: str,
    *,
    lengths: Value | None = None,
    offsets: Value | None = None,
    axis: int = 0,
    initial: Number | None = None,
) -> Value:
    """The gradient of each element of a stretch; 0 for those of none.  grad, output: (*, s, *); data: (*, n, *)

    The gradient of a sum is that of each element, of a mean a share of it; that of the largest or smallest element is
    divided among those that equal it, which torch does with gradients above 0 alone; that of a product is times the
    other elements.
    """
    at = axis % data.rank
    starts, ends = bounds_of_stretches(lengths, offsets, at)
    slot = slots(data, starts, ends, at)

    def of_each(x: Value) -> Value:
        """What belongs to the stretch of each element; 0 where there is none."""
        none = full(0, (*x.shape[:at], 1, *x.shape[at + 1 :]), x.dtype)
        return op.GatherElements(op.Concat(x, none, axis=at), slot, axis=at)

    def added(x: Value) -> Value:
        """The sum over the stretch of each element."""
        return of_each(reduced_into(x, slot, scalar(0, x.dtype), "sum", starts.shape[at], at))

    zero, one = scalar(0, data.dtype), scalar(1, data.dtype)
    if reduce == "mean":
        sizes = cast(unsqueeze(op.Sub(ends, starts), *range(at + 1, data.rank)), grad.dtype)
        grad = op.Div(grad, op.Max(sizes, scalar(1, grad.dtype)))
    given = of_each(grad)
    if reduce in ("sum", "mean"):
        return given
    if reduce in ("max", "min"):
        taken = cast(op.Or(op.IsNaN(data), op.Equal(data, of_each(output))), data.dtype)
        share = op.Where(op.Greater(given, zero), op.Div(given, op.Max(added(taken), one)), given)
        return op.Where(op.Greater(taken, zero), share, zero)
    # Where an element is 0 or no number, what it multiplies is counted without it.
    missing, nought = op.IsNaN(data), op.Equal(data, zero)
    odd = op.Or(missing, nought)
    begin = scalar(EMPTY["prod"] if initial is None else initial, data.dtype)
    usual = of_each(reduced_into(op.Where(odd, one, data), slot, begin, "prod", starts.shape[at], at))
    noughts, numbers = cast(nought, data.dtype), cast(missing, data.dtype)
    rest = op.Where(op.Greater(op.Sub(added(noughts), noughts), zero), zero, usual)
    rest = op.Where(op.Greater(op.Sub(added(numbers), numbers), zero), scalar(math.nan, data.dtype), rest)
    return op.Where(odd, op.Mul(given, rest), op.Div(op.Mul(given, of_each(output)), op.Where(odd, one, data)))
