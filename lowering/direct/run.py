"""One run of a model on traced tensors, for given sizes of the example, and the graph that it leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import attrs
import numpy as np
import sympy
import torch
from pyrsistent import pmap
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from irkit import dims
from irkit.build import op
from irkit.core.digest import symbols_in
from irkit.core.ir import Fact, Graph, Port, Signature, Value, param
from irkit.core.origins import Origin
from irkit.core.types import DType, Tensor
from irkit.dims import Range
from irkit.errors import DimensionError
from irkit.support.arguments import type_text
from irkit.support.installed import beginnings_of_files
from lowering.capture.capture import Captured
from lowering.capture.guards.answers import holds
from lowering.capture.guards.guards import FALSEHOOD, TRUTH, Fixed, Guard
from lowering.capture.inputs.alike import Likes, likes_of
from lowering.capture.inputs.contents import keep_unchanged
from lowering.capture.inputs.drawing import DRAWN, OUTSIDE, generator_kept
from lowering.capture.inputs.objects import tells_which
from lowering.capture.inputs.schedules import begin_schedules
from lowering.capture.inputs.torch_settings import RECORDS
from lowering.capture.inputs.training import Training, asks_for_gradients, training_state_kept
from lowering.capture.patches.fresh_dynamo import nothing_compiled
from lowering.capture.patches.kept_sizes import Shape
from lowering.capture.patches.table import Occasion, patch_torch
from lowering.capture.swallowed_errors import errors_heard, refuse_swallowed
from lowering.capture.torch_export import Attempt, copy_leaf
from lowering.direct.caches import Unequal
from lowering.direct.equal_modules import alike_layers, reuse_equal_modules
from lowering.direct.functions.chosen_modules import chosen_module, refuse_changed
from lowering.direct.functions.numbers import Gathered
from lowering.direct.kernel_sizes.lookups import with_unused
from lowering.direct.modes import follow_modules, meet_operators, refuse_caught
from lowering.direct.request import Request, stretched_numbers
from lowering.direct.sizes import size_of
from lowering.direct.tensors import META, Handle, Memory, Traced, refuse_layout
from lowering.direct.tracer import Outside, Tracer
from lowering.direct.writes import arguments_left, rebind_buffers, rebind_gradients, refuse_first_steps
from lowering.errors import CaptureError, LoweringError
from lowering.fold.assertions import (
    as_facts,
    goes_without_saying,
    noted_checks,
    settled_checks,
    told_by,
    truth_of,
    wide_checks,
)
from lowering.fold.facts import facts_of
from lowering.fold.lower import Lowered, as_result, metadata_of, numbers_as_results, rebuilt
from lowering.fold.result_names import output_names_of, unique
from lowering.fold.scope import Check, Scope, stamp_origin
from lowering.fold.simplified_sizes import relying_on, settled_values
from lowering.records.disguised_lists import Disguised, undisguise
from lowering.records.pytrees import Definitions, Registrations, definitions
from lowering.records.types import DTYPES
from lowering.records.wide_sizes import with_wide_sizes
from lowering.tensors.complex_pairs import boundary_type, from_real, is_complex, pair, parts, to_real
from lowering.tensors.promotion import truth

HOW = "traced directly"
LEFT = "the model, when it is called, leaves a gradient at {}, and the program does not"
CONSTANTS = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout, torch.memory_format)
"""What a result may be beside tensors, as it is."""


@attrs.define(eq=False)
class Inputs:
    """What a run calls the model with, and the parameters of its graph."""

    given: list[Any]
    params: list[tuple[Port, Value]]
    complex_names: list[str]


@attrs.frozen(eq=False)
class Run:
    """One run: what the tracer met, the inputs, the leaves and structure of the model's result, in words, what the
    model changed of itself that no call of a program does, and the parameters that it `left` gradients at."""

    request: Request
    tracer: Tracer
    inputs: Inputs
    results: tuple[Any, ...]
    out_spec: pytree.TreeSpec
    registered: Definitions
    training: Training
    changed: tuple[str, ...] = ()
    left: tuple[torch.Tensor, ...] = ()

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What the model asked of sizes and data, as conditions."""
        return (*self.request.promises, *self.tracer.asked.kept.values())


