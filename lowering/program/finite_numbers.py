"""The assumption that numbers are finite: where ONNX Runtime drops or misplaces NaN, and nothing was added for it.

Its kernels of max pooling, of the largest and smallest of some elements, and of sorts do so (`passes.rules.nan`), and
to keep NaN beside them takes time. So a program says where it relies on numbers, in its report, its contract and its
file; `Program.refusing_nan` checks it, and an export with `rules="default+nan"` keeps NaN and relies on nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from irkit.build import const, op
from irkit.core.ir import Fact, Graph, Value
from irkit.core.origins import Origin
from irkit.core.types import DType
from lowering.fold.scope import Check
from lowering.tensors.promotion import cast
from passes.rules.nan import POOLS, compared_operands, nan_assumptions
from passes.targets import Target

FINITE = "finite"
"""The kind of a fact that says where numbers are taken to be finite."""

HINT = 'export with rules="default+nan" to keep NaN, which takes time; or look where the inputs make it'


def places(graph: Graph) -> Mapping[tuple[str, str], tuple[Value, ...]]:
    """What relies on finite numbers: values by operator and line of the user's model."""
    found: dict[tuple[str, str], tuple[Value, ...]] = {}
    for value in nan_assumptions(graph):
        key = (value.op, value.origin.source)
        found[key] = (*found.get(key, ()), value)
    return found


def text_of(name: str) -> str:
    """The assumption, in words."""
    return f"finite numbers in {name}"


def state_finiteness(graph: Graph, target: Target) -> Graph:
    """The graph with a fact for each operator and line that relies on finite numbers; the same object where none does,
    or where it is not ONNX Runtime that runs it."""
    found = places(graph) if target.provider else {}
    if not found:
        return graph
    facts = tuple(Fact(FINITE, text_of(name), line) for name, line in found)
    signature = graph.signature
    return attrs.evolve(graph, signature=attrs.evolve(signature, facts=(*signature.facts, *facts)))


def conditions(graph: Graph) -> tuple[Check, ...]:
    """For each fact of `state_finiteness` the condition, as a boolean scalar."""
    if not any(fact.kind == FINITE for fact in graph.signature.facts):
        return ()
    return tuple(
        Check(holds(values).with_origin(Origin(source=line, target=FINITE)), text_of(name), line, HINT)
        for (name, line), values in places(graph).items()
    )


def holds(values: tuple[Value, ...]) -> Value:
    """Whether what some values compare is no NaN, and no pooling found a window of -inf alone."""
    odd = [op.IsNaN(x) for value in values for x in compared_operands(value) if x.dtype.is_float]
    pools = [cast(value, DType.DOUBLE) for value in values if value.op in POOLS]
    lows = [float(np.finfo(value.dtype.numpy).min) for value in values if value.op in POOLS]
    odd += [op.LessOrEqual(x, const(np.float64(low))) for x, low in zip(pools, lows, strict=True)]
    counts = [op.ReduceSum(cast(flags, DType.FLOAT), keepdims=0) for flags in odd]
    whole = counts[0] if len(counts) == 1 else op.Sum(*counts)
    return op.Equal(whole, const(np.float32(0)))
