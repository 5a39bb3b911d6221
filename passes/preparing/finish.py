"""The tail of every way from a graph to a model: integers, precision, opset, what the target runs, sizes as nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import attrs

from irkit.core.ir import Graph
from irkit.onnx.writing.materialize import materialize_dims
from irkit.rewriting.passes import Observer, Pass, nobody
from passes.legal.legalize import newest_for
from passes.precision import Mixed, Precision
from passes.preparing.prepare import fit_to_target
from passes.quantization import Quantization, Quantized, quantize
from passes.targets import Target

Stage = Callable[[str], AbstractContextManager[object]]
"""A block by the name of the stage that it is."""


@attrs.frozen
class Finished:
    """A graph that its target runs, with every size as nodes, and how it was brought to another precision and to
    integers."""

    graph: Graph
    target: Target
    mixed: Mixed | None = None
    quantized: Quantized | None = None


def finish(
    graph: Graph,
    target: Target,
    *,
    free: bool = False,
    rules: str = "",
    exact: bool = False,
    precision: Precision | None = None,
    quantization: Quantization | None = None,
    stage: Stage = nullcontext,
    observe: Observer = nobody,
) -> Finished:
    """An optimized graph, finished for its target; with `free` for an older opset of it, where only that runs all.

    `rules` and `exact` are those of `passes.prepare`. `stage` is told of "quantize",
    "precision", "legalize" and "materialize", and `observe` of each step.
    Raises RewriteError for what the target cannot run.
    """
    quantized = None
    if quantization is not None:
        with stage("quantize"):
            quantized = quantize(graph, quantization, target=target)
        graph = told(observe, "quantize", graph, quantized.graph)
    mixed = None
    if precision is not None:
        with stage("precision"):
            mixed = precision.mixed(graph)
        graph = told(observe, "precision", graph, mixed.graph)
    target = newest_for(graph, target) if free else target
    with stage("legalize"):
        legal = fit_to_target(graph, target, rules, exact, observe)
    step = Pass("materialize_dims", (), lambda before, _observe, _depth: materialize_dims(before, target.opset))
    with stage("materialize"):
        return Finished(step.run(legal, observe), target, mixed, quantized)


def told(observe: Observer, name: str, before: Graph, after: Graph) -> Graph:
    """`after`, of which the observer is told as of what a pass of that name made."""
    return Pass(name, (), lambda _before, _observe, _depth: after).run(before, observe)