@attrs.frozen(eq=False)
class Trial:
    """Another run of the same model: the one before it, the sizes in which it differs, and whether these have no say
    on others, as a condition that relates them would."""

    before: Run
    point: Mapping[str, int]
    apart: bool


def run(
    request: Request, sizes: Mapping[str, int], known: Registrations, *, keep_sizes: Sequence[Any] | None = None,
    at_once: bool = False, trial: Trial | None = None, for_tracer: bool = False,
    varying: frozenset[str] = frozenset(), stops: bool = False, after: Run | None = None,
) -> Run:  # fmt: skip
    """One run of the model at these sizes of the names; what it changes of itself is put back.

    `keep_sizes` lets `int(size)`, `len(tensor)` and `min(sizes)` in the model's own code, and in that whose globals it
    has, be sizes that vary; `at_once` answers every comparison; `for_tracer` has it take its ways for TorchScript's
    tracer; a `trial` takes the values of the run before it where it meets the same. What took a run `after` which this
    is made more than one, of the same model, is known from the start. Raises whatever the model raises,
    LoweringError for what direct capture does not meet, Taken where the model takes the number of a name in `varying`,
    and, if it `stops` there, Chosen where it takes one of any sizes, or one of two, in code that does not keep them.
    """
    before = after if trial is None else trial.before
    outside = Outside() if before is None else before.tracer.outside
    runs: list[Run] = []
    likes = likes_of(request.parts, tells_which) if before is None else before.tracer.likes
    leaves, around = request.options.gradients, request.parts.around
    catches, packages = around.catches, beginnings_of_files(around.packages)
    training = Training.of(request.module, request.parts, leaves) if before is None else before.training
    while True:
        how = (keep_sizes, at_once, for_tracer, varying, stops)
        tracer = tracer_for(request, sizes, outside, how, trial, training)
        try:
            with errors_heard(catches and trial is None, packages) as errors:
                found = run_once(request, sizes, known, tracer, trial, likes, training)
        except Unequal:
            likes = Likes()
            continue
        except RuntimeError as error:
            if training.records or not (torch.is_grad_enabled() and asks_for_gradients(error)):
                raise
            training = training.recording()
            continue
        finally:
            tracer.layouts.forget_writes(memory for memory, _ in tracer.memories.values())
        runs.append(found)  # its tensors live on, so that no other has their identity
        if found.left and trial is None and not training.sums:
            training = training.adding_to(found.left)
            continue
        if found.tracer.unequal:
            likes = Likes()
            continue
        seen = found.tracer.seen_outside()
        if seen == outside:
            refuse_swallowed(errors, request.module, lambda: given_again(request, sizes))
            return found
        outside = seen


def given_again(request: Request, sizes: Mapping[str, int]) -> tuple[Any, Any]:
    """Copies of what eager is called with for these sizes: arguments and keyword arguments."""
    return pytree.tree_unflatten([copy_leaf(each) for each in request.examples(sizes)], request.spec)


