"""Higher-order operators: regions are inlined, branches and loops become closed bodies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import sympy
from torch.fx import GraphModule, Node

from irkit import dims
from irkit.build import call, const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.origins import Origin
from irkit.core.types import DType, Tensor, dims_of, map_dims
from irkit.core.vocabulary import SHAPE_VECTOR
from lowering.capture.guards.assumed import one_length
from lowering.errors import LoweringError
from lowering.fold.assertions import all_of, condition, in_every_round, join_checks, settled_checks, wide_checks
from lowering.fold.custom_writes import auto_functionalized, with_effects
from lowering.fold.data_conditions import restate_sizes, sizes_of_data
from lowering.fold.decompose import written_out
from lowering.fold.scope import Check, Scope, read_arguments, stamp_origin
from lowering.records.sizes import is_unbacked
from lowering.records.source_lines import origin_of, source_of
from lowering.records.torch_internals import HigherOrderOperator, OpOverload, math_attention
from lowering.records.types import type_of
from lowering.tensors.complex_pairs import apart, is_complex, pair, real_type, together
from lowering.tensors.promotion import fold_left, is_truth, scalar

INLINED = frozenset(
    "wrap_with_set_grad_enabled wrap_with_autocast wrap hints_wrapper tag_activation_checkpoint "
    "invoke_subgraph strict_mode wrap_activation_checkpoint dynamo_bypassing_wrapper invoke_quant "
    "invoke_quant_packed".split()
)
"""Regions whose body is lowered in their place: what they say of gradients and precision is in their nodes already."""


@attrs.frozen(eq=False)
class Inlined:
    """The output nodes of a region that was lowered in place."""

    nodes: tuple[Any, ...]


def region_of(scope: Scope, node: Node) -> tuple[GraphModule, tuple[Any, ...]]:
    """(body, operands) of a region that is inlined."""
    for position, argument in enumerate(node.args):
        held = scope.env.get(argument) if isinstance(argument, Node) else argument
        if isinstance(held, GraphModule):
            operands = [a for a in node.args[position + 1 :] if not isinstance(a, str)]
            flat = operands[0] if len(operands) == 1 and isinstance(operands[0], tuple | list) else operands
            return held, tuple(flat)
    raise LoweringError(f"the region {node.name} has no body", hint="capture the model by torch.export")


def higher_order(scope: Scope, node: Node) -> Any:
    """The results of a branch, a loop or an attention. Raises LoweringError, by name, for every other operator."""
    name = getattr(node.target, "_name", str(node.target))
    handlers = {
        "cond": cond, "while_loop": while_loop, "while_loop_stack_output": while_loop_stacked, "scan": scan,
        "map_impl": map_impl, "flex_attention": flex_attention, "print": printed,
        "auto_functionalized": auto_functionalized, "auto_functionalized_v2": auto_functionalized,
        "with_effects": with_effects,
    }  # fmt: skip
    if name not in handlers:
        raise LoweringError(
            f"the higher-order operator {name} has no lowering", hint=f"these have: {', '.join(handlers)}"
        )
    return handlers[name](scope, node)


@attrs.frozen(eq=False)
class Body:
    """A closed graph, and what it asserts of its data: whether all of that holds is then its last result. `scope` has
    what binds its symbols."""

    graph: Graph
    checks: Sequence[Check]
    scope: Scope


def body(scope: Scope, module: GraphModule, operands: list[Any], types: list[Any] | None = None) -> Body:
    """A body applied to operands: tensors become parameters, complex ones two of them, sizes and numbers stay what they
    are.

    `types` replaces the types of tensor operands (an element of a scanned tensor, say).
    """
    params: list[Value] = []
    given: list[Any] = []
    for i, operand in enumerate(operands):
        if isinstance(operand, Value):
            whole = types[i] if types is not None and types[i] is not None else operand.type
            new = [param(real_type(whole)) for _ in range(2 if is_complex(whole) else 1)]
            params.extend(new)
            given.append(pair(*new) if len(new) == 2 else new[0])
        else:
            given.append(operand)
    results, inner = scope.graph_within(module, given, closed=True)
    flat = results if isinstance(results, tuple | list) else (results,)
    where = Origin(target="body")
    values = [stamp_origin(inner, as_tensor(inner, r, where), where) for r in flat]
    said = [each.condition for each in inner.checks]
    checks = settled_checks(inner, inner.checks)
    checks += wide_checks(inner, [*values, *(each.condition for each in checks)], guards=said, inside=True)
    held = [all_of(checks)] if checks else []
    tensors = apart(values)
    return Body(Graph(tuple(params), (*tensors, *held), name=type(module).__name__), checks, inner)


def as_tensor(scope: Scope, result: Any, where: Origin) -> Value:
    """A size, number or condition that a body takes or returns, as a tensor."""
    if isinstance(result, Value):
        return result
    if isinstance(result, bool) or is_truth(result):
        return condition(scope, result, where)
    whole = result.is_integer if isinstance(result, sympy.Basic) else isinstance(result, int)
    return scalar(result, DType.INT64 if whole else DType.DOUBLE, scope.numbers)


def cond(scope: Scope, node: Node) -> Any:
    """torch.cond(pred, true, false, operands) -> If"""
    (pred, yes, no, operands), _ = read_arguments(scope, node)
    values = apart(v for v in operands if isinstance(v, Value))
    if not isinstance(pred, Value):
        pred = condition(scope, pred, origin_of(node))
    branches = [body(scope, branch, list(operands)) for branch in (yes, no)]
    checks = [check for branch in branches for check in branch.checks]
    true = [] if not checks else [const(True)]
    graphs = [b.graph if b.checks else b.graph.with_results((*b.graph.results, *true)) for b in branches]
    results = several(
        call(
            "If",
            [pred, *values],
            {"then_branch": graphs[0], "else_branch": graphs[1], "captures": len(values)},
            outputs=len(graphs[0].results),
        )
    )
    if checks:
        *results, held = results
        scope.checks.append(join_checks(checks, held, "in the branch that is taken"))
    return refined(scope, node, tuple(results))


def several(result: Any) -> tuple[Value, ...]:
    """The results of a call that may have one only."""
    return result if isinstance(result, tuple) else (result,)


def printed(scope: Scope, node: Node) -> None:
    """print(format, ...) computes nothing"""


def flex_attention(scope: Scope, node: Node) -> Any:
    """flex_attention(q, k, v, score_mod, block_mask, scale, ...) by the formula that torch itself computes on a CPU"""
    args, kwargs = read_arguments(scope, node)
    results = written_out(scope, node, node.target, math_attention, args, kwargs)
    return refined(scope, node, tuple(results))


def refined(scope: Scope, node: Node, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results with the types that FX recorded."""
    types = type_of(node.meta.get("val"), scope.sizes)
    if not isinstance(types, tuple):
        return results
    whole = together(results, types)
    own = sizes_of_data(scope, node, whole, types)
    found = tuple(
        r.with_type(t) if isinstance(t, Tensor) and r.type != t else r for r, t in zip(whole, own, strict=True)
    )
    return found if own is types else restate_sizes(scope, node, found, types)


