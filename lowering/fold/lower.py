"""A captured program in, an irkit graph out."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

import attrs
import numpy as np
import torch
from pyrsistent import pmap
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node

from irkit.build import const, dim_scalar, op
from irkit.core import walk
from irkit.core.digest import symbols_in
from irkit.core.ir import Graph, Port, Signature, Value, param
from irkit.core.origins import Origin
from irkit.core.types import DType, Tensor
from irkit.onnx.writing.models import DOMAINS_KEY
from irkit.support.uncollected import without_collector
from lowering.capture.capture import Captured
from lowering.capture.deferred import symbols_recorded
from lowering.capture.guards.guards import Guard
from lowering.capture.inputs.training import NOT_KEPT
from lowering.errors import LoweringError
from lowering.fold.assertions import Watched, as_facts, noted_checks, settled_checks, told_by, wide_checks
from lowering.fold.facts import facts_of, ranges_by_name
from lowering.fold.memory import storage
from lowering.fold.memory.restored import with_shared_memory
from lowering.fold.nodes import lower_graph, nodes_reached, require_converters
from lowering.fold.places_of_inputs import places_of_inputs
from lowering.fold.result_names import output_names_of, unique
from lowering.fold.scope import Check, Options, Scope, memory_key, stamp_origin, tensor_constant
from lowering.fold.simplified_sizes import relying_on
from lowering.records.options import DEFAULTS, ExportOptions
from lowering.records.programs import RESULTS
from lowering.records.sizes import Sizes, is_unbacked
from lowering.records.torch_internals import pytree
from lowering.records.types import type_of
from lowering.records.wide_sizes import with_wide_sizes
from lowering.tensors.complex_pairs import COMPLEX_KEY, boundary_type, from_real, is_complex, pair, parts, to_real
from lowering.tensors.promotion import cast, is_truth, scalar
from passes.whole_graph.layer_calls import written_out

NUMBERS: Mapping[type, DType] = {bool: DType.BOOL, int: DType.INT64, float: DType.DOUBLE}
ITEM, SCALAR = torch.ops.aten.item, torch.ops.aten._local_scalar_dense


@attrs.frozen(eq=False)
class Lowered:
    """A graph with what a report and a runner need to know of how it came to be.

    `outputs` says for each leaf of the model's result which result of the graph it is, as a tensor ("result") or as a
    Python number ("number"), or the constant it always is ("constant").
    `checks` are the conditions that only the data decides, as boolean scalars beside the results of the graph.
    `state` names, for each result that carries state on, the state it is the new content of. `outside` has the tensors
    that a direct capture met outside of its inputs, by name, and `training` the optimizers among what it captured.

    The graph is given with layers that are alike as calls, where that is known, and written out when it is asked for.
    """

    _graph: Graph
    captured: Captured
    outputs: tuple[Any, ...]
    decomposed: Mapping[str, int]
    initial_state: Mapping[str, torch.Tensor]
    fx_nodes: int
    seconds: float
    checks: tuple[Check, ...] = ()
    outside: Mapping[str, torch.Tensor] = {}
    training: Any = None

    @cached_property
    def graph(self) -> Graph:
        """The graph."""
        return written_out(self._graph)

    @property
    def with_calls(self) -> Graph:
        """The graph as it was given, in which layers that are alike may be calls."""
        return self._graph

    @cached_property
    def watched(self) -> Watched:
        """The graph together with the conditions that only the data decides."""
        return Watched.of(self.graph, self.checks)

    @property
    def examples(self) -> dict[str, Any]:
        """What the parameters of the graph hold in the example of the capture, by name."""
        return {**{leaf.name: leaf.value for leaf in self.captured.leaves}, **self.initial_state}

    def leaves_from(self, results: Sequence[Any]) -> list[Any]:
        """The leaves of the model's result, from the results of the graph as tensors."""
        made: dict[str, Callable[[Any], Any]] = {"result": lambda i: results[i], "number": lambda i: results[i].item()}
        return [made[kind](what) if kind in made else what for kind, what in self.outputs]


