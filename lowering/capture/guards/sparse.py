"""What a sparse matrix stores: a graph takes it as dense, and so takes just the elements that are not 0 as stored.

That is wrong for a matrix that stores a 0 where the stored elements count: their mean, largest and smallest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.fx import GraphModule

from lowering.capture.guards.guards import Guard
from lowering.errors import CaptureError
from lowering.records.source_lines import line_of, trace_of

REDUCTIONS = (torch.ops.aten._sparse_mm.reduce, torch.ops.aten._sparse_mm_reduce_impl.default)
HINT = "store no 0: to_dense().to_sparse_csr() leaves them out"


def lines_that_count(module: GraphModule) -> Iterator[str]:
    """The line of the model for each operator of a graph that counts the stored elements of a matrix."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in REDUCTIONS and node.args[2] != "sum":
            yield line_of(trace_of(node))


def guards_of_stored(module: GraphModule, state: Mapping[str, Any]) -> Iterator[Guard]:
    """The conditions that a graph which counts stored elements relies on. Raises CaptureError where a constant matrix
    breaks them."""
    for line in lines_that_count(module):
        wrong = next((name for name, each in state.items() if stores_zero(each)), None)
        if wrong is not None:
            raise CaptureError(
                f"{wrong} is sparse and stores a 0, which a dense tensor does not", source=line, hint=HINT
            )
        yield Guard(None, "no sparse matrix stores a 0: those that a dense one holds are not counted", line)


def stores_zero(tensor: Any) -> bool:
    """True where a sparse tensor stores an element that is 0."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is torch.strided:
        return False
    values = tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor.values()
    return bool((values == 0).any())