def while_loop(scope: Scope, node: Node) -> Any:
    """while_loop(cond, body, carried, additional) -> Loop, whose condition is computed before and after each round."""
    return looped(scope, node, stacked=False)


def while_loop_stacked(scope: Scope, node: Node) -> Any:
    """The same, with what is carried after each round, all rounds one after the other along a new first dimension."""
    return looped(scope, node, stacked=True)


def looped(scope: Scope, node: Node, *, stacked: bool) -> Any:
    """A Loop of (cond, body, carried, additional): what is carried in the end, or after each round"""
    (test, step, carried, extra), _ = read_arguments(scope, node)
    where = origin_of(node)
    carried, extra = [stamp_origin(scope, as_tensor(scope, c, where), where) for c in carried], list(extra)
    values = apart(v for v in extra if isinstance(v, Value))
    recorded = type_of(node.meta.get("val"), scope.sizes)
    kept = [Tensor(t.dtype, t.shape[1:]) if stacked else t if isinstance(t, Tensor) else None for t in recorded]
    types = kept + [None] * len(extra)
    bodies = body(scope, test, [*carried, *extra], types), body(scope, step, [*carried, *extra], types)
    first = apart(carried)
    results, check = loop_of(scope, *bodies, first, values, range(len(first)) if stacked else ())
    scope.checks.extend([] if check is None else [check])
    return refined(scope, node, tuple(results))


