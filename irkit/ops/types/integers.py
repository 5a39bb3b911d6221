"""Arithmetic on small integer tensors whose elements are known as dimensions: the one place that says what an operator
makes of them.

Loaders read sizes that a model computes with it, type rules look through operators with it, and rules of the optimizer
fold what is left. It answers where the answer is certain for every element, and not otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from irkit import dims
from irkit.core.attributes import AttributeMap
from irkit.core.blobs import Blob
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim, signs
from irkit.dims.ranges import LEAST
from irkit.errors import DimensionError

LIMIT = 64
"""Tensors of more elements are not followed."""


class Integers(NamedTuple):
    """The elements of a tensor of rank 0 or 1, in order; those of a bool tensor are 0 and 1."""

    elements: tuple[Dim, ...]
    rank: int


Given = Sequence["Integers | None"]
"""The operands, all of which are known; None for one that was left out."""

Rule = Callable[[DType, Given, AttributeMap], "Integers | None"]

RANGES = {DType.INT64: (LEAST, -LEAST - 1), DType.INT32: (-(1 << 31), (1 << 31) - 1), DType.BOOL: (0, 1)}
"""The element types that are followed, with their least and greatest number."""


def follow(op: str, dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    """What an operator of `RULES` makes of known operands, a result of element type `dtype`.

    None where an element is not certain, where the operator would wrap around, and for more than `LIMIT` elements.
    """
    rule, numbers = RULES.get(op), RANGES.get(dtype)
    if rule is None or numbers is None or not given or any(g is not None and len(g.elements) > LIMIT for g in given):
        return None
    try:
        found = rule(dtype, given, attributes)
    except DimensionError:  # an expression of thousands of terms: better computed when the model runs
        return None
    if found is None or len(found.elements) > LIMIT:
        return None
    least, most = numbers
    for element in found.elements:
        if type(element) is not int:
            if dtype is not DType.INT64 and op in WRAPS:
                return None
        elif not least <= element <= most:
            return None
    return found


def sizes_of(op: str, type_: Type, attributes: AttributeMap) -> Integers | None:
    """What Shape or Size makes of a tensor of that type."""
    if not isinstance(type_, Tensor):
        return None
    if op == "Size":
        return Integers((dims.product(type_.shape),), 0)
    return Integers(type_.shape[attributes.get("start") or 0 : attributes.get("end")], 1)


def numbers_of(found: Integers | None) -> tuple[int, ...] | None:
    """The elements where all are numbers."""
    if found is None or not dims.are_numbers(found.elements):
        return None
    return found.elements  # type: ignore[return-value]


def is_natural(size: Dim) -> bool:
    """True for what is certainly not negative."""
    return size >= 0 if type(size) is int else signs.is_nonnegative(size)


# ---------------------------------------------------------------------------------------------- rules


def _operand(given: Given, index: int) -> Integers | None:
    return given[index] if index < len(given) else None


def _is_one_axis(axes: Integers | None) -> bool:
    """True for the axes of a vector, and where none are given."""
    return axes is None or axes.elements in ((0,), (-1,))


def _same(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    return given[0]


def _cast(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    data = given[0]
    if data is None or dtype is not DType.BOOL:
        return data
    flags = numbers_of(data)
    return None if flags is None else Integers(tuple(int(n != 0) for n in flags), data.rank)


def _gather(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    data, at = given
    places = numbers_of(at)
    if data is None or at is None or places is None or data.rank != 1 or attributes.get("axis", 0) not in (0, -1):
        return None
    count = len(data.elements)
    if not all(-count <= i < count for i in places):
        return None
    return Integers(tuple(data.elements[i] for i in places), at.rank)


def _slice(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    data, step = given[0], _operand(given, 4)
    bounds = [numbers_of(v) for v in (given[1], given[2], step or Integers((1,), 1))]
    if data is None or data.rank != 1 or not _is_one_axis(_operand(given, 3)):
        return None
    if any(b is None or len(b) != 1 for b in bounds) or bounds[2] == (0,):
        return None
    places = sliced_places(len(data.elements), *(b[0] for b in bounds if b))
    return Integers(tuple(data.elements[i] for i in places), 1)


def sliced_places(count: int, start: int, end: int, step: int) -> range:
    """The places along an axis of `count` elements that a Slice takes.

    Not always those of Python: ONNX moves a start before the first element to the first one, also where it goes down.
    """
    low, high = (0, count) if step > 0 else (-1, count - 1)
    first, stop = (place + count if place < 0 else place for place in (start, end))
    return range(min(max(first, 0), high), min(max(stop, low), high), step) if count else range(0)


def _concat(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    parts = [g for g in given if g is not None and g.rank == 1]
    return Integers(tuple([d for p in parts for d in p.elements]), 1) if len(parts) == len(given) else None


def _split_axes(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    data, axes = given[0], _operand(given, 1)
    known = data is not None and data.rank == 0 and axes is not None and _is_one_axis(axes)
    return Integers(data.elements, 1) if known and data else None


def _squeeze(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    data = given[0]
    one = data is not None and data.rank == 1 and len(data.elements) == 1 and _is_one_axis(_operand(given, 1))
    return Integers(data.elements, 0) if one and data else None


def _reshape(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    data, target = given[0], numbers_of(given[1])
    if data is None or target is None or len(target) > 1:
        return None
    fits = target[0] in (-1, len(data.elements)) if target else len(data.elements) == 1
    return Integers(data.elements, len(target)) if fits else None


def _expand(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    data, target = given[0], numbers_of(given[1])
    if data is None or target is None or len(data.elements) != 1 or len(target) > 1:
        return None
    count = target[0] if target else 1
    return Integers(data.elements * count, max(data.rank, len(target))) if 0 <= count <= LIMIT else None


def _filled(dtype: DType, given: Given, attributes: Mapping[str, Blob]) -> Integers | None:
    count, blob = numbers_of(given[0]), attributes.get("value")
    if count is None or len(count) != 1 or not 0 <= count[0] <= LIMIT or blob is None or blob.dtype is not dtype:
        return None
    return Integers((int(blob.array.reshape(-1)[0]),) * count[0], 1)


def _range(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
    bounds = [numbers_of(g) for g in given]
    if any(b is None or len(b) != 1 for b in bounds):
        return None
    start, stop, step = (b[0] for b in bounds if b)
    if step == 0 or -((start - stop) // step) > LIMIT:
        return None
    return Integers(tuple(range(start, stop, step)), 1)


def _elementwise(function: Callable[..., Dim | None]) -> Rule:
    """The rule of an operator that works element by element, of operands that are as long as each other or of one."""

    def rule(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
        parts = [g for g in given if g is not None]
        count = max(len(p.elements) for p in parts)
        if len(parts) < len(given) or any(len(p.elements) not in (1, count) or not p.elements for p in parts):
            return None
        rows = zip(*(p.elements * count if len(p.elements) == 1 else p.elements for p in parts), strict=True)
        found = tuple(function(*row) for row in rows)
        return None if None in found else Integers(found, max(p.rank for p in parts))  # type: ignore[arg-type]

    return rule


def _quotient(a: Dim, b: Dim) -> Dim | None:
    """a / b rounded towards zero, known where neither is negative."""
    return dims.floordiv(a, b) if is_natural(a) and _is_positive(b) else None


def _is_positive(d: Dim) -> bool:
    return d > 0 if type(d) is int else signs.sign(d) == 1


def _remainder(a: Dim, b: Dim) -> Dim | None:
    """a modulo b, known where both kinds of remainder agree."""
    return dims.mod(a, b) if is_natural(a) and type(b) is int and b > 0 else None


def _equal(a: Dim, b: Dim) -> Dim | None:
    answer = dims.same(a, b)
    return None if answer is None else int(answer)


def _negative(a: Dim) -> Dim:
    return dims.mul(a, -1)


def _opposite(a: Dim) -> Dim | None:
    return 1 - a if type(a) is int else None


def _chosen(flag: Dim, a: Dim, b: Dim) -> Dim | None:
    return (a if flag else b) if type(flag) is int else None


def _reduced(function: Callable[..., Dim]) -> Rule:
    """The rule of a reduction of a whole vector, which is not empty."""

    def rule(dtype: DType, given: Given, attributes: AttributeMap) -> Integers | None:
        data = given[0]
        if data is None or data.rank != 1 or not data.elements or not _is_one_axis(_operand(given, 1)):
            return None
        if attributes.get("noop_with_empty_axes"):
            return None
        return Integers((function(*data.elements),), int(attributes.get("keepdims", 1)))

    return rule


def _sum(*parts: Dim) -> Dim:
    total: Dim = 0
    for part in parts:
        total = dims.add(total, part)
    return total


RULES: Mapping[str, Rule] = {
    "Identity": _same, "Cast": _cast, "Gather": _gather, "Slice": _slice, "Concat": _concat, "Unsqueeze": _split_axes,
    "Squeeze": _squeeze, "Reshape": _reshape, "Expand": _expand, "ConstantOfShape": _filled, "Range": _range,
    "Add": _elementwise(dims.add), "Sub": _elementwise(dims.sub), "Mul": _elementwise(dims.mul),
    "Div": _elementwise(_quotient), "Mod": _elementwise(_remainder), "Neg": _elementwise(_negative),
    "Max": _elementwise(dims.maximum), "Min": _elementwise(dims.minimum), "Equal": _elementwise(_equal),
    "Not": _elementwise(_opposite), "Where": _elementwise(_chosen),
    "ReduceProd": _reduced(lambda *parts: dims.product(parts)), "ReduceSum": _reduced(_sum),
    "ReduceMax": _reduced(dims.maximum), "ReduceMin": _reduced(dims.minimum),
}  # fmt: skip
"""How the elements of an operator follow from those of its operands."""

WRAPS = frozenset(("Add", "Sub", "Mul", "Neg", "ReduceProd", "ReduceSum"))
"""Operators whose result over sizes may be too large for 32 bits where the sizes are not."""
