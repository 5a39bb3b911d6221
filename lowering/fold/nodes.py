"""Lowering: a fold over the nodes of an FX graph, from values to values."""

from __future__ import annotations

import operator
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import sympy
import torch
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom, BooleanFunction
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate, map_arg

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.errors import IrkitError
from irkit.support.counts import count_text
from lowering.capture.guards.assumed import of_sizes, sizes_of, taken_for_granted
from lowering.capture.guards.guards import over_sizes
from lowering.errors import LoweringError, MissingConverters
from lowering.fold import control
from lowering.fold.asserted_operands import ARANGE, ASSERTING, asserted_conditions
from lowering.fold.assertions import condition, note, said_of_data
from lowering.fold.complex_registry import has_converter
from lowering.fold.control import Inlined
from lowering.fold.convert import convert
from lowering.fold.data_conditions import bind, bind_float, bind_symbol, number_is_own, restate_sizes, sizes_of_data
from lowering.fold.decompose import can_decompose
from lowering.fold.memory import storage
from lowering.fold.memory.in_front import InFront
from lowering.fold.memory.told_layouts import refuse_other_layouts
from lowering.fold.memory.untold import refuse_stale_views, untold_sharing
from lowering.fold.mutation import call_inplace, call_norm, renew_buffers, renews_buffer, view, view_of_several
from lowering.fold.registry import operator_of, writing_operator
from lowering.fold.scope import Options, Scope, hold, read_arguments, settle_result, tensor_constant
from lowering.records.real_numbers import keep_order
from lowering.records.sizes import Sizes, is_unbacked, truth_symbol
from lowering.records.source_lines import origin_of, source_of
from lowering.records.torch_internals import C, HigherOrderOperator, OpOverload
from lowering.records.types import type_of
from lowering.tensors.places import conditions, ends_of
from lowering.tensors.promotion import cast, scalar

EFFECTS = frozenset(
    "aten::_assert_scalar aten::_assert_async aten::_assert_tensor_metadata aten::sym_constrain_range "
    "aten::sym_constrain_range_for_size aten::_functional_assert_async aten::_functional_assert_scalar "
    "aten::record_stream".split()
)
"""Operators that compute nothing: what they assert is kept by `lowering.fold.facts` and `lowering.fold.assertions`."""

_SIZES = (torch.SymInt, torch.SymBool, torch.SymFloat, int, float, bool)
_ITEMS = frozenset(("aten::item", "aten::_local_scalar_dense"))


def lower_graph(
    module: GraphModule,
    given: Sequence[Any],
    sizes: Sizes,
    options: Options,
    outer: Scope | None = None,
    closed: bool = False,
) -> tuple[Any, Scope]:
    """(results, scope): what the graph's output node holds, tensors as values, once placeholders hold `given`.

    Raises LoweringError where a converter contradicts what FX recorded or an operator has none. `outer` is the scope of
    the graph that this one is lowered for, `closed` says that it becomes a body rather than a part of it.
    """
    scope = Scope(sizes, options, bases=storage.written_storages(nodes_reached(module)), lower=lower_graph)
    if outer is not None:
        # A body is closed: what binds symbols outside is not a value of its own. A decomposition is not a body.
        scope.binders = {} if closed else outer.binders
        scope.decomposed, scope.constants, scope.guards = outer.decomposed, outer.constants, outer.guards
        scope.checks, scope.numbers = ([], {}) if closed else (outer.checks, outer.numbers)
        scope.closed = closed or outer.closed
        scope.deciding = outer.deciding
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    if len(placeholders) != len(given):
        raise LoweringError(
            f"the graph takes {count_text(len(placeholders), 'input')}, and was given {len(given)}",
            hint="give one value for each",
        )
    for node, value in zip(placeholders, given, strict=True):
        hold_result(scope, node, value)
    output = lower_nodes(scope, module)
    results = map_arg(output.args[0], lambda node: at_last(scope, node))
    renew_buffers(scope, [node for node in module.graph.nodes if renews_buffer(node)])  # of which results are none
    return results, scope