@without_collector
def lower_captured(captured: Captured, asked: ExportOptions = DEFAULTS) -> Lowered:
    """A captured program as a graph, with the record of how it was lowered.

    Raises MissingConverters where operators have no converter, LoweringError where a result contradicts torch.
    """
    start = time.perf_counter()
    captured = attrs.evolve(captured, graph_module=with_shared_memory(captured.graph_module))
    names = {**captured.dim_names, **names_of_numbers(captured)}
    as_told = Sizes(
        names,
        captured.signed,
        traced_sizes(captured),
        settled=captured.settled,
        in_use=lambda: symbols_recorded(captured.graph_module),
    )
    known = ranges_by_name(captured, as_told)
    named = {name: found for name, found in known.items() if not is_unbacked(name)}
    sizes = relying_on(as_told, captured.guards, named)
    options = Options.of(asked)
    require_converters(captured.graph_module, options)
    inputs = Inputs.of(captured, sizes, copy=asked.copy)
    returned, scope = lower_with_scalars(captured.graph_module, inputs, sizes, options)
    results = pytree.tree_leaves(returned)
    ports, values, outputs = results_of(captured, scope, inputs, results, asked.output_names)
    complex_results = [port.name for port, value in zip(ports, values, strict=True) if is_complex(value)]
    values = [boundary(scope, value) for value in values]
    guards = (*captured.guards, *(Guard(expr, str(expr), source) for expr, source in scope.guards))
    scope.checks.extend(restated_checks(scope, captured))
    checks = settled_checks(scope, [*noted_checks(scope, guards), *scope.checks], told_by(inputs.params))
    roots = [*values, *(check.condition for check in checks)]
    swaps, least = places_of_inputs(inputs.params, roots, walk.post_order(roots))
    values, checks = rebuilt(values, checks, swaps)
    roots, params = [*values, *(each.condition for each in checks)], [value for _, value in inputs.params]
    checks += wide_checks(scope, roots, params, known=named, guards=[guard.expr for guard in guards])
    graph = Graph(
        tuple(value for _, value in inputs.params),
        tuple(values),
        signature=Signature(
            tuple(port for port, _ in inputs.params),
            ports,
            (*as_facts(facts_of(captured, as_told, guards), checks), *least),
            metadata_of(captured, [*inputs.complex_names, *complex_results]),
        ),
        name=captured.name,
    )
    numbers = {port.binds for port, _ in inputs.params if port.role == "input" and port.binds}
    present = {s.name for s in symbols_in(graph)} | numbers
    graph = graph.with_symbols(pmap({name: known[name] for name in sorted(present) if name in known}))
    graph = with_wide_sizes(graph, [each.condition for each in checks])
    state = {port.name: inputs.state[port.name] for port, _ in inputs.params if port.name in inputs.state}
    count = sum(1 for n in nodes_reached(captured.graph_module) if n.op == "call_function")
    seconds = time.perf_counter() - start
    return Lowered(graph, captured, outputs, Counter(scope.decomposed), state, count, seconds, tuple(checks))


def rebuilt(
    values: Sequence[Value], checks: Sequence[Check], swaps: Mapping[Value, Value]
) -> tuple[list[Value], list[Check]]:
    """(values, checks) over what stands in the place of some that they are made of"""
    if not swaps:
        return list(values), list(checks)
    built = walk.rebuild([*values, *(c.condition for c in checks)], swaps)
    return [built[v] for v in values], [attrs.evolve(c, condition=built[c.condition]) for c in checks]


def restated_checks(scope: Scope, captured: Captured) -> Iterator[Check]:
    """The conditions on numbers that torch dropped from a program, on what it took them out of."""
    nodes = {node.name: node for node in captured.graph_module.graph.nodes} if captured.dropped else {}
    for told in captured.dropped:
        values = [scope.read(nodes[name]) for name in told.nodes if name in nodes]
        equal = [
            op.Equal(op.Reshape(cast(value, DType.INT64), []), const(told.number, "i64"))
            for value in values
            if isinstance(value, Value)
        ]
        if told.count == 1 == len(equal):
            yield Check(equal[0], told.text, told.source)
        elif equal:
            some = op.Sum(*(cast(each, DType.FLOAT) for each in equal))
            yield Check(op.GreaterOrEqual(some, const(np.float32(told.count))), told.text, told.source)