def run_once(
    request: Request, sizes: Mapping[str, int], known: Registrations, tracer: Tracer, trial: Trial | None,
    likes: Likes, training: Training,
) -> Run:  # fmt: skip
    """One run with its tracer, in which modules are `likes` of one another."""
    module, parts = request.module, request.parts
    tracer.likes, asked = likes, tracer.asked
    before = None if trial is None else trial.before.inputs
    examples = request.examples(sizes)
    tracer.present = any(isinstance(leaf.value, torch.Tensor) and not leaf.value.is_meta for leaf in request.leaves)
    with torch.set_grad_enabled(training.records):
        inputs = inputs_of(tracer, request, examples, before, training.records)
    with ExitStack() as blocks:
        blocks.callback(asked.forget_errors)
        keeping, places, traces = asked.keeps is not None, asked.keeps or (), asked.traces
        chooses = partial(chosen_module, tracer)
        ways: dict[str, Any] = {"traces": traces, "chooses": chooses, "as_eager": request.as_eager}
        ways["unrecorded"] = torch.is_grad_enabled() and not training.records
        occasion = Occasion("direct", module, keeping=keeping, places=places, **ways)
        blocks.enter_context(patch_torch(occasion))
        others = partial(rebind_buffers, tracer, module, {**parts.buffers, **parts.parameters})
        attributes = blocks.enter_context(keep_unchanged(module, parts, others))
        blocks.callback(lambda: undisguise(*tracer.disguised))
        begun = blocks.enter_context(
            training_state_kept(module, training, parts, lambda total: id(total) in tracer.seen)
        )
        blocks.enter_context(torch.set_grad_enabled(training.records))
        by_python = blocks.enter_context(generator_kept(parts.run_torch_alone))
        blocks.enter_context(nothing_compiled())
        blocks.enter_context(follow_modules(tracer, parts.paths, parts.are_compiled))
        blocks.enter_context(reuse_equal_modules(tracer, parts.around))
        blocks.enter_context(request.around(tracer, request))
        blocks.enter_context(meet_operators(tracer))
        begin_schedules(training.schedules)
        args, kwargs = pytree.tree_unflatten(inputs.given, request.spec)  # a cache may compute as it is put together
        returned = called(tracer, module, args, kwargs)
        attributes += [RECORDS] if torch.is_grad_enabled() is not training.records else []
        arguments = arguments_left(inputs.given)
        spent = begun.leaves.spent() if training.records else ()
        replaced = rebind_gradients(tracer, training.sums, spent)
        known.include(returned)
        results, spec = pytree.tree_flatten(returned)
        if any(issubclass(kind, Gathered | Disguised | Shape) for kind in {*map(type, results)}):
            results, spec = with_tensors(results, spec, known)
        refuse_changed(tracer)
        refuse_caught(tracer)
    for each in results:
        if type(each) is Traced:
            tracer.outer_read(each.handle)  # so that what it asks, where another tensor was written, is asked in time
    refuse_first_steps(begun.rated, () if request.options.gradients else begun.early)
    begins = *begun.optimizers, *begun.early
    training = attrs.evolve(
        training, replaced=replaced, arguments=arguments, dropped=tuple(begun.dropped), begins=begins
    )
    noted = *map(LEFT.format, arguments), *map(DRAWN.format, tracer.drawn), *map(OUTSIDE.format, by_python)
    changed = (*begun.in_words(attributes), *noted)
    classes, left = definitions(request.spec, spec), tuple(begun.gradients)
    return Run(request, tracer, inputs, tuple(results), spec, classes, training, changed, left)