def loop_of(
    scope: Scope, test: Body, step: Body, carried: Sequence[Value], values: Sequence[Value], rows: Sequence[int] = ()
) -> tuple[Sequence[Value], Check | None]:
    """(results, condition) of a Loop whose bodies take what is carried, then `values`. The results are what is carried
    in the end, in the places of `rows` after each round, stacked; the condition is what the bodies assert in every
    round."""
    first, *held_first = applied(test.graph, [*carried, *values], scope)
    params, after = step.graph.params, step.graph.results
    after, held = after[: len(carried)], after[len(carried) :]
    again, *held_again = applied(test.graph, [*after, *params[len(carried) :]], step.scope, again=True)
    head = (param(Tensor(DType.INT64, ())), param(Tensor(DType.BOOL, ())))
    rounds = [after[place] for place in rows]
    flags = [*held, *held_again]
    told = [fold_left(op.And, flags)] if flags else []
    loop = Graph((*head, *params), (op.Reshape(again, []), *after, *rounds, *told), name="while")
    results: Sequence[Value] = several(
        call(
            "Loop",
            [None, op.Reshape(first, []), *carried, *values],
            {"body": loop, "captures": len(values)},
            outputs=len(carried) + len(rounds) + len(told),
        )
    )
    check = None
    if told:
        *results, each = results
        whole = fold_left(op.And, [*held_first, in_every_round(each)])
        check = join_checks([*step.checks, *test.checks], whole, "in every round")
    stacks = dict(zip(rows, results[len(carried) :], strict=True))
    return [stacks.get(place, each) for place, each in enumerate(results[: len(carried)])], check


def applied(test: Graph, operands: Sequence[Value], scope: Scope | None, *, again: bool = False) -> tuple[Value, ...]:
    """The results of the test of a loop for operands, whose sizes may be others than those of its parameters; what
    binds their symbols, `scope` tells. Where it is asked `again`, what depends on data has other symbols: in a round,
    these stand for other numbers than before."""
    known = dict(kv for p, v in zip(test.params, operands, strict=True) for kv in sizes_given(p, v))
    content = {s for v in test.order if v.op == SHAPE_VECTOR for s in v.attribute("scalars", ())}
    outside = {s for p in test.params for d in dims_of(p.type) for s in dims.symbols_of(d)}

    def renamed(size: Any) -> Any:
        for symbol in dims.symbols_of(size) if again else ():
            if symbol not in outside and (symbol in content or is_unbacked(symbol.name)):
                known.setdefault(symbol, dims.symbol(f"{symbol.name}_next", signed=not symbol.is_nonnegative))
        return dims.substitute(size, known)

    new: dict[Value, Value] = dict(zip(test.params, operands, strict=True))
    for value in test.order[len(test.params) :]:
        inputs = tuple(None if v is None else new[v] for v in value.inputs)
        attributes = value.attributes
        if value.op == SHAPE_VECTOR:
            inputs, attributes = vector_of(
                scope, inputs, [(name, tuple(map(renamed, own))) for name, own in attributes]
            )
        new[value] = Value(value.op, inputs, attributes, value.bodies, map_dims(value.type, renamed), value.origin)
    return tuple(new[r] for r in test.results)


