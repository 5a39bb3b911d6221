"""Parts of a tensor, `x[...]`: what numpy's indices build, one operator for all slices, one for each number.

New axes come first, then slices, then numbers and tensors of integers, which take the axes that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import index
from types import EllipsisType
from typing import Any, Final, cast

import attrs
import numpy as np
import sympy

from irkit.core.blobs import owned_blob
from irkit.core.ir import Value, constant
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from irkit.dims.validation import number_of
from irkit.errors import TypeRuleError
from irkit.hand.arithmetic import binders
from irkit.nodes.construct import call, const, dim_scalar, shape_vector
from irkit.support.arguments import brief
from irkit.support.results import as_tuple

FIRST, LAST = -(1 << 63), (1 << 63) - 1
"""Beyond the ends of each axis."""

INDICES: Final = (DType.INT32, DType.INT64)
"""Element types that ONNX takes indices of."""

ALL = slice(None)

CONSTANTS = 1 << 10
"""So many constants of a few numbers are remembered: values never change, so that all may hold the same."""

PLAIN: Final = frozenset((int, slice))
"""Types of keys that stand for themselves, which most are."""

Place = int | Dim | Value
"""A number of an element: an int, a size, or a tensor of integers."""

Parts = slice | Place
"""What is taken of one axis."""


def indexed(x: Value, key: object) -> Value:
    """The part of a tensor that a key names. Raises TypeRuleError for what is no key of a tensor."""
    if type(x.type) is not Tensor:
        raise TypeRuleError(
            f"a {x.type!r} has no elements to index", hint="op.SequenceAt(x, i) takes one of a sequence"
        )
    given: Any = key
    if type(key) is not tuple:  # most are
        given = as_tuple(key)
    if PLAIN.issuperset(map(type, given)) and len(given) <= len(x.type.shape):
        parts: Sequence[Parts] = given
    else:
        keys = without_ellipsis(x, list(given))
        fresh = [i for i, each in enumerate(keys) if each is None]
        if fresh:
            x = call("Unsqueeze", (x, vector_of(tuple(fresh))))
        parts = [ALL if each is None else part_of(each) for each in keys]
    places = {axis: each for axis, each in enumerate(parts) if type(each) is not slice}
    if parts.count(ALL) + len(places) < len(parts):
        x = sliced(x, parts)
    return taken(x, places) if places else x


@lru_cache(maxsize=CONSTANTS)
def vector_of(numbers: tuple[int, ...]) -> Value:
    """The numbers as a vector of int64."""
    return constant(owned_blob(np.array(numbers, np.int64), DType.INT64))


@lru_cache(maxsize=CONSTANTS)
def scalar(number: int) -> Value:
    """The number as a scalar of int64."""
    return constant(owned_blob(np.array(number, np.int64), DType.INT64))


def without_ellipsis(x: Value, keys: list[object]) -> list[object]:
    """The keys with `...` written out. Raises TypeRuleError for more of them than there are axes."""
    places = [i for i, each in enumerate(keys) if type(each) is EllipsisType]
    count = len(keys) - sum([each is None for each in keys]) - len(places)
    if len(places) > 1:
        raise TypeRuleError("an index has two `...`", hint="one stands for all axes that are not named")
    if count > x.rank:
        raise TypeRuleError(f"{x!r} has {x.rank} axes, and {count} are indexed", hint="x[None] adds an axis")
    if not places:
        return keys
    at = places[0]
    return [*keys[:at], *[ALL] * (x.rank - count), *keys[at + 1 :]]


def part_of(given: object) -> Parts:
    """A key of one axis. Raises TypeRuleError for what is none."""
    key: Any = given
    if type(key) is slice or type(key) is int:
        return key
    if isinstance(key, bool | np.bool_):
        raise TypeRuleError(f"{key!r} is no place in a tensor", hint="x[0] and x[1] are the first two elements")
    if isinstance(key, list | np.ndarray):
        array = np.asarray(key, dtype=np.int64 if isinstance(key, list) and not key else None)
        if array.dtype.kind in "iu":
            return const(array.astype(np.int64))
        refuse_index(DType.BOOL if array.dtype == bool else None, brief(given))
    if isinstance(key, Value):
        if key.dtype not in INDICES:
            refuse_index(key.dtype, repr(key))
        return key
    if isinstance(key, str | sympy.Basic):
        return number_of(key)
    try:
        return index(cast("Any", given))
    except TypeError:
        refuse_index(None, brief(given))
        raise


def refuse_index(dtype: DType | None, shown: str) -> None:
    """Raises TypeRuleError for what places cannot be."""
    hint = "give numbers, slices, None, ..., or tensors of i32 or i64"
    if dtype is DType.BOOL:
        hint = "op.Compress(x, mask, axis=0) takes the rows of a mask, op.Where(mask, x, y) keeps the shape"
    elif dtype is not None and dtype.is_integer:
        hint = 'cast it: x[i.cast("i64")]'
    raise TypeRuleError(f"{shown} is no index of a tensor", hint=hint)


# ---------------------------------------------------------------------------------------------- slices


_INTS = frozenset((int,))


@attrs.define
class Cut:
    """What is sliced along one axis, as ONNX's Slice says it."""

    axis: int
    start: Place
    stop: Place
    step: int


