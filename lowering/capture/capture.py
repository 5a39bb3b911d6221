"""From the user's call to a program that torch recorded.

`capture` takes whatever torch program there is (a module, a function, a method, an `ExportedProgram`, a `.pt2` file, an
FX graph) and returns a `Captured`: that, with the user's names of what it takes and gives, and what torch relied on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputSpec, OutputSpec
from torch.fx import Graph, GraphModule, Node

from lowering.capture.deferred import lines_of_assertions, notes_of_draft, refuse_lost, without_node
from lowering.capture.dropped_numbers import Dropped, dropped_numbers, notes_of_lost, ranges_in_file, ranges_of_program
from lowering.capture.fx_graphs import (
    TRACE,
    Trace,
    examples_of,
    has_shapes,
    is_aten,
    is_recorded,
    leaves_of_graph,
    module_of_graph,
    state_of_graph,
    structure_of,
)
from lowering.capture.guards.divisors import guards_of_nodes, with_divisors
from lowering.capture.guards.empty_sizes import without_empty
from lowering.capture.guards.guards import (
    Fixed,
    Guard,
    assertions_of,
    at_sizes,
    broken_by,
    example_of_symbols,
    fixed_places,
    frozen_error,
    frozen_places,
    guards_of,
    line_at,
    names_in_env,
    names_of,
    news,
    normal,
    ranges_of,
    settled_by,
    shape_env_of,
)
from lowering.capture.inputs.calls import Parameters, as_module, bind, name_of, named_leaves, rename_leaves
from lowering.capture.inputs.scalars import said_of_numbers, with_numbers
from lowering.capture.inputs.training import Begun
from lowering.capture.patches.zero_questions import Heard
from lowering.capture.torch_export import AnotherWay, Attempt, Request, exported_somehow
from lowering.capture.transforms import carried_out
from lowering.capture.widen import refuse_zeros, widen_sizes
from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import (
    Leaf,
    LeafStatement,
    Place,
    check_examples,
    places_of,
    statements,
    with_names,
)
from lowering.records.flat_structures import put_together
from lowering.records.options import ExportOptions
from lowering.records.programs import (
    GRADIENTS,
    RESULTS,
    gives_gradients,
    leaves_of_program,
    load_program,
    metas_of_program,
    state_of_program,
    structure_of_program,
)
from lowering.records.pytrees import (
    Definitions,
    Implied,
    Registrations,
    definitions,
    empty_leaves,
    known_cache_types,
    leaf_paths,
    register_classes,
    use_definitions,
)
from lowering.records.structures import difference
from lowering.records.torch_internals import canonicalize_bool_expr, pytree

SPECIALIZED = 2


@attrs.frozen(eq=False, repr=False)
class Captured:
    """A torch program and what its user and torch know about it.

    `program` is None for an FX graph that no torch.export made. Names are listed for every leaf of the inputs and
    outputs, those included that torch baked into the graph and that `scalars` holds by name; an output is called ""
    that is below no named field. `dim_names` maps each of torch's symbols to the user's name, `equal` each name that
    torch found to be something else to what it is. `guards` and `range_constraints` are over torch's symbols. `numbers`
    are the Python numbers that are inputs of the program, `fixed` what was to vary and does not. `parameters` says how
    a call of the module gives its arguments, None for a program that was given; `settled` which of torch's symbols
    can be one number only; `dropped` are conditions on numbers that torch.export left out, for lowering to state again.
    `records` says that the program asks for gradients, so that it runs with these recorded; `rewritten`
    has the functions whose control flow was rewritten, as diffs.
    """

    name: str
    program: ExportedProgram | None
    graph_module: GraphModule
    input_specs: tuple[InputSpec, ...]
    output_specs: tuple[OutputSpec, ...]
    state: Mapping[str, Any]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None
    arguments: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    scalars: Mapping[str, Any]
    dim_names: Mapping[str, str]
    equal: Mapping[str, str]
    range_constraints: Mapping[str, tuple[int, int | None]]
    guards: tuple[Guard, ...]
    signed: frozenset[str]
    registered: Definitions
    attempts: tuple[Attempt, ...]
    notes: tuple[str, ...] = ()
    numbers: Mapping[str, type] = {}
    fixed: tuple[Fixed, ...] = ()
    parameters: Parameters | None = None
    settled: Mapping[str, int] = {}
    dropped: tuple[Dropped, ...] = ()
    records: bool = False
    rewritten: tuple[str, ...] = ()

    @property
    def how(self) -> str:
        """The way in which the program was captured, for the report."""
        return self.attempts[-1].how

    @property
    def seconds(self) -> float:
        """How long torch took, all attempts together."""
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def input_names(self) -> tuple[str, ...]:
        """The name of each leaf of the inputs, in the order of the placeholders."""
        return tuple(leaf.name for leaf in self.leaves)

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The path of each leaf of the outputs that is below a named field, `weight.grad` of a gradient; "" for any
        other."""
        if self.out_spec is None:
            named = (f"{s.target}.grad" if s.kind in GRADIENTS else "" for s in self.output_specs if s.kind in RESULTS)
            return tuple(named)
        return tuple("" if all(key.isdigit() for key in path) else ".".join(path) for path in leaf_paths(self.out_spec))

    @cached_property
    def specs(self) -> Mapping[str, InputSpec]:
        """What each placeholder of the graph is, by the name of its node; empty for a plain FX graph."""
        return {spec.arg.name: spec for spec in self.input_specs if hasattr(spec.arg, "name")}

    @cached_property
    def output_fx_names(self) -> tuple[str, ...]:
        """The name of the FX node of each leaf of the outputs; "" for a constant."""
        if self.output_specs:
            return tuple(getattr(spec.arg, "name", "") or "" for spec in self.output_specs if spec.kind in RESULTS)
        (returned,) = (node.args[0] for node in self.graph_module.graph.nodes if node.op == "output")
        flat = pytree.tree_leaves(returned)
        return tuple(each.name if isinstance(each, Node) else "" for each in flat)

    def examples(self) -> tuple[Any, ...]:
        """The example leaves that the program was captured with; for a program that was given, what it recorded."""
        return tuple(leaf.value for leaf in self.leaves)

    def pytrees(self) -> AbstractContextManager[None]:
        """A block in which torch's pytree knows the classes of the inputs and outputs as it did at capture."""
        return use_definitions(self.registered)

    @property
    def called(self) -> Parameters:
        """How a call gives its arguments. A program that was given takes by position what its example gave so, and the
        rest by name, as it does in torch: what the signature of its module was, it no longer knows."""
        return self.parameters or Parameters(self.arguments[: self.in_spec.child(0).num_children])

    def leaves_of(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Any]:
        """The leaves of a call, in the order of `input_names`; arguments are passed as Python lets the model's own be,
        and those that were None at capture may be left out.

        Raises CaptureError where an argument is missing, unknown or given twice, or has another structure than at
        capture.
        """
        positional, by_name = self.in_spec.children()
        absent = {f.path[0]: None for f in self.leaves if len(f.path) == 1 and self.scalars.get(f.name, f) is None}
        parameters = self.called
        given = absent | parameters.bound(args, kwargs or {})
        names = (*self.arguments[: positional.num_children], *by_name.context)
        rows = (f for f in self.leaves if f.is_tensor and f.value.dim() == 2)  # one of four axes hides what is to come
        left_out = [f.path[0] for f in rows if f.path in {(n,) for n in parameters.whole}]
        given |= {name: Implied(1) for name in left_out if given.get(name) is None}
        missing = [name for name in names if name not in given]
        unknown = [n for n, each in given.items() if n not in names and not parameters.goes_without_saying(n, each)]
        if missing or unknown:
            raise CaptureError(
                f"the call lacks {missing[0]!r}" if missing else f"the call has {unknown[0]!r}",
                hint=f"the model was captured with the arguments {', '.join(names) or 'none'}; capture it with "
                "all that shall be given",
            )
        flat: list[Any] = []
        with self.pytrees():
            for name, own in zip(names, (*positional.children(), *by_name.children()), strict=True):
                leaves, spec = pytree.tree_flatten(given[name])
                leaves = leaves if spec == own else empty_leaves(given[name], own)
                if leaves is None:
                    where = difference(spec, own, (name,)) or spec
                    raise CaptureError(
                        f"the arguments have another structure than at capture: {where}",
                        hint="give what has the same structure, or capture the model again with arguments like these",
                    )
                flat += leaves
        return flat

    def result_of(self, leaves: Iterable[Any]) -> Any:
        """The leaves of a result, in order, in the structure that the model returns."""
        if self.out_spec is None:
            flat = tuple(leaves)
            return flat[0] if len(flat) == 1 else flat
        with self.pytrees():
            return put_together(list(leaves), self.out_spec, self.registered)

    def __repr__(self) -> str:
        return f"Captured({self.name}: {', '.join(self.input_names)}; {self.how})"