def sizes_given(own: Value, value: Value) -> Iterator[tuple[Any, Any]]:
    """(symbol, size) for the sizes of a parameter that are others in what is given for it."""
    for one, other in zip(dims_of(own.type), dims_of(value.type), strict=True):
        if isinstance(one, sympy.Symbol) and one != other:
            yield one, other


def vector_of(scope: Scope | None, inputs: tuple[Value | None, ...], attributes: Sequence[Any]) -> tuple[Any, Any]:
    """Operands and attributes of a ShapeVector of other sizes than before, with what binds their symbols."""
    given = dict(attributes)
    symbols = dict.fromkeys(s for size in given["dims"] for s in dims.symbols_of(size))
    names = given.get("scalars", ())
    count = len(inputs) - len(names)
    content = dict(zip(names, inputs[count:], strict=True))
    told = [v for v in inputs[:count] if v is not None and any(d in symbols for d in dims_of(v.type))]
    for symbol in symbols:
        if scope is not None and symbol in scope.binders and symbol not in content:
            value, by_content = scope.binders[symbol]
            if by_content:
                content[symbol] = value
            elif not any(symbol in dims_of(v.type) for v in told):
                told.append(value)
    scalars = () if not content else (("scalars", tuple(content)),)
    return (*dict.fromkeys(told), *content.values()), (("dims", given["dims"]), *scalars)


def scan(scope: Scope, node: Node) -> Any:
    """scan(combine, init, xs, additional) -> Scan over dimension 0"""
    args, _ = read_arguments(scope, node)
    combine, init, xs, extra = args[0], list(args[1]), list(args[2]), list(args[3] if len(args) > 3 else [])
    keep_one_length(scope, node, node.args[2])
    return scanned(scope, node, combine, init, xs, extra)


def map_impl(scope: Scope, node: Node) -> Any:
    """map(f, xs, additional) -> Scan without a carried state"""
    (function, xs, extra), _ = read_arguments(scope, node)
    keep_one_length(scope, node, node.args[1])
    return scanned(scope, node, function, [], list(xs), list(extra))


def keep_one_length(scope: Scope, node: Node, xs: Any) -> None:
    """Keeps that what a scan walks along has one length."""
    scope.guards.extend((condition, source_of(node)) for condition in one_length(xs))


def scanned(scope: Scope, node: Node, function: Any, init: list[Any], xs: list[Any], extra: list[Any]) -> Any:
    """A Scan of `function(*state, *elements, *extra) -> (*state, *outputs)` over the leading dimension of `xs`."""
    elements = [Tensor(x.dtype, x.shape[1:]) for x in xs]
    types = [None] * len(init) + elements + [None] * len(extra)
    step = body(scope, function, [*init, *xs, *extra], types)
    results, check = scan_of(step, init, xs, [v for v in extra if isinstance(v, Value)])
    scope.checks.extend([] if check is None else [check])
    return refined(scope, node, tuple(results))


def scan_of(
    step: Body, init: Sequence[Value], xs: Sequence[Value], extra: Sequence[Value]
) -> tuple[Sequence[Value], Check | None]:
    """(results, condition) of a Scan whose body takes the state, an element of each of `xs`, and `extra`."""
    init, xs, values = apart(init), apart(xs), apart(extra)
    results: Sequence[Value] = several(
        call(
            "Scan",
            [*init, *xs, *values],
            {"body": step.graph, "num_scan_inputs": len(xs), "captures": len(values)},
            outputs=len(step.graph.results),
        )
    )
    check = None
    if step.checks:
        *results, each = results
        check = join_checks(step.checks, in_every_round(each), "in every round")
    return results, check


def is_region(target: Any) -> bool:
    """True for a higher-order operator whose body is inlined."""
    if type(target) is OpOverload:  # nearly all are; an abstract class takes its time to say no
        return False
    return isinstance(target, HigherOrderOperator) and target._name in INLINED
