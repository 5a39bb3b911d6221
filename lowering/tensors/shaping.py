"""Movement of elements as converters say it: ONNX nodes only where something moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sympy

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.dims import Dim
from lowering.errors import LoweringError, Unsupported

LAST = np.iinfo(np.int64).max
"""The end of a slice that goes to the end."""

FIRST = np.iinfo(np.int64).min
"""The end of a slice that goes backwards to the start."""


def ints(*numbers: int) -> Value:
    """A constant vector of int64."""
    return const(np.array(numbers, dtype=np.int64))


def axis(dim: int, rank: int) -> int:
    """`dim` counted from the front. torch takes 0 and -1 for tensors without dimensions too, and refuses others."""
    room = max(rank, 1)
    if not -room <= dim < room:
        raise LoweringError(
            f"there is no dimension {dim} of {rank}, and eager refuses it", hint=f"name one from {-room} to {room - 1}"
        )
    return dim % rank if rank else 0


def axes(dim: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The axes that `dim` names, sorted; all of them where it is None or empty."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(rank))
    return tuple(sorted(axis(d, rank) for d in ([dim] if isinstance(dim, int) else dim))) if rank else ()


def known_equal(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """True where two shapes are equal for sure."""
    return len(a) == len(b) and all(dims.same(x, y) is True for x, y in zip(a, b, strict=True))


def may_be_empty(size: Dim) -> bool:
    """True where a size is not known to be above 0."""
    return dims.same(size, 0) is not False


def reshape(x: Value, shape: Iterable[Dim]) -> Value:
    """The elements of x, in order, under new dimensions. A 0 among them is a size, no copy of an input dimension."""
    shape = tuple(shape)
    if known_equal(x.shape, shape):
        return x
    return op.Reshape(x, shape_vector(shape), allowzero=int(any(type(d) is int and d == 0 for d in shape)))


def flat(x: Value) -> Value:
    """x as a vector."""
    return x if x.rank == 1 else reshape(x, (numel(x),)) if x.rank == 0 else op.Reshape(x, ints(-1))


def numel(x: Value) -> Dim:
    """How many elements x has."""
    return dims.product(x.shape)


def expand(x: Value, shape: Iterable[Dim], *sources: Value) -> Value:
    """x repeated along its dimensions of size 1, and new leading ones, to `shape`.

    `sources` are values in whose types dimensions of `shape` stand that are known only as the program runs.
    """
    shape = tuple(shape)
    return x if known_equal(x.shape, shape) else op.Expand(x, shape_vector(shape, *binders(shape, *sources)))


def binders(shape: Sequence[Dim], *sources: Value) -> tuple[Value, ...]:
    """Those of the sources that are needed to tell what the unknown dimensions of `shape` are."""
    unknown = {s for d in shape for s in dims.symbols_of(d) if dims.is_fresh(s)}
    return tuple(v for v in sources if unknown.intersection(d for d in v.shape if type(d) is not int))


def permute(x: Value, order: Iterable[int]) -> Value:
    """Axis i of the result is axis order[i] of x."""
    order = tuple(order)
    return x if order == tuple(range(x.rank)) else op.Transpose(x, perm=order)


def move_axis(x: Value, source: int, target: int) -> Value:
    """x with one axis moved to another place, the others in order."""
    source, target = axis(source, x.rank), axis(target, x.rank)
    order = [i for i in range(x.rank) if i != source]
    order.insert(target, source)
    return permute(x, order)


def unsqueeze(x: Value, *where: int) -> Value:
    """x with dimensions of size 1 at those places of the result."""
    rank = x.rank + len(where)
    return op.Unsqueeze(x, ints(*(w % rank for w in where))) if where else x


def squeeze(x: Value, *where: int) -> Value:
    """x without those dimensions, which have size 1."""
    return op.Squeeze(x, ints(*(w % x.rank for w in where))) if where else x


def vector(x: Value) -> Value:
    """x, with one dimension of size 1 where it has none."""
    return unsqueeze(x, 0) if x.rank == 0 else x


def slice_axis(x: Value, dim: int, start: Dim | None, stop: Dim | None, step: Dim = 1) -> Value:
    """x[start:stop:step] along one axis; the bounds as in Python."""
    if (start is None or _is(start, 0)) and (stop is None or _is(stop, LAST)) and _is(step, 1):
        return x
    bounds = (shape_vector((0 if start is None else start,)), shape_vector((LAST if stop is None else stop,)))
    return op.Slice(x, *bounds, ints(dim), *(() if _is(step, 1) else (shape_vector((step,)),)))


def place_of(index: Dim, size: Dim) -> Dim:
    """An index as a place from the front: `index + size` where it counts from the end. Of a dimension without elements
    it says nothing.

    Where the sign hangs on sizes, the place says so: torch records no guard for it.
    """
    if type(index) is int:
        return index if index >= 0 else dims.add(index, size)
    if index.is_negative:  # type: ignore[union-attr]
        return dims.add(index, size)
    if _counts_from_the_front(index, size):
        return index
    if dims.sub(index, size) == -2:  # of one element it is -1, the first one again
        return dims.maximum(0, index)
    from_end = dims.minimum(1, dims.maximum(0, dims.mul(index, -1)))
    return dims.add(index, dims.mul(size, from_end))


def _counts_from_the_front(index: Any, size: Dim) -> bool:
    """True for an index that is known to do so wherever the dimension has an element: `size - 1`."""
    if index.is_nonnegative or dims.sub(index, size) == -1:
        return True
    return isinstance(size, sympy.Symbol) and bool(sympy.expand(index.subs(size, size + 1)).is_nonnegative)


def slice_bounds(start: Dim | None, stop: Dim | None, size: Dim) -> tuple[Dim, Dim]:
    """(low, high): `[start:stop]` of a dimension takes places from low on, below high; 0 <= low <= high <= size."""
    low = 0 if start is None else _clamped(start, size)
    high = size if stop is None else _clamped(stop, size)
    if isinstance(start, int) and isinstance(stop, int) and (start < 0) == (stop < 0):
        return low, high if start <= stop else low
    above = dims.same(low, 0) is True or dims.same(high, size) is True
    return low, high if above else dims.maximum(low, high)


def _clamped(index: Dim, size: Dim) -> Dim:
    if type(index) is int and index >= 2**31:
        return size
    at = place_of(index, size)
    return size if dims.same(at, size) is True else dims.maximum(0, dims.minimum(at, size))


def replace_slice(x: Value, part: Value, at: int, low: Dim, high: Dim) -> Value:
    """x with the places from low on and below high along an axis replaced by `part`, of that very shape."""
    before = [] if _same(low, 0) else [slice_axis(x, at, None, low)]
    after = [] if _same(high, x.shape[at]) else [slice_axis(x, at, high, None)]
    return concat([*before, part, *after], at)


def _same(a: Dim, b: Dim) -> bool:
    return dims.same(a, b) is True


def _is(dim: Dim, number: int) -> bool:
    return type(dim) is int and dim == number


def pick_index(x: Value, dim: int, index: Dim) -> Value:
    """x[index] along one axis, which goes away."""
    return op.Gather(x, dim_scalar(index), axis=dim)


def concat(parts: Sequence[Value], dim: int) -> Value:
    """The parts one after the other along an axis."""
    if not parts:
        raise Unsupported("there is nothing to concatenate")
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=dim)


def add_rows(x: Value, places: Value, size: Dim, axis: int) -> Value:
    """Zeros of `size` along an axis, to which row i of x is added at places[i], or at each row's own places where they
    have as many dimensions as x."""
    where = expand(align_axis(places, axis, x.rank) if places.rank == 1 else places, x.shape, x)
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    ground = op.Expand(const(np.zeros((), x.dtype.numpy)), shape_vector(shape, *binders(shape, x)))
    return op.ScatterElements(ground, where, x, axis=axis, reduction="add")


def iota(size: Dim) -> Value:
    """0, 1, ... size - 1 as int64."""
    made = op.Range(ints_scalar(0), dim_scalar(size), ints_scalar(1))
    return (
        made if dims.same(made.shape[0], size) is True else reshape(made, (size,))
    )  # of n - 3 there are max(0, n - 3)


def up_to(numbers: Value, most: Dim, wrong: Value | None = None) -> Value:
    """Numbers of int64, looked up among 0 to `most`: the runtime refuses others, and those that are `wrong`, as eager
    torch does."""
    below, beyond = op.Less(numbers, ints_scalar(0)), dim_scalar(dims.add(most, 1))
    refused = below if wrong is None else op.Or(below, wrong)
    return op.Gather(iota(dims.add(most, 1)), op.Where(refused, beyond, numbers))


def ints_scalar(number: int) -> Value:
    """A constant int64 without dimensions."""
    return const(np.array(number, dtype=np.int64))


def broadcast_shape(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """What shapes that torch has found to broadcast give. Of two dimensions that cannot be compared, the first is
    taken: torch has recorded a guard that they are equal."""
    rank = max(map(len, shapes))
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for i, d in enumerate(shape, rank - len(shape)):
            if _is(result[i], 1) or (type(d) is int and type(result[i]) is not int and d != 1):
                result[i] = d
    return tuple(result)


def broadcast_all(*values: Value) -> tuple[Value, ...]:
    """The values expanded to the shape they broadcast to."""
    shape = broadcast_shape(*(v.shape for v in values))
    return tuple(expand(v, shape) for v in values)


def align_axis(x: Value, dim: int, rank: int) -> Value:
    """A vector laid along axis `dim` of `rank` dimensions, the others of size 1."""
    return unsqueeze(x, *(i for i in range(rank) if i != dim))
