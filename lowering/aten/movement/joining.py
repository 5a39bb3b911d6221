"""Tensors put together: concatenation, repetition, and the replacement of a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.elementwise.arithmetic import multiply
from lowering.tensors.promotion import cast, promote, result_dtype
from lowering.tensors.shaping import (
    align_axis,
    axis,
    concat,
    expand,
    flat,
    ints,
    iota,
    move_axis,
    numel,
    place_of,
    replace_slice,
    reshape,
    slice_bounds,
    unsqueeze,
    vector,
)

# ---------------------------------------------------------------------------------------------- concatenation


def aten_cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    """The tensors one after the other along `dim`; vectors without elements beside larger tensors are left out."""
    dtype = result_dtype(*tensors)
    rank = max(t.rank for t in tensors)
    kept = [t for t in tensors if t.rank == rank] if rank > 1 else list(tensors)
    return concat([cast(t, dtype) for t in kept], axis(dim, rank))


def aten_stack(tensors: Sequence[Value], dim: int = 0) -> Value:
    """The tensors side by side along a new dimension."""
    return concat([unsqueeze(t, dim) for t in promote(*tensors)], dim % (tensors[0].rank + 1))


def aten_hstack(tensors: Sequence[Value]) -> Value:
    """The tensors one after the other along dimension 1; 0 for vectors."""
    parts = [vector(t) for t in tensors]
    return aten_cat(parts, 0 if parts[0].rank == 1 else 1)


def aten_vstack(tensors: Sequence[Value]) -> Value:
    """The tensors one after the other along dimension 0, vectors as rows."""
    return aten_cat([unsqueeze(vector(t), 0) if t.rank < 2 else t for t in tensors], 0)


def aten_dstack(tensors: Sequence[Value]) -> Value:
    """The tensors one after the other along dimension 2, which they are given where they have none."""
    return aten_cat([at_least_3d(t) for t in tensors], 2)


def at_least_3d(x: Value) -> Value:
    """x with three dimensions or more: (1, 1, 1), (1, n, 1), (n, m, 1)."""
    if x.rank >= 3:
        return x
    return unsqueeze(x, 2) if x.rank == 2 else unsqueeze(vector(x), 0, 2)


def aten_meshgrid(tensors: Sequence[Value], *, indexing: str = "ij") -> list[Value]:
    """For each vector the grid on which it varies along its own dimension; the first two exchanged for "xy"."""
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) >= 2:
        order[0], order[1] = 1, 0
    vectors = [vector(t) for t in tensors]
    shape: list[Dim] = [1] * len(order)
    for i, t in zip(order, vectors, strict=True):
        shape[i] = t.shape[0]
    return [expand(align_axis(t, i, len(order)), shape) for i, t in zip(order, vectors, strict=True)]


# ---------------------------------------------------------------------------------------------- repetition


def aten_repeat(self: Value, repeats: Sequence[Dim]) -> Value:
    """self laid side by side repeats[i] times along dimension i; `repeats` may name new leading dimensions."""
    x = unsqueeze(self, *range(len(repeats) - self.rank))
    if all(type(r) is int and r == 1 for r in repeats):
        return x
    return op.Tile(x, shape_vector(repeats))


def aten_tile(self: Value, dims: Sequence[Dim]) -> Value:
    """self laid side by side dims[i] times along dimension i, counted from the last."""
    return aten_repeat(self, [*[1] * (self.rank - len(dims)), *dims])


def aten_repeat_interleave_self_int(
    self: Value, repeats: Dim, dim: int | None = None, *, output_size: Dim | None = None
) -> Value:
    """Each element along `dim` (of self laid flat where None) `repeats` times in a row."""
    x = flat(self) if dim is None else vector(self)
    at = axis(dim or 0, x.rank)
    shape = list(x.shape)
    wide = expand(unsqueeze(x, at + 1), (*shape[: at + 1], repeats, *shape[at + 1 :]))
    return reshape(wide, (*shape[:at], dims.mul(shape[at], repeats), *shape[at + 1 :]))


def aten_repeat_interleave_self_Tensor(
    self: Value, repeats: Value, dim: int | None = None, *, output_size: Dim | None = None
) -> Value:
    """Element i along `dim` (of self laid flat where None) repeats[i] times in a row."""
    x = flat(self) if dim is None else self
    at = axis(dim or 0, x.rank)
    counts = expand(reshape(repeats, (1,)) if repeats.rank == 0 else repeats, (x.shape[at],))
    return op.Gather(x, repeated(counts, output_size), axis=at)


def aten_repeat_interleave_Tensor(repeats: Value, *, output_size: Dim | None = None) -> Value:
    """i repeated repeats[i] times, for each i in order."""
    return cast(repeated(repeats, output_size), repeats.dtype)


def repeated(counts: Value, total: Dim | None) -> Value:
    """i repeated counts[i] times: at place j stands how many of the running sums are at most j."""
    ends = op.CumSum(cast(counts, DType.INT64), const(0))
    if total is None:
        places = op.Range(const(0), op.ReduceSum(cast(counts, DType.INT64), keepdims=0), const(1))
    else:
        places = iota(total)
    passed = op.LessOrEqual(ends, unsqueeze(places, 1))
    return op.ReduceSum(cast(passed, DType.INT64), ints(1), keepdims=0)


def aten_kron(self: Value, other: Value) -> Value:
    """The Kronecker product: every element of self times all of `other`."""
    a, b = promote(self, other)
    rank = max(a.rank, b.rank)
    a, b = (unsqueeze(v, *range(rank - v.rank)) for v in (a, b))
    shape = [dims.mul(x, y) for x, y in zip(a.shape, b.shape, strict=True)]
    wide = multiply(unsqueeze(a, *range(1, 2 * rank, 2)), unsqueeze(b, *range(0, 2 * rank, 2)))
    return reshape(wide, shape)


# ---------------------------------------------------------------------------------------------- replacement of a part


def aten_slice_scatter(
    self: Value, src: Value, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: Dim = 1
) -> Value:
    """self with self[start:end:step] along `dim` replaced by `src`."""
    at = axis(dim, self.rank)
    size = self.shape[at]
    low, high = slice_bounds(start, end, size)
    part = cast(src, self.dtype)
    if type(step) is int and step == 1:
        length = dims.sub(high, low)
        shape = (*self.shape[:at], length, *self.shape[at + 1 :])
        return replace_slice(self, expand(part, shape), at, low, high)
    places = op.Range(dim_scalar(low), dim_scalar(high), dim_scalar(step))
    written = op.ScatterND(move_axis(self, at, 0), unsqueeze(places, 1), move_axis(part, at, 0))
    return move_axis(written, 0, at)


def aten_select_scatter(self: Value, src: Value, dim: int, index: Dim) -> Value:
    """self with self[index] along `dim` replaced by `src`."""
    at = axis(dim, self.rank)
    low = place_of(index, self.shape[at])
    shape = (*self.shape[:at], 1, *self.shape[at + 1 :])
    return replace_slice(self, expand(unsqueeze(cast(src, self.dtype), at), shape), at, low, dims.add(low, 1))


def aten_block_diag(tensors: Sequence[Value]) -> Value:
    """The matrices along a diagonal, with 0 around them."""
    parts = [unsqueeze(vector(t), 0) if t.rank < 2 else t for t in promote(*tensors)]
    width: Any = dims.add(0, 0)
    total = width
    for part in parts:
        total = dims.add(total, part.shape[1])
    rows = []
    for part in parts:
        right = dims.sub(dims.sub(total, width), part.shape[1])
        rows.append(op.Pad(part, shape_vector((width, right)), None, ints(1)))
        width = dims.add(width, part.shape[1])
    return concat(rows, 0)


def aten_cartesian_prod(tensors: Sequence[Value]) -> Value:
    """Every combination of one element of each vector, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    return op.Concat(*(reshape(g, (numel(g), 1)) for g in aten_meshgrid(tensors)), axis=1)
