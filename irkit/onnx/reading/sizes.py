"""Sizes that an ONNX model computes, read back as dimensions while it is loaded.

`Shape -> Gather -> Concat` and their like never become values: where every element of a small integer result is known
as a dimension, the result is one ShapeVector (or a scalar made of one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from irkit import dims
from irkit.build import dim_scalar, shape_vector
from irkit.core.blobs import Blob, whole
from irkit.core.ir import Value, constant
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, SHAPE_VECTOR
from irkit.dims import Dim, signs
from irkit.errors import DimensionError

LIMIT = 64
"""Vectors of more elements are left alone."""
_WHOLE = (DType.INT64, DType.INT32, DType.BOOL)
_INT64 = DType.INT64


@attrs.frozen
class Content:
    """The elements of an integer tensor of rank 0 or 1, and the values that bind what no parameter binds."""

    elements: tuple[Dim, ...]
    rank: int
    binders: tuple[Value, ...] = ()


class Known:
    """What is known of the values of one model. `free` holds the symbols that the model's parameters bind."""

    def __init__(self, free: frozenset[Any]) -> None:
        self.free = free
        self._found: dict[Value, Content | None] = {}
        self._constants: dict[Blob, Content | None] = {}
        self._blobs: dict[tuple[tuple[Dim, ...], int], Blob] = {}

    def content(self, value: Value | None) -> Content | None:
        """The elements of a value; None where they are not known, or where it is no small integer tensor."""
        if value is None or type(value.type) is not Tensor or value.type.dtype not in _WHOLE:
            return None
        if value.op == CONSTANT:
            blob = value.attributes[0][1]
            if blob not in self._constants:
                self._constants[blob] = constant_content(blob)
            return self._constants[blob]
        if value.op == SHAPE_VECTOR and not value.attribute("scalars"):
            return Content(value.attribute("dims"), 1, value.inputs)  # type: ignore[arg-type]
        return self._found.get(value)

    def fold(self, op: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> Value | None:
        """The value that stands for `op` over `inputs` where every element of it is known as a dimension."""
        rule = _RULES.get(op)
        if rule is None or not inputs or inputs[0] is None:
            return None
        data = inputs[1] if op == "Where" and len(inputs) > 1 else inputs[0]
        if op not in _ANY and (data is None or type(data.type) is not Tensor or data.type.dtype is not _INT64):
            return None
        try:
            found = rule(self, inputs, attributes)
        except DimensionError:  # an expression of thousands of terms: better computed when the model runs
            return None
        if found is None or len(found.elements) > LIMIT:
            return None
        for element in found.elements:
            if type(element) is int and not dims.LEAST <= element < -dims.LEAST:  # the operator wraps around
                return None
        return self.value(found)

    def value(self, content: Content) -> Value | None:
        """An int64 value with that content."""
        if dims.are_numbers(content.elements):
            return constant(self._blob(content.elements, content.rank))
        needed = {s for d in content.elements for s in dims.symbols_of(d) if s not in self.free}
        binders: tuple[Value, ...] = ()
        if needed:
            binders = tuple(b for b in dict.fromkeys(content.binders) if needed.intersection(symbols_in_type(b)))
            if not all(any(s in symbols_in_type(b) for b in binders) for s in needed):
                return None
        kept = content if content.binders == binders else Content(content.elements, content.rank, binders)
        made = shape_vector(kept.elements, *binders) if kept.rank else dim_scalar(kept.elements[0], *binders)
        self._found[made] = kept
        return made

    def _blob(self, elements: tuple[Any, ...], rank: int) -> Blob:
        """The blob of some numbers, of which there is one."""
        found = self._blobs.get((elements, rank))
        if found is None:
            found = self._blobs[elements, rank] = whole(elements, rank)
        return found

    def kept(self, value: Value) -> Content | None:
        """What was remembered of a value that is no leaf."""
        return self._found.get(value)

    def keep(self, value: Value, content: Content) -> None:
        """Remembers the elements of a value."""
        self._found[value] = content

    def follow(self, old: Value, new: Value) -> None:
        """What is known of `old` holds for `new`, which is the same value with other provenance."""
        if old in self._found:
            self._found[new] = self._found[old]

    def remember(self, op: str, value: Value, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> None:
        """Records what is known of a value that stays: integer casts, comparisons of sizes."""
        rule = _KEPT.get(op)
        if (
            rule is not None
            and type(value.type) is Tensor
            and value.type.dtype in _WHOLE
            and len(value.type.shape) <= 1
        ):
            self._found[value] = rule(self, inputs, attributes)


def symbols_in_type(value: Value) -> tuple[Any, ...]:
    """The symbols that stand as plain dimensions in the type of a value."""
    return tuple(d for d in value.shape if type(d) is not int and d.is_Symbol) if type(value.type) is Tensor else ()


def constant_content(blob: Blob) -> Content | None:
    """The elements of a constant."""
    if len(blob.shape) > 1 or blob.size > LIMIT:
        return None
    found = blob.integers
    return None if found is None else Content(found, len(blob.shape))


# ---------------------------------------------------------------------------------------------- rules

Rule = Callable[[Known, Sequence[Any], Mapping[str, Any]], "Content | None"]


def shape(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """The dimensions of a tensor."""
    if type(inputs[0].type) is not Tensor:
        return None
    sizes = inputs[0].shape[attributes.get("start", 0) : attributes.get("end")]
    return Content(sizes, 1, (inputs[0],))


def size(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """The product of the dimensions of a tensor."""
    return Content((dims.product(inputs[0].shape),), 0, (inputs[0],)) if type(inputs[0].type) is Tensor else None


def same(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """What the operand holds."""
    return known.content(inputs[0])


def numbers(known: Known, value: Value | None) -> tuple[int, ...] | None:
    """The elements of an operand where all are numbers."""
    found = known.content(value)
    if found is None:
        return None
    for d in found.elements:
        if type(d) is not int:
            return None
    return found.elements  # type: ignore[return-value]


def gather(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """Elements by position."""
    data, at = known.content(inputs[0]), known.content(inputs[1])
    places = numbers(known, inputs[1])
    if data is None or places is None or at is None or data.rank != 1 or attributes.get("axis", 0) not in (0, -1):
        return None
    count = len(data.elements)
    if not all(-count <= i < count for i in places):
        return None
    return Content(tuple(data.elements[i] for i in places), at.rank, data.binders)


def cut(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """A slice of a vector."""
    data = known.content(inputs[0])
    given = [numbers(known, v) for v in inputs[1:]]
    if (
        data is None
        or data.rank != 1
        or any(g is None and v is not None for g, v in zip(given, inputs[1:], strict=True))
    ):
        return None
    start, stop, axes, step = (*given, None, None)[:4]
    if (
        start is None
        or stop is None
        or (axes or (0,)) not in ((0,), (-1,))
        or len(start) != 1
        or (step or (1,))[0] == 0
    ):
        return None
    return Content(data.elements[start[0] : stop[0] : (step or (1,))[0]], 1, data.binders)


def concat(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """Vectors one after the other."""
    parts = [known.content(v) for v in inputs]
    if any(p is None or p.rank != 1 for p in parts):
        return None
    return Content(
        tuple(d for p in parts for d in p.elements), 1, tuple(b for p in parts for b in p.binders)  # type: ignore[union-attr]
    )  # fmt: skip


def raised(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """A scalar as a vector of one."""
    data = known.content(inputs[0])
    return (
        Content(data.elements, 1, data.binders)
        if data is not None and data.rank == 0 and is_one_axis(known, inputs)
        else None
    )


def is_one_axis(known: Known, inputs: Sequence[Any]) -> bool:
    """True where the axes given are just the only one."""
    return len(inputs) > 1 and numbers(known, inputs[1]) in ((0,), (-1,))


def lowered(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """A vector of one as a scalar."""
    data = known.content(inputs[0])
    if data is None or data.rank != 1 or len(data.elements) != 1:
        return None
    return Content(data.elements, 0, data.binders) if len(inputs) == 1 or is_one_axis(known, inputs) else None


def reshaped(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """The same elements as a vector or a scalar."""
    data, target = known.content(inputs[0]), numbers(known, inputs[1])
    if data is None or target is None or len(target) > 1 or (target and target[0] not in (-1, len(data.elements))):
        return None
    return Content(data.elements, len(target), data.binders) if target or len(data.elements) == 1 else None


def combined(function: Callable[[Dim, Dim], Dim | None]) -> Rule:
    """The rule that applies a function of two dimensions element by element."""

    def rule(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
        parts = [known.content(v) for v in inputs]
        found = parts[0]
        for part in parts[1:]:
            if found is None or part is None:
                return None
            found = pairwise(function, found, part)
        return found

    return rule


def pairwise(function: Callable[[Dim, Dim], Dim | None], a: Content, b: Content) -> Content | None:
    """`function` over two contents, broadcast."""
    rank, count = max(a.rank, b.rank), max(len(a.elements), len(b.elements))
    if any(c.rank and len(c.elements) not in (1, count) for c in (a, b)) or not a.elements or not b.elements:
        return None
    left, right = (c.elements * count if len(c.elements) == 1 else c.elements for c in (a, b))
    found = tuple(function(x, y) for x, y in zip(left, right, strict=True))
    return None if None in found else Content(found, rank, a.binders + b.binders)  # type: ignore[arg-type]


def quotient(a: Dim, b: Dim) -> Dim | None:
    """a / b rounded towards zero; None where a sign is not known."""
    if type(a) is int and type(b) is int:
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return dims.floordiv(a, b) if is_natural(a) and type(b) is int and b > 0 else None


def remainder(a: Dim, b: Dim) -> Dim | None:
    """a modulo b, with the sign of b."""
    return dims.mod(a, b) if type(b) is int and b > 0 else None


def is_natural(size: Dim) -> bool:
    """True for what is never negative."""
    return size >= 0 if type(size) is int else signs.is_nonnegative(size)


def modulo(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """Remainders, where both kinds of remainder agree or Python's is asked for."""
    found = combined(remainder)(known, inputs, attributes)
    first = known.content(inputs[0])
    truncated = attributes.get("fmod", 0) and first is not None and not all(map(is_natural, first.elements))
    return None if truncated else found


def negated(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """The elements with the other sign."""
    data = known.content(inputs[0])
    return None if data is None else Content(tuple(dims.mul(d, -1) for d in data.elements), data.rank, data.binders)


def counted(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """Range of numbers."""
    given = [numbers(known, v) for v in inputs]
    if any(g is None or len(g) != 1 for g in given):
        return None
    start, stop, step = (g[0] for g in given if g)
    if step == 0 or len(found := range(start, stop, step)) > LIMIT:
        return None
    return Content(tuple(found), 1)


def repeated(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """A vector of one number."""
    count, value = numbers(known, inputs[0]), attributes.get("value")
    if (
        count is None
        or len(count) != 1
        or not 0 <= count[0] <= LIMIT
        or value is None
        or value.dtype is not DType.INT64
    ):
        return None
    return Content((int(value.array.reshape(-1)[0]),) * count[0], 1)


def product(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """The product of a vector."""
    data = known.content(inputs[0])
    if data is None or data.rank != 1 or (len(inputs) > 1 and inputs[1] is not None and not is_one_axis(known, inputs)):
        return None
    if attributes.get("noop_with_empty_axes") and len(inputs) == 1:
        return None
    return Content((dims.product(data.elements),), int(attributes.get("keepdims", 1)), data.binders)


def equal(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """1 where two sizes are equal, 0 where they cannot be."""

    def verdict(a: Dim, b: Dim) -> Dim | None:
        answer = dims.same(a, b)
        return None if answer is None else int(answer)

    return combined(verdict)(known, inputs, attributes)


def chosen(known: Known, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Content | None:
    """Where, over known flags."""
    flags, a, b = (known.content(v) for v in inputs)
    if flags is None or a is None or b is None or any(type(f) is not int for f in flags.elements):
        return None
    count = max(len(c.elements) for c in (flags, a, b))
    if any(len(c.elements) not in (1, count) for c in (flags, a, b)):
        return None
    rows = (c.elements * count if len(c.elements) == 1 else c.elements for c in (flags, a, b))
    found = tuple(x if flag else y for flag, x, y in zip(*rows, strict=True))
    return Content(found, max(c.rank for c in (flags, a, b)), a.binders + b.binders)


_RULES: Mapping[str, Rule] = {
    "Shape": shape, "Size": size, "Gather": gather, "Slice": cut, "Concat": concat, "Unsqueeze": raised,
    "Squeeze": lowered, "Reshape": reshaped, "Identity": same, "Range": counted, "ConstantOfShape": repeated,
    "Add": combined(dims.add), "Sub": combined(dims.sub), "Mul": combined(dims.mul), "Div": combined(quotient),
    "Mod": modulo, "Neg": negated, "Min": combined(lambda a, b: dims.minimum(a, b)),
    "Max": combined(lambda a, b: dims.maximum(a, b)), "ReduceProd": product, "Where": chosen,
}  # fmt: skip
_ANY = frozenset(("Shape", "Size"))
"""Operators whose result is of int64 whatever their operand is; that of the others is as their operand is."""
_KEPT: Mapping[str, Rule] = {"Cast": same, "Equal": equal, "Identity": same}