def at_last(scope: Scope, node: Node) -> Any:
    """What a result of the graph holds once everything is written: of a view, read with what binds its symbols."""
    value = scope.read(node)
    return settle_result(scope, node, value, None) if node in scope.places and isinstance(value, Value) else value


def lower_nodes(scope: Scope, module: GraphModule) -> Node:
    """Lowers every node of a graph whose placeholders are held; returns its output node."""
    count, last = len(module.graph.nodes), time.monotonic()
    for i, node in enumerate(module.graph.nodes):
        if node.op == "output":
            return node
        if node.op != "placeholder" and not renews_buffer(node):
            lower_node(scope, node)
        if scope.options.progress is not None and time.monotonic() - last > 0.1:
            last = time.monotonic()
            scope.options.progress(i, count)
    raise LoweringError("the FX graph has no output node", hint="end it with graph.output(...)")


def lower_node(scope: Scope, node: Node) -> None:
    """Gives `node` its value in the scope; an error is told where in the model it arose."""
    try:
        if node.op == "get_attr":
            hold(scope, node, attribute_of(scope, node))
        elif node.op == "call_function":
            call_function(scope, node)
        else:
            raise LoweringError(f"an FX node of kind {node.op} cannot be lowered", hint="capture it by torch.export")
    except IrkitError as error:
        raise error.located(ir=str(node.format_node()), source=source_of(node)) from error.__cause__
    except Exception as error:
        error.add_note(f"while lowering {node.format_node()}\n{source_of(node)}")
        raise


def attribute_of(scope: Scope, node: Node) -> Any:
    """What a `get_attr` node names: a constant for a tensor, a submodule as it is."""
    found: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        found = getattr(found, part)
    if not isinstance(found, torch.Tensor):
        return found
    return tensor_constant(scope.constants, found, str(node.target), copy=scope.options.copy)


def call_function(scope: Scope, node: Node) -> None:
    """Lowers one call: size arithmetic to dimensions, control flow to bodies, operators by their converters."""
    target: Any = node.target
    recorded = node.meta.get("val")
    if target is operator.getitem:
        getitem(scope, node)
    elif computes_nothing(target):
        note(scope, node)
        scope.env[node] = None
    elif is_refused(node):
        scope.env[node] = None
    elif isinstance(target, OpOverload) and target._schema.name in _ITEMS:
        hold(scope, node, item(scope, node))
    elif isinstance(recorded, _SIZES):
        keep_order(node, scope.sizes)
        scope.env[node] = number_of(scope, node, size_of(scope, recorded))
    elif isinstance(recorded, list) and all(isinstance(each, _SIZES) for each in recorded) and recorded:
        scope.env[node] = [size_of(scope, each) for each in recorded]
    elif control.is_region(target):
        inline_region(scope, node)
    elif isinstance(target, HigherOrderOperator):
        hold(scope, node, control.higher_order(scope, node))
    elif not isinstance(target, OpOverload):
        raise LoweringError(f"the call of {target} is no ATen operator", hint="capture the model by torch.export")
    elif storage.silent_writes(node):
        call_norm(scope, node)
        scope.guards.extend((condition, source_of(node)) for condition in taken_for_granted(node))
    elif storage.written_arguments(target):
        write(scope, node)
    else:
        call_operator(scope, node)


def write(scope: Scope, node: Node) -> None:
    """Lowers an operator that writes."""
    if node.graph not in scope.fronts:
        scope.fronts[node.graph] = InFront(node.graph)
    front = scope.fronts[node.graph]
    refuse_other_layouts(node, front)
    scope.guards.extend(untold_sharing(node, front))
    refuse_stale_views(node, scope.places, front)
    keep_places(scope, node)
    call_inplace(scope, node)
    scope.guards.extend((condition, source_of(node)) for condition in taken_for_granted(node))


