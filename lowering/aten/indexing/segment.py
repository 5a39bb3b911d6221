"""Reductions of stretches of a dimension, of chunks of it, and of the bits of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.reduction.reduce import whole_sum
from lowering.errors import Unsupported
from lowering.tensors.promotion import Number, cast, scalar
from lowering.tensors.shaping import align_axis, axes, expand, ints, iota, reshape, slice_axis, unsqueeze

EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
"""What a reduction begins with where no `initial` is given."""
ONNX = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}
"""ScatterElements' name of each reduction."""


def aten_segment_reduce(
    data: Value,
    reduce: str,
    *,
    lengths: Value | None = None,
    indices: Value | None = None,
    offsets: Value | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Number | None = None,
) -> Value:
    """The sum, mean, max, min or prod of each stretch of data along `axis`.  lengths: (*, s), or offsets: (*, s + 1),
    where * are the dimensions of data before `axis`; the result has s in its place.

    A mean of nothing is `initial`, or NaN.
    """
    if indices is not None:
        raise Unsupported("segments are given by lengths or by offsets")
    at = axis % data.rank
    starts, ends = bounds_of_stretches(lengths, offsets, at)
    begin = EMPTY[reduce] if initial is None else initial
    found = stretches(data, starts, ends, reduce, scalar(begin, data.dtype), at)
    if reduce == "mean":
        sizes = unsqueeze(op.Sub(ends, starts), *range(at + 1, data.rank))
        nothing = op.Equal(sizes, const(0))
        of_nothing = scalar(math.nan if initial is None else initial, data.dtype)
        return op.Where(nothing, of_nothing, op.Div(found, cast(sizes, data.dtype)))
    if reduce in ("max", "min"):
        missing = cast(op.IsNaN(data), data.dtype)
        missing = stretches(missing, starts, ends, "sum", scalar(0, data.dtype), at)
        return op.Where(op.Greater(missing, scalar(0, data.dtype)), scalar(math.nan, data.dtype), found)
    return found


def bounds_of_stretches(lengths: Value | None, offsets: Value | None, at: int) -> tuple[Value, Value]:
    """Where each stretch starts, and where it ends.  (*, s), of lengths (*, s) or of offsets (*, s + 1)"""
    if offsets is not None and lengths is None:
        given = cast(offsets, DType.INT64)
        return slice_axis(given, at, 0, -1), slice_axis(given, at, 1, None)
    if lengths is None or offsets is not None:
        raise Unsupported("segments are given by lengths or by offsets")
    ends = op.CumSum(cast(lengths, DType.INT64), const(at))
    return op.Sub(ends, cast(lengths, DType.INT64)), ends


def stretches(data: Value, starts: Value, ends: Value, reduce: str, begin: Value, at: int) -> Value:
    """`begin` reduced with the elements from each start up to its end, along axis `at`.  starts, ends: (*, s)."""
    return reduced_into(data, slots(data, starts, ends, at), begin, reduce, starts.shape[at], at)


def slots(data: Value, starts: Value, ends: Value, at: int) -> Value:
    """The number of the stretch that each element belongs to; how many there are where it belongs to none."""
    size, count = data.shape[at], starts.shape[at]
    place = unsqueeze(iota(size), -1)
    passed = op.GreaterOrEqual(place, unsqueeze(ends, at))
    reached = op.GreaterOrEqual(place, unsqueeze(starts, at))
    owner = op.ReduceSum(cast(passed, DType.INT64), ints(at + 1), keepdims=0)
    inside = op.Greater(op.ReduceSum(cast(reached, DType.INT64), ints(at + 1), keepdims=0), owner)
    slot = op.Where(inside, owner, op.Squeeze(shape_vector((count,)), [0]))  # one more takes what no stretch does
    return expand(unsqueeze(slot, *range(at + 1, data.rank)), data.shape)


def reduced_into(data: Value, slot: Value, begin: Value, reduce: str, count: Dim, at: int) -> Value:
    """`begin` reduced with the elements of each of `count` slots along axis `at`."""
    start = expand(begin, (*data.shape[:at], dims.add(count, 1), *data.shape[at + 1 :]))
    found = op.ScatterElements(start, slot, data, axis=at, reduction=ONNX[reduce])
    return slice_axis(found, at, 0, count)


def aten__chunk_cat(tensors: Sequence[Value], dim: int, num_chunks: int) -> Value:
    """Every tensor cut along `dim` into chunks of one size, the last ones filled up with 0; the chunks of equal number
    are laid flat and beside one another: (*, num_chunks, everything)."""
    at = dim % tensors[0].rank
    parts = []
    for x in tensors:
        length = dims.ceildiv(x.shape[at], num_chunks)
        missing = dims.sub(dims.mul(length, num_chunks), x.shape[at])
        if dims.same(missing, 0) is not True:
            x = op.Pad(x, shape_vector((0, missing)), None, ints(at))
        width = dims.mul(length, dims.product(x.shape[at + 1 :]))
        parts.append(reshape(x, (*x.shape[:at], num_chunks, width)))
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=at + 1)


def aten_hash_tensor(self: Value, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0) -> Value:
    """The exclusive or, as u64, of the elements as numbers of 64 bits: of a bit, whether it is set an odd number of
    times."""
    if mode != 0:
        raise Unsupported(f"there is no hash of mode {mode}")
    if self.dtype.is_float:
        bits = op.BitCast(cast(self, DType.DOUBLE), to=int(DType.UINT64))
    elif self.dtype in (DType.UINT64, DType.BOOL):
        bits = cast(self, DType.UINT64)
    else:
        bits = op.BitCast(cast(self, DType.INT64), to=int(DType.UINT64))
    where = axes(dim, self.rank)
    if not where:
        return bits
    one, places = scalar(1, DType.UINT64), align_axis(const(np.arange(64, dtype=np.uint64)), self.rank, self.rank + 1)
    flags = op.BitwiseAnd(op.BitShift(unsqueeze(bits, -1), places, direction="RIGHT"), one)
    counts = op.ReduceSum(cast(flags, DType.INT64), ints(*where), keepdims=1)
    odd = op.BitwiseAnd(op.BitCast(counts, to=int(DType.UINT64)), one)
    powers = op.BitCast(op.BitShift(odd, places, direction="LEFT"), to=int(DType.INT64))
    found = op.BitCast(whole_sum(powers, self.rank, False), to=int(DType.UINT64))
    return found if keepdim else op.Squeeze(found, ints(*where))