def sliced(x: Value, parts: Sequence[Parts]) -> Value:
    """The slices of all axes at once; the value itself where they leave it whole."""
    whole = [(axis, each) for axis, each in enumerate(parts) if isinstance(each, slice) and each != ALL]
    if not whole:
        return x
    windows = [(axis, w) for axis, each in whole if (w := window_before(each, x.shape[axis])) is not None]
    for axis, window in windows:
        x = slice_of(x, [cut_of(axis, window, x.shape[axis])])
    behind = {axis: slice(None, None, each.step) for axis, each in whole if axis in dict(windows)}
    return slice_of(x, [cut_of(axis, behind.get(axis, each), x.shape[axis]) for axis, each in whole])


def window_before(part: slice, size: Dim) -> slice | None:
    """What is cut first where a slice runs backwards from a place counted from the end of a size that varies: ONNX
    begins at the first element where there is no such place, Python nowhere."""
    if type(size) is int or part.step is None or part.start is None or step_of(part) > 0:
        return None
    start, stop = (None if each is None else bound_of(each) for each in (part.start, part.stop))
    if type(start) is not int or not (stop is None or type(stop) is int):
        raise TypeRuleError(
            f"a slice with the step {part.step} has bounds that are not known", hint="write x[start:stop][::-1]"
        )
    if start >= -1:
        return None
    # From `start` down to above `stop`: the elements from stop + 1 up to start, turned round.
    return slice(0, 0) if stop == -1 else slice(None if stop is None else stop + 1, start + 1)


def step_of(part: slice) -> int:
    """The step of a slice. Raises TypeRuleError for 0, and for what is no number."""
    if part.step is None:
        return 1
    try:
        step = index(part.step)
    except TypeError:
        raise TypeRuleError(f"the step {brief(part.step)} is no number", hint="write x[::2]") from None
    if step == 0:
        raise TypeRuleError("the step of a slice is 0", hint="write x[::1], or x[::-1] for the other direction")
    return step


def bound_of(bound: object) -> Place:
    """An end of a slice. Raises TypeRuleError for what is none."""
    if type(bound) is int:
        return bound
    found = part_of(bound)
    if isinstance(found, slice) or (isinstance(found, Value) and (found.rank != 0 or found.dtype is not DType.INT64)):
        raise TypeRuleError(
            f"{brief(bound) if not isinstance(bound, Value) else repr(bound)} is no bound of a slice",
            hint='give a number, a size (irkit.symbol("n"), or its name) or a scalar of i64',
        )
    return found


def cut_of(axis: int, part: slice, size: Dim) -> Cut:
    """A slice of an axis, of numbers within it where its size is known."""
    step = step_of(part)
    start = (0 if step > 0 else LAST) if part.start is None else bound_of(part.start)
    stop = (LAST if step > 0 else FIRST) if part.stop is None else bound_of(part.stop)
    known = all(type(each) is int for each in (start, stop, size))
    if step < 0 and not known and not (type(start) is int and type(stop) is int):
        raise TypeRuleError(f"a slice with the step {step} has bounds that vary", hint="write x[start:stop][::-1]")
    if known:
        length = cast("int", size)
        inside = part.indices(length)
        if not range(*inside):
            return Cut(axis, 0, 0, 1)
        return Cut(axis, inside[0], inside[1] if inside[1] >= 0 else FIRST, step)
    return Cut(axis, start, stop, step)


def slice_of(x: Value, cuts: Sequence[Cut]) -> Value:
    """One Slice of several axes, those left out that are taken whole."""
    cuts = [c for c in cuts if (c.start, c.step) != (0, 1) or not is_end(c.stop, x.shape[c.axis])]
    if not cuts:
        return x
    starts, stops = vector(x, [c.start for c in cuts]), vector(x, [c.stop for c in cuts])
    axes = vector_of(tuple([c.axis for c in cuts]))
    if all(c.step == 1 for c in cuts):
        return call("Slice", (x, starts, stops, axes))
    return call("Slice", (x, starts, stops, axes, vector_of(tuple([c.step for c in cuts]))))


