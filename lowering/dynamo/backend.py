"""The backends of `torch.compile`: "irkit" runs graphs on ONNX Runtime, "irkit_debug" prints what operators give."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import torch
from torch.fx import GraphModule

from irkit.core.ir import Graph
from irkit.core.printer import nested_graphs, value_names
from irkit.errors import IrkitError
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.evaluate import Printed
from irkit.onnx.sessions import graph_session, quiet_options
from lowering.dynamo import store
from lowering.dynamo.outputs import Parted, outputs_in_order, split_outputs
from lowering.dynamo.runner import Entry, Exit, Runner, memory_order
from lowering.dynamo.store import Kept
from lowering.errors import CaptureError, LoweringError
from lowering.program.finite_numbers import FINITE
from lowering.program.program import Program
from lowering.program.to_onnx import export_model
from lowering.records.options import ExportOptions
from lowering.records.torch_internals import aot_functions, unset_fake_temporarily
from lowering.records.types import array_of, as_pairs, from_pairs, tensor_of

LOG = logging.getLogger("irkit.compile")

Compiled = Callable[..., Any]


@attrs.frozen(kw_only=True, eq=False)
class CompileOptions:
    """What `torch.compile(..., options={...})` may say.

    `target`, `rules`, `precision` and `opset` are those of `irkit.to_onnx`. `fallback`: whether what irkit cannot lower
    is left to torch, with a warning, or raised. `store`: the folder of compiled graphs; None keeps nothing, "default"
    is a folder among the user's caches. `threads`: of ONNX Runtime within an operator, 0 for one on each core.
    `verbose` and `every`: of the debugging backend, as in `irkit.evaluate`; `every` is called with each value and what
    it holds.
    """

    target: Any = "onnxruntime-cpu"
    rules: Any = ()
    precision: Any = None
    opset: int | None = None
    fallback: bool = True
    store: str | Path | None = "default"
    threads: int = 0
    verbose: int = 1
    every: Callable[[Any, Any], None] | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> CompileOptions:
        """The options of a mapping. Raises CaptureError for one that there is none of."""
        known = [field.name for field in attrs.fields(cls)]
        unknown = [name for name in given or {} if name not in known]
        if unknown:
            raise CaptureError(f"the irkit backend has no option {unknown[0]!r}", hint=f"it has: {', '.join(known)}")
        return cls(**(given or {}))

    def of_export(self) -> ExportOptions:
        """What they say of an export."""
        return ExportOptions(target=self.target, rules=self.rules, precision=self.precision, opset=self.opset)

    def folder(self) -> Path | None:
        """The folder of compiled graphs; None where nothing is kept."""
        return store.default_folder() if self.store == "default" else None if self.store is None else Path(self.store)


def irkit_backend(
    module: GraphModule, inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Compiled:
    """`torch.compile(model, backend="irkit", options={...})`: forward and backward by ONNX Runtime on the CPU.

    `options` are those of `CompileOptions`; `mode` says nothing here. Sizes may vary (`dynamic=True`), tensors are
    shared with ONNX Runtime and not copied, and graphs that were compiled before are read from a folder. What irkit
    cannot lower runs in torch, as does a call with sizes that the graph's contract leaves out; the logger
    "irkit.compile" says so. Random numbers are drawn by ONNX Runtime.
    """
    return both_ways(module, inputs, partial(compiled, options=CompileOptions.of(options)))


def irkit_debug(
    module: GraphModule, inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Compiled:
    """`torch.compile(model, backend="irkit_debug")`: the same graphs run by irkit's evaluator, as they were lowered.

    It prints the type and the range of what each operator gives, or hands each to a function, which may keep it; the
    options `verbose` and `every` are those of `irkit.evaluate`.
    """
    return both_ways(module, inputs, partial(debugged, options=CompileOptions.of(options)))


def boxed(function: Compiled) -> Compiled:
    """A function of the arguments as torch calls it: with one list of them."""
    return aot_functions()[1](function)


def both_ways(module: GraphModule, inputs: Sequence[Any], compiler: Callable[..., Compiled]) -> Compiled:
    """A graph of dynamo's, and that of its gradients, compiled once torch has written mutation and views out."""
    compile_both, _ = aot_functions()
    return compile_both(
        module,
        inputs,
        fw_compiler=partial(compiler, keeps_layout=True),
        bw_compiler=partial(compiler, keeps_layout=False),
        inference_compiler=partial(compiler, keeps_layout=True),
    )


def compiled(module: GraphModule, inputs: Sequence[Any], *, options: CompileOptions, keeps_layout: bool) -> Compiled:
    """What runs an ATen graph on ONNX Runtime; the graph itself where there is nothing to compute, or where irkit
    cannot lower it and may leave it to torch."""
    start = time.perf_counter()
    if any(isinstance(each, torch.Tensor) and each.device.type != "cpu" for each in inputs):
        return left_to_torch(module, "it is not on the CPU", options)
    parts = split_outputs(module)
    if not any(kind == "computed" for kind, _ in parts.order):
        return boxed(module.forward)
    try:
        with unset_fake_temporarily():  # constants of the graph are real tensors
            kept = prepared(parts.computed, options, keeps_layout)
    except IrkitError as error:
        return left_to_torch(module, error.what, options, error)
    tell_assumptions(kept.graph)
    session_options = quiet_options()
    session_options.intra_op_num_threads = options.threads
    session = graph_session(kept.graph, ("CPUExecutionProvider",), session_options, kept.opset)
    runner = Runner(kept.graph, session.inner, kept.entries, kept.exits, kept.checks, parts.computed.forward)
    LOG.info("compiled %d operators in %.3f s", len(kept.graph), time.perf_counter() - start)
    return boxed(partial(called, parts, runner))


