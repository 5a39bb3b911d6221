"""`to_onnx`: the whole way, from a torch program to a checked ONNX model."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch
from torch.export import ExportedProgram
from torch.fx import Graph as Graph_
from torch.fx import GraphModule

from irkit.contract.sizes import ENFORCED
from irkit.core.ir import Graph
from irkit.core.origins import Origin
from irkit.core.types import DType
from irkit.core.vocabulary import CONSTANT
from irkit.dims import notation, symbol
from irkit.rewriting.rule import Rule, Rules
from lowering.capture.capture import capture as captured_by_torch
from lowering.direct.entry import directly
from lowering.errors import CaptureError, LoweringError
from lowering.fold.assertions import apart, watched
from lowering.fold.lower import Lowered, lowered
from lowering.fold.registry import Converter
from lowering.program.finite_numbers import FINITE, assuming
from lowering.program.program import Program
from lowering.program.report import Report
from lowering.records.types import DTYPES
from lowering.tensors.complex_pairs import boundary_text
from passes import optimize as optimized
from passes.legal.legalize import newest_for
from passes.legal.materialize_dims import materialize_dims
from passes.legal.runtime.limits import limited
from passes.pipelines.rule_sets import text_of
from passes.pipelines.standard import several
from passes.precision import Mixed, Precision
from passes.preparing.prepare import fitted
from passes.targets import Target, target_of
from passes.whole_graph.seeded import seeded

Progress = Callable[[str, int, int], None]


def to_onnx(
    model: Any,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    opset: int | None = None,
    target: str | Target = "onnxruntime-cpu",
    input_names: Sequence[str] | Mapping[str, str] | None = None,
    output_names: Sequence[str] | None = None,
    converters: Mapping[Any, Converter] | None = None,
    strict: bool = False,
    optimize: bool = True,
    rules: Rules | Rule | str | tuple[Rule | str, ...] = (),
    precision: Precision | DType | torch.dtype | str | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    scalar_inputs: Sequence[str] = (),
    specialization: str | None = None,
    widen: bool = True,
    capture: str = "torch.export",
    copy: bool = False,
) -> Program:
    """What `irkit.to_onnx` does; its documentation says what the arguments mean and what is raised."""
    options = {"scalar_inputs": scalar_inputs, "specialization": specialization, "widen": widen}
    chosen, rules = target_of(target, opset), several(rules)
    half = DTYPES.get(precision, str(precision)) if isinstance(precision, torch.dtype) else precision
    wanted = None if half is None else Precision.of(half)
    seconds: dict[str, float] = {}
    clock = Clock(seconds, progress)
    options |= {"dynamic_shapes": dynamic_shapes, "input_names": input_names}
    made = {"output_names": output_names, "converters": converters, "strict": strict, "copy": copy}
    if is_direct(capture, model):
        low = clock("capture", directly, model, args, kwargs, **options, **made)
    else:
        captured = clock("capture", captured_by_torch, model, args, kwargs, **options)
        told = None if progress is None else lambda i, n: progress("lower", i, n)
        low = clock("lower", lowered, captured, **made, progress=told)
    if not low.graph.results:
        raise LoweringError("the program returns no tensor, and an ONNX model must have a result", hint="return one")
    whole = watched(low.graph, low.checks)
    drawn = whole if seed is None else seeded(whole, seed)
    better = clock("optimize", optimized, drawn, rules=rules) if optimize else drawn
    mixed = None if wanted is None else clock("precision", wanted.mixed, better)
    free = opset is None and isinstance(target, str)
    return finished(low, better, mixed, chosen, clock, free, model, text_of(rules))


def is_direct(capture: str, model: Any) -> bool:
    """Whether a model is to be run by irkit itself; what torch has captured already is lowered as it is.

    Raises CaptureError for a way of capture that there is none of.
    """
    if capture not in ("torch.export", "direct"):
        raise CaptureError(f"capture is {capture!r}", hint="write 'direct' or 'torch.export'")
    given = isinstance(model, ExportedProgram | GraphModule | Graph_ | str | os.PathLike)
    return capture == "direct" and not given


def finished(
    low: Lowered, better: Graph, mixed: Mixed | None, target: Target, clock: Clock, free: bool, model: Any, rules: str
) -> Program:
    """The program of an optimized graph, legalized and materialized for its target; `free` where its opset is not asked
    for, so that an older one may be taken; `rules` names those of the target."""
    better = better if mixed is None else mixed.graph
    chosen = newest_for(better, target) if free else target
    legal = clock("legalize", fitted, better, chosen, rules)
    ready, checks = apart(clock("materialize", materialize_dims, legal, chosen.opset))
    ready = limited(assuming(ready, chosen), chosen)
    counts = {"FX": low.fx_nodes, "lowered": len(low.graph), "optimized": len(apart(better)[0]), "ONNX": len(ready)}
    report = report_of(low, ready, chosen, counts, clock.seconds)
    if mixed is None:
        return Program(low.graph, ready, low, chosen.opset, report, model, checks=checks)
    report = attrs.evolve(report, precision=str(mixed))
    return Program(low.graph, ready, low, chosen.opset, report, model, mixed.dtype, checks)


@attrs.frozen
class Clock:
    """Runs the stages of an export and notes how long each takes, in seconds."""

    seconds: dict[str, float]
    progress: Progress | None = None

    def __call__(self, stage: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `function` returns for the arguments."""
        if self.progress is not None:
            self.progress(stage, 0, 1)
        start = time.perf_counter()
        result = function(*args, **kwargs)
        self.seconds[stage] = time.perf_counter() - start
        if self.progress is not None:
            self.progress(stage, 1, 1)
        return result


