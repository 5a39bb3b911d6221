"""Graphs of a model at certain sizes, joined to the one for all others as branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import attrs

from irkit import dims
from irkit.build import call, const, dim_scalar, op, shape_vector
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.types import Tensor, same_types
from irkit.core.vocabulary import CONSTANT
from irkit.nodes.bodies import sealed_graph
from lowering.fold.lower import Lowered

Way = tuple[Mapping[str, int], Graph]
"""Sizes of names, and the graph that computes what the model does there."""


def can_branch(low: Lowered, other: Lowered) -> bool:
    """Whether two graphs over the same parameters can be branches of one: they give as many tensors of the same types
    but for sizes, write no state, and nothing of data is checked in them."""
    first, second = low.graph, other.graph
    plain = not (low.checks or other.checks or low.initial_state or other.initial_state)
    return (
        plain
        and first.params == second.params
        and low.outputs == other.outputs
        and all(map(alike, first.results, second.results))
        and not any(port.role == "state" for each in (first, second) for port in each.signature.results)
    )


def alike(value: Value, other: Value) -> bool:
    """Whether two values are tensors of one element type and rank."""
    if not (isinstance(value.type, Tensor) and isinstance(other.type, Tensor)):
        return False
    return value.dtype == other.dtype and value.rank == other.rank and None not in value.type.shape


def with_size_branches(low: Lowered, ways: Sequence[Way]) -> Lowered:
    """The same with a branch for each of the ways, the last one asked first; the very same for none."""
    return attrs.evolve(low, graph=reduce(branched, ways, low.graph)) if ways else low


def branched(graph: Graph, way: Way) -> Graph:
    """The graph whose results another one computes where names have the sizes of its point."""
    point, other = way
    flags = [op.Equal(dim_scalar(dims.symbol(name)), const(size, "i64")) for name, size in sorted(point.items())]
    flag = reduce(op.And, flags)
    pairs = zip(other.results, graph.results, strict=True)
    theirs = [value if same_types(value.type, ours.type) is True else of_sizes(value, ours) for value, ours in pairs]
    captures = (*graph.params, *(v for v in dict.fromkeys((*graph.order, *other.order)) if is_weight(v)))
    bodies = {
        name: sealed_graph((), results, captures, name)
        for name, results in (("then_branch", theirs), ("else_branch", list(graph.results)))
    }
    made = call("If", [flag, *captures], {"captures": len(captures), **bodies}, outputs=len(graph.results))
    return attrs.evolve(graph, results=made if isinstance(made, tuple) else (made,))


def is_weight(value: Value) -> bool:
    """Whether a value is a constant that stands outside of the branches, once."""
    held: Blob | None = value.blob if value.op == CONSTANT else None
    return held is not None and held.nbytes >= SHARED


SHARED = 1024
"""Bytes of a constant that is not written into each branch."""


def of_sizes(value: Value, like: Value) -> Value:
    """The value, said to have the sizes of another, which it has where it is computed."""
    shape = like.type.shape if isinstance(like.type, Tensor) else ()
    return op.Reshape(value, shape_vector(shape), allowzero=1)
