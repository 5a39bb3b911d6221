"""A graph as a table of rows, which pickles flat however deep the graph is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyrsistent import pmap

if TYPE_CHECKING:
    from irkit.core.ir import Graph


Table = tuple[Any, ...]
"""A graph in rows of plain values."""


def to_rows(graph: Graph) -> Table:
    """Plain data that `from_rows` turns back into an equal graph: one row a value, operands by number."""
    number = {value: i for i, value in enumerate(graph.order)}
    rows = [
        (v.op, tuple(-1 if i is None else number[i] for i in v.inputs), v.attributes, v.bodies, v.type, v.origin)
        for v in graph.order
    ]
    results = tuple(number[r] for r in graph.results)
    return rows, len(graph.params), results, dict(graph.symbols), graph.signature, graph.name


def from_rows(table: Table, make_value: Any, make_graph: Any) -> Graph:
    """The graph that `to_rows` wrote; the constructors are handed in, so that this file stands below them."""
    rows, params, results, symbols, signature, name = table
    values: list[Any] = []
    for op, operands, attributes, bodies, type_, origin in rows:
        inputs = tuple(None if i < 0 else values[i] for i in operands)
        values.append(make_value(op, inputs, attributes, bodies, type_, origin))
    return make_graph(tuple(values[:params]), tuple(values[i] for i in results), pmap(symbols), signature, name)
