"""Value numbering: values that are equal become one, in a table that lives as long as one sweep."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from irkit.core import attributes
from irkit.core.ir import Graph, Value, require_graph
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.ops.schemas import NONDETERMINISTIC
from irkit.support.uncollected import without_collector

UNSHARED = NONDETERMINISTIC | {PARAM}
"""Operators of which two applications are never one."""


class Numbering:
    """A local table of the values of one closed graph, by operator, operands, attributes and bodies."""

    def __init__(self) -> None:
        self._first: dict[Hashable, Value] = {}

    def first(self, value: Value) -> Value:
        """The first value this was asked for that equals `value`: `value` itself where there is none.

        Parameters and random draws equal nothing else. Two values whose types differ are kept apart: each may bind
        a dimension symbol of its own.
        """
        op = value.op
        if op == CONSTANT:
            key = value.attributes[0][1].key
        elif value.attributes or value.bodies or op in UNSHARED:
            key = key_of(value)
            if key is None:
                return value
        else:
            key = (op, value.inputs)
        found = self._first.setdefault(key, value)
        if found is value:
            return value
        same = found.type is value.type or found.type == value.type
        return found if same and type(found.op) is type(op) else value  # a plain name says nothing of an operator

    def find(self, value: Value) -> Value | None:
        """The first value this was asked for that equals `value`; None where there is none."""
        key = key_of(value)
        found = None if key is None else self._first.get(key)
        fits = found is not None and found.type == value.type and type(found.op) is type(value.op)
        return found if fits else None


def key_of(value: Value) -> Hashable:
    """Equal for values of which one may stand for the other, their types apart; None for those that equal no other."""
    op, given = value.op, value.attributes
    if op in UNSHARED:
        return None
    if value.bodies:
        if is_random(value):
            return None
        return op, value.inputs, attributes.key(given), tuple([(b.token, b.symbols_used) for b in value.bodies])
    if op == CONSTANT:
        return given[0][1].key
    if given:
        return op, value.inputs, attributes.key(given)
    return op, value.inputs


def is_random(value: Value) -> bool:
    """True where a value draws random numbers, itself or in a body."""
    if value.op in NONDETERMINISTIC:
        return True
    return any(is_random(inner) for body in value.bodies for inner in body.order)


@attrs.frozen(eq=False)
class Bodies:
    """Which graph stands for each body, by its key, so that a body held in many places is worked on once. Bodies are
    kept beside what stands for them: keys are good for as long as they live."""

    known: dict[Hashable, tuple[Graph, Graph]] = attrs.field(factory=dict[Hashable, tuple[Graph, Graph]])

    def key(self, body: Graph) -> Hashable:
        """Equal for bodies that may stand for one another: same structure over the same dimension symbols."""
        return (body.token, body.symbols_used)


@without_collector
def share(graph: Graph) -> Graph:
    """`graph` with equal values merged, in bodies too; the very same object where there are none.

    Of values that are merged the first in order stays, with its origin.
    """
    require_graph(graph)
    return _share(graph, Bodies())


def _share(graph: Graph, bodies: Bodies) -> Graph:
    table, swaps = Numbering(), dict[Value | None, Value]()
    for value in graph.order:
        new = value
        if swaps and not swaps.keys().isdisjoint(value.inputs):
            new = value.with_inputs(tuple(swaps.get(v, v) for v in value.inputs))
        if new.bodies:
            new = with_bodies(new, tuple(_shared_body(body, bodies) for body in new.bodies))
        new = table.first(new)
        if new is not value:
            swaps[value] = new
    return graph.with_results(swaps.get(r, r) for r in graph.results) if swaps else graph


def _shared_body(body: Graph, bodies: Bodies) -> Graph:
    key = bodies.key(body)
    if key not in bodies.known:
        bodies.known[key] = body, _share(body, bodies)
    return bodies.known[key][1]


def with_bodies(value: Value, bodies: tuple[Graph, ...]) -> Value:
    """`value` over other bodies of the same type; itself where they are the same objects."""
    if all(a is b for a, b in zip(bodies, value.bodies, strict=True)):
        return value
    return Value(value.op, value.inputs, value.attributes, bodies, value.type, value.origin)