def traced_sizes(captured: Captured) -> dict[str, int]:
    """The size that each symbol of the inputs had while torch traced, by the user's name."""
    found: dict[str, int] = {}
    for node in captured.graph_module.graph.nodes:
        recorded = node.meta.get("val") if node.op == "placeholder" else None
        for size in recorded.shape if isinstance(recorded, torch.Tensor) else (recorded,):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.has_hint():
                name = size.node.expr.name
                found[captured.dim_names.get(name, name)] = int(size.node.hint)
    return found


def names_of_numbers(captured: Captured) -> dict[str, str]:
    """For each of torch's symbols that is the number in an input tensor the name of that input, where it is free."""
    found: dict[str, str] = {}
    placeholders = [node for node in captured.graph_module.graph.nodes if node.op == "placeholder"]
    user = iter(captured.input_names)
    for node in placeholders:
        spec = captured.specs.get(node.name)
        if spec is None or spec.kind is InputKind.USER_INPUT:
            name = next(user, node.name)
            free = name.isidentifier() and name not in {*captured.dim_names.values(), *found.values()}
            found |= {symbol: name for symbol in [number_asked(node)] if symbol and free}
    return found


def number_asked(node: Node) -> str:
    """torch's symbol for the number in a tensor of rank 0, where the program asks for it by `item()`; else empty."""
    recorded = node.meta.get("val")
    if not isinstance(recorded, torch.Tensor) or recorded.dim() or recorded.dtype is torch.bool:
        return ""
    asked = [user.meta.get("val") for user in node.users if user.target in (ITEM.default, SCALAR.default)]
    exprs = [each.node.expr for each in asked if isinstance(each, torch.SymInt)]
    return next((expr.name for expr in exprs if expr.is_Symbol), "")


CHANGING_KEY = "irkit.not_kept"
"""The entry of a file's metadata that says what the model sets when it is called, and the file does not."""


def metadata_of(
    captured: Captured, complex_names: Sequence[str], domains: Mapping[str, int] | None = None
) -> tuple[tuple[str, str], ...]:
    """What the model file says of where it came from, and which inputs and outputs are complex; with the versions of
    `domains`, or those that the FX graph names; and what the model changes around it, which the file does not."""
    found = (("irkit.capture", captured.how), ("irkit.torch", torch.__version__))
    domains = domains_of(captured) if domains is None else domains
    found += ((DOMAINS_KEY, json.dumps(domains)),) if domains else ()
    changing = [note for note in captured.notes if NOT_KEPT in note]
    found += ((CHANGING_KEY, json.dumps(changing)),) if changing else ()
    return (*found, (COMPLEX_KEY, json.dumps(complex_names))) if complex_names else found


def domains_of(captured: Captured) -> dict[str, int]:
    """The versions of domains that the program itself names, by `torch.onnx.ops.symbolic` and its like."""
    found: dict[str, int] = {}
    for node in nodes_reached(captured.graph_module):
        if getattr(node.target, "namespace", "") == "onnx_symbolic":
            found = with_domain(found, node.target, node.kwargs)
    return found


def with_domain(found: dict[str, int], target: Any, given: Mapping[str, Any]) -> dict[str, int]:
    """The versions of domains with that which a call of an operator names, where it does and is newer."""
    if getattr(target, "namespace", "") != "onnx_symbolic":
        return found
    domain, version = (given.get(key) for key in ("domain", "version"))
    if isinstance(domain, str) and isinstance(version, int) and domain and version > found.get(domain, 1):
        return {**found, domain: version}
    return found


