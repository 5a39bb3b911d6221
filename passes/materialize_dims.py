"""Symbolic sizes to ONNX arithmetic: once, late, by the cheapest route."""

from __future__ import annotations

from irkit.ir import Graph
from irkit.onnx.materialize import materialize


def materialize_dims(graph: Graph) -> Graph:
    """The graph without ShapeVector; itself where there is none. See `irkit.onnx.materialize.materialize`.

    Raises SerializeError for a dimension symbol that nothing binds.
    """
    return materialize(graph)
