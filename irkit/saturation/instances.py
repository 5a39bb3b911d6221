"""Instances of patterns in an e-graph: values made of nodes, which the ordinary matcher then judges.

What is enumerated is what operators allow. Whether it matches, and what the names of the pattern hold, is said by
`irkit.pattern.match` itself, so that every pattern means here what it means elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice, permutations
from typing import Any

import attrs

from irkit.core.ir import Value, vertex
from irkit.core.vocabulary import CONSTANT, ITEM
from irkit.ops.schemas import COMMUTATIVE, keeps_bits_in_any_order
from irkit.pattern import Constant, Either, Hole, Op, Pattern, Rest, Through
from irkit.pattern.language import OfConstants
from irkit.saturation.egraph import EGraph, Node

CHOICES = 24
"""How many instances of one operand are tried at most."""

LOOKED_AT = 4
"""Of how many nodes of a class a predicate is asked, where it may look at what made the value."""

Found = tuple[Hashable, Value | None]
"""What tells an instance from others, and the instance: a value made of nodes, None for an operand that is absent."""


@attrs.frozen(eq=False)
class Finder:
    """Finds instances in one e-graph, which does not change meanwhile."""

    graph: EGraph
    made: dict[tuple[Value, tuple[Value | None, ...]], Value] = attrs.field(factory=dict[Any, Value])

    def over(self, value: Value, inputs: tuple[Value | None, ...]) -> Value:
        """The value over other operands of the same types, the same one whenever it is asked for."""
        known = self.made.get((value, inputs))
        if known is None:
            known = self.made[value, inputs] = over(value, inputs)
        return known

    def of(self, pattern: Pattern, number: int | None) -> Iterator[Found]:
        """Instances of a pattern in a class."""
        return islice(self._of(pattern, number), CHOICES)

    def _of(self, pattern: Pattern, number: int | None) -> Iterator[Found]:
        if number is None:
            yield None, None
            return
        if isinstance(pattern, Op):
            for node in self.graph.classes[number].nodes:
                yield from self.at(pattern, node)
        elif isinstance(pattern, Either):
            for choice in pattern.choices:
                yield from self._of(choice, number)
        elif isinstance(pattern, Through):
            yield from self._of(pattern.inner, number)
        else:
            yield from self._leaf(pattern, number)

    def _leaf(self, pattern: Pattern, number: int) -> Iterator[Found]:
        nodes = self.graph.classes[number].nodes
        if isinstance(pattern, Constant | OfConstants):
            wanted = [n for n in nodes if n.value.op == CONSTANT or isinstance(pattern, OfConstants)]
            yield from ((n.number, n.value) for n in wanted[:LOOKED_AT])
        elif isinstance(pattern, Hole) and pattern.ops:
            yield from ((n.number, n.value) for n in nodes if n.value.op in pattern.ops)
        elif isinstance(pattern, Hole) and pattern.where:
            yield ("class", number), nodes[0].value
            yield from ((n.number, n.value) for n in nodes[1:LOOKED_AT])
        else:
            yield ("class", number), nodes[0].value

    def at(self, pattern: Op, node: Node) -> Iterator[Found]:
        """Instances of an operator whose root is a node."""
        value = node.value
        if pattern.item is not None:
            if value.op == ITEM and value.attributes[0][1] == pattern.item:
                whole = attrs.evolve(pattern, item=None, where=(), type=None, name="", whole="")
                for key, made in self.of(whole, self.graph.children(node)[0]):
                    yield (node.number, key), self.over(value, (made,))
            return
        if value.op not in pattern.ops:
            return
        children = self.graph.children(node)
        if pattern.bodies:
            yield node.number, self.over(value, tuple(map(self.graph.operand, children)))
            return
        for order in self._orders(value, children):
            for keys, operands in self._operands(pattern, tuple(children[i] for i in order)):
                yield (node.number, order, keys), self.over(value, operands)

    def _orders(self, value: Value, children: Sequence[int | None]) -> list[tuple[int, ...]]:
        """The orders in which the operands may stand for those of a pattern: of a commutative operator all that
        a rule may take, and the instance has them in that order."""
        plain = tuple(range(len(children)))
        if value.op not in COMMUTATIVE or len(children) < 2 or len(children) > 3:
            return [plain]
        if len(plain) == 3 and not keeps_bits_in_any_order(value.op, value.dtype, 3):
            return [plain, (1, 0, 2)]
        return list(permutations(plain))

    def _operands(
        self, pattern: Op, children: tuple[int | None, ...]
    ) -> Iterator[tuple[tuple[Hashable, ...], tuple[Value | None, ...]]]:
        wanted = aligned(pattern, len(children))
        if wanted is None:
            return
        yield from islice(self._product(wanted, children), CHOICES)

    def _product(
        self, wanted: Sequence[Pattern], children: tuple[int | None, ...]
    ) -> Iterator[tuple[tuple[Hashable, ...], tuple[Value | None, ...]]]:
        if not wanted:
            yield (), ()
            return
        for key, first in self.of(wanted[0], children[0]):
            for keys, more in self._product(wanted[1:], children[1:]):
                yield (key, *keys), (first, *more)


def aligned(pattern: Op, count: int) -> list[Pattern] | None:
    """The pattern of each of so many operands; None where there are too many or too few."""
    wanted, at = list(pattern.operands), pattern.rest_at
    if at is None:
        return wanted[:count] if count <= len(wanted) else None
    after = len(wanted) - at - 1
    if count < at + after:
        return None
    middle: list[Pattern] = [Rest("")] * (count - at - after)
    return wanted[:at] + middle + wanted[at + 1 :]


def over(value: Value, inputs: tuple[Value | None, ...]) -> Value:
    """The value over other operands of the same types; itself over its own."""
    if inputs == value.inputs:
        return value
    return vertex(value.op, inputs, value.attributes, value.bodies, value.type, value.origin)
