"""Nodes of a file that repeat others, as the layers of a model do: what the first of them came to holds for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from onnx import AttributeProto

from irkit import dims
from irkit.attributes import Attributes
from irkit.ir import Value
from irkit.onnx.infer.contents import seen
from irkit.onnx.known import Content, Known
from irkit.origins import NOWHERE, Origin
from irkit.types import Tensor
from irkit.vocabulary import CONSTANT, SHAPE_VECTOR

_LONG = 4096
"""Attributes of more bytes, which hold a large constant, are not kept."""

Key = tuple[Any, ...]


@attrs.define(eq=False)
class Came:
    """What a node came to: all of its value but operands and origin. A `leaf` has no operands, though the node had.
    `look` is what the nodes that use it are compared by."""

    op: str
    leaf: bool
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
        self._came: dict[Key, Came] = {}
        self._looks: dict[Value | None, object] = {None: None}
        self._one: dict[Any, object] = {}

    def key(self, op: str, attributes: Sequence[AttributeProto], inputs: Sequence[Value | None]) -> Key:
        """Equal for nodes of one result that come to the same value, but for operands and origin."""
        looks = self._looks
        given = tuple([a.SerializeToString() for a in attributes]) if attributes else ()
        return op, given, *[looks.get(v) or self._look(v) for v in inputs]

    def _look(self, value: Value | None) -> object:
        """What an operand is compared by: one object for all that look the same, whose hash takes no time."""
        found = self._looks[value] = self._one.setdefault(seen(value), object())
        return found

    def value(self, key: Key, inputs: Sequence[Value | None], origin: Origin) -> Value | None:
        """The value of a node like one that was read; None where it is the first of its kind."""
        came = self._came.get(key)
        if came is None:
            return None
        value = Value(came.op, () if came.leaf else tuple(inputs), came.attributes, (), came.type, origin)
        self._looks[value] = came.look
        if came.content is not None:
            self.known.keep(value, came.content)
        return value

    def remember(self, key: Key, found: Any, inputs: Sequence[Value | None]) -> bool:
        """Keeps what a node came to, for `value` to make. That is a new value over the same operands or none, all of
        whose sizes are known (one that is not is another for each node); False for any other, which is not kept."""
        if type(found) is not Value or found.origin is not NOWHERE or found.bodies or type(found.type) is not Tensor:
            return False
        plain = found.op == CONSTANT or found.op == SHAPE_VECTOR  # what such a value holds it says itself
        leaf = plain and not found.inputs
        content = None if plain else self.known.kept(found)
        if not (leaf or found.inputs == tuple(inputs)) or (content is not None and content.binders):
            return False
        for size in found.type.shape:
            if type(size) is not int and any(map(dims.is_fresh, dims.symbols_of(size))):
                return False
        if sum(map(len, key[1])) > _LONG:
            return False
        look = self._one.setdefault(seen(found), object())
        self._came[key] = Came(found.op, leaf, found.attributes, found.type, content, look)
        return True