@attrs.define(eq=False)
class Inputs:
    """What stands for each placeholder, and the parameters among them with their ports."""

    given: list[Any]
    params: list[tuple[Port, Value]]
    scalars: dict[Any, Value]
    state: dict[str, torch.Tensor]
    written: dict[str, str]  # FX name of a placeholder that the program writes -> name of its port
    complex_names: list[str] = attrs.field(factory=list)
    fetched: dict[Any, Value] = attrs.field(factory=dict)  # what stands for a tensor that the program fetches by name

    @classmethod
    def of(cls, captured: Captured, sizes: Sizes, *, copy: bool = False) -> Inputs:
        """The inputs of a captured program: weights as constants, copied or not, what is written or given as
        parameters."""
        found = cls([], [], {}, {}, {})
        written = set(storage.written_storages(nodes_reached(captured.graph_module)))
        mutated = mutated_targets(captured)
        constants: dict[Any, Value] = {}
        user = iter(captured.input_names)
        for node in captured.graph_module.graph.nodes:
            if node.op != "placeholder":
                continue
            spec = captured.specs.get(node.name)
            if spec is not None and spec.kind is InputKind.TOKEN:  # holds operators in order, and no numbers
                found.given.append(const(np.zeros(0, np.float32)))
                continue
            target = spec.target if spec is not None and spec.kind is not InputKind.USER_INPUT else None
            changes = storage.storage_of(node) in written or node.name in mutated or target in mutated
            if target is not None:
                tensor = captured.state[target]
                if not isinstance(tensor, torch.Tensor):
                    found.given.append(tensor)
                elif changes:
                    found.add(node, Port(target, "state"), type_of(node.meta["val"], sizes))
                    # A copy: the model goes on writing its own.
                    found.state[target], found.written[node.name] = tensor.detach().clone(), target
                else:
                    found.given.append(tensor_constant(constants, tensor, target, copy=copy))
            else:
                found.add_user(node, next(user, node.name), sizes, changes)
        found.add_fetched(captured, sizes, written)
        return found

    def add_fetched(self, captured: Captured, sizes: Sizes, written: Set[Any]) -> None:
        """Adds parameters for the tensors that an FX graph fetches from its module by name, and writes."""
        for node in captured.graph_module.graph.nodes:
            if node.op != "get_attr":
                continue
            name = str(node.target)
            tensor = captured.state.get(name)
            if not isinstance(tensor, torch.Tensor) or storage.storage_of(node) not in written or name in self.state:
                continue
            self.add(node, Port(name, "state"), type_of(node.meta["val"], sizes))
            self.fetched[memory_key(tensor)] = self.given.pop()
            self.state[name], self.written[node.name] = tensor.detach().clone(), name

    def add(self, node: Node, port: Port, type_: Tensor) -> None:
        """Adds a parameter for a placeholder; a complex one holds pairs of real numbers in a last dimension of 2."""
        value = param(boundary_type(type_))
        self.params.append((port, value))
        if type_.dtype.is_complex:
            self.complex_names.append(port.name)
            where = Origin(node=node.name, target="complex")
            real, imaginary = (part.with_origin(where) for part in parts(from_real(value)))
            value = pair(real, imaginary).with_origin(where)
        self.given.append(value)

    def add_user(self, node: Node, name: str, sizes: Sizes, changes: bool) -> None:
        """Adds what a user's input becomes: a parameter for a tensor or a symbolic number, itself for a constant."""
        recorded = node.meta.get("val")
        if isinstance(recorded, torch.Tensor):
            symbol = "" if changes else number_asked(node)
            self.add(node, Port(name, "input", sizes.names.get(symbol, symbol)), type_of(recorded, sizes))
            if changes:
                self.written[node.name] = name
        elif isinstance(recorded, torch.SymInt):
            value = param(Tensor(DType.INT64, ()))
            symbol = sizes.dim(recorded)
            self.params.append((Port(name, "input", getattr(symbol, "name", "")), value))
            self.given.append(symbol)
            self.scalars[symbol] = value
        elif isinstance(recorded, torch.SymFloat):
            self.add(node, Port(name), Tensor(DType.DOUBLE, ()))
        else:
            self.given.append(recorded)


def mutated_targets(captured: Captured) -> frozenset[str]:
    """The names of buffers and inputs that outputs of a functionalized program carry on."""
    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    return frozenset(s.target for s in captured.output_specs if s.kind in kinds and s.target is not None)


def lower_with_scalars(module: GraphModule, inputs: Inputs, sizes: Sizes, options: Options) -> tuple[Any, Scope]:
    """`lower_graph`, with the parameters that are sizes bound to their symbols."""
    outer = Scope(sizes, options)
    outer.binders.update({symbol: (value, True) for symbol, value in inputs.scalars.items()})
    outer.constants.update(inputs.fetched)
    return lower_graph(module, inputs.given, sizes, options, outer)


