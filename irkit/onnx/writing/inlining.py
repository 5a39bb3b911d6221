"""Calls written out: each becomes a fresh copy of its body over its own operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import attrs

from irkit import dims
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.types import Type, map_dims
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM
from irkit.dims import Dim
from irkit.nodes.calls import substitution


def expand_calls(graph: Graph, chosen: Callable[[Value], bool] | None = None) -> Graph:
    """The graph without Call, or without those that are `chosen`, in bodies of control flow and of other Calls too;
    itself where there is none. A body held in many places is expanded once and copied for each."""
    return _expanded(graph, {}, chosen)


def has_calls(graph: Graph) -> bool:
    """Whether a Call stands in a graph or in a body of it."""
    return any(value.op == CALL or any(map(has_calls, value.bodies)) for value in graph.order)


def called_bodies(graph: Graph) -> tuple[Graph, ...]:
    """The bodies of the Calls in a graph, in its bodies and in one another: each once, those that are called first."""
    found: dict[int, Graph] = {}

    def visit(current: Graph) -> None:
        for value in current.order:
            for body in value.bodies:
                if id(body) not in found:
                    visit(body)
                    if value.op == CALL:
                        found.setdefault(id(body), body)

    visit(graph)
    return tuple(found.values())


def map_bodies(value: Value, function: Callable[[Graph], Graph]) -> Value:
    """The value with each body replaced; itself where none changes."""
    if not value.bodies:
        return value
    bodies = tuple(function(body) for body in value.bodies)
    if all(a is b for a, b in zip(bodies, value.bodies, strict=True)):
        return value
    return attrs.evolve(value, bodies=bodies)


def _expanded(graph: Graph, memo: dict[int, Graph], chosen: Callable[[Value], bool] | None) -> Graph:
    """`graph` expanded; `memo` holds bodies that were, by identity."""
    if next(walk.bodies(graph.order), None) is None:
        return graph

    def inner(body: Graph) -> Graph:
        if id(body) not in memo:
            memo[id(body)] = _expanded(body, memo, chosen)
        return memo[id(body)]

    new: dict[Value, Value] = {}
    parts: dict[Value, tuple[Value, ...]] = {}
    for value in graph.order:
        if value.op == CALL and (chosen is None or chosen(value)):
            operands = [None if v is None else new[v] for v in value.inputs]
            parts[value] = inlined(inner(value.bodies[0]), operands)
            new[value] = parts[value][0] if parts[value] else value
        elif value.op == ITEM and value.inputs[0] in parts:
            new[value] = parts[value.inputs[0]][value.attributes[0][1]]
        else:
            inputs = tuple(None if v is None else new[v] for v in value.inputs)
            same = all(a is b for a, b in zip(inputs, value.inputs, strict=True))
            new[value] = map_bodies(value if same else value.with_inputs(inputs), inner)
    return graph.with_results(new[r] for r in graph.results)


def inlined(body: Graph, operands: Iterable[Any]) -> tuple[Value, ...]:
    """The results of `body` applied to `operands`, as copies of its values. Random draws are drawn anew each time."""
    new: dict[Value, Value] = dict(zip(body.params, operands, strict=True))
    known = substitution((p.type for p in new), (v.type for v in new.values()))

    def resized(size: Dim) -> Dim:
        return dims.substitute(size, known)

    for value in body.order:
        if value.op == PARAM:
            continue
        if value.op == CONSTANT:
            new[value] = value
            continue
        inputs = tuple(None if v is None else new[v] for v in value.inputs)
        if not known:
            new[value] = value.with_inputs(inputs)
        else:
            attributes = tuple((name, _attribute(a, resized)) for name, a in value.attributes)
            type_: Type = map_dims(value.type, resized)
            new[value] = Value(value.op, inputs, attributes, value.bodies, type_, value.origin)
    return tuple(new[r] for r in body.results)


def _attribute(attribute: Any, resized: Callable[[Dim], Dim]) -> Any:
    """An attribute with the dimensions in it replaced."""
    if type(attribute) is tuple:
        return tuple(_attribute(part, resized) for part in cast("tuple[Any, ...]", attribute))
    return resized(attribute) if hasattr(attribute, "free_symbols") else attribute