def capture(
    model: Any,
    args: Sequence[Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | Mapping[str, str] | None = None,
    strict: bool = False,
    widen: bool = True,
    scalar_inputs: Sequence[str] = (),
    specialization: str | None = None,
) -> Captured:
    """The program that torch makes of `model`.

    Args:
        model: a module, function, method, or whatever can be called (then with example `args` and `kwargs`); an
            `ExportedProgram`; the path of a `.pt2` file; an FX `GraphModule`, or its `Graph`, whose nodes know their
            shapes.
        args: example positional arguments.
        kwargs: example keyword arguments.
        dynamic_shapes: any form that torch.export takes, keyed by argument, by leaf or by new name; strings name
            dimensions and may be expressions (`"past + seq"`). Of a program that is captured already they only name.
        input_names: names for the leaves that become inputs, in order; or a mapping from names to new ones.
        strict: trace with TorchDynamo instead of Python itself. Nothing falls back to it by itself.
        widen: where torch or the model refuses size 1 or 0 of a dimension that varies, trace once more at it, and allow
            it if the graphs agree.
        scalar_inputs: the names of Python ints and floats among the arguments that shall be inputs, not constants.
        specialization: what becomes of dimensions and numbers that were to vary, by name, `Dim` or hint, and that the
            model fixes: "error" raises, with all of them and the line that fixed each; "report" makes them static and
            lists them; None raises for the first that has a name.

    Raises CaptureError, with torch's own error as its cause, where the arguments do not fit, `dynamic_shapes` does not
    fit the arguments, a named dimension can have one size only, or torch cannot trace the model.
    """
    return capture_model(
        model, args, kwargs,
        ExportOptions(
            dynamic_shapes=dynamic_shapes, input_names=input_names, dynamo=strict, widen=widen,
            scalar_inputs=scalar_inputs, specialization=specialization,
        ),
    )  # fmt: skip


def capture_model(
    model: Any, args: Sequence[Any] | torch.Tensor, kwargs: Mapping[str, Any] | None, options: ExportOptions
) -> Captured:
    """What `capture` gives, which says what is raised."""
    if options.scalar_inputs and isinstance(model, str | os.PathLike | ExportedProgram):
        raise CaptureError("scalar_inputs is of no use for a program that is captured already", hint="capture it anew")
    if isinstance(model, str | os.PathLike | ExportedProgram):
        return captured_already(model, options)
    args = (args,) if isinstance(args, torch.Tensor) else args
    if isinstance(model, Graph):
        model = module_of_graph(model)
    if isinstance(model, GraphModule):
        if is_aten(model) and is_recorded(model) and options.dynamic_shapes is None and not kwargs:
            return of_graph(model, args, options.input_names)
        if not args and not kwargs and has_shapes(model):
            args, kwargs, shapes = examples_of(model)
            if options.dynamic_shapes is None:
                options = attrs.evolve(options, dynamic_shapes=shapes)
    return traced(model, args, kwargs, options)


def captured_already(model: str | os.PathLike[str] | ExportedProgram, options: ExportOptions) -> Captured:
    """The record of a program of torch's, or of the one in a `.pt2` file."""
    if isinstance(model, ExportedProgram):
        with register_classes() as known:
            name, how = name_of(model.graph_module), "the ExportedProgram given"
            captured = of_given_program(model, name, known, how, options)
        return with_dropped(captured, ranges_of_program(model))
    with Registrations() as known:
        path = Path(model)
        program = load_program(path, known)
        how = f"read from {path.name}"
        captured = of_given_program(program, path.stem, known, how, options)
    return with_dropped(captured, ranges_in_file(path))


def traced(
    model: Any, args: Sequence[Any] | torch.Tensor, kwargs: Mapping[str, Any] | None, options: ExportOptions
) -> Captured:
    """The program that torch.export makes of something that can be called."""
    module = as_module(model)
    with register_classes(args, kwargs) as known:
        for kind in known_cache_types() if options.dynamo else ():
            known.add(kind)
        call, numbers = with_numbers(module, bind(module, args, kwargs), options.scalar_inputs)
        leaves = rename_leaves(named_leaves(call), options.input_names)
        dynamic_shapes = options.dynamic_shapes
        if hasattr(dynamic_shapes, "dynamic_shapes"):  # torch's ShapesCollection and AdditionalInputs
            dynamic_shapes = dynamic_shapes.dynamic_shapes(module, call.args, call.kwargs)
        said, notes = with_names(statements(dynamic_shapes, leaves, call.groups))
        said = said_of_numbers(said, leaves, numbers, places_of(said))
        places = places_of(said)
        check_examples(places, leaves)
        lenient = options.specialization is not None
        request = Request(module, call, leaves, tuple(said), places, known, options.dynamo, lenient)
        request, program, attempts, heard = exported_somehow(request)
        found = of_program(
            program, name_of(model), call.arguments, leaves, places, known, attempts, said, options.specialization
        )
        by_name = {leaves[i].name: kind for i, kind in numbers.items()}
        metas = metas_of_program(program)
        guards = with_divisors(found.guards, found.range_constraints, metas, heard.divisors)
        found = attrs.evolve(found, numbers=by_name, parameters=call.parameters, guards=guards)
        found = with_notes(found, module, [*notes, *heard.drawn, *Begun().in_words(heard.changed)])
        found, asked = with_lines(found, heard), heard.questions
        refuse_lost(() if options.dynamo else found.guards, found.graph_module)
        found = widen_sizes(found, request, asked) if options.widen else refuse_zeros(found, asked)
        return with_settled(checked(found, metas))


def checked(captured: Captured, metas: Sequence[Any]) -> Captured:
    """The same. Raises CaptureError where its guards refuse the very example it was asked for, which other sizes
    stood in for."""
    sizes = example_of_symbols(captured.leaves, metas)
    broken = broken_by(sizes, captured.guards, captured.range_constraints)
    if broken is None:
        return captured
    at = ", ".join(f"{captured.dim_names.get(symbol.name, symbol.name)} = {size}" for symbol, size in sizes.items())
    raise AnotherWay.at(at, broken.source)


def with_lines(captured: Captured, heard: Heard) -> Captured:
    """The same with the lines that were heard to leave a condition to run time, of which torch keeps none."""
    lines: dict[str, str] = {}
    for expr, frame in heard.deferred.items():
        for said in (normal(expr), normal(canonicalize_bool_expr(expr))):
            lines[said] = lines.get(said) or line_at(frame)
    guards = (
        attrs.evolve(guard, source=lines.get(normal(guard.expr)) or guard.source)
        if guard.kind == "assertion" and guard.expr is not None
        else guard
        for guard in captured.guards
    )
    return attrs.evolve(captured, guards=tuple(guards)) if lines else captured


def with_dropped(captured: Captured, ranges: Mapping[str, tuple[int, int | None]]) -> Captured:
    """The same, with the conditions on numbers that torch dropped, of symbols with these ranges."""
    if captured.program is None:
        return captured
    dropped, told = dropped_numbers(captured.program, ranges)
    stated = {each.text for each in dropped}
    kept = [g for g in captured.guards if not (g.kind == "assertion" and g.expr is not None and said_of(g) in stated)]
    known = {said_of(guard) for guard in kept if guard.expr is not None}
    more = [guard for guard in told if guard.text not in known]
    notes = (*captured.notes, *notes_of_lost(captured.program, dropped, ranges, kept))
    return attrs.evolve(captured, guards=(*kept, *more), dropped=dropped, notes=notes)


def said_of(guard: Guard) -> str:
    """An equality as text: `u0 == 6`; any other condition as torch says it."""
    return f"{guard.expr.lhs} == {guard.expr.rhs}" if isinstance(guard.expr, sympy.Eq) else str(guard.expr)


def with_settled(captured: Captured) -> Captured:
    """The same, in which a dimension that can have one size only is that number, and no symbol with a guard."""
    recorded = [node.meta.get("val") for node in captured.graph_module.graph.nodes if node.op == "placeholder"]
    shapes = [size for each in recorded if isinstance(each, torch.Tensor) for size in each.shape]
    sizes = {size.node.expr.name for size in shapes if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol}
    found = {symbol: size for symbol, size in settled_by(captured.guards).items() if symbol in sizes}
    if not found:
        return captured
    guards = []
    for guard in captured.guards:
        own: Any = getattr(guard.expr, "free_symbols", ())
        expr = at_sizes(guard.expr, {s: sympy.Integer(found[s.name]) for s in own if s.name in found}) if own else None
        if not own or expr not in (True, sympy.true):
            guards.append(attrs.evolve(guard, expr=expr) if own else guard)
    return attrs.evolve(
        captured,
        guards=tuple(guards),
        dim_names={symbol: name for symbol, name in captured.dim_names.items() if symbol not in found},
        range_constraints={s: limits for s, limits in captured.range_constraints.items() if s not in found},
        settled=found,
    )


def with_notes(captured: Captured, module: torch.nn.Module, notes: Sequence[str]) -> Captured:
    """The same with what the user should know: it trains, names that are one, what names stand for."""
    notes = [*notes, *(f"{name} is {what}" for name, what in captured.equal.items())]
    if module.training and any(True for _ in module.children()):
        notes.append("the model is in training mode")
    return attrs.evolve(captured, notes=(*captured.notes, *notes))


def of_given_program(
    program: ExportedProgram, name: str, known: Registrations, how: str, options: ExportOptions
) -> Captured:
    """A program that is captured already, with the user's names for inputs and dimensions."""
    program = carried_out(program)
    arguments, leaves = leaves_of_program(program)
    leaves = rename_leaves(leaves, options.input_names)
    said, notes = with_names(statements(options.dynamic_shapes, leaves, {}))
    attempts, places = (Attempt(how, 0.0),), places_of(said)
    found = of_program(program, name, arguments, leaves, places, known, attempts, said, options.specialization)
    ranges = unspecialized(found.range_constraints)
    found = attrs.evolve(found, range_constraints=ranges, notes=(*found.notes, *notes))
    open_ = [symbol for symbol in found.dim_names if found.range_constraints.get(symbol, (1, None))[0] == 0]
    return taking_its_example(without_empty(found, open_, (0, 1))[0])


def taking_its_example(captured: Captured) -> Captured:
    """The same. Raises CaptureError where its guards or ranges refuse the example that the program carries: torch can
    learn a range in a branch of torch.cond that the example does not take."""
    program = captured.program
    with captured.pytrees():
        carried = pytree.tree_leaves(getattr(program, "example_inputs", None) or ())
    if program is None or len(carried) != len(captured.leaves):
        return captured
    own = [attrs.evolve(leaf, value=value) for leaf, value in zip(captured.leaves, carried, strict=True)]
    sizes = example_of_symbols(own, metas_of_program(program))
    broken = broken_by(sizes, captured.guards, captured.range_constraints)
    if broken is None:
        return captured
    at = ", ".join(f"{captured.dim_names.get(symbol.name, symbol.name)} = {size}" for symbol, size in sizes.items())
    raise CaptureError(
        f"the program refuses the very example that it was exported with ({at}), by {broken.text}",
        source=broken.source,
        hint="export it with an example that it takes; where torch.cond has a branch for few rows, with more of them",
    )


def unspecialized(ranges: Mapping[str, tuple[int, int | None]]) -> dict[str, tuple[int, int | None]]:
    """Ranges as torch's own check reads them: it traces dynamic dimensions as if they were at least 2, and lets 0 and 1
    pass."""
    return {symbol: (0 if low == SPECIALIZED else low, high) for symbol, (low, high) in ranges.items()}


def of_program(
    program: ExportedProgram,
    name: str,
    arguments: tuple[str, ...],
    leaves: Sequence[Leaf],
    places: Sequence[Place],
    known: Registrations,
    attempts: Sequence[Attempt],
    said: Sequence[LeafStatement] = (),
    specialization: str | None = None,
) -> Captured:
    """The record of an ExportedProgram.

    Raises CaptureError where a named dimension did not stay dynamic, unless that is to be reported.
    """
    metas = metas_of_program(program)
    env = shape_env_of(metas)
    ranges = ranges_of(program.range_constraints, env)
    guards = guards_of(env, program._guards_code, leaves, metas)
    fixed = fixed_places(said, places, leaves, metas, guards)
    for place in frozen_places(places, leaves, metas, guards) if specialization is None else ():
        raise frozen_error(place, leaves, metas, env)
    if specialization == "error" and fixed:
        raise fixed_error(fixed)
    names = names_of(places, leaves, metas, names_in_env(env))
    signature, state = program.graph_signature, state_of_program(program)
    asserted = assertions_of(program.graph_module, lines_of_assertions(env))
    constants = {leaf.name: meta for leaf, meta in zip(leaves, metas, strict=True) if is_baked(meta)}
    call = program.module_call_graph[0].signature
    in_spec, out_spec = structure_of_program(program), program.call_spec.out_spec if call is None else call.out_spec
    return Captured(
        name=name,
        program=program,
        graph_module=program.graph_module,
        input_specs=tuple(signature.input_specs),
        output_specs=tuple(signature.output_specs),
        state=state,
        in_spec=in_spec,
        out_spec=None if gives_gradients(program) else out_spec,
        arguments=arguments,
        leaves=tuple(leaves),
        scalars=constants,
        dim_names=names.symbols,
        equal=names.equal,
        range_constraints=ranges,
        guards=(
            *guards,
            *news(names.promises, ranges),
            *asserted,
            *without_node(env, program.graph_module, asserted),
            *guards_of_nodes(program.graph_module, state),
        ),
        signed=frozenset(symbol for symbol, (low, _) in ranges.items() if low < 0),
        registered=definitions(in_spec, out_spec),
        attempts=tuple(attempts),
        notes=tuple(notes_of_draft(program, names.symbols)),
        fixed=fixed,
    )


def fixed_error(fixed: Sequence[Fixed]) -> CaptureError:
    """The error for all that was to vary and does not."""
    count = f"{len(fixed)} dimensions or numbers that were to vary are" if len(fixed) > 1 else "what was to vary is"
    lines = [f"{each}: {each.source or 'torch kept no line'}" for each in fixed]
    return CaptureError(
        f"{count} fixed by the model",
        source="\n".join(lines),
        hint="leave them out of dynamic_shapes, rewrite these lines, or say specialization='report'",
    )


def of_graph(
    module: GraphModule, args: Sequence[Any], input_names: Sequence[str] | Mapping[str, str] | None
) -> Captured:
    """The record of an FX graph of ATen operators that knows its shapes, as it is."""
    leaves, metas, in_spec, out_spec = leaves_of_graph(module, args)
    leaves = rename_leaves(leaves, input_names)
    env = shape_env_of(metas)
    symbols = {symbol for meta in metas if isinstance(meta, torch.Tensor) for symbol in free_symbols(meta)}
    ranges = ranges_of({s: r for s, r in env.var_to_range.items() if s in symbols} if env else {}, env)
    trace: Trace | None = module.meta.get(TRACE)
    ranges = unspecialized(ranges) if trace is None else {**unspecialized(ranges), **trace.ranges}
    known = {} if trace is None else trace.names
    names, state, structure = names_of((), leaves, metas, known), state_of_graph(module), structure_of(module)
    asserted = assertions_of(module, lines_of_assertions(env))
    return Captured(
        name=name_of(module),
        program=None,
        graph_module=module,
        input_specs=(),
        output_specs=(),
        state=state,
        in_spec=in_spec,
        out_spec=out_spec,
        arguments=tuple(leaf.path[0] for leaf in leaves) if structure is None else structure.arguments,
        leaves=leaves,
        scalars={leaf.name: meta for leaf, meta in zip(leaves, metas, strict=True) if is_baked(meta)},
        dim_names={**names.symbols, **known},
        equal={} if trace is None else trace.equal,
        range_constraints=ranges,
        guards=(
            *(() if trace is None else trace.guards),
            *(guards_of(env, (), leaves, metas) if env and trace is None else ()),
            *without_node(env, module, asserted),
            *guards_of_nodes(module, state),
        ),
        signed=frozenset(),
        registered=definitions(in_spec, out_spec),
        attempts=(Attempt("the FX graph given", 0.0),),
        settled={} if trace is None else trace.settled,
    )


def free_symbols(meta: torch.Tensor) -> set[Any]:
    """torch's symbols in the shape of a recorded tensor."""
    return {s for size in meta.shape if isinstance(size, torch.SymInt) for s in size.node.expr.free_symbols}


def is_baked(meta: Any) -> bool:
    """Whether torch keeps an input as a constant of the graph."""
    return meta is None or isinstance(meta, bool | int | float | str | complex)
