"""Which places operators take or put, as far as sizes and constants tell them: all must be there.

Places that data tells fail where what is found there is used. A constant place that no size reaches, and any place
along an axis of no element, are conditions on sizes: what is put there may be used by nobody, and eager refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import attrs
import sympy

from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.core.vocabulary import CONSTANT

MASKS = (DType.BOOL, DType.UINT8)
MOVING = frozenset("Reshape Squeeze Unsqueeze Transpose Flatten Expand Identity".split())
"""What gives all numbers of its first operand, at other places."""
MANY = 1 << 16
"""Constant places that are more are not looked at."""


@attrs.frozen
class Met:
    """An operator with its arguments by name, the sizes of one, and the least and the greatest of constant places."""

    given: Mapping[str, Any]
    sizes: Callable[[Any], Sequence[Any]]
    ends: Callable[[Any], tuple[int, int] | None]
    is_mask: Callable[[Any], bool]

    def along(self, lenient: bool = False, first: str = "self") -> Iterator[Any]:
        """The conditions that places along one dimension are there, but where nothing is taken or put at all: by
        gather(x, dim, index) and its like. Those who are `lenient` ask nothing of an axis of no element."""
        shape, index = [*self.sizes(self.given[first])] or [1], self.given["index"]
        axis = self.given["dim"] % len(shape)
        rest = [*self.sizes(index)] + [size for at, size in enumerate(shape) if at != axis]
        yield from there(shape[axis], self.ends(index), rest, lenient)

    def rows(self) -> Iterator[Any]:
        """The conditions that rows are there: of index_select(x, dim, index) and its like, whose rows may be empty."""
        shape, index = [*self.sizes(self.given["self"])] or [1], self.given["index"]
        yield from there(shape[self.given["dim"] % len(shape)], self.ends(index), self.sizes(index))

    def table(self) -> Iterator[Any]:
        """The conditions that rows of a table are there: of embedding(weight, indices)."""
        indices = self.given["indices"]
        yield from there(self.sizes(self.given["weight"])[0], self.ends(indices), self.sizes(indices))

    def elements(self) -> Iterator[Any]:
        """The conditions that places among all elements are there: of take(x, index) and put(x, index, source)."""
        whole, index = prod(self.sizes(self.given["self"])), self.given["index"]
        yield from there(whole, self.ends(index), self.sizes(index))

    def at_indices(self) -> Iterator[Any]:
        """The conditions that places along several dimensions are there, where none is told by a mask: of
        index(x, indices) and index_put(x, indices, values)."""
        indices = [each for each in self.given["indices"] if each is not None]
        if any(map(self.is_mask, indices)):
            return
        counts = [size for each in indices for size in self.sizes(each)]
        for size, each in zip(self.sizes(self.given["self"]), self.given["indices"], strict=False):
            if each is not None:
                yield from there(size, self.ends(each), counts)


def there(whole: Any, ends: tuple[int, int] | None, counts: Sequence[Any], lenient: bool = False) -> Iterator[Any]:
    """The condition that an axis has an element, and reaches as far as constant places, or that some count is 0."""
    if isinstance(whole, int | sympy.Integer) or any(size == 0 for size in counts):
        return
    least = 1 if ends is None else max(ends[1] + 1, -ends[0], 1)
    if least == 1 and (lenient or is_nothing_with(whole, counts)):
        return
    nothing: list[Any] = [sympy.Eq(size, 0) for size in counts if not isinstance(size, int | sympy.Integer)]
    nothing += [sympy.Eq(whole, 0)] if lenient else []
    condition = sympy.Or(sympy.Ge(whole, least), *nothing)
    if condition not in (True, sympy.true):
        yield condition


def is_nothing_with(whole: Any, counts: Sequence[Any]) -> bool:
    """Whether some count is 0 wherever the length of an axis is: each factor of that is one of a count's."""
    factors = [each for each in sympy.Mul.make_args(sympy.sympify(whole)) if not each.is_number]
    known = {factor for count in counts for factor in sympy.Mul.make_args(sympy.sympify(count))}
    return known.issuperset(factors)


STRICT = "index_fill index_copy scatter scatter_add scatter_reduce gather"
PLACED: Mapping[str, Callable[[Met], Iterator[Any]]] = MappingProxyType({
    **{f"aten::{name}{end}": Met.along for name in STRICT.split() for end in ("", "_")},
    **{f"aten::index_add{end}": lambda met: met.along(lenient=True) for end in ("", "_")},
    **{f"aten::index_reduce{end}": Met.rows for end in ("", "_")},
    **{f"aten::{name}": Met.at_indices for name in "index index_put index_put_ _unsafe_index".split()},
    **dict.fromkeys(("aten::take", "aten::put", "aten::put_"), Met.elements),
    "aten::index_select": Met.rows, "aten::embedding": Met.table,
})  # fmt: skip
"""By operator that takes or puts at places: the conditions under which these are there."""


def places_there(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """The conditions on sizes under which the places of an operator, called with values, are there."""
    yield from conditions(func, args, kwargs, lambda value: value.shape, ends_of, lambda value: value.dtype in MASKS)


def conditions(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], sizes: Any, ends: Any, is_mask: Any
) -> Iterator[Any]:
    """The same of arguments of any kind: `sizes`, `ends` and `is_mask` tell of each what `Met` asks."""
    asked = PLACED.get(func._schema.name)
    if asked is not None:
        given = {**dict(zip((each.name for each in func._schema.arguments), args, strict=False)), **kwargs}
        yield from asked(Met(given, sizes, ends, is_mask))


def ends_of(value: Any) -> tuple[int, int] | None:
    """The least and the greatest number of a constant of whole numbers, in any shape; None of what is none, or large or
    empty."""
    while isinstance(value, Value) and value.op in MOVING:
        value = value.inputs[0]
    if not isinstance(value, Value) or value.op != CONSTANT or not value.dtype.is_integer:
        return None
    blob = value.blob
    if blob is None or blob.absent or not 0 < blob.size <= MANY:
        return None
    least, greatest = blob.extremes
    return int(least), int(greatest)
