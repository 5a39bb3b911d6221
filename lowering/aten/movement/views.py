"""Views and permutations: elements under new dimensions, in another order, or fewer of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import Tensor
from irkit.dims import Dim
from lowering.errors import Unsupported
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import (
    FIRST,
    LAST,
    axes,
    axis,
    binders,
    broadcast_all,
    concat,
    expand,
    flat,
    iota,
    move_axis,
    numel,
    permute,
    pick_index,
    place_of,
    reshape,
    slice_axis,
    squeeze,
    unsqueeze,
)

# ---------------------------------------------------------------------------------------------- reshapes


def completed(size: Sequence[Dim], count: Dim, expected: Any) -> tuple[Dim, ...]:
    """`size` with its -1, if it has one, replaced by what makes the sizes multiply to `count`."""
    if not any(type(d) is int and d == -1 for d in size):
        return tuple(size)
    if isinstance(expected, Tensor):
        return expected.shape
    rest = dims.product(d for d in size if d != -1)
    return tuple(dims.floordiv(count, rest) if d == -1 else d for d in size)


def aten_view(self: Value, size: Sequence[Dim], *, expected: Any = None) -> Value:
    """The elements of self, in order, under the dimensions `size`, one of which may be -1."""
    return reshape(self, completed(size, numel(self), expected))


def aten_reshape(self: Value, shape: Sequence[Dim], *, expected: Any = None) -> Value:
    """The elements of self, in order, under the dimensions `shape`."""
    return aten_view(self, shape, expected=expected)


def aten__reshape_alias(self: Value, size: Sequence[Dim], stride: Sequence[Dim], *, expected: Any = None) -> Value:
    """The elements of self, in order, under the dimensions `size`."""
    return aten_view(self, size, expected=expected)


def aten_view_as(self: Value, other: Value) -> Value:
    """The elements of self, in order, in the shape of `other`."""
    return reshape(self, other.shape)


def aten_flatten(self: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """self with the dimensions from start_dim to end_dim made one."""
    if self.rank == 0:
        return reshape(self, (1,))
    first, last = axis(start_dim, self.rank), axis(end_dim, self.rank)
    merged = dims.product(self.shape[first : last + 1])
    return reshape(self, (*self.shape[:first], merged, *self.shape[last + 1 :]))


def aten_ravel(self: Value) -> Value:
    """self as a vector."""
    return flat(self)


def aten_unflatten(self: Value, dim: int, sizes: Sequence[Dim], *, expected: Any = None) -> Value:
    """self with one dimension made several, one of which may be -1."""
    at = axis(dim, self.rank)
    if isinstance(expected, Tensor):
        return reshape(self, expected.shape)
    return reshape(self, (*self.shape[:at], *completed(sizes, self.shape[at], None), *self.shape[at + 1 :]))


def aten_squeeze(self: Value, dim: int | Sequence[int] | None = None, *, expected: Any = None) -> Value:
    """self without dimensions of size 1: those named, or all.

    What torch found to be 1 may be more than its expression tells; then so many dimensions go as torch recorded.
    """
    if self.rank == 0:
        return self
    where = axes(dim, self.rank) if dim is not None else tuple(range(self.rank))
    if dim is not None and not isinstance(dim, int) and len(dim) == 0:
        return self
    gone = [a for a in where if self.shape[a] == 1]
    if isinstance(expected, Tensor) and self.rank - expected.rank > len(gone):
        perhaps = [a for a in where if dims.same(self.shape[a], 1) is not False]
        gone = perhaps if len(perhaps) == self.rank - expected.rank else gone
    return squeeze(self, *gone)


def aten_unsqueeze(self: Value, dim: int) -> Value:
    """self with a dimension of size 1 at `dim`."""
    return unsqueeze(self, dim)


def aten_expand(self: Value, size: Sequence[Dim], *, implicit: bool = False) -> Value:
    """self repeated along dimensions of size 1, and new leading ones, to `size`; -1 keeps a dimension."""
    new = len(size) - self.rank
    kept = (self.shape[i - new] if type(d) is int and d == -1 else d for i, d in enumerate(size))
    return expand(self, kept)


def aten_expand_copy(self: Value, size: Sequence[Dim], *, implicit: bool = False) -> Value:
    """self repeated to `size`."""
    return aten_expand(self, size)


def aten_expand_as(self: Value, other: Value) -> Value:
    """self repeated to the shape of `other`."""
    return expand(self, other.shape)


def aten_broadcast_to(self: Value, size: Sequence[Dim]) -> Value:
    """self repeated to `size`."""
    return aten_expand(self, size)


def aten_broadcast_tensors(tensors: Sequence[Value]) -> list[Value]:
    """Each tensor repeated to the shape of all."""
    return list(broadcast_all(*tensors))


# ---------------------------------------------------------------------------------------------- permutations


def swapped(x: Value, dim0: int, dim1: int) -> Value:
    """x with two dimensions exchanged."""
    order = list(range(x.rank))
    if order:
        a, b = axis(dim0, x.rank), axis(dim1, x.rank)
        order[a], order[b] = order[b], order[a]
    return permute(x, order)


def aten_permute(self: Value, dims: Sequence[int]) -> Value:
    """self with dimension dims[i] at place i."""
    return permute(self, (axis(d, self.rank) for d in dims))


def aten_transpose(self: Value, dim0: int, dim1: int) -> Value:
    """self with two dimensions exchanged."""
    return swapped(self, dim0, dim1)


def aten_swapaxes(self: Value, axis0: int, axis1: int) -> Value:
    """self with two dimensions exchanged."""
    return swapped(self, axis0, axis1)


def aten_t(self: Value) -> Value:
    """The transpose of a matrix; a vector is itself."""
    return swapped(self, 0, 1) if self.rank == 2 else self


def aten_numpy_T(self: Value) -> Value:
    """self with its dimensions in reverse."""
    return permute(self, reversed(range(self.rank)))


def aten_mT(self: Value) -> Value:
    """self with its last two dimensions exchanged."""
    return swapped(self, -2, -1)


def aten_movedim(self: Value, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
    """self with dimensions moved from `source` to `destination`, the others in order."""
    sources = axes_in_order(source, self.rank)
    targets = axes_in_order(destination, self.rank)
    order: list[int | None] = [None] * self.rank
    for s, t in zip(sources, targets, strict=True):
        order[t] = s
    rest = iter(i for i in range(self.rank) if i not in sources)
    return permute(self, (next(rest) if o is None else o for o in order))


def axes_in_order(dim: int | Sequence[int], rank: int) -> list[int]:
    """The axes that `dim` names, in its order."""
    return [axis(d, rank) for d in ([dim] if isinstance(dim, int) else dim)]


def aten_flip(self: Value, dims: Sequence[int]) -> Value:
    """self backwards along `dims`."""
    where = axes_in_order(dims, self.rank)
    if not where or self.rank == 0:
        return self
    n = len(where)
    return op.Slice(self, [-1] * n, [FIRST] * n, where, [-1] * n)


def aten_roll(self: Value, shifts: int | Sequence[Dim], dims: int | Sequence[int] = ()) -> Value:
    """self moved along `dims` by `shifts`, what leaves at one end entering at the other; laid flat without `dims`."""
    moves = list(shifts) if isinstance(shifts, Sequence) else [shifts]
    where = axes_in_order(dims, self.rank)
    if not where:
        return reshape(rolled(flat(self), 0, moves[0]), self.shape)
    result = self
    for at, shift in zip(where, moves, strict=True):
        result = rolled(result, at, shift)
    return result


def rolled(x: Value, at: int, shift: Dim) -> Value:
    """x moved along one axis."""
    if x.rank == 0:
        return x
    size = x.shape[at]
    if type(size) is int and size == 0:
        return x
    by = dims.mod(shift, size if type(size) is int else dims.maximum(size, 1))
    if type(by) is int and by == 0:
        return x
    start = dims.sub(size, by)
    return concat([slice_axis(x, at, start, None), slice_axis(x, at, None, start)], at)


def aten_pixel_shuffle(self: Value, upscale_factor: int) -> Value:
    """(..., c * r * r, h, w) -> (..., c, h * r, w * r)"""
    r = upscale_factor
    *lead, channels, h, w = self.shape
    out = (*lead, dims.floordiv(channels, r * r), dims.mul(h, r), dims.mul(w, r))
    if self.rank == 4 and self.dtype.is_float:
        return op.DepthToSpace(self, blocksize=r, mode="CRD")
    n = len(lead)
    apart = reshape(self, (*lead, out[n], r, r, h, w))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return reshape(permute(apart, order), out)


def aten_pixel_unshuffle(self: Value, downscale_factor: int) -> Value:
    """(..., c, h * r, w * r) -> (..., c * r * r, h, w)"""
    r = downscale_factor
    *lead, channels, h, w = self.shape
    n, h, w = len(lead), dims.floordiv(h, r), dims.floordiv(w, r)
    apart = reshape(self, (*lead, channels, h, r, w, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return reshape(permute(apart, order), (*lead, dims.mul(channels, r * r), h, w))


def aten_channel_shuffle(self: Value, groups: int) -> Value:
    """(n, g * k, ...) -> (n, k * g, ...): the channels of the groups taken in turn."""
    n, channels, *rest = self.shape
    apart = reshape(self, (n, groups, dims.floordiv(channels, groups), *rest))
    return reshape(swapped(apart, 1, 2), self.shape)


# ---------------------------------------------------------------------------------------------- parts


def aten_slice(self: Value, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: Dim = 1) -> Value:
    """self[start:end:step] along `dim`; the bounds as in Python."""
    at = axis(dim, self.rank)
    stop = None if end is None or (type(end) is int and end >= LAST) or _same(end, self.shape[at]) else end
    return slice_axis(self, at, start, stop, step)


def _same(a: Dim, b: Dim) -> bool:
    return dims.same(a, b) is True


def aten_select(self: Value, dim: int, index: Dim) -> Value:
    """self[index] along `dim`, which goes away."""
    return pick_index(self, axis(dim, self.rank), index)


def aten_narrow(self: Value, dim: int, start: Dim | Value, length: Dim) -> Value:
    """self[start : start + length] along `dim`; a start below 0 counts from the end."""
    at = axis(dim, self.rank)
    if isinstance(start, Value):
        given = reshape(cast(start, const(0).dtype), (1,))
        size = shape_vector((self.shape[at],), *binders((self.shape[at],), self))
        first = op.Where(op.Less(given, const(0)), op.Add(given, size), given)
        part = op.Slice(self, first, op.Add(first, shape_vector((length,), *binders((length,), self))), [at])
        return reshape(part, (*self.shape[:at], length, *self.shape[at + 1 :]))  # there is no part of another length
    begin = place_of(start, self.shape[at])
    part = aten_slice(self, at, begin, dims.add(begin, length))
    if not any(map(dims.is_fresh, dims.symbols_of(part.shape[at]))):
        return part
    return reshape(part, (*self.shape[:at], length, *self.shape[at + 1 :]))  # torch refuses a part of another length


def aten_unbind(self: Value, dim: int = 0, *, expected: Any = None) -> list[Value]:
    """self[0], self[1], ... along `dim`."""
    at = axis(dim, self.rank)
    count = len(expected) if isinstance(expected, tuple) else self.shape[at]
    if type(count) is not int:
        raise Unsupported(f"a dimension of {count} elements cannot be taken apart: the number of parts is not known")
    return [pick_index(self, at, i) for i in range(count)]


def aten_split(self: Value, split_size: Dim | Sequence[Dim], dim: int = 0, *, expected: Any = None) -> list[Value]:
    """self cut along `dim` into parts of `split_size`, the last one smaller, or of the sizes listed."""
    at = axis(dim, self.rank)
    if isinstance(split_size, Sequence):
        return parts_of(self, at, list(split_size))
    return parts_of(self, at, sizes_of_parts(self.shape[at], split_size, expected))


def sizes_of_parts(size: Dim, part: Dim, expected: Any) -> list[Dim]:
    """The sizes of the parts that a dimension is cut into: all of size `part`, the last one of what is left."""
    if type(part) is int and part == 0:
        return [size]
    count = len(expected) if isinstance(expected, tuple) else dims.maximum(dims.ceildiv(size, part), 1)
    if type(count) is not int:
        raise Unsupported(f"{size} elements cannot be cut into parts of {part}: the number of parts is not known")
    return [part] * (count - 1) + [dims.sub(size, dims.mul(part, count - 1))]


def parts_of(x: Value, at: int, sizes: list[Dim]) -> list[Value]:
    """x cut along an axis into parts of those sizes."""
    if len(sizes) <= 1:
        return [x] * len(sizes)
    return list(op.Split(x, shape_vector(sizes), axis=at, outputs=len(sizes)))


def aten_split_with_sizes(self: Value, split_sizes: Sequence[Dim], dim: int = 0) -> list[Value]:
    """self cut along `dim` into parts of the sizes listed."""
    return parts_of(self, axis(dim, self.rank), list(split_sizes))


def aten_chunk(self: Value, chunks: int, dim: int = 0, *, expected: Any = None) -> list[Value]:
    """self cut along `dim` into at most so many equal parts, the last one smaller."""
    at = axis(dim, self.rank)
    size = self.shape[at]
    if type(size) is int and size == 0:
        return parts_of(self, at, [0] * chunks)
    return parts_of(self, at, sizes_of_parts(size, dims.ceildiv(size, chunks), expected))


def aten_tensor_split_sections(self: Value, sections: int, dim: int = 0) -> list[Value]:
    """self cut along `dim` into so many parts, the first ones larger by one where it does not come out even."""
    at = axis(dim, self.rank)
    size = self.shape[at]
    share, more = dims.floordiv(size, sections), dims.mod(size, sections)
    if type(more) is not int:
        return parts_of(self, at, [dims.floordiv(dims.add(size, sections - 1 - i), sections) for i in range(sections)])
    return parts_of(self, at, [dims.add(share, 1 if i < more else 0) for i in range(sections)])


def aten_tensor_split_indices(self: Value, indices: Sequence[Dim], dim: int = 0) -> list[Value]:
    """self cut along `dim` before each of the indices."""
    at = axis(dim, self.rank)
    bounds: list[Dim | None] = [None, *indices, None]
    return [slice_axis(self, at, low, high) for low, high in pairwise(bounds)]


def splits_along(dim: int) -> tuple[Callable[[Value, int], list[Value]], Callable[[Value, Sequence[Dim]], list[Value]]]:
    """The converters of self cut along its first, second or third dimension: into equal parts, and before indices.

    A vector has only one.
    """

    def by_number(self: Value, sections: int) -> list[Value]:
        return aten_tensor_split_sections(self, sections, min(self.rank - 1, dim))

    def by_indices(self: Value, indices: Sequence[Dim]) -> list[Value]:
        return aten_tensor_split_indices(self, indices, min(self.rank - 1, dim))

    return by_number, by_indices


aten_vsplit_int, aten_vsplit_array = splits_along(0)
aten_hsplit_int, aten_hsplit_array = splits_along(1)
aten_dsplit_int, aten_dsplit_array = splits_along(2)


def aten_unfold(self: Value, dimension: int, size: Dim, step: Dim) -> Value:
    """Every window of `size` elements along `dimension`, `step` apart; the windows' elements come last."""
    if self.rank == 0:
        return expand(unsqueeze(self, 0), (size,))
    at = axis(dimension, self.rank)
    count = dims.add(dims.floordiv(dims.sub(self.shape[at], size), step), 1)
    starts = op.Mul(iota(count), dim_scalar(step))
    places = op.Add(unsqueeze(starts, 1), iota(size))
    return move_axis(op.Gather(self, places, axis=at), at + 1, -1)


def aten_as_strided(
    self: Value, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None = None
) -> Value:
    """The elements at storage_offset + sum(index * stride) of self, which must lie contiguous in memory."""
    return op.Gather(flat(self), strided_places(size, stride, storage_offset), axis=0)


def strided_places(size: Sequence[Dim], stride: Sequence[Dim], offset: Dim | None) -> Value:
    """Where the elements of a strided view lie in memory: offset + sum(index * stride), of shape `size`."""
    places = scalar(0 if offset is None else offset, const(0).dtype)
    for i, (length, by) in enumerate(zip(size, stride, strict=True)):
        steps = op.Mul(iota(length), dim_scalar(by))
        places = op.Add(places, unsqueeze(steps, *range(1, len(size) - i)))
    return places


def aten_as_strided_scatter(
    self: Value, src: Value, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None = None
) -> Value:
    """self, which must lie contiguous in memory, with the elements that `as_strided` would take replaced by src.

    Where strides let places coincide, the last of what is put there stays.
    """
    places = flat(expand(strided_places(size, stride, storage_offset), size))
    new = flat(expand(cast(src, self.dtype), size))
    return reshape(op.ScatterElements(flat(self), places, new, axis=0), self.shape)
