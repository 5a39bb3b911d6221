"""A part of a graph as a graph of its own, by the names of the values where it begins and ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from irkit.core.ir import Graph, Value


def named_values(graph: Graph) -> Mapping[str, Value]:
    """The values of a graph by their names: those of inputs and outputs, of nodes in the file, and as its text has
    them, with and without `%`."""
    return graph.named


def extract_part(graph: Graph, inputs: Iterable[str], outputs: Iterable[str]) -> Graph:
    """The part of a graph between some values, by name (see `Graph.cut`); without inputs it begins where the graph
    does, without outputs it ends where the graph does.

    Raises GraphError for a name that there is not, and for an input that no output needs.
    """
    return graph.cut(list(inputs) or None, list(outputs) or None)
