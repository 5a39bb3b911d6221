"""Higher-order operators of a traced model: branches and loops become closed bodies, traced in place.

A body is run on tensors over parameters of its own. What it uses of the model around it becomes a further operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np
import sympy
import torch
from torch._higher_order_ops.flex_attention import sdpa_dense_backward
from torch.utils import _pytree as pytree

from irkit.build import call, const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor
from lowering.capture.inputs.side_effects import refuse_side_effects
from lowering.direct.points import laid_out
from lowering.direct.sizes import SizeNode
from lowering.direct.tensors import Handle, Memory, Traced
from lowering.direct.tracer import Frame, Tracer
from lowering.errors import LoweringError
from lowering.fold.assertions import all_of, condition, join_checks, noted_checks, settled_checks
from lowering.fold.control import INLINED, Body, as_tensor, loop_of, scan_of, several
from lowering.fold.scope import Check, Scope, bind_symbols, stamp_origin, stamped_all
from lowering.records.sizes import is_unbacked
from lowering.records.torch_internals import math_attention
from lowering.tensors.complex_pairs import apart, is_complex


def higher_order(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The results of a branch, a loop, or a region. Raises LoweringError, by name, for every other operator."""
    handlers = {
        "cond": cond, "while_loop": while_loop, "while_loop_stack_output": while_loop_stacked, "scan": scan,
        "map_impl": map_impl, "flex_attention": flex_attention, "flex_attention_backward": flex_attention_backward,
        "print": printed, **dict.fromkeys((*INLINED, "local_map_hop"), inlined),
    }  # fmt: skip
    name = getattr(func, "_name", str(func))
    if name not in handlers:
        raise LoweringError(
            f"the higher-order operator {name} is not met by direct capture", hint="use capture='torch.export'"
        )
    return handlers[name](tracer, *args, **kwargs)


# ---------------------------------------------------------------------------------------------- bodies


@attrs.frozen(eq=False)
class TracedBody:
    """A body, the outer values that it uses, and the structure of what it returns."""

    body: Body
    captures: tuple[Value, ...]
    spec: pytree.TreeSpec
    twins: tuple[Any, ...]


@contextmanager
def inside(tracer: Tracer) -> Iterator[Frame]:
    """A block in which values belong to a body."""
    outer = tracer.scope
    scope = Scope(outer.sizes, outer.options)
    scope.decomposed, scope.constants, scope.guards = outer.decomposed, outer.constants, outer.guards
    frame = Frame(scope, outer)
    tracer.frames.append(frame)
    tracer.scope = scope
    try:
        yield frame
    finally:
        tracer.frames.pop()
        tracer.scope = outer


def body_of(
    tracer: Tracer, function: Callable[..., Any], operands: Sequence[Any], elements: Mapping[int, int] = {}
) -> TracedBody:
    """A function traced on stand-ins for its operands; of those in `elements` on one element along that axis."""
    with inside(tracer) as frame:
        params: list[Value] = []
        given: list[Any] = []
        for index, operand in enumerate(operands):
            given.append(stand_in(tracer, params, operand, elements.get(index)))
        asked, before = tracer.asked, set(tracer.asked.kept)
        asked.inside += 1
        try:
            with refuse_side_effects(function):
                returned = run_anew(tracer, function, given)
        finally:
            asked.inside -= 1
        tracer.scope.checks.extend(conditions_within(tracer, before))
        flat, spec = pytree.tree_flatten(returned)
        where = tracer.origin("body")
        values = [as_value(tracer, each) for each in flat]
        twins = tuple(tracer.handle(t).twin if isinstance(t, torch.Tensor) else t for t in flat)
        checks = settled_checks(tracer.scope, tracer.scope.checks)
        held = [all_of(checks)] if checks else []
        tensors = apart(stamp_origin(tracer.scope, v, where) for v in values)
        closed = tuple(frame.params)
        graph = Graph((*params, *closed), (*tensors, *held), name=getattr(function, "__name__", "body"))
    return TracedBody(Body(graph, checks), tuple(frame.captured), spec, twins)


def run_anew(tracer: Tracer, function: Callable[..., Any], operands: Sequence[Any], **named: Any) -> Any:
    """What a function gives on traced tensors, each of its operators and calls met again."""
    with tracer.resumed(), tracer.functions:
        return function(*operands, **named)


