"""Nodes of a file that repeat others, as the layers of a model do: what the first of them came to holds for all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import attrs
from onnx import AttributeProto

from irkit import dims
from irkit.core.attributes import Attributes
from irkit.core.ir import Value, vertex
from irkit.core.origins import NOWHERE, Origin
from irkit.core.types import Tensor
from irkit.core.vocabulary import CONSTANT, SHAPE_VECTOR
from irkit.dims.algebra import any_fresh
from irkit.onnx.reading.scope import require_sizes
from irkit.onnx.reading.sizes import Content, Known
from irkit.ops.types.contents import seen_content

LONG = 4096
"""Attributes of more bytes, which hold a large constant, are not kept."""

Key = tuple[Any, ...]


@attrs.define(eq=False)
class Came:
    """What a node came to: all of its value but operands and origin. A `leaf` is that value itself, where it has no
    operands, and so is one for all. `look` is what the nodes that use it are compared by."""

    op: str
    leaf: Value | None
    attributes: Attributes
    type: Tensor
    content: Content | None
    look: object


class Repeats:
    """What nodes of one model came to, for the nodes after them that say the same of operands that look the same.

    Operands look the same where no type rule tells them apart: by type, for integers that are known by their elements,
    and for other small integers where they came from nodes that were the same.
    """

    def __init__(self, known: Known) -> None:
        self.known = known
        self.came: dict[Key, Came] = {}
        self._looks: dict[Value | None, object] = {None: object()}
        self._one: dict[Hashable, object] = {}

    def key(self, op: str, attributes: Sequence[AttributeProto], inputs: Sequence[Value | None]) -> Key:
        """Equal for nodes of one result that come to the same value, but for operands and origin."""
        if len(attributes) == 1:
            given: bytes | tuple[bytes, ...] = attributes[0].SerializeToString()
        else:
            given = tuple([a.SerializeToString() for a in attributes]) if attributes else ()
        looks = tuple(map(self._looks.get, inputs))
        return op, given, tuple(map(self._look, inputs)) if None in looks else looks

    def _look(self, value: Value | None) -> object:
        """What an operand is compared by: one object for all that look the same, whose hash takes no time."""
        found = self._looks.get(value)
        if found is None:
            found = self._looks[value] = self._one.setdefault(seen_content(value), object())
        return found

    def value(self, came: Came, inputs: tuple[Value | None, ...], origin: Origin) -> Value:
        """The value, which is not a leaf, of a node that came to the same over its own operands."""
        value = vertex(came.op, inputs, came.attributes, (), came.type, origin)
        self._looks[value] = came.look
        if came.content is not None:
            self.known.keep(value, came.content)
        return value

    def remember(self, key: Key, found: Value, inputs: tuple[Value | None, ...], origin: Origin) -> Came | None:
        """Keeps what a node came to, for `value` to make. That is a new value over the same operands or none, all of
        whose sizes are known (one that is not is another for each node); None for any other, which is not kept."""
        if type(found) is not Value or found.origin is not NOWHERE or found.bodies or type(found.type) is not Tensor:
            return None
        plain = found.op == CONSTANT or found.op == SHAPE_VECTOR  # what such a value holds it says itself
        leaf = found.with_origin(origin) if plain and not found.inputs else None
        content = None if plain else self.known.kept(found)
        if (leaf is None and found.inputs != inputs) or (content is not None and content.binders):
            return None
        require_sizes(found.type.shape)
        for size in found.type.shape:
            if type(size) is not int and any_fresh(dims.symbols_of(size)):
                return None
        if (len(key[1]) if type(key[1]) is bytes else sum(map(len, key[1]))) > LONG:
            return None
        look = self._one.setdefault(seen_content(found), object())
        made = self.came[key] = Came(found.op, leaf, found.attributes, found.type, content, look)
        return made
