"""An ONNX file in, a smaller and faster one out, in one call."""

from __future__ import annotations

import os

from irkit.ir import Graph
from irkit.onnx.external import save
from irkit.onnx.load import load
from irkit.pause import uncollected
from passes.definitions import written_out
from passes.legalize import newest_for
from passes.prepare import prepare
from passes.standard import optimize
from passes.targets import Target, target_of


@uncollected
def optimize_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    target: str | Target = "onnxruntime-cpu",
    opset: int | None = None,
    level: int = 2,
) -> Graph:
    """Reads an ONNX file, optimizes it, and writes one that the target runs; the graph that was written.

    It is `irkit.load`, `passes.optimize`, `passes.prepare` and `irkit.save` one after the other, with the collector
    paused over all of them. `target`, `opset` and `level` are what these take; without an opset the file is of the
    newest at which the target runs all of it. The output may be the source itself. Raises LoadError for what is no
    model, RewriteError for what the target cannot run.
    """
    chosen = target_of(target, opset)
    better = optimize(written_out(load(source), chosen), level)
    chosen = newest_for(better, chosen) if opset is None else chosen
    ready = prepare(better, chosen)
    save(ready, output, opset=chosen.opset)
    return ready