def conditions_within(tracer: Tracer, before: Set[Any]) -> list[Check]:
    """The conditions on numbers of a body that were asked in it, which become the body's own; `before` were there
    earlier. What they need of numbers around the body is captured. Raises LoweringError where nothing tells these."""
    scope, kept = tracer.scope, tracer.asked.kept
    own = {*scope.binders, *scope.numbers}
    asked = [each for each in kept if each not in before and not isinstance(each, str) and each.free_symbols & own]
    for each in asked:
        around = [s for s in each.free_symbols if s not in own and is_number_of_data(s)]
        if not all(bound_around(tracer, symbol) for symbol in around):
            raise LoweringError(
                f"a body of control flow asks {each}, of numbers in it and around it", source=kept[each].source,
                hint="use capture='torch.export'",
            )  # fmt: skip
    tracer.allowed.clear()
    return list(noted_checks(scope, [kept.pop(each) for each in asked]))


def is_number_of_data(symbol: Any) -> bool:
    """Whether only data tells what a symbol stands for."""
    return is_unbacked(symbol.name) or symbol.name.startswith("zuf")


def bound_around(tracer: Tracer, symbol: Any) -> bool:
    """Whether something around a body tells the number of a symbol, which the body then knows, too."""
    scope = tracer.scope
    for depth, frame in reversed([*enumerate(tracer.frames)]):
        if symbol in frame.outer.binders:
            value, by_content = frame.outer.binders[symbol]
            scope.binders[symbol] = (tracer.captured(value, depth), by_content)
            return True
        if symbol in frame.outer.numbers:
            scope.numbers[symbol] = tracer.captured(frame.outer.numbers[symbol], depth)
            return True
    return False


def stand_in(tracer: Tracer, params: list[Value], operand: Any, axis: int | None) -> Any:
    """What a body sees of an operand: a tensor over a parameter, a symbol for a number, a constant as it is."""
    if isinstance(operand, torch.Tensor):
        handle = operand.handle if isinstance(operand, Traced) else tracer.handle(operand)
        value = tracer.outer_read(handle)
        if is_complex(value):
            raise LoweringError(
                "complex tensors in bodies are not met by direct capture",
                hint="give their parts, torch.view_as_real(x), and put them together in the body",
            )
        type_, twin = value.type, handle.twin
        if axis is not None:
            type_, twin = (
                Tensor(value.dtype, value.shape[1:]),
                twin.select(0, 0) if len(twin) else twin.new_empty(twin.shape[1:]),
            )
        made = param(type_)
        params.append(made)
        tracer.examples.later[made] = (value, axis is not None)
        if tracer.asked.moved:
            shape = value.shape if axis is None else value.shape[1:]
            twin = laid_out(twin, [tracer.asked.hint(d) for d in shape])
        fresh = torch.empty_strided(twin.shape, twin.stride(), dtype=twin.dtype, device="meta")
        return tracer.shown(Handle(fresh, Memory(made, "", depth=len(tracer.frames)), (), made, 0, "operand"))
    if isinstance(operand, int | torch.SymInt) and not isinstance(operand, bool):
        made = param(Tensor(DType.INT64, ()))
        params.append(made)
        hint = operand.node.hint if isinstance(operand, torch.SymInt) else operand
        symbol = tracer.fresh_symbol(int(hint), signed=True)
        tracer.scope.binders[symbol] = (made, True)
        tracer.examples.known[made] = np.asarray(int(hint))
        return torch.SymInt(SizeNode(tracer.asked, symbol, int, int(hint)))
    return operand


def as_value(tracer: Tracer, result: Any) -> Any:
    """A result of a body, or an operand of a loop, as a tensor."""
    if isinstance(result, torch.Tensor):
        return tracer.read(tracer.handle(result))
    if isinstance(result, torch.SymInt | torch.SymFloat):
        result = sympy.sympify(result.node.expr)
    elif isinstance(result, torch.SymBool):
        result = result.node.expr
    return as_tensor(tracer.scope, result, tracer.origin("body"))


def results_of(tracer: Tracer, name: str, values: Sequence[Value], twins: Sequence[Any], spec: Any) -> Any:
    """The results of a call of bodies, as the model gets them."""
    found = []
    new = stamped_all(tracer.scope, {v: v.type for v in values}, tracer.origin(name))
    for value, twin in zip((new[v] for v in values), twins, strict=True):
        if not isinstance(twin, torch.Tensor):
            symbol = tracer.fresh_symbol(int(getattr(getattr(twin, "node", None), "hint", twin) or 0), signed=True)
            tracer.scope.binders[symbol] = (value, True)
            found.append(torch.SymInt(SizeNode(tracer.asked, symbol, int, tracer.asked.hints[symbol.name])))
            continue
        shape = tuple(
            d if type(d) is int or not getattr(d, "free_symbols", ()) or known(tracer, d) else tracer.fresh_symbol(n)
            for d, n in zip(value.shape, twin.shape, strict=True)
        )
        made = value if shape == value.shape else value.with_type(Tensor(value.dtype, shape))
        bind_symbols(tracer.scope, made)
        found.append(tracer.tensor(torch.empty(twin.shape, dtype=twin.dtype, device="meta"), made, name))
    return pytree.tree_unflatten(found, spec) if spec is not None else tuple(found)