def is_end(stop: Place, size: Dim) -> bool:
    """Whether a bound is the end of an axis."""
    return stop is size or (type(stop) is int and (stop == LAST or (type(size) is int and stop >= size)))


def vector(x: Value, places: Sequence[Place]) -> Value:
    """The places as a vector of int64, put together where values are among them."""
    if _INTS.issuperset(map(type, places)):
        return vector_of(cast("tuple[int, ...]", tuple(places)))
    if not any(isinstance(each, Value) for each in places):
        sizes = cast("list[Dim]", list(places))
        return shape_vector(sizes, *binders(sizes, x))
    pieces: list[Value] = []
    for each in places:
        if isinstance(each, Value):
            pieces.append(call("Unsqueeze", (each, vector_of((0,)))))
        else:
            pieces.append(shape_vector([each], *binders([each], x)))
    return pieces[0] if len(pieces) == 1 else call("Concat", pieces, {"axis": 0})


# ---------------------------------------------------------------------------------------------- places


def taken(x: Value, places: dict[int, Place]) -> Value:
    """The elements at these places of some axes. As in numpy, the axes of tensors of places stand where the first of
    them stood, and in front where an axis that is kept stands between them."""
    for axis, place in places.items():
        require_inside(x, axis, place)
    if len(places) == 1 and type(next(iter(places.values()))) is int:
        ((axis, place),) = places.items()
        return call("Gather", (x, scalar_of(x, place)), {"axis": axis})
    arrays = {axis: each for axis, each in places.items() if isinstance(each, Value) and each.rank}
    apart = max(places) - min(places) >= len(places)
    first = min(places)
    for axis in sorted(places.keys() - arrays.keys(), reverse=True):
        x = call("Gather", (x, scalar_of(x, places[axis])), {"axis": axis})
        arrays = {a - (a > axis): each for a, each in arrays.items()}
    if not arrays:
        return x
    if len(arrays) == 1:
        ((axis, each),) = arrays.items()
        x, at, rank = call("Gather", (x, each), {"axis": axis}), axis, each.rank
    else:
        x, rank = taken_together(x, arrays)
        at = 0
    return moved(x, at, rank, 0 if apart else first)


def require_inside(x: Value, axis: int, place: Place) -> None:
    """Raises TypeRuleError for a number that is certainly no place of an axis."""
    size = x.shape[axis]
    held = place.blob.array if isinstance(place, Value) and place.blob is not None else place
    if type(size) is int and isinstance(held, int | np.ndarray):
        least, most = (held, held) if isinstance(held, int) else (held.min(initial=0), held.max(initial=-1))
        if least < -size or most >= size:
            wrong = least if least < -size else most
            raise TypeRuleError(
                f"axis {axis} of {x!r} has no element {wrong}", hint=f"it has {size}, from 0, or from -1 backwards"
            )


def scalar_of(x: Value, place: Place) -> Value:
    """One place as a scalar."""
    if isinstance(place, Value):
        return place
    return scalar(place) if type(place) is int else dim_scalar(place, *binders([place], x))


def taken_together(x: Value, arrays: dict[int, Value]) -> tuple[Value, int]:
    """The elements at places of several axes, and how many axes in front the places have."""
    kept = [axis for axis in range(x.rank) if axis not in arrays]
    order = [*arrays, *kept]
    if order != sorted(order):
        x = call("Transpose", (x,), {"perm": order})
    wide = [each.cast("i64") for each in arrays.values()]
    together = reduce(lambda a, b: a if a.shape == b.shape else call("Add", (a, b)), wide)
    shape = together.shape
    same = [each if each.shape == shape else widened(each, together) for each in wide]
    last = vector_of((-1,))
    indices = call("Concat", [call("Unsqueeze", (each, last)) for each in same], {"axis": -1})
    return call("GatherND", (x, indices)), len(shape)


def widened(places: Value, like: Value) -> Value:
    """Places broadcast to the shape of a value."""
    return call("Expand", (places, shape_vector(like.shape, *binders(like.shape, like))))


def moved(x: Value, at: int, count: int, to: int) -> Value:
    """The value with `count` axes from `at` on moved, so that they begin at `to`."""
    if at == to:
        return x
    moving = list(range(at, at + count))
    others = [axis for axis in range(x.rank) if axis not in moving]
    return call("Transpose", (x,), {"perm": [*others[:to], *moving, *others[to:]]})