def computes_nothing(target: Any) -> bool:
    """True for calls that only assert something, or say whether gradients are recorded."""
    if target is C._set_grad_enabled:
        return True
    return isinstance(target, OpOverload) and target._schema.name in EFFECTS


def size_of(scope: Scope, recorded: Any) -> Any:
    """A recorded size as a dimension, a symbolic number as its expression, a boolean as torch's condition."""
    if isinstance(recorded, torch.SymInt) or type(recorded) is int:
        return scope.sizes.dim(recorded)
    if isinstance(recorded, torch.SymFloat):
        return scope.sizes.number(recorded.node.expr)
    return recorded.node.expr if isinstance(recorded, torch.SymBool) else recorded


def number_of(scope: Scope, node: Node, number: Any) -> Any:
    """A number; as a float64 scalar where it hangs on numbers in tensors that are no integers. What is rounded of these
    is bound to its symbol."""
    symbols = getattr(number, "free_symbols", frozenset()) if scope.numbers else frozenset()
    for symbol in sorted(symbols - scope.binders.keys(), key=str):
        made = scope.sizes.rounded(symbol)
        if made is not None:
            how, exact = made
            value = scalar(exact, DType.DOUBLE, scope.numbers)
            bind(scope, node, symbol, getattr(op, how)(value) if how else value)
    if not symbols & scope.numbers.keys():
        return number
    return settle_result(scope, node, scalar(number, DType.DOUBLE, scope.numbers), None)


def getitem(scope: Scope, node: Node) -> None:
    """Lowers the taking of one result out of several."""
    source, index = node.args
    held = scope.env[source]  # type: ignore[index]
    if isinstance(held, Inlined):
        alias(scope, node, held.nodes[index])  # type: ignore[index]
        return
    if scope.bases and isinstance(source, Node) and storage.storage_of(node) in scope.bases:
        view_of_several(scope, node, source, int(index))  # type: ignore[arg-type]
    hold_result(scope, node, held[index])


def hold_result(scope: Scope, node: Node, value: Any) -> None:
    """`hold`, of what may be a number that a body of control flow takes or gives as a tensor."""
    recorded = node.meta.get("val")
    if isinstance(value, Value) and isinstance(recorded, torch.SymInt):
        value = bind_symbol(scope, node, scope.sizes.dim(recorded), value)
    elif isinstance(value, Value) and isinstance(recorded, torch.SymFloat):
        value = bind_float(scope, node, scope.sizes.number(recorded.node.expr), value)
    hold(scope, node, value)


def alias(scope: Scope, node: Node, of: Any) -> None:
    """Makes `node` another name of the node (or plain value) `of`."""
    if not isinstance(of, Node):
        scope.env[node] = of
    elif of in scope.places:
        scope.places[node] = scope.places[of]
    else:
        scope.env[node] = scope.env[of]


def inline_region(scope: Scope, node: Node) -> None:
    """Lowers the body of a region in its place, over the very operands."""
    module, operands = control.region_of(scope, node)
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    for inner, operand in zip(placeholders, operands, strict=True):
        alias(scope, inner, operand)
    output = lower_nodes(scope, module)
    results = output.args[0]
    scope.env[node] = Inlined(tuple(results) if isinstance(results, tuple | list) else (results,))
    if not isinstance(results, tuple | list):
        alias(scope, node, results)


