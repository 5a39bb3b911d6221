"""Places that operators look up, and sizes that they divide integers by, where nothing uses what is computed: no
runtime would refuse places that are not there, or a size of 0, and eager does. What the runtime would look at becomes a
condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from irkit import dims
from irkit.build import op, shape_vector
from irkit.core import walk
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.core.vocabulary import CONSTANT, PARAM, SHAPE_VECTOR
from irkit.dims import Dim
from irkit.errors import AbsentError
from lowering.direct.kernel_sizes.numbers import of_sizes
from lowering.fold.asserted_operands import none_wrong
from lowering.fold.assertions import settled_checks
from lowering.fold.scope import Check, Lookup, Scope
from lowering.tensors import shaping
from lowering.tensors.complex_pairs import PAIR, parts
from lowering.tensors.places import MASKS, MOVING, PLACED
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import binders
from passes.analysis.spans import LOOKED_UP, is_from_front, span_of

FURTHER = "embedding_bag _embedding_bag _embedding_bag_forward_only max_unpool2d max_unpool3d"
LOOKING = frozenset((*PLACED, *(f"aten::{name}" for name in (*FURTHER.split(), "_index_put_impl_")))).difference(
    ("aten::_unsafe_index",)
)
"""Operators that refuse places which are not there."""

DIVIDING = frozenset(("Div", "Mod"))
MOST = 200
"""How many operators one of torch's is made of at most, that are looked through."""


def lookups_of(name: str, given: Any, results: Sequence[Any], line: str) -> Iterator[Lookup]:
    """What one of LOOKING, called with these arguments, made to look places up, but where these are there whatever the
    data holds."""
    operands = leaves_of(given)
    indices = [each for each in operands if not isinstance(each.type, tuple) and each.dtype.is_integer]
    if not indices or all(each.dtype in MASKS for each in indices):
        return
    for value in made_of(results, operands):
        if value.op in LOOKED_UP and not are_there(value):
            yield Lookup(value, f"the places that {name.removeprefix('aten::')} looks up are there", line)


def divisions_of(args: Sequence[Any], results: Sequence[Any], line: str) -> Iterator[Lookup]:
    """What a quotient or remainder of integers made to divide by a number of sizes that may be 0."""
    divisor: Any = args[1] if len(args) > 1 else None
    if not of_sizes(divisor) or divisor.is_nonzero or any(each.dtype.is_float for each in leaves_of(results)):
        return
    for value in made_of(results, leaves_of(args)):
        by = value.inputs[1] if value.op in DIVIDING else None
        if by is not None and by.dtype.is_integer and by.blob is None:
            yield Lookup(value, "no integer is divided by a size of 0", line)


def leaves_of(given: Any) -> list[Value]:
    """The values among arguments, lists of values included, and what complex ones are put together of."""
    if isinstance(given, Value):
        return [given, *parts(given)] if given.op == PAIR else [given]
    each = given.values() if isinstance(given, dict) else given if isinstance(given, list | tuple) else ()
    return [leaf for part in each for leaf in leaves_of(part)]


def made_of(results: Sequence[Any], operands: Sequence[Value]) -> list[Value]:
    """The values that an operator made of its operands, results first."""
    seen: dict[Value, None] = {}
    left = [value for value in leaves_of(results) if value not in operands]
    while left and len(seen) < MOST:
        value = left.pop()
        if value not in seen and value.op not in (PARAM, CONSTANT, SHAPE_VECTOR):
            seen[value] = None
            left.extend(each for each in value.inputs if each is not None and each not in operands)
    return list(seen)


def places_of(value: Value) -> tuple[Value, list[Dim]]:
    """The places that an operator looks up, and how many there are along each axis in which it does."""
    x, index = value.inputs[:2]
    if x is None or index is None:
        raise TypeError(f"{value.op} looks nothing up")
    if value.op.endswith("ND"):
        return index, list(x.shape[: index.shape[-1]])
    return index, [x.shape[value.attribute("axis", 0) % x.rank]]


def are_there(value: Value) -> bool:
    """Whether the places that an operator looks up are there whatever data and sizes are: as many as a Range counts,
    or integers of a narrow span."""
    index, sizes = places_of(value)
    try:
        span = span_of(index)
    except AbsentError:  # of a model without numbers, which cannot be run
        return True
    source = index
    while source.inputs and source.inputs[0] is not None and (source.op in MOVING or is_from_front(source)):
        source = source.inputs[0]
    least = [dims.bounds(size, {}).lo for size in sizes]
    if all(-low <= span.low and span.high < low for low in least):
        return True
    if source.op == "Range" and span.low >= 0 and len(sizes) == 1 and is_counted(source):
        return dims.bounds(dims.sub(sizes[0], source.shape[0]), {}).lo >= 0
    return False


def is_counted(value: Value) -> bool:
    """Whether a Range counts from 0 by 1."""
    return all(
        each is not None and each.blob is not None and each.blob.array == number
        for each, number in zip((value.inputs[0], value.inputs[2]), (0, 1), strict=True)
    )


# ---------------------------------------------------------------------------------------------- what is not used


def unused_lookups(lookups: Sequence[Lookup], roots: Sequence[Value]) -> list[Lookup]:
    """Those of some lookups that no root is computed of."""
    missing = {each.value for each in lookups}
    seen, left = set[Value](), [*roots]
    while left and missing:
        value = left.pop()
        if value not in seen:
            seen.add(value)
            missing.discard(value)
            left += [each for each in reversed(value.inputs) if each is not None]  # what is added to comes first
    return [each for each in lookups if each.value in missing]


def with_unused(scope: Scope, results: Sequence[Value], checks: list[Check]) -> list[Check]:
    """Conditions, and those that places are there which were looked up for nothing that results or conditions are
    computed of; but for those that the same places tell which are looked up for these."""
    if not scope.lookups:
        return checks
    roots = [*results, *(each.condition for each in checks)]
    unused = unused_lookups(scope.lookups, roots)
    if not unused:
        return checks
    met = {key_of(value) for value in walk.post_order(roots) if value.op in LOOKED_UP or value.op in DIVIDING}
    found: list[Check] = []
    for each in unused:
        if (key := key_of(each.value)) not in met:
            met.add(key)
            found.append(check_of(each))
    return settled_checks(scope, [*checks, *found])


def key_of(value: Value) -> Any:
    """Equal for operators that look the same places up, in tensors that are as long, or divide as much by the same."""
    if value.op in DIVIDING:
        return value.inputs[1], value.shape
    index, sizes = places_of(value)
    strict = False
    while index.inputs and index.inputs[0] is not None and (index.op in MOVING or is_from_front(index)):
        strict = strict or is_from_front(index)
        index = index.inputs[0]
    return index, tuple(sizes), strict


def check_of(lookup: Lookup) -> Check:
    """The condition that the runtime would look at, if it carried a lookup out."""
    divisor = lookup.value.inputs[1] if lookup.value.op in DIVIDING else None
    if divisor is not None:
        zero = op.Equal(shaping.expand(divisor, lookup.value.shape, lookup.value), scalar(0, divisor.dtype))
        return none_wrong(zero, lookup.text, lookup.line)
    index, sizes = places_of(lookup.value)
    data = lookup.value.inputs[0]
    count = shape_vector(tuple(sizes), *binders(sizes, *([] if data is None else [data])))
    places = cast(index, DType.INT64)
    wrong = op.Or(op.Less(places, op.Neg(count)), op.GreaterOrEqual(places, count))
    return none_wrong(wrong, lookup.text, lookup.line)
