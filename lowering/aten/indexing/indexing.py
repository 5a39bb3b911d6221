"""Elements taken by index: one index tensor is a Gather, several together a GatherND, masks their positions."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.elementwise.arithmetic import choose
from lowering.aten.indexing.places import from_front, index64
from lowering.aten.reduction.reduce import some
from lowering.errors import Unsupported
from lowering.tensors.pieces import compress_rows
from lowering.tensors.promotion import Number, cast, promote, scalar, truth
from lowering.tensors.shaping import (
    axis,
    broadcast_shape,
    expand,
    flat,
    may_be_empty,
    permute,
    slice_axis,
    squeeze,
    unsqueeze,
    vector,
)


def mask_positions(indices: Sequence[Value | None]) -> list[Value | None]:
    """The indices with each mask replaced by the positions where it is true, one vector for each of its dimensions."""
    found: list[Value | None] = []
    for index in indices:
        if index is None or index.dtype not in (DType.BOOL, DType.UINT8):
            found.append(index)
        elif index.rank == 1:
            found.append(squeeze(op.NonZero(truth(index)), 0))
        else:
            places = op.NonZero(truth(index))  # (rank, count)
            found.extend(op.Gather(places, const(i), axis=0) for i in range(index.rank))
    return found


@attrs.frozen
class Plan:
    """How several index tensors address x: `order` brings the indexed dimensions to the front, `place` is where the
    dimensions of the broadcast indices stand in the result, `shape` is theirs."""

    where: tuple[int, ...]
    order: tuple[int, ...]
    place: int
    shape: tuple[Dim, ...]
    indices: tuple[Value, ...]


def index_plan(x: Value, indices: Sequence[Value | None]) -> Plan:
    """The plan for x[indices]. Indices with dimensions between them put theirs in front, as in numpy."""
    where = tuple(i for i, index in enumerate(indices) if index is not None)
    given = tuple(cast(v, DType.INT64) for v in indices if v is not None)
    adjacent = where == tuple(range(where[0], where[-1] + 1))
    order = (*where, *(i for i in range(x.rank) if i not in where))
    return Plan(where, order, where[0] if adjacent else 0, broadcast_shape(*(v.shape for v in given)), given)


def stack_indices(plan: Plan) -> Value:
    """The indices as the last dimension of one tensor: what GatherND and ScatterND take."""
    if len(plan.indices) == 1:
        return unsqueeze(plan.indices[0], -1)
    return op.Concat(*(unsqueeze(expand(v, plan.shape, *plan.indices), -1) for v in plan.indices), axis=-1)


def aten_index(self: Value, indices: Sequence[Value | None]) -> Value:
    """self[indices]: tensors of integers or masks, one for each leading dimension, None for all of a dimension."""
    indices = mask_positions(indices)
    given = [i for i, index in enumerate(indices) if index is not None]
    if not given:
        return self
    if len(given) == 1:
        return op.Gather(self, index64(_of(indices[given[0]])), axis=given[0])
    plan = index_plan(self, indices)
    taken = op.GatherND(permute(self, plan.order), stack_indices(plan))
    count = len(plan.shape)
    # taken: (*indices, *rest); the indices' dimensions go to their place among the rest.
    rest = list(range(count, taken.rank))
    return permute(taken, (*rest[: plan.place], *range(count), *rest[plan.place :]))


def _of(index: Value | None) -> Value:
    if index is None:
        raise Unsupported("an index tensor is missing")
    return index


def aten__unsafe_masked_index(self: Value, mask: Value, indices: Sequence[Value | None], fill: Number) -> Value:
    """self[indices] where the mask holds, else `fill`; the indices are only within bounds where it does."""
    filled = scalar(fill, self.dtype)
    return choose(mask, aten_index(with_place(self, indices, filled), within(self, indices)), filled)


def with_place(x: Value, indices: Sequence[Value | None], fill: Value) -> Value:
    """x with one more element, which is `fill`, at the end of each indexed dimension that may be empty: what `within`
    gives of such a dimension is its place."""
    for i, index in enumerate(indices):
        if index is not None and may_be_empty(x.shape[i]):
            x = op.Concat(x, expand(fill, (*x.shape[:i], 1, *x.shape[i + 1 :]), x), axis=i)
    return x


def within(x: Value, indices: Sequence[Value | None]) -> list[Value | None]:
    """The indices clipped to the bounds of x, counted from the end where they are negative; 0 into a dimension that is
    empty, and from the front into one that may be."""

    def clipped(index: Value, dim: Dim) -> Value:
        size = dim_scalar(dim)
        v = cast(index, DType.INT64)
        if not may_be_empty(dim):
            return op.Clip(v, op.Neg(size), op.Sub(size, const(1)))
        from_front = op.Where(op.Less(v, const(0)), op.Add(v, size), v)
        return op.Max(op.Min(from_front, op.Sub(size, const(1))), const(0))

    return [None if v is None else clipped(v, x.shape[i]) for i, v in enumerate(indices)]


def aten_index_select(self: Value, dim: int, index: Value) -> Value:
    """self[index] along `dim`; index: a vector or one number."""
    if self.rank == 0:
        return squeeze(op.Gather(vector(self), from_front(vector(index)), axis=0), 0)
    return op.Gather(self, from_front(vector(index)), axis=axis(dim, self.rank))


def aten_gather(self: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """result[..., i, ...] = self[..., index[..., i, ...], ...] along `dim`; index: the rank of self, and no larger."""
    at = axis(dim, max(self.rank, 1))
    x, where = vector(self), vector(index)
    if x.rank != where.rank:  # torch lets an index without elements have any rank
        return expand(scalar(0, self.dtype), index.shape)
    # ONNX wants the sizes of self along the other dimensions; torch takes a smaller index.
    for i in range(x.rank):
        if i != at and dims.same(x.shape[i], where.shape[i]) is not True:
            x = slice_axis(x, i, 0, where.shape[i])
    taken = op.GatherElements(x, from_front(where), axis=at)
    return squeeze(taken, 0) if index.rank == 0 else taken


def aten_take(self: Value, index: Value) -> Value:
    """self laid flat, at `index`."""
    return op.Gather(flat(self), index64(index), axis=0)


def aten_take_along_dim(self: Value, indices: Value, dim: int | None = None) -> Value:
    """`gather` of operands broadcast outside of `dim`; of both laid flat where it is None.

    torch counts places below 0 from the end along a `dim`, and those beyond it anew from the front, which are refused.
    """
    if dim is None:
        return op.GatherElements(flat(self), flat(from_front(indices)), axis=0)
    at = axis(dim, self.rank)
    shape = broadcast_shape(
        [1 if i == at else d for i, d in enumerate(self.shape)],
        [1 if i == at else d for i, d in enumerate(indices.shape)],
    )
    x = expand(self, (self.shape[i] if i == at else d for i, d in enumerate(shape)))
    where = expand(indices, (indices.shape[i] if i == at else d for i, d in enumerate(shape)))
    return op.GatherElements(x, index64(where), axis=at)


# ---------------------------------------------------------------------------------------------- masks


def aten_masked_fill(self: Value, mask: Value, value: Value | Number) -> Value:
    """self, and `value` where the mask holds; self and mask broadcast."""
    new = cast(value, self.dtype) if isinstance(value, Value) else scalar(value, self.dtype)
    return choose(truth(mask), new, self)


def aten_masked_select(self: Value, mask: Value) -> Value:
    """The elements where the mask holds, as a vector; self and mask broadcast."""
    rows, chosen = expand(self, mask.shape, mask), expand(truth(mask), self.shape, self)  # each to what both give
    return compress_rows(flat(rows), flat(chosen))


def aten_nonzero(self: Value) -> Value:
    """The positions of what is not 0, as rows."""
    if self.rank == 0:
        return op.Slice(op.Transpose(op.NonZero(vector(self))), [0], [0], [1])
    return op.Transpose(op.NonZero(self), perm=(1, 0))


def aten_nonzero_numpy(self: Value) -> list[Value]:
    """The positions of what is not 0, one vector for each dimension."""
    places = op.NonZero(vector(self))
    return [op.Gather(places, const(i), axis=0) for i in range(max(self.rank, 1))]


def aten_where_default(condition: Value) -> list[Value]:
    """The positions where the condition holds, one vector for each dimension."""
    return aten_nonzero_numpy(condition)


def aten_nonzero_static(self: Value, *, size: Dim, fill_value: int = -1) -> Value:
    """The first `size` positions of what is not 0, as rows, and rows of fill_value where there are fewer."""
    places = aten_nonzero(self)
    filler = expand(const(fill_value), (size, self.rank))
    return op.Slice(op.Concat(places, filler, axis=0), [0], shape_vector((size,)), [0])


def aten_isin(
    elements: Value | Number,
    test_elements: Value,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Value:
    """Which elements equal some element of test_elements."""
    a, b = promote(elements, test_elements)
    found = some(op.Equal(unsqueeze(a, -1), flat(b)), -1, False)
    return op.Not(found) if invert else found


def aten_isin_Tensor_Scalar(
    elements: Value, test_element: Number, *, assume_unique: bool = False, invert: bool = False
) -> Value:
    """Which elements equal the number."""
    a, b = promote(elements, test_element)
    found = op.Equal(a, b)
    return op.Not(found) if invert else found


def aten_isin_Scalar_Tensor(
    element: Number, test_elements: Value, *, assume_unique: bool = False, invert: bool = False
) -> Value:
    """Whether the number equals some element of test_elements."""
    return aten_isin(element, test_elements, invert=invert)