def item(scope: Scope, node: Node) -> Any:
    """The symbol that stands for the content of a scalar tensor, of which the scalar becomes the binder; what torch has
    put in its place where it did so, and the scalar itself of one that is true or false."""
    value, recorded = scope.read(node.args[0]), node.meta.get("val")  # type: ignore[arg-type]
    if not isinstance(value, Value):
        return value
    number = op.Reshape(value, []) if value.rank else value
    own = number_is_own(scope, node, value, recorded)
    if isinstance(recorded, bool | torch.SymBool):
        if own:
            bind(scope, node, scope.sizes.symbol(truth_symbol(recorded.node.expr)), value)  # type: ignore[union-attr]
        return number
    if not own:
        return number_of(scope, node, size_of(scope, recorded))
    if isinstance(recorded, torch.SymFloat):
        return bind_float(scope, node, scope.sizes.number(recorded.node.expr), number)
    return bind_symbol(scope, node, scope.sizes.dim(recorded), value)


def call_operator(scope: Scope, node: Node) -> None:
    """Lowers a call of an operator that writes nothing."""
    expected = type_of(node.meta.get("val"), scope.sizes)
    args, kwargs = read_arguments(scope, node)
    if any(isinstance(each.meta.get("val"), torch.SymBool) for each in node.all_input_nodes):
        computed: Any = map_aggregate((args, kwargs), partial(truth_computed, scope, node))
        args, kwargs = computed
    if scope.numbers:
        args, kwargs = with_numbers(node, args, kwargs, expected)
    result = convert(scope, node, operator_of(node.target), args, kwargs, expected)
    own = sizes_of_data(scope, node, result, expected)
    result = settle_result(scope, node, result, own)
    if own is not expected:
        result = restate_sizes(scope, node, result, expected)
    if scope.bases and isinstance(result, Value):
        view(scope, node, args, kwargs)
    scope.guards.extend((condition, source_of(node)) for condition in taken_for_granted(node))
    keep_places(scope, node)
    name = name_of_operator(node.target)
    if name in ASSERTING:
        scope.checks.extend(asserted_conditions(name, args, kwargs, result, source_of(node)))
    if name == ARANGE:
        scope.checks.extend(said_of_data(scope, relation, source_of(node)) for relation in order_of_bounds(node))
    hold(scope, node, result)


def keep_places(scope: Scope, node: Node) -> None:
    """Keeps that the places are there that an operator takes or puts at, as far as sizes and constants tell them."""
    target: Any = node.target
    if isinstance(target, OpOverload):
        ends = partial(ends_of_node, scope)
        for each in conditions(target, node.args, node.kwargs, sizes_of_node, ends, is_mask_node):
            if holds_for_example(node, each):  # else torch itself tells
                scope.guards.extend((held, source_of(node)) for held in of_sizes(each))


def holds_for_example(node: Node, condition: Any) -> bool:
    """Whether a condition on sizes of a node's operands holds at those of the example, as far as they are known."""
    shapes = (getattr(each.meta.get("val"), "shape", ()) for each in node.all_input_nodes)
    sizes = [size for shape in shapes for size in shape if isinstance(size, torch.SymInt)]
    known = {size.node.expr: size.node.hint for size in sizes if size.node.has_hint()}
    return (
        condition.xreplace({over_sizes(expr): sympy.Integer(hint) for expr, hint in known.items()}) is not sympy.false
    )


def ends_of_node(scope: Scope, node: Node) -> tuple[int, int] | None:
    """The least and the greatest number of a constant that a node stands for."""
    return ends_of(scope.read(node)) if node in scope.env else None


def sizes_of_node(node: Node) -> list[Any]:
    """The sizes that were recorded for a node, in torch's symbols."""
    return sizes_of(node.meta["val"])


def is_mask_node(node: Node) -> bool:
    """Whether what was recorded for a node chooses places by truths."""
    return node.meta["val"].dtype in (torch.bool, torch.uint8)


def truth_computed(scope: Scope, node: Node, given: Any) -> Any:
    """An argument; of a condition on sizes, which an operator computes with, the truth value."""
    tells = isinstance(given, Relational | BooleanFunction | BooleanAtom)
    return condition(scope, given, origin_of(node)) if tells else given