def known(tracer: Tracer, dim: Any) -> bool:
    """Whether every symbol of a dimension has a number for the example."""
    return all(s.name in tracer.asked.hints for s in dim.free_symbols)


# ---------------------------------------------------------------------------------------------- operators


def inlined(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
    """A region whose body is run in its place: it says nothing of what is computed."""
    place = next((i for i, each in enumerate(args) if callable(each) and not isinstance(each, torch.Tensor)), None)
    if place is None:
        raise LoweringError(
            "a region without a function is not met by direct capture", hint="use capture='torch.export'"
        )
    operands = [each for each in args[place + 1 :] if not isinstance(each, str)]
    if len(operands) >= 1 and isinstance(operands[0], tuple | list):  # hints_wrapper(f, args, kwargs)
        operands = list(operands[0])
    return run_anew(tracer, args[place], operands)


def printed(tracer: Tracer, *args: Any, **kwargs: Any) -> None:
    """print(format, ...) computes nothing"""


def flex_attention(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
    """flex_attention(q, k, v, score_mod, block_mask, scale, ...) by the formula that torch itself computes on a CPU"""
    return run_anew(tracer, math_attention, args, **kwargs)


def flex_attention_backward(tracer: Tracer, *args: Any, **kwargs: Any) -> Any:
    """flex_attention_backward(q, k, v, out, logsumexp, ...) by torch's own formula"""
    if args[8] is None:
        raise LoweringError(
            "flex_attention_backward without the graph of the gradient is not met by direct capture",
            hint="use capture='torch.export'",
        )
    return run_anew(tracer, sdpa_dense_backward, args, **kwargs)


def cond(tracer: Tracer, pred: Any, yes: Any, no: Any, operands: Sequence[Any] = ()) -> Any:
    """torch.cond(pred, true, false, operands) -> If; a predicate that never varies chooses its branch"""
    answer: bool | None = pred if isinstance(pred, bool) else None
    if isinstance(pred, torch.SymBool):
        answer = pred.node.known()
    if answer is not None:
        return run_anew(tracer, yes if answer else no, operands)
    if isinstance(pred, torch.SymBool):
        tracer.asked.passed_on = True
        flag = condition(tracer.scope, pred.node.expr, tracer.origin("cond"))
    else:
        flag = tracer.read(tracer.handle(pred))  # pyright: ignore[reportArgumentType]
    branches = [body_of(tracer, each, operands) for each in (yes, no)]
    captures = tuple(dict.fromkeys(v for b in branches for v in b.captures))
    graphs = [with_captures(b, captures) for b in branches]
    checks = [check for b in branches for check in b.body.checks]
    if checks:
        true = [const(True)]
        graphs = [
            g if b.body.checks else g.with_results((*g.results, *true)) for g, b in zip(graphs, branches, strict=True)
        ]
    values = [v for v in (as_operand(tracer, each) for each in operands) if v is not None]
    if branches[0].spec != branches[1].spec:
        raise LoweringError(
            "the branches of a cond return different structures",
            source=tracer.line(),
            hint="return as many tensors, in the same tuples and lists, from both",
        )
    results = several(call("If", [flag, *values, *captures], {
        "then_branch": graphs[0], "else_branch": graphs[1], "captures": len(values) + len(captures),
    }, outputs=len(graphs[0].results)))  # fmt: skip
    if checks:
        *results, held = results
        tracer.scope.checks.append(join_checks(checks, held, "in the branch that is taken"))
    taken = branches[0 if bool(tracer.example(flag)) else 1]
    return results_of(tracer, "cond", results, taken.twins, taken.spec)


def as_operand(tracer: Tracer, operand: Any) -> Value | None:
    """An operand of a call of bodies as a value; None for what stays a constant."""
    if isinstance(operand, torch.Tensor | torch.SymInt) or (isinstance(operand, int) and not isinstance(operand, bool)):
        return stamp_origin(tracer.scope, as_value(tracer, operand), tracer.origin("operand"))
    return None


def with_captures(traced: TracedBody, captures: Sequence[Value]) -> Graph:
    """A body that takes these outer values behind its own parameters, in their order."""
    graph = traced.body.graph
    count = len(graph.params) - len(traced.captures)
    own = dict(zip(traced.captures, graph.params[count:], strict=True))
    extra = tuple(own[v] if v in own else param(v.type) for v in captures)
    return attrs.evolve(graph, params=(*graph.params[:count], *extra))


def while_loop(tracer: Tracer, test: Any, step: Any, carried: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    """while_loop(cond, body, carried, additional) -> Loop"""
    return looped(tracer, test, step, carried, extra, stacked=False)


def while_loop_stacked(tracer: Tracer, test: Any, step: Any, carried: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    """The same, with what is carried after each round, all rounds one after the other along a new first dimension"""
    return looped(tracer, test, step, carried, extra, stacked=True)


def with_sizes_of(tracer: Tracer, carried: Sequence[Any], after: Sequence[Value]) -> list[Any]:
    """What a loop carries, with the sizes that it has after a round, which is kept as a condition."""
    found: list[Any] = []
    for each, value in zip(carried, after, strict=False):
        if isinstance(each, torch.Tensor):
            handle = tracer.handle(each)
            before = tracer.read(handle)
            if before.type != value.type and before.dtype is value.dtype and before.rank == value.rank:
                for one, other in zip(before.shape, value.shape, strict=True):
                    tracer.asked.equal(one, other)
                each = tracer.tensor(handle.twin, tracer.placed(op.Identity(before), "carried", value.type), "carried")
        found.append(each)
    return found


def looped(tracer: Tracer, test: Any, step: Any, carried: Sequence[Any], extra: Sequence[Any], *, stacked: bool) -> Any:
    """A Loop of (cond, body, carried, additional): what is carried in the end, or after each round"""
    step_body = body_of(tracer, step, [*carried, *extra])
    carried = with_sizes_of(tracer, carried, step_body.body.graph.results)
    operands = [*carried, *extra]
    test_body, step_body = body_of(tracer, test, operands), body_of(tracer, step, operands)
    captures = tuple(dict.fromkeys((*test_body.captures, *step_body.captures)))
    whole = Body(with_captures(test_body, captures), test_body.body.checks)
    bodies = whole, Body(with_captures(step_body, captures), step_body.body.checks)
    values = [v for v in (as_operand(tracer, each) for each in extra) if v is not None]
    first = [stamp_origin(tracer.scope, as_value(tracer, each), tracer.origin("while_loop")) for each in carried]
    for before, after in zip(first, bodies[1].graph.results, strict=False):
        if before.type != after.type:
            raise LoweringError(
                f"a loop carries {before.type!r}, and after a round {after.type!r}", source=tracer.line(),
                hint="use capture='torch.export'",
            )  # fmt: skip
    results, check = loop_of(*bodies, apart(first), [*values, *captures], stacked=stacked)
    if check is not None:
        tracer.scope.checks.append(check)
    twins = step_body.twins
    if stacked:
        rounds = len(tracer.example(results[0])) if results else 0
        twins = [torch.empty((rounds, *getattr(t, "shape", ())), dtype=kind_of(t), device="meta") for t in twins]
    return results_of(tracer, "while_loop", results, twins, None)


def kind_of(result: Any) -> torch.dtype:
    """The element type of a result of a body as a tensor."""
    return result.dtype if isinstance(result, torch.Tensor) else torch.float64 if is_real(result) else torch.int64


def is_real(result: Any) -> bool:
    """Whether a number is no integer."""
    return isinstance(result, float | torch.SymFloat)


def scan(tracer: Tracer, function: Any, init: Sequence[Any], xs: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    """scan(combine, init, xs, additional) -> Scan over dimension 0"""
    return scanned(tracer, "scan", function, init, xs, extra)


def map_impl(tracer: Tracer, function: Any, xs: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    """map(f, xs, additional) -> Scan without a carried state"""
    return scanned(tracer, "map", function, [], xs, extra)


def scanned(
    tracer: Tracer, name: str, function: Any, init: Sequence[Any], xs: Sequence[Any], extra: Sequence[Any]
) -> Any:
    """A Scan of `function(*state, *elements, *extra) -> (*state, *outputs)` over the leading dimension of `xs`, which
    is kept to be the same in all of them."""
    count = len(init)
    first, *rest = (tracer.read(tracer.handle(each)) for each in xs)
    for other in rest:
        tracer.asked.equal(first.shape[0], other.shape[0])
    elements = {count + i: 0 for i in range(len(xs))}
    step = body_of(tracer, function, [*init, *xs, *extra], elements)
    sized = with_sizes_of(tracer, init, step.body.graph.results)
    if any(one is not other for one, other in zip(sized, init, strict=True)):
        init, step = sized, body_of(tracer, function, [*sized, *xs, *extra], elements)
    values = [v for v in (as_operand(tracer, each) for each in extra) if v is not None]
    given = [as_value(tracer, each) for each in init], [as_value(tracer, each) for each in xs]
    results, check = scan_of(step.body, *given, [*values, *step.captures])
    if check is not None:
        tracer.scope.checks.append(check)
    length = tracer.handle(xs[0]).twin.shape[0]
    twins = [t if i < count else t.new_empty((length, *t.shape)) for i, t in enumerate(step.twins)]
    return results_of(tracer, name, results, twins, step.spec)