def results_of(
    captured: Captured, scope: Scope, inputs: Inputs, results: Any, names: Sequence[str] | None
) -> tuple[tuple[Port, ...], list[Value], tuple[Any, ...]]:
    """(ports, results, outputs): the tensors that the program returns, then the state that it leaves behind."""
    kinds = [s.kind for s in captured.output_specs] or [OutputKind.USER_OUTPUT] * len(results)
    user = [r for r, kind in zip(results, kinds, strict=True) if kind in RESULTS]
    values: list[Value] = []
    outputs: list[Any] = []
    fx_names: list[str] = []
    nodes = captured.graph_module.graph.nodes
    numbers = {n.name for n in nodes if isinstance(n.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)}
    reals = {n.name for n in nodes if isinstance(n.meta.get("val"), torch.SymFloat)}
    for i, result in enumerate(user):
        value = as_result(scope, result, captured.output_fx_names[i] in reals)
        if isinstance(value, Value):
            outputs.append(("number" if captured.output_fx_names[i] in numbers else "result", len(values)))
            values.append(value)
            fx_names.append(captured.output_fx_names[i])
        elif value is None and captured.output_fx_names[i]:
            raise LoweringError(
                f"the result {captured.output_fx_names[i]} has no value: the converter left it out, by None",
                hint="hand in a converter that gives every result that the model returns",
            )
        else:
            outputs.append(("constant", value))
    if not values:
        outputs, values = numbers_as_results(outputs)
        fx_names = ["result"] * len(values)
    leaves = [i for i, o in enumerate(outputs) if o[0] != "constant"]
    taken = [port.name for port, _ in inputs.params]
    public = output_names_of(captured, leaves, fx_names, names, taken)
    ports = [Port(name, "output") for name in public]
    for target, value in state_of(captured, scope, inputs, results):
        ports.append(Port(unique(f"{target}_out", {*taken, *(p.name for p in ports)}), "state", binds=target))
        values.append(value)
    return tuple(ports), values, tuple(outputs)


def numbers_as_results(outputs: Sequence[Any]) -> tuple[list[Any], list[Value]]:
    """(outputs, results): numbers that never vary as constants of the graph, where there is nothing else to give: an
    ONNX model must have a result."""
    made: list[Any] = []
    values: list[Value] = []
    for kind, what in outputs:
        dtype = NUMBERS.get(type(what))
        made.append((kind, what) if dtype is None else ("number", len(values)))
        values += [] if dtype is None else [const(np.array(what, dtype.numpy))]
    return made, values


def as_result(scope: Scope, result: Any, real: bool) -> Any:
    """A result as a tensor where it depends on the inputs (a symbolic size becomes an int64 scalar, a comparison a
    boolean one, any other number a float64 one, and a `real` one, which may be whole: `2 * n / 2`), else itself."""
    if isinstance(result, Value) or not hasattr(result, "free_symbols"):
        return result
    if is_truth(result):
        made = scalar(result, DType.BOOL, scope.numbers) if result.free_symbols else bool(result)
        return stamp_origin(scope, made, Origin(target="size")) if isinstance(made, Value) else made
    if not result.free_symbols:
        return int(result) if result.is_integer and not real else float(result)
    value = dim_scalar(result) if result.is_integer and not real else scalar(result, DType.DOUBLE, scope.numbers)
    return stamp_origin(scope, value, Origin(target="size"))


def boundary(scope: Scope, value: Value) -> Value:
    """A result as it leaves the graph: a complex one as pairs of real numbers in a last dimension of 2."""
    return stamp_origin(scope, to_real(value), Origin(target="complex")) if is_complex(value) else value


def state_of(captured: Captured, scope: Scope, inputs: Inputs, results: Any) -> list[tuple[str, Value]]:
    """(name of the parameter, its new content) for every parameter that the program writes."""
    found: dict[str, Value] = {}
    for spec, result in zip(captured.output_specs, results, strict=False):
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
            name = str(spec.target)
            found[inputs.written.get(name, name)] = result
    for node, _ in list(scope.places.items()):
        if node.op in ("placeholder", "get_attr") and node.name in inputs.written and node in scope.store:
            found.setdefault(inputs.written[node.name], scope.store[node])
    params = {port.name for port, _ in inputs.params}
    missing = set(found) - params
    if missing:
        raise LoweringError(
            f"the program writes {', '.join(sorted(missing))}, which is not a parameter of the graph",
            hint="register it as a buffer of the module",
        )
    return list(found.items())