def called(tracer: Tracer, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the model returns. Raises what ended its run also where torch, or the model, made something else of that."""
    try:
        returned = module(*args, **kwargs)
    except Exception as error:
        if tracer.asked.ended is not None:
            raise tracer.asked.ended from error
        raise
    if tracer.asked.ended is not None:
        raise tracer.asked.ended
    return returned


def tracer_for(
    request: Request, sizes: Mapping[str, int], outside: Outside,
    how: tuple[Sequence[Any] | None, bool, bool, frozenset[str], bool], trial: Trial | None, training: Training,
) -> Tracer:  # fmt: skip
    """The tracer of one run, before it has met anything, with what is known of tensors from outside."""
    parts = request.parts
    names = parts.names
    known_names = {**names, **training.names({**parts.around.names, **names}, names), **request.weights.names}
    tracer = Tracer(request.options, known_names, request.weights)
    at = {} if trial is None else {name: Range(size, size) for name, size in trial.point.items()}
    tracer.begin(sizes, {**request.ranges, **at})
    tracer.outside = outside
    asked = tracer.asked
    asked.keeps, asked.at_once, asked.for_tracer, asked.varying, asked.stops = how
    if trial is not None:
        tracer.before, tracer.point = trial.before.tracer.record, trial.point if trial.apart else None
        tracer.index = tracer.before.index_at({dims.symbol(n): size for n, size in trial.point.items()}, closed=True)
        tracer.told = trial.before.tracer.told
    return tracer


def with_tensors(
    results: Sequence[Any], spec: pytree.TreeSpec, known: Registrations
) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves and the structure of what a model returned, with the tensors of lists whose lengths only data tells,
    and shapes; `known` learns its classes."""
    given = [each.answering() if type(each) is Disguised else each for each in results]
    found = [each.returned() if isinstance(each, Gathered | Shape) else each for each in given]
    found = pytree.tree_unflatten(found, spec)
    known.include(found)
    return pytree.tree_flatten(found)


# ---------------------------------------------------------------------------------------------- inputs


def inputs_of(
    tracer: Tracer, request: Request, examples: Sequence[Any], before: Inputs | None = None, records: bool = False
) -> Inputs:
    """What the model is called with: traced tensors, symbolic numbers, and constants as they are; over the parameters
    of the run before, in a trial. Where gradients are recorded, those tensors get some that do in the example."""
    found = Inputs([], [], [])
    made = iter([] if before is None else before.params)
    for value in examples:
        if isinstance(value, torch.Tensor):
            refuse_layout(value)
    held = request.held
    types: dict[Any, Tensor] = {}  # one for all that are equal, so that what is found of it is found once
    for leaf, shape, value in zip(request.leaves, request.shapes, examples, strict=True):
        if isinstance(value, torch.Tensor):
            key = (value.dtype, id(shape))
            type_ = types.get(key) or types.setdefault(key, Tensor(DTYPES[value.dtype], shape))
            given = parameter(tracer, found, leaf.name, value, type_, next(made, None))
            numbers, holder = held[leaf.name], found.params[-1][1]
            if value is leaf.value:
                tracer.examples.known[holder] = numbers
            else:
                tracer.examples.given[holder] = partial(stretched_numbers, numbers, tuple(value.shape))
            found.given.append(given.requires_grad_() if records and leaf.value.requires_grad else given)
        elif shape is not None and type(shape) is not int:
            port = Port(leaf.name, "input", getattr(shape, "name", ""))
            scalar = next(made, (port, param(Tensor(DType.INT64, ()))))[1]
            found.params.append((port, scalar))
            tracer.examples.known[scalar] = np.asarray(value)
            tracer.scope.binders[shape] = (scalar, True)
            found.given.append(size_of(tracer.asked, shape))
        else:
            found.given.append(leaf.value)
    return found


def parameter(
    tracer: Tracer, found: Inputs, name: str, laid: torch.Tensor, type_: Tensor, made: tuple[Port, Value] | None
) -> Traced:
    """A traced tensor over a parameter of the graph, a new one or one `made` before, which lies as another does; a
    complex one comes in as pairs of real numbers."""
    made = (Port(name), param(boundary_type(type_))) if made is None else made
    found.params.append(made)
    value = made[1]
    if type_.dtype.is_complex:
        found.complex_names.append(name)
        where = Origin(node=name, target="complex")
        value = pair(*(part.with_origin(where) for part in parts(from_real(value)))).with_origin(where)
    twin = torch.empty_strided(laid.shape, laid.stride(), dtype=laid.dtype, device=META)
    return tracer.shown(Handle(twin, Memory(value, name, twin=twin), (), value, 0, name))


def baked(run: Run) -> dict[str, Any]:
    """The arguments that are part of the graph, by name."""
    pairs = zip(run.request.leaves, run.inputs.given, strict=True)
    return {leaf.name: leaf.value for leaf, given in pairs if not isinstance(given, Traced | torch.SymInt)}


# ---------------------------------------------------------------------------------------------- results


def lowered_run(
    run: Run,
    guards: Sequence[Guard],
    ranges: Mapping[str, Range],
    names: Sequence[str] | None = None,
    fixed: Sequence[Fixed] = (),
    settle: bool = False,
) -> Lowered:
    """The graph of a run with its ports, facts and checks, under these guards and ranges; with sizes as they read where
    these hold, if they are to be settled: graphs of other runs have other guards."""
    tracer, scope, ranges = run.tracer, run.tracer.scope, narrowed(ranges, guards)
    ranges, guards = without_refused(ranges, guards) if settle else (ranges, guards)
    truths = [guard for guard in guards if is_truth(tracer, guard)]
    guards = [guard for guard in guards if guard not in truths]
    found = captured_of(run, guards, ranges, fixed)
    values, outputs, node_names = [], [], []
    for result in run.results:
        value = result_value(tracer, result)
        if isinstance(value, Value):
            outputs.append(("result" if isinstance(result, torch.Tensor) else "number", len(values)))
            values.append(value)
            node_names.append(tracer.handle(result).name if isinstance(result, torch.Tensor) else "size")
        else:
            outputs.append(("constant", known_constant(value)))
    if not values:
        outputs, values = numbers_as_results(outputs)
        node_names = ["result"] * len(values)
    params = list(run.inputs.params)
    taken = [port.name for port, _ in params]
    leaves = [i for i, o in enumerate(outputs) if o[0] != "constant"]
    ports = [Port(name, "output") for name in output_names_of(found, leaves, node_names, names, taken)]
    carried, state, swaps = written_state(run, params)
    params = sorted(params, key=lambda each: each[0].role != "state")  # as torch.export orders them
    free = {*taken, *(port.name for port in ports)}
    for name, value in carried:
        ports.append(Port(unique(f"{name}_out", free), "state", binds=name))
        free.add(ports[-1].name)
        values.append(value)
    refuse_unsaid(tracer, guards)
    refuse_unkept(scope, noted_checks(scope, guards), told_by(params, values))
    told = told_by(params)
    checks = settled_checks(scope, [*scope.checks, *truths_told(scope, truths), *noted_checks(scope, guards)], told)
    values, checks = rebuilt(values, with_unused(scope, values, checks), swaps)
    least: Sequence[Fact] = ()
    if settle:
        relied, alike = relying_on(scope.sizes, guards, ranges).relied, alike_layers(tracer.record.taken)
        values, checks, least, counting = settled_values(params, values, checks, relied, alike)
        roots, asked = [*values, *(each.condition for each in checks)], [guard.expr for guard in guards]
        checks += wide_checks(scope, roots, [v for _, v in params], known=ranges, guards=asked) if counting else []
    complex_results = [port.name for port, value in zip(ports, values, strict=True) if is_complex(value)]
    values = [stamp_origin(scope, to_real(v), Origin(target="complex")) if is_complex(v) else v for v in values]
    facts = (*as_facts(facts_of(found, scope.sizes, guards), checks), *least)
    complex_state = [name for name, first in state.items() if first.is_complex()]
    metadata = metadata_of(found, [*run.inputs.complex_names, *complex_state, *complex_results], tracer.domains)
    signature = Signature(tuple(port for port, _ in params), tuple(ports), facts, metadata)
    graph = Graph(tuple(value for _, value in params), tuple(values), signature=signature, name=found.name)
    present = {s.name for s in symbols_in(graph)} | {port.binds for port, _ in params if port.binds}
    graph = graph.with_symbols(pmap({name: ranges[name] for name in sorted(present) if name in ranges}))
    graph = with_wide_sizes(graph, [each.condition for each in checks]) if settle else graph
    return record_of(run, graph, found, outputs, state, checks)


def record_of(
    run: Run, graph: Graph, found: Captured, outputs: Sequence[Any], state: Mapping[str, torch.Tensor],
    checks: Sequence[Check],
) -> Lowered:  # fmt: skip
    """The graph of a run with what is known of how it came to be."""
    tracer = run.tracer
    met = {memory.name: source for memory, source in tracer.memories.values() if not memory.local}
    decomposed = Counter(tracer.scope.decomposed)
    return Lowered(graph, found, tuple(outputs), decomposed, state, tracer.calls, 0.0, tuple(checks), met, run.training)


def refuse_unsaid(tracer: Tracer, guards: Sequence[Guard]) -> None:
    """Raises LoweringError for a condition on sizes that no text can say, so that nobody could check it."""
    for guard in guards:
        if guard.expr is not None and all(s.is_integer for s in guard.expr.free_symbols):
            try:
                tracer.scope.sizes.condition(guard.expr)
            except LoweringError as error:
                raise LoweringError(
                    f"the model is right for sizes with {guard.expr} only, which cannot be checked: {error.what}",
                    source=guard.source, hint="use capture='torch.export'",
                ) from None  # fmt: skip


def is_truth(tracer: Tracer, guard: Guard) -> bool:
    """Whether a condition is that a truth value out of data is what it is for the example."""
    sides: Any = guard.expr.args if isinstance(guard.expr, sympy.Eq | sympy.Ne) else (None, None)
    return sides[0] in tracer.truths and sides[1] == 0


def truths_told(scope: Scope, guards: Sequence[Guard]) -> Iterator[Check]:
    """Conditions on truth values as checks of them."""
    for guard in guards:
        flag = truth(scope.binders[guard.expr.args[0]][0])
        holds = isinstance(guard.expr, sympy.Ne)
        yield Check(flag if holds else op.Not(flag), TRUTH if holds else FALSEHOOD, guard.source)


def refuse_unkept(scope: Scope, checks: Iterable[Check], told: frozenset[str]) -> None:
    """Raises LoweringError for a condition on data that the graph could not check."""
    for check in checks:
        if truth_of(scope, check, told) is None and not goes_without_saying(scope, check, told):
            raise LoweringError(
                f"the model is right for data with {check.text} only, which no operator of ONNX computes",
                source=check.source, hint="use capture='torch.export'",
            )  # fmt: skip


NO_GRAPH = GraphModule(torch.nn.Module(), torch.fx.Graph())
"""What stands for torch's graph where none was recorded, one for all runs: for each that is made torch writes and
compiles a function."""


def captured_of(
    run: Run, guards: Sequence[Guard], ranges: Mapping[str, Range], fixed: Sequence[Fixed] = ()
) -> Captured:
    """The record of a run, as of any other way of capture."""
    request = run.request
    return Captured(
        name=request.name, program=None, graph_module=NO_GRAPH,
        input_specs=(), output_specs=(), state={}, in_spec=request.spec, out_spec=run.out_spec,
        arguments=request.call.arguments, leaves=request.leaves, scalars=baked(run), dim_names={},
        equal=request.equal, notes=(*notes_of(request), *run.changed),
        range_constraints={name: (r.lo, r.hi) for name, r in ranges.items()}, guards=tuple(guards),
        signed=frozenset(), registered=run.registered, attempts=(Attempt(HOW, 0.0),),
        numbers={request.leaves[i].name: kind for i, kind in request.numbers.items()},
        parameters=request.call.parameters, records=run.training.records, fixed=tuple(fixed),
    )  # fmt: skip


def known_constant(value: Any) -> Any:
    """The same. Raises CaptureError for an object that a program could not make anew."""
    if value is None or isinstance(value, CONSTANTS):
        return value
    raise CaptureError(
        f"the model returns {type_text(value)}, which is not a known type",
        hint="return tensors, or tuples, lists, dicts and dataclasses of them",
    )


def notes_of(request: Request) -> tuple[str, ...]:
    """What the user should know of a request: what names stand for, names that are one, that the model trains."""
    notes = [*request.notes, *(f"{name} is {other}" for name, other in request.equal.items())]
    if request.module.training and any(True for _ in request.module.children()):
        notes.append("the model is in training mode")
    return tuple(notes)


def narrowed(ranges: Mapping[str, Range], guards: Sequence[Guard]) -> dict[str, Range]:
    """The ranges of names, as far as conditions on single ones leave them."""
    found = dict(ranges)
    for guard in guards:
        if isinstance(guard.expr, sympy.Ge | sympy.Le):
            sides: Any = guard.expr.args
            name, limit = sides
            if name.is_Symbol and limit.is_Integer and name.name in found:
                known, end = found[name.name], int(limit)
                low, high = (end, None) if isinstance(guard.expr, sympy.Ge) else (known.lo, end)
                tops = [each for each in (known.hi, high) if each is not None]
                found[name.name] = Range(max(known.lo, low), min(tops) if tops else None)
    return found


SMALL = 64
"""Up to this size each is looked at by itself, whether conditions refuse it."""


def without_refused(ranges: Mapping[str, Range], guards: Sequence[Guard]) -> tuple[dict[str, Range], list[Guard]]:
    """(the ranges of names without small sizes that conditions refuse, whatever the others are; the conditions that are
    left then)."""
    found, kept = dict(ranges), list(guards)
    for name, known in ranges.items():
        size = dims.symbol(name)
        about = [guard for guard in kept if guard.expr is not None and size in guard.expr.free_symbols]
        alone = [guard for guard in about if len(guard.expr.free_symbols) == 1]
        low = known.lo
        while 0 <= low < SMALL and any(holds(guard.expr, {name: low}) is False for guard in alone):
            low += 1
        if low == 0 and about and sympy.And(*(at_zero(guard.expr, size) for guard in about)) == sympy.false:
            low = 1
        if low > known.lo and (known.hi is None or low <= known.hi):
            found[name] = Range(low, known.hi)
            gone = [g for g in about if g not in alone and g.expr.subs(size, size + low) == sympy.true]
            said = [] if alone or not gone else [Guard(size >= low, f"{name} >= {low}", gone[0].source)]
            kept = [*(guard for guard in kept if guard not in gone), *said]
    return found, kept


def at_zero(condition: Any, size: Any) -> Any:
    """A condition where a size is 0; false where it has no value then, as what divides by that size."""
    if isinstance(condition, sympy.And | sympy.Or):
        return condition.func(*(at_zero(part, size) for part in condition.args))
    try:
        found = condition.subs(size, 0)
    except (DimensionError, TypeError):  # the latter of a double of sympy's infinity, which is no number
        return sympy.false
    return sympy.false if found.has(sympy.zoo, sympy.nan) else found


def result_value(tracer: Tracer, result: Any) -> Any:
    """A result as a value, or the constant that it always is."""
    if isinstance(result, torch.Tensor):
        return tracer.read(tracer.handle(result))
    if isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool):
        return as_result(tracer.scope, result.node.expr, isinstance(result, torch.SymFloat))
    return result


