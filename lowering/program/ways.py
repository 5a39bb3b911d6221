"""The ways in: a torch program becomes a graph by a run of irkit's own, or through torch.export."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch
from torch.export import ExportedProgram
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule

from irkit.core.ir import Graph
from irkit.errors import IrkitError
from irkit.support.uncollected import with_collector
from lowering.capture.capture import capture_model
from lowering.capture.fx_graphs import is_aten
from lowering.capture.own_example import refuse_broken_example
from lowering.capture.patches.branches import branches_of_anything
from lowering.capture.torch_export import Attempt
from lowering.capture.traces import traced_module
from lowering.control_flow.rewriting import Rewriting, diffs, with_rewriting
from lowering.direct.entry import directly
from lowering.direct.run import HOW
from lowering.errors import CaptureError, FailsForExports, LoweringError, MissingConverters, WrongConverter
from lowering.fold.lower import Lowered, lower_captured
from lowering.fold.memory.shared_branches import refuse_writes_after
from lowering.program.clock import Clock
from lowering.records.options import DIRECT, TORCH_EXPORT, ExportOptions
from lowering.size_branches.tracing import trace_ways


def lower(
    program: Any,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | Mapping[str, str] | None = None,
    output_names: Sequence[str] | None = None,
    converters: Mapping[Any, Any] | None = None,
    strict: bool = False,
    progress: Callable[[int, int], None] | None = None,
    scalar_inputs: Sequence[str] = (),
    specialization: str | None = None,
    widen: bool = True,
    capture: str = "auto",
    rewrite: Any = None,
    copy: bool = False,
) -> Graph:
    """The irkit graph of a torch program.

    Args:
        program: an `ExportedProgram`, an FX `GraphModule` or `Graph` with shape metadata, an `nn.Module`, function or
            method (then with example `args` and `kwargs`), or the path of a `.pt2` file.
        args: example positional inputs; nested structures and caches as the model takes them.
        kwargs: example keyword inputs.
        dynamic_shapes: any form that torch.export takes; strings name dimensions, as in `{"x": {0: "batch"}}`.
        input_names: public names for the input leaves, in order, or a mapping from names to new ones.
        output_names: public names for the output tensors, in order.
        converters: the caller's own converters, by torch operator; they win over irkit's.
        strict: refuse operators that only torch's decomposition can express.
        progress: called with (nodes done, nodes in all) a few times a second.
        scalar_inputs: names of Python ints and floats among the arguments that shall be inputs, not constants.
        specialization: what becomes of dimensions that the model fixes; see `lowering.capture.capture`.
        widen: False does not look whether sizes 0 and 1, where torch refuses them, give the same graph.
        capture: how a module, function or method is captured: "direct", by one run on tensors of irkit's own;
            "torch.export"; or "auto", directly and, where that does not meet something, by torch.export.
        rewrite: True, or the functions, methods, classes or modules whose branches and loops on data are computed.
        copy: True copies the weights, for a program whose own will change. Otherwise large ones stay in its memory,
            and what needs them raises StaleError once they were written into.

    Returns the graph: parameters and results in the order and with the names of the model's own, weights as constants,
    state that the model writes as further parameters and results. Raises CaptureError where torch cannot capture the
    program, MissingConverters where operators have no converter, LoweringError where a result contradicts torch.
    """
    told = None if progress is None else lambda _, done, total: progress(done, total)
    options = ExportOptions(
        dynamic_shapes=dynamic_shapes, input_names=input_names, output_names=output_names, converters=converters,
        strict=strict, progress=told, scalar_inputs=scalar_inputs, specialization=specialization, widen=widen,
        capture=capture, rewrite=rewrite, copy=copy,
    )  # fmt: skip
    return lower_model(program, args, kwargs, options, Clock()).graph


def trace(
    model: Any,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    scalar_inputs: Sequence[str] = (),
    specialization: str | None = None,
    widen: bool = True,
    functional: bool = False,
    leaves: Any = None,
) -> GraphModule:
    """An FX graph of a model, which can be run, changed and given to `lower`, for those who want FX.

    `node.meta["irkit"]` is the irkit type of what a node gives, over the user's names of dimensions, or the dimension
    that it is (torch's own record, over torch's symbols, is in `meta["val"]`). `meta["irkit"]` of the module is what
    capture relied on, so that `lower` of the graph keeps names, ranges and conditions. The arguments are those of
    `lower`. It is torch.export that records the graph: a direct run of the model makes a graph of irkit's at once.

    With `functional` no operator of the graph writes its operand, and no slice has the whole of an axis. `leaves` are
    modules that stay calls of modules: a set of classes, or a predicate of the path and the module; the outermost of
    them are left whole, take and give tensors or structures of them, and their weights stay theirs.

    Raises CaptureError where torch cannot capture the model, and for leaves that take or give something else.
    """
    from lowering.capture.leaves import choice_of, modules_left_whole, with_modules  # whose operator torch registers

    options = ExportOptions(
        dynamic_shapes=dynamic_shapes, scalar_inputs=scalar_inputs, specialization=specialization, widen=widen
    )
    with branches_of_anything(), modules_left_whole(model, choice_of(leaves)) as calls:
        made = traced_module(capture_model(model, args, kwargs, options), functional=functional)
    return with_modules(made, calls)


def lower_model(
    model: Any,
    args: Sequence[Any] | torch.Tensor,
    kwargs: Mapping[str, Any] | None,
    options: ExportOptions,
    clock: Clock,
) -> Lowered:
    """A torch program as a graph, by the way that the options name, with its control flow rewritten where they say so;
    what was captured already is lowered as it is."""
    if not options.rewrite or is_captured(model):
        return lower_as_it_is(model, args, kwargs, options, clock)

    def once(state: Rewriting | None) -> Lowered:
        return lower_as_it_is(model, args, kwargs, attrs.evolve(options, rewrite=state), clock)

    low, made = with_rewriting(options.rewrite, once)
    return attrs.evolve(low, captured=attrs.evolve(low.captured, rewritten=diffs(made)))


def lower_as_it_is(
    model: Any,
    args: Sequence[Any] | torch.Tensor,
    kwargs: Mapping[str, Any] | None,
    options: ExportOptions,
    clock: Clock,
) -> Lowered:
    """A torch program as a graph, by the way that the options name."""
    if options.capture == TORCH_EXPORT or (is_captured(model) and not runs_as_module(model, args, kwargs)):
        return by_torch_export(model, args, kwargs, options, clock)
    start = time.perf_counter()
    try:
        with clock("capture"):
            return accepting(directly(model, args, kwargs, options, trace_ways))
    except (CaptureError, WrongConverter):  # what is wrong in the model, its arguments or its sizes
        raise
    except Exception as error:
        found = None
        if options.capture == DIRECT or isinstance(error, FailsForExports):  # as torch.export would, too
            found = by_eagers_ways(model, args, kwargs, options, clock, error)
        if found is None and options.capture == DIRECT:
            raise
        if found is not None:
            return found
        failed = error
    first = Attempt(HOW, time.perf_counter() - start, said_of(failed))
    try:
        low = by_torch_export(model, args, kwargs, options, clock)
    except (CaptureError, LoweringError) as error:  # eager's ways come last: of data they may ask more
        known = isinstance(failed, FailsForExports)  # that these fail, too
        found = None if known else by_eagers_ways(model, args, kwargs, options, clock, failed)
        if found is None:
            raise neither(failed, error) from error
        return found
    captured = low.captured
    notes = (*captured.notes, f"torch.export captured it, for direct capture did not: {first.error}")
    return attrs.evolve(low, captured=attrs.evolve(captured, notes=notes, attempts=(first, *captured.attempts)))


def by_eagers_ways(
    model: Any,
    args: Sequence[Any] | torch.Tensor,
    kwargs: Mapping[str, Any] | None,
    options: ExportOptions,
    clock: Clock,
    failed: Exception,
) -> Lowered | None:
    """A model by direct capture, where that failed by the ways that the model has for exports, by those of eager; None
    where that fails, too."""
    try:
        with clock("capture"):
            low = accepting(directly(model, args, kwargs, options, trace_ways, as_eager=True))
    except Exception:  # models raise anything; the first error tells what is wrong
        return None
    notes = (*low.captured.notes, f"{AS_EAGER}: {said_of(failed)}")
    return attrs.evolve(low, captured=attrs.evolve(low.captured, notes=notes))


AS_EAGER = "direct capture fails by the ways that the model has for exports, and took those of eager"


@with_collector
def by_torch_export(
    model: Any,
    args: Sequence[Any] | torch.Tensor,
    kwargs: Mapping[str, Any] | None,
    options: ExportOptions,
    clock: Clock,
) -> Lowered:
    """A torch program as torch.export captures it, or as it was captured before."""
    try:
        with clock("capture"):
            captured = capture_model(model, args, kwargs, options)
    except CaptureError as error:
        if isinstance(options.rewrite, Rewriting):
            options.rewrite.failed(error)
        raise
    if isinstance(options.rewrite, Rewriting):
        refuse_writes_after(captured.graph_module)
    with clock("lower"):
        return accepting(lower_captured(captured, options))


def accepting(low: Lowered) -> Lowered:
    """What was lowered, which takes its own example. Raises LoweringError where it would not."""
    refuse_broken_example(low.with_calls, low.checks, low.examples)
    return low


def said_of(error: Exception) -> str:
    """What an error says, in one sentence, with the line of the model."""
    what = error.what if isinstance(error, IrkitError) else f"{type(error).__name__}: {error}"
    source = error.source if isinstance(error, IrkitError) else ""
    return f"{' '.join(what.split())} ({source})" if source else " ".join(what.split())


def neither(first: Exception, second: CaptureError | LoweringError) -> CaptureError | LoweringError:
    """The error where neither way captures a model: what torch.export's says, and what direct capture said."""
    if isinstance(first, IrkitError) and first.what == second.what:
        return second
    what = f"{second.what}; direct capture says: {said_of(first)}"
    if isinstance(second, MissingConverters):
        return MissingConverters(what, missing=second.missing, source=second.source, hint=second.hint)
    return type(second)(what, source=second.source, hint=second.hint)


def runs_as_module(model: Any, args: Any, kwargs: Any) -> bool:
    """Whether an FX graph is a module like any other, which calls modules and methods and is given arguments, as
    `torch.fx.symbolic_trace` and FX's quantization leave it."""
    return (
        isinstance(model, GraphModule)
        and not is_aten(model)
        and (isinstance(args, torch.Tensor) or bool(args or kwargs))
    )


def is_captured(model: Any) -> bool:
    """True for what torch has captured already: a program, a graph, or the path of a file."""
    return isinstance(model, ExportedProgram | GraphModule | FxGraph | str | os.PathLike)
