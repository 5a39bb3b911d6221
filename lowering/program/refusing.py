"""A file that refuses by itself: its results fail where a condition that only the data decides does not hold."""

from __future__ import annotations

import attrs
import numpy as np

from irkit.build import const, op
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor
from lowering.fold.assertions import Watched, all_of


def bind_conditions(watched: Watched) -> Graph:
    """The graph without its conditions, whose results no runtime gives where one of them does not hold; the very graph
    where there is none.

    ONNX has no operator that fails on purpose, but Gather fails for a place out of range: it takes row 0 of a table of
    one row where all conditions hold, and row 1 where one does not. The row is the shape to which each result is
    reshaped: zeros, which keep every size and copy no element. A scalar is itself the row that is taken.
    """
    if not watched.checks:
        return watched.graph
    row = op.Cast(op.Not(all_of(watched.checks)), to=int(DType.INT64))
    graph = watched.graph
    return attrs.evolve(graph, results=tuple(held(value, row) for value in graph.results))


def held(value: Value, row: Value) -> Value:
    """The same tensor, which cannot be computed unless `row` is 0; what is no tensor as it is."""
    if not isinstance(value.type, Tensor):
        return value
    if not value.rank:
        return op.Gather(op.Unsqueeze(value, [0]), row, axis=0).with_type(value.type)
    kept = op.Gather(const(np.zeros((1, value.rank), dtype=np.int64)), row, axis=0)
    return op.Reshape(value, kept).with_type(value.type)
