"""Operands and attributes of a text as `irkit.op` holds them: what stands at its default is what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from irkit.core.attributes import Attributes, single
from irkit.core.ir import Value
from irkit.errors import TypeRuleError
from irkit.ops.schemas import AttributeSpec, known_row, own_row


@attrs.define(eq=False)
class Schemas:
    """What the operators of a text say of their attributes, each looked up once."""

    known: dict[str, Mapping[str, AttributeSpec]] = attrs.field(factory=dict[str, Mapping[str, AttributeSpec]])

    def of(self, op: str) -> Mapping[str, AttributeSpec]:
        """The rows of an operator's attributes; none where nobody here knows the operator."""
        own = own_row(op)
        if own is not None:
            return own.attributes
        found = self.known.get(op)
        if found is None:
            try:
                found = known_row(op).attributes
            except TypeRuleError:
                found = dict[str, AttributeSpec]()
            self.known[op] = found
        return found

    def settled(self, op: str, attributes: Attributes) -> Attributes:
        """The attributes without those that say what the default says; integers are floats where the schema asks."""
        if not attributes:
            return attributes
        rows = self.of(op)
        held = ((name, as_kind(rows[name].kind, value) if name in rows else value) for name, value in attributes)
        return tuple(
            (name, value)
            for name, value in held
            if name not in rows or rows[name].required or value != rows[name].default
        )


def as_kind(kind: str, value: Any) -> Any:
    """A number written `2` as a float where the schema asks for floats; other attributes as they are."""
    if kind == "FLOAT" and type(value) is int:
        return single(float(value))
    if kind == "FLOATS" and type(value) is tuple:
        return tuple(as_kind("FLOAT", v) for v in cast("tuple[Any, ...]", value))
    return value


def operands_given(inputs: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """The operands up to the last that is given: one left out at the end is not written."""
    last = len(inputs)
    while last and inputs[last - 1] is None:
        last -= 1
    return inputs[:last]