def written_state(
    run: Run, params: list[tuple[Port, Value]]
) -> tuple[list[tuple[str, Value]], dict[str, torch.Tensor], dict[Value, Value]]:
    """(new content by name, initial state, constants that become parameters) of the buffers and inputs that the model
    wrote; `params` is told of the new parameters."""
    tracer = run.tracer
    found: list[tuple[str, Value]] = []
    state: dict[str, torch.Tensor] = {}
    swaps: dict[Value, Value] = {}
    for memory, source in tracer.memories.values():
        lives = tracer.options.live and not memory.local
        if lives and memory.torn:
            raise LoweringError(
                f"{memory.name} shares its memory with another tensor in a way that is not followed",
                hint="clone() one of them in the model",
            )
        if memory.is_state or lives:
            first = memory.first
            known = (tracer.before or tracer.record).states  # a trial is compared over the same parameters
            given = known.get(first)
            if given is None:
                given = param(boundary_type(first.type) if isinstance(first.type, Tensor) else first.type)
            known[first] = given
            swaps |= swaps_of_parts(first, given) if is_complex(first) else {first: given}
            params.append((Port(memory.name, "state"), given))
            state[memory.name] = source.detach() if tracer.options.live else source.detach().clone()
            if memory.is_state:
                found.append((memory.name, memory.content if memory.last is None else memory.last))
    for given in run.inputs.given:
        if isinstance(given, Traced) and given.handle.memory.version:
            found.append((given.handle.memory.name, given.handle.memory.content))
    return found, state, swaps


def swaps_of_parts(first: Value, given: Value) -> dict[Value, Value]:
    """What stands for a complex constant and its two parts where a parameter gives it as pairs of real numbers."""
    where = Origin(target="complex")
    made = [part.with_origin(where) for part in parts(from_real(given))]
    return {first: pair(*made).with_origin(where), **dict(zip(parts(first), made, strict=True))}
