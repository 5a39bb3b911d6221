"""An ONNX file in, a smaller and faster one out, in one call."""

from __future__ import annotations

import os

from irkit.core.ir import Graph
from irkit.onnx.load import load
from irkit.onnx.save import Form, write_model
from irkit.rewriting.rules import Rule, Rules
from irkit.support.uncollected import uncollected
from passes.legal.definitions import written_out
from passes.legal.legalize import newest_for
from passes.pipelines.rule_sets import text_of
from passes.pipelines.standard import optimize, several
from passes.preparing.prepare import prepare
from passes.targets import Target, target_of


@uncollected
def optimize_file(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    target: str | Target = "onnxruntime-cpu",
    opset: int | None = None,
    level: int = 2,
    *,
    rules: Rules | Rule | str | tuple[Rule | str, ...] = (),
) -> Graph:
    """Reads an ONNX file, optimizes it, and writes one that the target runs; the graph that was written.

    It is `irkit.load`, `passes.optimize`, `passes.prepare` and `irkit.save` one after the other, with the collector
    paused over all of them. `target`, `opset`, `level` and `rules`, of which a text such as "default+finite" chooses
    among those of the target too, are what these take; without an opset the file is of the newest at which the target
    runs all of it. Below level 2 nothing is made that may round otherwise, so none of the target's own operators. The
    output may be the source itself. Raises LoadError for what is no model, RewriteError for what the target cannot run,
    and for rules and levels that there are not.
    """
    chosen, rules = target_of(target, opset), several(rules)
    better = optimize(written_out(load(source), chosen), level, rules=rules)
    chosen = newest_for(better, chosen) if opset is None else chosen
    ready = prepare(better, chosen, rules=text_of(rules), exact=level < 2)
    write_model(ready, output, Form(opset=chosen.opset))
    return ready