def report_of(
    low: Lowered, ready: Graph, target: Target, nodes: Mapping[str, int], seconds: Mapping[str, float]
) -> Report:
    """The report of an export."""
    graph = low.graph
    facts = graph.signature.facts
    blobs = {id(v.blob): v.blob for v in graph.order if v.op == CONSTANT and v.blob is not None and v.blob.name}
    ports = list(zip(graph.signature.params, graph.params, strict=True))
    results = list(zip(graph.signature.results, graph.results, strict=True))
    written = {port.binds for port, _ in results if port.role == "state"}
    return Report(
        model=graph.name,
        capture=low.captured.how,
        opset=target.opset,
        target=str(target),
        inputs=tuple((port.name, boundary_text(graph, port.name, v.type)) for port, v in ports if port.role == "input"),
        outputs=tuple(
            (port.name, boundary_text(graph, port.name, v.type)) for port, v in results if port.role == "output"
        ),
        dims=tuple((notation.text(symbol(name)), str(r)) for name, r in sorted(graph.symbols.items())),
        guards=tuple((f.text, f.source) for f in ready.signature.facts if f.kind in (*ENFORCED, "note")),
        baked=tuple((f.text, f.source) for f in facts if f.kind == "baked"),
        state=tuple(port.name for port, _ in ports if port.role == "state" or port.name in written),
        decomposed=dict(low.decomposed),
        upcasts=upcasts_of(ready),
        nodes=nodes,
        seconds=seconds,
        weights=(len(blobs), sum(b.nbytes for b in blobs.values())),
        notes=low.captured.notes,
        assumed=tuple((f.text, f.source) for f in ready.signature.facts if f.kind == FINITE),
        lengths=tuple(f.text for f in facts if f.kind == "length"),
        fixed=tuple((f.text, f.source) for f in facts if f.kind == "static"),
    )


def upcasts_of(graph: Graph) -> dict[str, int]:
    """How often each upcast or downcast, which legalization marks on the origin of a value, was made."""
    counts: Counter[str] = Counter()
    for value in graph.order:
        origin: Origin = value.origin
        counts.update(rule for rule in origin.rules if rule.startswith(("upcast[", "downcast[")))
    return dict(counts)
