"""An ONNX file in, a smaller and faster one out, in one call."""

from __future__ import annotations

import os

import attrs

from irkit.core.ir import Graph
from irkit.onnx.load import load
from irkit.onnx.save import Form, write_model
from irkit.rewriting.passes import Observer, nobody
from irkit.rewriting.rules import Rule, Rules
from irkit.support.uncollected import without_collector
from passes.legal.definitions import written_out
from passes.legal.runtime.limits import state_limits
from passes.pipelines.rule_sets import text_of
from passes.pipelines.standard import optimize, several
from passes.precision import Precision
from passes.preparing.finish import Finished, finish
from passes.quantization import Quantization
from passes.targets import Target, target_of
from passes.whole_graph.share_contents import share_contents


@without_collector
def optimize_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    target: str | Target = "onnxruntime-cpu",
    opset: int | None = None,
    level: int = 2,
    *,
    rules: Rules | Rule | str | tuple[Rule | str, ...] = (),
    share_weights: bool = True,
) -> Graph:
    """Reads an ONNX file, optimizes it, and writes one that the target runs; the graph that was written.

    It is `irkit.load`, `passes.optimize`, `passes.prepare` and `irkit.save` one after the other, with the collector
    paused over all of them. `target`, `opset`, `level` and `rules`, of which a text such as "default+finite" chooses
    among those of the target too, are what these take; without an opset the file is of the newest at which the target
    runs all of it. Below level 2 nothing is made that may round otherwise, so none of the target's own operators.
    Weights of equal content are held once, under the first of their names, unless `share_weights` is False. The output
    may be the source itself. Raises LoadError for what is not a model, RewriteError for what the target cannot run, and
    for rules and levels that there are not.
    """
    done = optimized_for(load(source), target, opset, level, rules=rules, share_weights=share_weights)
    write_model(done.graph, output, Form(opset=done.target.opset))
    return done.graph


def optimized_for(
    graph: Graph,
    target: str | Target,
    opset: int | None,
    level: int,
    *,
    rules: Rules | Rule | str | tuple[Rule | str, ...] = (),
    fold: int | None = None,
    share_weights: bool = True,
    precision: Precision | None = None,
    quantization: Quantization | None = None,
    observe: Observer = nobody,
) -> Finished:
    """The graph of a file, optimized and finished for a target: what `optimize_file` and `irkit optimize` write.

    `fold` and `observe` are those of `passes.optimize`; the observer also sees weights being shared, and all that fits
    the graph to its target.
    """
    chosen, rules = target_of(target, opset), several(rules)
    shared = share_contents(names=not share_weights).run(written_out(graph, chosen), observe)
    better = optimize(shared.settled_by(share_contents), level, rules=rules, fold=fold, observe=observe)
    done = finish(
        better,
        chosen,
        free=opset is None,
        rules=text_of(rules),
        exact=level < 2,
        precision=precision,
        quantization=quantization,
        observe=observe,
    )
    return attrs.evolve(done, graph=state_limits(done.graph, done.target))