def order_of_bounds(node: Node) -> Iterator[Any]:
    """The same of integers out of data, which torch knows by symbols: the relation over these."""
    recorded = [each.meta.get("val") if isinstance(each, Node) else each for each in node.args[:3]]
    bounds = [each.node.expr if isinstance(each, torch.SymInt) else each for each in recorded]
    if not all(type(each) is int or isinstance(each, sympy.Expr) for each in bounds):
        return
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    ofdata = {s.name for each in (start, end) for s in getattr(each, "free_symbols", ()) if is_unbacked(s.name)}
    if ofdata and type(step) is int:
        relation = sympy.Ge(end, start) if step > 0 else sympy.Le(end, start)
        yield from (relation,) if relation not in (sympy.true, sympy.false) else ()


def with_numbers(node: Node, args: Any, kwargs: Any, expected: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with numbers out of tensors in the element type that torch takes a Python float for."""
    types = [v.dtype for v, n in zip(args, node.args, strict=True) if isinstance(v, Value) and not is_float(n)]
    if DType.DOUBLE in (*types, getattr(expected, "dtype", None)) or name_of_operator(node.target) == ARANGE:
        return args, kwargs

    def single(value: Any, given: Any) -> Any:
        return cast(value, DType.FLOAT) if isinstance(value, Value) and is_float(given) else value

    positional = tuple(single(v, n) for v, n in zip(args, node.args, strict=True))
    return positional, {key: single(value, node.kwargs[key]) for key, value in kwargs.items()}


def is_float(given: Any) -> bool:
    """Whether an argument of a node is a number that is not an integer."""
    return isinstance(given, Node) and isinstance(given.meta.get("val"), torch.SymFloat)


def name_of_operator(target: Any) -> str:
    """`aten::squeeze` for any of its overloads; empty for what is not an operator of torch."""
    return target._schema.name if isinstance(target, OpOverload) else ""


def is_refused(node: Node) -> bool:
    """Whether a node is left of a call that torch refused while it traced, which the model caught."""
    target: Any = node.target
    refused = isinstance(target, OpOverload) and not node.users and node.meta.get("val", NOTHING) is None
    return refused and bool(target._schema.returns) and not storage.written_arguments(target)


NOTHING = object()
"""What stands for a record that a node has not."""


def nodes_reached(module: GraphModule) -> Iterator[Node]:
    """The nodes of a graph and of the regions that are inlined in it, in the order of execution."""
    for node in module.graph.nodes:
        if control.is_region(node.target):
            for argument in node.args:
                inner = getattr(module, str(argument.target), None) if isinstance(argument, Node) else None
                if isinstance(inner, GraphModule):
                    yield from nodes_reached(inner)
        yield node


def require_converters(module: GraphModule, options: Options) -> None:
    """Raises MissingConverters, with all of them, for operators that nothing can lower."""
    counts: Counter[str] = Counter()
    places: dict[str, str] = {}
    for node in nodes_reached(module):
        target: Any = node.target
        if node.op != "call_function" or not isinstance(target, OpOverload):
            continue
        if computes_nothing(target) or isinstance(node.meta.get("val"), _SIZES):
            continue
        writes = bool(storage.written_arguments(target))
        functional = writing_operator(options.registry, target) if writes else operator_of(target)
        known = functional is not None and has_converter(options.registry, functional)
        if not known and (options.strict or functional is None or not can_decompose(functional)):
            counts[str(target)] += 1
            places.setdefault(str(target), source_of(node).rpartition("\n")[2])
    if counts:
        forbidden = " (strict=True forbids decomposing them)" if options.strict else ""
        raise MissingConverters(
            f"{len(counts)} operator{'s have' if len(counts) > 1 else ' has'} no converter{forbidden}",
            source="\n".join(f"{count:4d} x {name}  {places[name]}" for name, count in counts.most_common()),
            hint="hand one in: lower(..., converters={torch.ops.mylib.op.default: my_function})",
            missing=tuple(counts.most_common()),
        )
