"""`to_onnx`: the whole way, from a torch program to a checked ONNX model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import torch

from irkit.contract.sizes import ENFORCED
from irkit.core.blobs import Blob
from irkit.core.ir import Graph
from irkit.core.origins import Origin
from irkit.core.vocabulary import CONSTANT
from irkit.dims import notation, symbol
from irkit.rewriting.history import History, Tally
from irkit.rewriting.passes import Observer, nobody
from irkit.support.uncollected import without_collector
from lowering.capture.own_example import refuse_broken_example
from lowering.errors import CaptureError, LoweringError
from lowering.fold.assertions import Watched
from lowering.fold.lower import Lowered
from lowering.program.clock import Clock
from lowering.program.finite_numbers import FINITE, free_choices, state_finiteness
from lowering.program.functions import with_functions
from lowering.program.goal import Goal, history_to
from lowering.program.program import Program
from lowering.program.report import Report
from lowering.program.ways import lower_model
from lowering.records.options import ExportOptions, Functions
from lowering.tensors.complex_pairs import boundary_texts
from passes import optimize
from passes.legal.others.narrow import narrow_note
from passes.legal.runtime.limits import RUNTIME, state_limits
from passes.pipelines.rule_sets import text_of
from passes.preparing.finish import finish
from passes.quantization.biases import integer_biases, said_of_biases
from passes.targets import Target
from passes.targets.targets import provider_note
from passes.whole_graph.layer_calls import operator_count, written_out
from passes.whole_graph.seeded import seeded


@without_collector
def export_model(
    model: Any, args: Sequence[Any] | torch.Tensor, kwargs: Mapping[str, Any] | None, options: ExportOptions
) -> Program:
    """What `irkit.to_onnx` does; its documentation says what is raised.

    Capture and lowering give a graph, with the conditions that only data decides beside it; both are then rewritten as
    one: optimized, brought to another precision, legalized for the target, their sizes written out as nodes.
    """
    goal, clock = Goal.of(options), Clock(progress=options.progress)
    low = lower_model(model, args, kwargs, options, clock)
    if not low.with_calls.results:
        raise LoweringError("the program returns no tensor, and an ONNX model must have a result", hint="return one")
    if options.data == "refuse" and low.watched.told:
        first = low.watched.told[0]
        raise CaptureError(
            f"the model is right for some data only: {first.text}", source=first.source,
            hint="compute with torch.where or torch.cond what a branch on data computes, or leave data='refuse' out",
        )  # fmt: skip
    return program_of(low, options, goal, clock, model)


def export_again(program: Program, options: ExportOptions) -> Program:
    """What `to_onnx` makes with other options of target, opset, rules, precision or integers, of what was captured and
    lowered once for `program`. Raises what it raises for these."""
    return program_of(program.lowered, options, Goal.of(options), Clock(progress=options.progress), program.model)


@without_collector
def program_of(low: Lowered, options: ExportOptions, goal: Goal, clock: Clock, model: Any) -> Program:
    """The program of what was captured and lowered: optimized, and finished for its target."""
    asked = Functions.of(options.functions)
    called = asked is None and goal.is_usual and not low.checks
    watched = Watched(low.with_calls) if called else low.watched
    if asked is not None:
        step, notes = with_functions(low, model, asked)
        watched, known = watched.then(step), low.captured.notes
        low = attrs.evolve(low, captured=attrs.evolve(low.captured, notes=tuple(dict.fromkeys((*known, *notes)))))
    tally = Tally(own=tuple(rule.name for rule in goal.own_rules))
    better = optimized(watched, goal, clock, tally)
    if goal.optimize and goal.target.is_onnxruntime:
        better = better.then(integer_biases)
    program = finished(low, better, goal, clock, model, tally)
    return attrs.evolve(program, own_rules=goal.own_rules, again=partial(history_of, goal, watched))


def history_of(goal: Goal, watched: Watched) -> History:
    """All that is done to what was lowered, its layers written out, on the way to a goal."""
    return history_to(goal, written_out(watched.whole))


def optimized(watched: Watched, goal: Goal, clock: Clock, observe: Observer = nobody) -> Watched:
    """The graph with seeds for its draws, and simplified, as far as the goal asks for either."""
    drawn = watched if goal.seed is None else watched.then(partial(seeded, seed=goal.seed))
    if not goal.optimize:
        return drawn
    with clock("optimize"):
        return drawn.then(partial(optimize, rules=goal.rules, observe=observe))


def finished(
    low: Lowered, better: Watched, goal: Goal, clock: Clock, model: Any, tally: Tally | None = None
) -> Program:
    """The program of an optimized graph: brought to the precision that is asked for, legalized and materialized for its
    target. `tally` counts the rules that fire, and has counted those of the optimization."""
    tally = tally or Tally()
    better = better.then(partial(free_choices, target=goal.target, rules=goal.rules))
    done = finish(
        better.whole,
        goal.target,
        free=goal.free,
        rules=text_of(goal.rules),
        precision=goal.precision,
        quantization=goal.quantization,
        stage=clock,
        observe=tally,
    )
    mixed, target, written = done.mixed, done.target, better.with_whole(done.graph)
    last = mixed or done.quantized
    better = better if last is None else better.with_whole(last.graph)
    ready = written.with_facts(state_limits(state_finiteness(written.graph, target), target).signature.facts)
    if any(fact.kind == RUNTIME for fact in ready.graph.signature.facts):  # capture has compared the others
        refuse_broken_example(ready.graph, (), low.examples)
    counts = {
        "FX": low.fx_nodes,
        "lowered": operator_count(low.with_calls),
        "optimized": len(better.graph),
        "ONNX": len(ready.graph),
    }
    report = attrs.evolve(report_of(low, ready.graph, target, counts, clock.seconds), fired=tally.counts(written.whole))
    if mixed is not None:
        report = attrs.evolve(report, precision=str(mixed))
    if done.quantized is not None:
        report = attrs.evolve(report, quantization=str(done.quantized))
    elif said := said_of_biases(better.whole):
        report = attrs.evolve(report, quantization=said)
    half = None if mixed is None else mixed.dtype
    return Program(ready, low, target.opset, report, model, half, done.quantized)


def report_of(
    low: Lowered, ready: Graph, target: Target, nodes: Mapping[str, int], seconds: Mapping[str, float]
) -> Report:
    """The report of an export."""
    graph = low.with_calls
    facts = graph.signature.facts
    held: list[Blob] = [v.attributes[0][1] for v in graph.order if v.op == CONSTANT]
    blobs = {id(blob): blob for blob in held if blob.name}
    ports = list(zip(graph.signature.params, graph.params, strict=True))
    results = list(zip(graph.signature.results, graph.results, strict=True))
    written = {port.binds for port, _ in results if port.role == "state"}
    return Report(
        model=graph.name,
        capture=low.captured.how,
        opset=target.opset,
        target=str(target),
        inputs=boundary_texts(graph, [(port.name, v.type) for port, v in ports if port.role == "input"]),
        outputs=boundary_texts(graph, [(port.name, v.type) for port, v in results if port.role == "output"]),
        dims=tuple((notation.text(symbol(name)), str(r)) for name, r in sorted(graph.symbols.items())),
        guards=tuple((f.text, f.source) for f in ready.signature.facts if f.kind in (*ENFORCED, "note")),
        baked=tuple((f.text, f.source) for f in facts if f.kind == "baked"),
        state=tuple(port.name for port, _ in ports if port.role == "state" or port.name in written),
        decomposed=dict(low.decomposed),
        upcasts=upcasts_of(ready),
        nodes=nodes,
        seconds=seconds,
        weights=(len(blobs), sum(b.nbytes for b in blobs.values())),
        notes=(
            *low.captured.notes,
            *filter(None, [provider_note(target.provider), narrow_note(ready, target.provider)]),
        ),
        rewritten=low.captured.rewritten,
        assumed=tuple((f.text, f.source) for f in ready.signature.facts if f.kind == FINITE),
        lengths=tuple(f.text for f in facts if f.kind == "length"),
        fixed=tuple((f.text, f.source) for f in facts if f.kind == "static"),
    )


def upcasts_of(graph: Graph) -> dict[str, int]:
    """How often each upcast or downcast, which legalization marks on the origin of a value, was made."""
    counts: Counter[str] = Counter()
    for value in graph.order:
        origin: Origin = value.origin
        for rule in origin.rules:
            if rule.startswith(("upcast[", "downcast[")):
                counts[rule] += 1
    return dict(counts)