def tell_assumptions(graph: Graph) -> None:
    """Warns of what a compiled graph assumes of its data: that what ONNX Runtime compares is no NaN."""
    facts = (fact for fact in graph.signature.facts if fact.kind == FINITE)
    found = [f"{fact.text} ({fact.source})" if fact.source else fact.text for fact in facts]
    if found:
        LOG.warning(
            "a graph assumes what torch does not: %s; options={'rules': 'default+nan'} makes it right for all numbers",
            "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else ""),
        )


def called(parts: Parted, runner: Runner, *arguments: Any) -> list[Any]:
    """The outputs of a graph: what is computed by ONNX Runtime, and views of the arguments by torch."""
    return outputs_in_order(parts, runner(arguments), parts.viewed(*arguments))


def left_to_torch(module: GraphModule, why: str, options: CompileOptions, error: IrkitError | None = None) -> Compiled:
    """The graph as torch runs it, with a warning. Raises LoweringError where the options want no fallback."""
    if not options.fallback:
        raise error or LoweringError(f"a graph cannot be compiled: {why}")
    LOG.warning("a graph of %d nodes runs in torch: %s", len(module.graph.nodes), why)
    return boxed(module.forward)


def prepared(module: GraphModule, options: CompileOptions, keeps_layout: bool) -> Kept:
    """A graph that the target runs: read from the folder of compiled graphs, or lowered, optimized and kept there.

    Raises IrkitError for what cannot be lowered."""
    folder = options.folder()
    asked = f"{options.target} {options.rules!r} {options.precision} {options.opset} {keeps_layout}"
    key = "" if folder is None else store.key_of(module, asked)
    known = None if folder is None else store.read_kept(folder, key)
    if known is not None:
        return known
    program = export_model(module, (), None, options.of_export())
    kept = Kept(
        program.watched,
        program.opset,
        entries_of(program),
        exits_of(program, module, keeps_layout),
        tuple(check.text for check in program.checks),
    )
    if folder is not None:
        try:
            store.write_kept(folder, key, kept)
        except (OSError, IrkitError) as error:
            LOG.warning("the compiled graph is not kept in %s: %s", folder, error)
    return kept


def entries_of(program: Program) -> tuple[Entry, ...]:
    """The inputs that the graph takes. Raises LoweringError for an argument that is part of the graph."""
    captured = program.lowered.captured
    if captured.scalars or program.lowered.initial_state:
        inside = ", ".join({**captured.scalars, **program.lowered.initial_state})
        raise LoweringError(f"the graph has {inside} inside", hint="give it as a tensor, which the graph takes")
    return tuple(
        Entry(name, i, name in program.complex_names)
        for i, name in enumerate(captured.input_names)
        if name in program.inputs
    )


def exits_of(program: Program, module: GraphModule, keeps_layout: bool) -> tuple[Exit, ...]:
    """The results of the graph, in the order of the outputs of the FX graph."""
    output = next(node for node in module.graph.nodes if node.op == "output")
    found: list[Exit] = []
    for node, (kind, _) in zip(output.args[0], program.lowered.outputs, strict=True):
        recorded = node.meta.get("val")
        if kind == "constant":
            raise LoweringError(f"the output {node.name} is always the same", hint="compute it outside of the model")
        tensor = recorded if isinstance(recorded, torch.Tensor) else torch.tensor(0)
        order = memory_order(tensor) if keeps_layout and kind == "result" else ()
        found.append(Exit(kind, str(tensor.dtype).removeprefix("torch."), tensor.is_complex(), order))
    return tuple(found)


def debugged(module: GraphModule, inputs: Sequence[Any], *, options: CompileOptions, keeps_layout: bool) -> Compiled:
    """What runs an ATen graph by irkit's evaluator, and prints what its operators give."""
    parts = split_outputs(module)
    if not any(kind == "computed" for kind, _ in parts.order):
        return boxed(module.forward)
    try:
        with unset_fake_temporarily():
            program = export_model(parts.computed, (), None, attrs.evolve(options.of_export(), optimize=False))
        entries, exits = entries_of(program), exits_of(program, parts.computed, keeps_layout)
    except IrkitError as error:
        return left_to_torch(module, error.what, options, error)
    graph = program.graph
    names = {value: name for each, _ in nested_graphs(graph) for value, name in value_names(each).items()}

    watch = Printed(names, options.verbose, options.every) if options.verbose else options.every

    def run(*arguments: Any) -> list[Any]:
        tensors = {e.name: torch.as_tensor(arguments[e.position]) for e in entries}
        feeds = {e.name: array_of(as_pairs(tensors[e.name]) if e.is_complex else tensors[e.name]) for e in entries}
        found = evaluate(graph, feeds, every=watch)
        results: list[Any] = []
        for exit_, result in zip(exits, found, strict=True):
            tensor = tensor_of(result)
            results.append(
                tensor.item() if exit_.kind == "number" else from_pairs(tensor) if exit_.is_complex else tensor
            )
        return outputs_in_order(parts, results, parts.viewed(*arguments))

    return boxed(run)
