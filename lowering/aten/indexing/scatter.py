"""Elements written by index: ScatterElements along one dimension, ScatterND over several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from irkit import dims
from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.elementwise.arithmetic import choose, floor_divided
from lowering.aten.indexing.indexing import index_plan, mask_positions, stack_indices, with_place, within
from lowering.aten.indexing.places import from_front, index64
from lowering.aten.reduction.reduce import identity_of
from lowering.errors import LoweringError
from lowering.tensors.promotion import Number, cast, scalar, truth
from lowering.tensors.shaping import (
    align_axis,
    axis,
    broadcast_shape,
    expand,
    flat,
    permute,
    reshape,
    slice_axis,
    squeeze,
    unsqueeze,
    vector,
)

REDUCTIONS = {
    "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min",
}  # fmt: skip
"""ONNX's name of each of torch's reductions."""


def written(x: Value, dim: int, index: Value, src: Value, reduction: str = "none") -> Value:
    """x with x[..., index, ...] along `dim` replaced by, or reduced with, `src`; src: as large as index, or larger."""
    if x.rank == 0:
        return squeeze(written(vector(x), 0, vector(index), vector(src), reduction), 0)
    at = axis(dim, x.rank)
    where = index64(vector(index))
    require_place(x.shape[at : at + 1], where.shape)
    part = cast(vector(src), x.dtype)
    for i in range(where.rank):
        if dims.same(part.shape[i], where.shape[i]) is not True:
            part = slice_axis(part, i, 0, where.shape[i])
    wide = x.dtype if reduction == "none" else WIDE.get(x.dtype, x.dtype)
    return cast(op.ScatterElements(cast(x, wide), where, cast(part, wide), axis=at, reduction=reduction), x.dtype)


def require_place(sizes: Sequence[Dim], indices: Sequence[Dim]) -> None:
    """Raises LoweringError for indices into dimensions of which one has no place: ONNX Runtime, which has nothing to
    write then, looks at none of them."""
    if 0 in sizes and all(type(n) is int and n > 0 for n in indices):
        raise LoweringError("an index is out of bounds for a dimension of size 0", hint="give it elements to write to")


WIDE: Mapping[DType, DType] = {DType.BOOL: DType.INT32, DType.FLOAT16: DType.FLOAT, DType.BFLOAT16: DType.FLOAT}
"""What elements are reduced in where ONNX, or ONNX Runtime, cannot reduce them as they are."""


def aten_scatter(self: Value, dim: int, index: Value, src: Value, *, reduce: str | None = None) -> Value:
    """self with self[..., index, ...] along `dim` replaced by, or reduced with, `src`."""
    return written(self, dim, from_front(index), src, "none" if reduce is None else REDUCTIONS[reduce])


def aten_scatter_value(self: Value, dim: int, index: Value, value: Number) -> Value:
    """self with self[..., index, ...] along `dim` replaced by a number."""
    return aten_scatter(self, dim, index, expand(scalar(value, self.dtype), index.shape))


def aten_scatter_value_reduce(self: Value, dim: int, index: Value, value: Number, *, reduce: str) -> Value:
    """self with self[..., index, ...] along `dim` reduced with a number."""
    return aten_scatter(self, dim, index, expand(scalar(value, self.dtype), index.shape), reduce=reduce)


def aten_scatter_add(self: Value, dim: int, index: Value, src: Value) -> Value:
    """self with `src` added to self[..., index, ...] along `dim`."""
    return written(self, dim, from_front(index), src, "add")


def aten_scatter_reduce(
    self: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """self with self[..., index, ...] along `dim` reduced ("sum", "prod", "mean", "amax", "amin") with `src`; without
    what stood there unless `include_self`."""
    base, index = self, from_front(index)
    if not include_self:
        neutral = scalar(identity_of(reduce, self.dtype), self.dtype)
        base = written(self, dim, index, expand(neutral, index.shape))
    if reduce != "mean":
        return written(base, dim, index, src, REDUCTIONS[reduce])
    total = written(base, dim, index, src, "add")
    ones = expand(scalar(1, self.dtype), index.shape)
    start = expand(scalar(int(include_self), self.dtype), self.shape)
    return averaged(total, written(start, dim, index, ones, "add"))


def averaged(total: Value, count: Value) -> Value:
    """total / count, rounded down for integers; where nothing was counted, total."""
    safe = op.Max(count, scalar(1, count.dtype))
    if total.dtype.is_float:
        return op.Div(total, safe)
    return floor_divided(total, safe)


# ---------------------------------------------------------------------------------------------- along one dimension


def laid(index: Value, x: Value, at: int, shape: Sequence[Dim]) -> Value:
    """An index vector repeated over the other dimensions of `shape`."""
    return expand(align_axis(vector(index), at, x.rank), shape)


def aten_index_add(self: Value, dim: int, index: Value, source: Value, *, alpha: Number = 1) -> Value:
    """self with alpha * source[i] added to self[index[i]] along `dim`."""
    part = cast(source, self.dtype)
    if not (isinstance(alpha, int | float) and alpha == 1):
        factor = scalar(alpha, self.dtype)
        part = op.And(part, factor) if self.dtype is DType.BOOL else op.Mul(part, factor)
    return along(self, dim, from_front(index), part, "add")


def aten_index_copy(self: Value, dim: int, index: Value, source: Value) -> Value:
    """self with self[index[i]] along `dim` replaced by source[i]."""
    return along(self, dim, from_front(index), source, "none")


def aten_index_fill(self: Value, dim: int, index: Value, value: Value | Number) -> Value:
    """self with self[index[i]] along `dim` replaced by one number."""
    number = reshape(cast(value, self.dtype), ()) if isinstance(value, Value) else scalar(value, self.dtype)
    x = vector(self)
    at = axis(dim, x.rank)
    count = vector(index).shape[0]
    return along(self, dim, index, expand(number, (*x.shape[:at], count, *x.shape[at + 1 :])), "none")


def aten_index_reduce(
    self: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """self with self[index[i]] along `dim` reduced ("prod", "mean", "amax", "amin") with source[i]."""
    x, part, index = vector(self), vector(source), from_front(index)
    at = axis(dim, x.rank)
    result = aten_scatter_reduce(x, at, laid(index, x, at, part.shape), part, reduce, include_self=include_self)
    return squeeze(result, 0) if self.rank == 0 else result


def along(x: Value, dim: int, index: Value, source: Value, reduction: str) -> Value:
    """x with x[index[i]] along `dim` replaced by, or reduced with, source[i]."""
    if x.rank == 0:
        return squeeze(along(vector(x), 0, index, vector(source), reduction), 0)
    at = axis(dim, x.rank)
    if at == 0:
        where = unsqueeze(cast(vector(index), DType.INT64), -1)
        return put(x, where, cast(vector(source), x.dtype), reduction)
    return written(x, at, laid(index, x, at, source.shape), source, reduction)


# ---------------------------------------------------------------------------------------------- index_put


def aten_index_put(self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    """self with self[indices] replaced by `values`, or with them added; values broadcast to self[indices]."""
    masked = only_mask(indices)
    if all(type(d) is int and d == 1 for d in values.shape):
        values = reshape(values, ())
    if masked is not None and not accumulate and values.rank <= self.rank - masked.rank:
        # One value for every position: no position needs to be found.
        return choose(behind(truth(masked), self.rank), cast(values, self.dtype), self)
    found = mask_positions(indices)
    if all(index is None for index in found):
        new = expand(cast(values, self.dtype), self.shape)
        return op.Add(self, new) if accumulate else new
    plan = index_plan(self, found)
    base = permute(self, plan.order)
    rest = base.shape[len(plan.where) :]
    if 0 in rest:  # there is nothing to write, and torch does not look where
        return self
    count = len(plan.shape)
    shape = (*rest[: plan.place], *plan.shape, *rest[plan.place :])
    new = expand(cast(values, self.dtype), shape, *plan.indices)
    kept = [i for i in range(len(shape)) if not plan.place <= i < plan.place + count]
    new = permute(new, (*range(plan.place, plan.place + count), *kept))
    result = put(base, stack_indices(plan), new, "add" if accumulate else "none")
    back = [0] * self.rank
    for i, source in enumerate(plan.order):
        back[source] = i
    return permute(result, back)


def put(x: Value, places: Value, new: Value, reduction: str) -> Value:
    """x with `new` written at, or reduced with what stands at, `places`; adding truth values is `or`."""
    wide = x.dtype if reduction == "none" else WIDE.get(x.dtype, x.dtype)
    reach = places.shape[-1]
    require_place(x.shape[:reach] if type(reach) is int else (), places.shape[:-1])
    return cast(op.ScatterND(cast(x, wide), places, cast(new, wide), reduction=reduction), x.dtype)


def only_mask(indices: Sequence[Value | None]) -> Value | None:
    """The mask, where it is the only index and stands first."""
    given = [i for i in indices if i is not None]
    if len(given) == 1 and indices[0] is not None and given[0].dtype is DType.BOOL and given[0].rank:
        return given[0]
    return None


def behind(mask: Value, rank: int) -> Value:
    """A mask over leading dimensions, with dimensions of size 1 behind them."""
    return unsqueeze(mask, *range(mask.rank, rank))


def aten__unsafe_masked_index_put_accumulate(
    self: Value, mask: Value, indices: Sequence[Value | None], values: Value
) -> Value:
    """self with `values` added at self[indices] where the mask holds; elsewhere the indices may be out of bounds."""
    new = choose(mask, cast(values, self.dtype), scalar(0, self.dtype))
    whole = with_place(self, indices, scalar(0, self.dtype))
    made = aten_index_put(whole, within(self, indices), new, accumulate=True)
    for i, size in enumerate(self.shape):
        made = made if made.shape[i] == size else slice_axis(made, i, 0, size)
    return made


def aten_put(self: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """self with the elements at `index` of self laid flat replaced by `source`, or with it added."""
    where = unsqueeze(flat(cast(index, DType.INT64)), -1)
    return reshape(put(flat(self), where, flat(cast(source, self.dtype)), "add" if accumulate else "none"), self.shape)


def aten_masked_scatter(self: Value, mask: Value, source: Value) -> Value:
    """self with the elements where the mask holds replaced by those of `source`, in order."""
    shape = broadcast_shape(self.shape, mask.shape)
    x = expand(self, shape)
    places = op.NonZero(expand(truth(mask), shape))  # (rank, count)
    if x.rank == 0:
        return choose(truth(mask), reshape(slice_axis(flat(source), 0, 0, 1), ()), self)
    count = op.Slice(op.Shape(places), [1], [2])
    taken = op.Slice(flat(cast(source, self.dtype)), [0], count, [0])
    return op.ScatterND(x, op.Transpose(places, perm=(1, 0)), taken)
