"""Symbolic sizes to ONNX arithmetic: once, late, by the cheapest route."""

from __future__ import annotations

from irkit.core.ir import Graph
from irkit.onnx.writing.materialize import materialize
from irkit.ops.schemas import OPSET


def materialize_dims(graph: Graph, opset: int = OPSET) -> Graph:
    """The graph without ShapeVector; itself where there is none. See `irkit.onnx.writing.materialize.materialize`.

    The nodes that take its place are such as an opset has.

    Raises SerializeError for a dimension symbol that nothing binds.
    """
    return materialize(graph, opset)
