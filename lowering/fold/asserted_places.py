"""What operators that read or write by masks assert of how many places these choose: torch looks, also where nothing
uses what is read or written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations
from typing import Any

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from irkit.dims.algebra import any_fresh
from lowering.fold.scope import Check
from lowering.records.sizes import is_unbacked
from lowering.tensors.promotion import cast, truth
from lowering.tensors.shaping import binders, broadcast_shape, ints

READ = "aten::index"
WRITTEN = "aten::index_put"
SCATTERED = "aten::masked_scatter"
PLACES = frozenset((READ, WRITTEN, SCATTERED))
MASKS = (DType.BOOL, DType.UINT8)

Count = tuple[Value, Dim | None]
"""How many places there are along an axis: the number, as a vector of one, and the size where it is no mask's."""


def places_asserted(
    name: str, line: str, x: Value, chosen: Any, values: Value | None = None, *_: Any, **__: Any
) -> Iterator[Check]:
    """What a call of one of PLACES asserts: masks choose as many places as stand beside them, and as values are given
    for them; a masked_scatter has an element for each place."""
    if name == SCATTERED and values is not None:
        yield from elements_enough(x, chosen, values, line)
        return
    given = [index for index in chosen if index is not None] if name != SCATTERED else []
    masks = [index for index in given if index.dtype in MASKS]
    others = {
        index.shape[-1]: index for index in given if index.dtype not in MASKS and index.shape[-1:] not in ((), (1,))
    }
    if not masks and not any(map(hangs_on_data, others)):
        return
    counts = [counted(mask) for mask in masks]
    counts += [(shape_vector((size,), *binders((size,), index)), size) for size, index in others.items()]
    for (one, size), (other, size_) in combinations(counts, 2):
        if size is None or size_ is None:
            fits = op.Or(op.Equal(one, other), op.Or(op.Equal(one, const([1])), op.Equal(other, const([1]))))
            yield check(fits, "indices that stand beside each other choose as many places, or one", line)
    if name == WRITTEN and values is not None:
        yield from values_enough(x, chosen, values, counts, line, masks[0] if masks else None)


def values_enough(
    x: Value, chosen: Sequence[Value | None], values: Value, counts: Sequence[Count], line: str, mask: Value | None
) -> Iterator[Check]:
    """The condition that values are as many as the places that masks choose, or one for all."""
    at = values.rank - 1 - axes_behind(x, chosen)
    size: Dim = values.shape[at] if at >= 0 else 1
    if size == 1 or (len(counts) == 1 and counts[0][1] == size):
        return
    if len(counts) == 1 and mask is not None and is_chosen_by(values, size, mask):
        return
    number = shape_vector((size,), *binders((size,), values))
    same = [op.Equal(count, number) for count, _ in counts]
    as_many = reduce(op.Or, same)
    for (count, _), each in zip(counts if len(counts) > 1 else (), same, strict=False):
        as_many = op.And(as_many, op.Or(each, op.Equal(count, const([1]))))
    one = op.Equal(number, const([1]))
    holds = as_many if type(size) is int else op.Or(as_many, one)
    yield check(holds, "values are as many as the places that a mask chooses, or one", line)


def elements_enough(x: Value, mask: Value, values: Value, line: str) -> Iterator[Check]:
    """The condition that masked_scatter is given an element for each place."""
    shape = broadcast_shape(x.shape, mask.shape)
    few = mask
    while few.op == "Expand" and few.inputs[0] is not None:
        few = few.inputs[0]
    own = (*(1 for _ in range(len(shape) - few.rank)), *few.shape)
    times = dims.product([size for size, each in zip(shape, own, strict=True) if each == 1])
    count, _ = counted(few)
    if times != 1:
        count = op.Mul(count, shape_vector((times,), *binders((times,), x, mask)))
    there = dims.product(values.shape)
    if dims.same(there, dims.product(shape)) is not True:
        number = shape_vector((there,), *binders((there,), values))
        yield check(op.LessOrEqual(count, number), "masked_scatter has an element for each place of its mask", line)


def hangs_on_data(size: Dim) -> bool:
    """Whether only data tells a size."""
    return any(is_unbacked(symbol.name) for symbol in dims.symbols_of(size))


def counted(mask: Value) -> Count:
    """How many places a mask chooses."""
    return op.Reshape(op.ReduceSum(cast(truth(mask), DType.INT64), keepdims=0), ints(1)), None


def axes_behind(x: Value, chosen: Sequence[Value | None]) -> int:
    """How many axes of x[chosen] stand behind those of the places."""
    axes, indexed = 0, list[int]()
    for index in chosen:
        taken = index.rank if index is not None and index.dtype in MASKS else 1
        indexed.extend(range(axes, axes + taken) if index is not None else ())
        axes += taken
    beside = indexed == list(range(indexed[0], indexed[-1] + 1))
    return x.rank - len(indexed) - (indexed[0] if beside else 0)


def is_chosen_by(values: Value, size: Dim, mask: Value) -> bool:
    """Whether a size of values is the number of places that the same mask chooses: they are computed, place by place,
    of what it chose."""
    seen, left = set[int](), [values]
    while left:
        value = left.pop()
        if value.op == "NonZero" and value.inputs[0] is not None and alike(value.inputs[0], truth(mask)):
            return True
        if id(value) not in seen and (size in value.shape or any_fresh(value.shape)):
            left.extend(each for each in value.inputs if each is not None)
        seen.add(id(value))
    return False


def alike(one: Value, other: Value, depth: int = 8) -> bool:
    """Whether two values are computed alike, of the same values, in a few steps."""
    if one is other:
        return True
    if depth == 0 or one.op != other.op or one.op.startswith(("Random", "Multinomial", "Bernoulli")) or one.bodies:
        return False
    if one.attributes != other.attributes or len(one.inputs) != len(other.inputs) or not one.inputs:
        return False
    return all(
        a is b or (a is not None and b is not None and alike(a, b, depth - 1))
        for a, b in zip(one.inputs, other.inputs, strict=True)
    )


def check(holds: Value, text: str, line: str) -> Check:
    """A condition that is a vector of one truth value."""
    return Check(op.Squeeze(holds, ints(0)), text, line)
