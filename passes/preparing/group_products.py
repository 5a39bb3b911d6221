"""Products that would copy a matrix for each row that meets it: the rows of one matrix are put together instead.

Queries of attention whose heads share keys and values are laid one after another before these, and rows that each come
with the matrix of an expert are sorted by expert, where that pays. The work is the same, laid out differently: results
agree as real numbers do, not bit for bit.
"""

from __future__ import annotations

from irkit.core.ir import Graph
from irkit.rewriting.face import Rules, rewrite_where
from irkit.rewriting.firings import heard
from irkit.rewriting.passes import Observer, Pass, nobody
from irkit.support.uncollected import without_collector
from passes.rules.attention.shared_heads import SHARED_HEADS
from passes.rules.weights.sorted_rows import SORTED_ROWS
from passes.targets import Target

GROUPING: Rules = (*SHARED_HEADS, *SORTED_ROWS)
"""All such rules."""


@without_collector
def group_products(graph: Graph, target: Target, *, observe: Observer = nobody) -> Graph:
    """The graph with such rows put together, where ONNX Runtime on the CPU runs it; the very same object for other
    targets, and where no matrix is copied."""
    if target.provider != "CPUExecutionProvider":
        return graph
    step = Pass(
        "group_products",
        (("target", str(target)),),
        lambda before, seen, _depth: rewrite_where(before, GROUPING, told=heard(seen)),
    )
    return step.run(graph, observe)
