"""Sizes that an ONNX model computes, read back as dimensions while it is loaded.

`Shape -> Gather -> Concat` and their like never become values: where every element of a small integer result is known
as a dimension, the result is one ShapeVector (or a scalar made of one).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.build import dim_scalar, shape_vector
from irkit.core.attributes import AttributeMap
from irkit.core.blobs import Blob, whole
from irkit.core.ir import Value, constant
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, SHAPE_VECTOR
from irkit.dims import Dim
from irkit.errors import DimensionError
from irkit.ops.types.integers import LIMIT, RANGES, RULES, Integers, follow, sizes_of

_SIZES = ("Shape", "Size")
"""Operators whose result is of int64 whatever their operand is; that of the others is as their operand is."""
_FOLDED = frozenset(RULES) - {"Cast", "Equal", "Not"}
"""Operators whose result is made anew where it is known and of int64."""


@attrs.frozen
class Content:
    """The elements of an integer tensor of rank 0 or 1, and the values that bind what no parameter binds."""

    elements: tuple[Dim, ...]
    rank: int
    binders: tuple[Value, ...] = ()

    @property
    def integers(self) -> Integers:
        """The elements, without what binds them."""
        return Integers(self.elements, self.rank)


class Known:
    """What is known of the values of one model. `free` holds the symbols that the model's parameters bind."""

    def __init__(self, free: frozenset[sympy.Symbol]) -> None:
        self.free = free
        self._found: dict[Value, Content | None] = {}
        self._constants: dict[Blob, Content | None] = {}
        self._blobs: dict[tuple[tuple[Dim, ...], int], Blob] = {}

    def content(self, value: Value | None) -> Content | None:
        """The elements of a value; None where they are not known, or where it is not a small integer tensor."""
        if value is None or type(value.type) is not Tensor or value.type.dtype not in RANGES:
            return None
        if value.op == CONSTANT:
            blob = value.attributes[0][1]
            if blob not in self._constants:
                self._constants[blob] = constant_content(blob)
            return self._constants[blob]
        if value.op == SHAPE_VECTOR and not value.attribute("scalars"):
            return Content(value.attribute("dims"), 1, value.inputs)  # type: ignore[arg-type]
        return self._found.get(value)

    def fold(self, op: str, inputs: Sequence[Value | None], attributes: AttributeMap) -> Value | None:
        """The value that stands for `op` over `inputs` where every element of it is known as a dimension."""
        if op in _SIZES:
            source = inputs[0] if inputs else None
            try:
                sizes = None if source is None else sizes_of(op, source.type, attributes)
            except DimensionError:  # the product of many sums
                return None
            bound = () if source is None else (source,)
            return None if sizes is None or len(sizes[0]) > LIMIT else self.value(Content(*sizes, bound))
        if op not in _FOLDED or not inputs:
            return None
        data = inputs[1] if op == "Where" and len(inputs) > 1 else inputs[0]
        if data is None or type(data.type) is not Tensor or data.type.dtype is not DType.INT64:
            return None
        found = self.followed(op, DType.INT64, inputs, attributes)
        return None if found is None else self.value(found)

    def followed(
        self, op: str, dtype: DType, inputs: Sequence[Value | None], attributes: AttributeMap
    ) -> Content | None:
        """The elements of the result of `op`; None where an operand is not known, or the result is not certain."""
        given, binders = list[Integers | None](), tuple[Value, ...]()
        for value in inputs:
            found = self.content(value)
            if found is None and value is not None:
                return None
            given.append(None if found is None else found.integers)
            if found is not None and found.binders:
                binders += found.binders
        made = follow(op, dtype, given, attributes)
        return None if made is None else Content(made.elements, made.rank, binders)

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
        """What was remembered of a value that is not a leaf."""
        return self._found.get(value)

    def keep(self, value: Value, content: Content) -> None:
        """Remembers the elements of a value."""
        self._found[value] = content

    def follow(self, old: Value, new: Value) -> None:
        """What is known of `old` holds for `new`, which is the same value with other provenance."""
        if old in self._found:
            self._found[new] = self._found[old]

    def remember(self, op: str, value: Value, inputs: Sequence[Value | None], attributes: AttributeMap) -> None:
        """Records what is known of a value that stays: integer casts, comparisons of sizes, what is computed in i32."""
        type_ = value.type
        if op not in RULES or type(type_) is not Tensor or len(type_.shape) > 1 or type_.dtype not in RANGES:
            return
        if type_.dtype is not DType.INT64 or op not in _FOLDED:
            self._found[value] = self.followed(op, type_.dtype, inputs, attributes)


def symbols_in_type(value: Value) -> tuple[sympy.Symbol, ...]:
    """The symbols that stand as plain dimensions in the type of a value."""
    return tuple(d for d in value.shape if type(d) is not int and d.is_Symbol) if type(value.type) is Tensor else ()


def constant_content(blob: Blob) -> Content | None:
    """The elements of a constant."""
    if len(blob.shape) > 1 or blob.size > LIMIT:
        return None
    found = blob.integers
    return None if found is None else Content(found, len(blob.shape))
