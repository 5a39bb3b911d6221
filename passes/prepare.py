"""The last step before a graph is saved: everything in it is something that the target runs."""

from __future__ import annotations

from irkit.ir import Graph
from passes.legalize import legalize
from passes.materialize_dims import materialize_dims
from passes.targets import Target, target_of


def prepare(graph: Graph, target: str | Target = "onnxruntime-cpu", opset: int | None = None) -> Graph:
    """A graph that the target runs, with every size written out as nodes: what `irkit.save` should be given.

    `target` is "onnxruntime-cpu" or a Target; `opset` the ONNX opset, 13 to 26, the newest that the target runs where
    it is not given. Pass the same opset to `irkit.save`. Raises RewriteError for what the target cannot run.
    """
    chosen = target_of(target, opset)
    return materialize_dims(legalize(graph, chosen), chosen.opset)
