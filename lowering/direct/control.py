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

from irkit import dims
from irkit.build import call, const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor
from lowering.capture.guards.rounds import bounds_of_rounds
from lowering.capture.inputs.side_effects import refuse_side_effects
from lowering.direct.data import bound_around, conditions_within, numbers_of_rounds
from lowering.direct.kernel_sizes.lookups import with_unused
from lowering.direct.meta_device.arguments import laid_out
from lowering.direct.sizes import SizeNode, dim_of
from lowering.direct.tensors import Handle, Memory, Traced
from lowering.direct.tracer import Tracer
from lowering.errors import LoweringError
from lowering.fold.assertions import all_of, condition, join_checks, settled_checks, wide_checks
from lowering.fold.control import INLINED, Body, as_tensor, loop_of, scan_of, several
from lowering.fold.scope import Frame, Scope, bind_symbols, stamp_origin, stamped_all
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


def plain_results(tracer: Tracer, func: Any, *args: Any, **kwargs: Any) -> Any:
    """The same, asked for by what meets calls, without gradients."""
    with torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        return higher_order(tracer, func, args, kwargs)


def version_of(tracer: Tracer, tensor: torch.Tensor) -> int:
    """How often the memory of a tensor has been written."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        return tracer.handle(tensor).memory.version


# ---------------------------------------------------------------------------------------------- bodies


@attrs.frozen(eq=False)
class TracedBody:
    """A body, the outer values that it uses, and the structure of what it returns."""

    body: Body
    captures: tuple[Value, ...]
    spec: pytree.TreeSpec
    twins: tuple[Any, ...]
    frame: Frame


@contextmanager
def inside(tracer: Tracer, moving: Set[Any] = frozenset()) -> Iterator[Frame]:
    """A block in which values belong to a body; `moving` are the symbols of sizes that rounds change."""
    outer = tracer.scope
    scope = Scope(outer.sizes, outer.options)
    scope.decomposed, scope.constants, scope.guards = outer.decomposed, outer.constants, outer.guards
    scope.around = lambda symbol: bound_around(tracer, symbol, numbers=True)
    frame = Frame(scope, outer, moving=moving, born=tracer.symbols["u"])
    tracer.frames.append(frame)
    tracer.scope = scope
    try:
        yield frame
    finally:
        tracer.frames.pop()
        tracer.scope = outer


def body_of(
    tracer: Tracer,
    function: Callable[..., Any],
    operands: Sequence[Any],
    elements: Mapping[int, int] = {},
    moving: Set[Any] = frozenset(),
    changing: int = 0,
) -> TracedBody:
    """A function traced on stand-ins for its operands, of which rounds change the first ones; of those in `elements` on
    one element along that axis. `moving` are the symbols of sizes that rounds change. A function that has `counts`, how
    many rounds there are, is given the number of the round first."""
    with inside(tracer, moving) as frame:
        params: list[Value] = []
        given: list[Any] = []
        for index, operand in enumerate(operands):
            given.append(stand_in(tracer, params, operand, elements.get(index)))
            if index >= changing and isinstance(given[-1], torch.SymInt):
                frame.stands[dim_of(given[-1])] = dim_of(operand)
        if (rounds := getattr(function, "counts", None)) is not None:
            frame.counter = params[0], dim_of(rounds)
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
        values = [stamp_origin(tracer.scope, as_value(tracer, each), where) for each in flat]
        twins = tuple(tracer.handle(t).twin if isinstance(t, torch.Tensor) else t for t in flat)
        said = [*(each.condition for each in tracer.scope.checks), *bounds_of_rounds(numbers_of_rounds(tracer))]
        checks = with_unused(tracer.scope, values, settled_checks(tracer.scope, tracer.scope.checks))
        checks += wide_checks(tracer.scope, [*values, *(each.condition for each in checks)], guards=said, inside=True)
        held = [all_of(checks)] if checks else []
        tensors = apart(values)
        closed = tuple(frame.params)
        graph = Graph((*params, *closed), (*tensors, *held), name=getattr(function, "__name__", "body"))
    return TracedBody(Body(graph, checks, frame.scope), tuple(frame.captured), spec, twins, frame)


def run_anew(tracer: Tracer, function: Callable[..., Any], operands: Sequence[Any], **named: Any) -> Any:
    """What a function gives on traced tensors, each of its operators and calls met again."""
    with tracer.resumed(), tracer.functions:
        return function(*operands, **named)


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
        bind_symbols(tracer.scope, made)
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
    if is_passed(operand):
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


def looped(tracer: Tracer, test: Any, step: Any, carried: Sequence[Any], extra: Sequence[Any], *, stacked: bool) -> Any:
    """A Loop of (cond, body, carried, additional): what is carried in the end, or after each round. A step that has
    `rows` says which places are told after each round, one that has `totals` what sizes are in the end, a test that has
    `rounds` how many there are."""
    rows: Sequence[int] = range(len(carried)) if stacked else getattr(step, "rows", ())
    moved, equal, settled = sizes_after(tracer, step, carried, extra)
    carried = [resized(tracer, each, equal.get(place, {})) for place, each in enumerate(carried)]
    seen = [resized(tracer, each, moved.get(place, {})) for place, each in enumerate(carried)]
    operands, moving = [*seen, *extra], symbols_of(moved)
    test_body = body_of(tracer, test, operands, moving=moving, changing=len(seen))
    step_body = body_of(tracer, step, operands, moving=moving, changing=len(seen)) if equal else settled
    captures = tuple(dict.fromkeys((*test_body.captures, *step_body.captures)))
    bodies = [attrs.evolve(b.body, graph=with_captures(b, captures)) for b in (test_body, step_body)]
    values = [v for v in (as_operand(tracer, each) for each in extra) if v is not None]
    first = [stamp_origin(tracer.scope, as_value(tracer, each), tracer.origin("while_loop")) for each in carried]
    for place, (before, after) in enumerate(zip(first, step_body.body.graph.results, strict=False)):
        if place not in moved and before.type != after.type:
            raise LoweringError(
                f"a loop carries {before.type!r}, and after a round {after.type!r}", source=tracer.line(),
                hint="use capture='torch.export'",
            )  # fmt: skip
    results, check = loop_of(tracer.scope, bodies[0], bodies[1], apart(first), [*values, *captures], rows)
    if check is not None:
        tracer.scope.checks.append(check)
    rounds = dim_of(test.rounds) if hasattr(test, "rounds") else None
    known = {
        moved[place][axis]: dim_of(size)
        for place, sizes in getattr(step, "totals", {}).items()
        for axis, size in sizes.items()
        if axis in moved.get(place, {})
    }
    numbers = outer_numbers(extra, step_body)
    ends = final_sizes(tracer, first, results, step_body, numbers, moved, rounds, known)
    return results_after(tracer, results, step_body.twins, rows, moved, ends, rounds)


def results_after(
    tracer: Tracer,
    results: Sequence[Value],
    after: Sequence[Any],
    rows: Sequence[int],
    moved: Sizes,
    ends: Mapping[Any, Any],
    rounds: Any,
) -> Any:
    """The results of a loop, as the model gets them; `after` are the twins of those of a round, `ends` has what sizes
    are in the end, by their symbols."""
    found, twins = list(results), list(after)
    if rows:
        count = len(tracer.example(results[rows[0]])) if rounds is None else tracer.asked.hint(rounds)
        for place in rows:
            result, twin = results[place], after[place]
            twins[place] = torch.empty((count, *getattr(twin, "shape", ())), dtype=kind_of(twin), device="meta")
            if rounds is not None:
                found[place] = result.with_type(Tensor(result.dtype, (rounds, *result.shape[1:])))
    for place, symbols in moved.items():
        if place in rows:
            continue
        result, twin = results[place], after[place]
        shape = tuple(ends[symbols[axis]] if axis in symbols else d for axis, d in enumerate(result.shape))
        found[place] = result.with_type(Tensor(result.dtype, shape))
        sizes = (ends[symbols[axis]] if axis in symbols else size for axis, size in enumerate(twin.shape))
        twins[place] = twin.new_empty([tracer.asked.hint(d) for d in sizes])
    return results_of(tracer, "while_loop", found, twins, None)


# ---------------------------------------------------------------------------------------------- sizes after rounds

Sizes = Mapping[int, Mapping[int, Any]]
"""Sizes by place and axis."""
TRIES = 6


class Unsettled(LoweringError):
    """What a loop carries in a place has other sizes after its first round, and the same after each that follows."""

    def __init__(self, place: int, before: Any, after: Any) -> None:
        super().__init__(f"a loop carries {before!r}, and after a round {after!r}", hint="use capture='torch.export'")
        self.place, self.before, self.after = place, repr(before), repr(after)


class Growing(LoweringError):
    """What a scan carries changes its sizes from round to round, which a loop can do, and no scan."""


def sizes_after(
    tracer: Tracer, step: Any, carried: Sequence[Any], extra: Sequence[Any]
) -> tuple[Sizes, Sizes, TracedBody]:
    """(the symbols of sizes that rounds change, other sizes as they are after a round where they are said otherwise
    before, the body with these symbols). That the second are the same is kept as a condition. Raises Unsettled."""
    moved: Sizes = {}
    for _ in range(TRIES):
        seen = [resized(tracer, each, moved.get(place, {})) for place, each in enumerate(carried)]
        traced = body_of(tracer, step, [*seen, *extra], moving=symbols_of(moved), changing=len(seen))
        found = changed_sizes(tracer, seen, extra, traced, moved)
        if found == moved:
            return moved, equal_sizes(tracer, seen, extra, traced, moved), traced
        moved = found
    raise LoweringError(
        "the sizes of what a loop carries change in other ways from round to round", source=tracer.line(),
        hint="carry fewer tensors whose sizes change",
    )  # fmt: skip


def changed_sizes(tracer: Tracer, seen: Sequence[Any], extra: Sequence[Any], traced: TracedBody, moved: Sizes) -> Sizes:
    """The symbols of sizes that a round changes, `moved` so far: one for those that are always equal."""
    found: dict[int, dict[int, Any]] = {}
    groups: dict[Any, Any] = {}
    for place, axis, one, other in sizes_around(tracer, seen, extra, traced):
        known = moved.get(place, {}).get(axis)
        own = any(map(traced.frame.owns, dims.symbols_of(other)))
        if known is not None and not own:
            raise Unsettled(place, tracer.read(tracer.handle(seen[place])).type, traced.body.graph.results[place].type)
        if known is None and (
            same_size(one, other) or (not own and tracer.asked.hint(one) == tracer.asked.hint(other))
        ):
            continue
        if (one, other) not in groups:
            taken = known is None or known in groups.values()
            groups[one, other] = fresh_size(tracer, one) if taken else known
        found.setdefault(place, {})[axis] = groups[one, other]
    return found


def same_size(one: Any, other: Any) -> bool:
    """Whether two dimensions are always equal."""
    return dims.same(one, other) is True


def fresh_size(tracer: Tracer, start: Any) -> Any:
    """A symbol for a size that rounds change."""
    made = tracer.fresh_symbol(tracer.asked.hint(start))
    tracer.loose.discard(made.name)
    return made


def equal_sizes(tracer: Tracer, seen: Sequence[Any], extra: Sequence[Any], traced: TracedBody, moved: Sizes) -> Sizes:
    """The sizes after a round that are said otherwise before, which is kept to be the same."""
    found: dict[int, dict[int, Any]] = {}
    for place, axis, one, other in sizes_around(tracer, seen, extra, traced):
        if axis not in moved.get(place, {}) and one != other:
            tracer.asked.equal(one, other)
            found.setdefault(place, {})[axis] = other
    return found


def sizes_around(
    tracer: Tracer, seen: Sequence[Any], extra: Sequence[Any], traced: TracedBody
) -> Iterator[tuple[int, int, Any, Any]]:
    """(place, axis, size before a round, size after it) for the tensors that a loop carries."""
    numbers = outer_numbers(extra, traced)
    for place, (each, value) in enumerate(zip(seen, traced.body.graph.results, strict=False)):
        before = tracer.read(tracer.handle(each)) if isinstance(each, torch.Tensor) else None
        if before is not None and before.dtype is value.dtype and before.rank == value.rank:
            for axis, (one, other) in enumerate(zip(before.shape, value.shape, strict=True)):
                yield place, axis, one, dims.substitute(other, numbers)


def outer_numbers(extra: Sequence[Any], traced: TracedBody) -> Mapping[Any, Any]:
    """What the symbols of a body stand for that are numbers of the model around it, the same in each round."""
    scope, params = traced.frame.scope, traced.body.graph.params
    bound = {value: symbol for symbol, (value, by_content) in scope.binders.items() if by_content}
    behind = [each for each in extra if is_passed(each)]
    own = params[len(params) - len(traced.captures) - len(behind) : len(params) - len(traced.captures)]
    pairs = zip(own, behind, strict=True)
    return {bound[p]: dim_of(each) for p, each in pairs if not isinstance(each, torch.Tensor)}


def is_passed(operand: Any) -> bool:
    """Whether a body has a parameter for an operand."""
    return isinstance(operand, torch.Tensor | torch.SymInt) or (
        isinstance(operand, int) and not isinstance(operand, bool)
    )


def resized(tracer: Tracer, each: Any, sizes: Mapping[int, Any]) -> Any:
    """What a loop carries, of other sizes along some axes."""
    if not sizes:
        return each
    handle = tracer.handle(each)
    before = tracer.read(handle)
    shape = tuple(sizes.get(axis, d) for axis, d in enumerate(before.shape))
    placed = tracer.placed(op.Identity(before), "carried", Tensor(before.dtype, shape))
    return tracer.tensor(handle.twin, placed, "carried")


def symbols_of(moved: Sizes) -> frozenset[Any]:
    """The symbols of sizes that rounds change."""
    return frozenset(symbol for each in moved.values() for symbol in each.values())


def final_sizes(
    tracer: Tracer,
    first: Sequence[Value],
    results: Sequence[Value],
    traced: TracedBody,
    numbers: Mapping[Any, Any],
    moved: Sizes,
    rounds: Any,
    known: Mapping[Any, Any],
) -> dict[Any, Any]:
    """What the sizes are behind a loop that rounds change, by their symbols: what is known of them; as many as there
    are rounds, times what each adds, where that is always the same; else a symbol that the result tells."""
    found = dict(known)
    for place, axes in moved.items():
        for axis, symbol in axes.items():
            if symbol in found:
                continue
            after = dims.substitute(traced.body.graph.results[place].shape[axis], numbers)
            gained = dims.sub(after, symbol)
            if rounds is not None and not any(map(traced.frame.owns, dims.symbols_of(gained))):
                gained = dims.mul(gained, dims.maximum(0, rounds))
                found[symbol] = dims.add(first[place].shape[axis], gained)
            else:
                found[symbol] = fresh_size(tracer, tracer.example(results[place]).shape[axis])
    return found


def kind_of(result: Any) -> torch.dtype:
    """The element type of a result of a body as a tensor."""
    return result.dtype if isinstance(result, torch.Tensor) else torch.float64 if is_real(result) else torch.int64


def is_real(result: Any) -> bool:
    """Whether a number is no integer."""
    return isinstance(result, float | torch.SymFloat)


def scan(tracer: Tracer, function: Any, init: Sequence[Any], xs: Sequence[Any], extra: Sequence[Any] = ()) -> Any:
    """scan(combine, init, xs, additional) -> Scan over dimension 0"""
    return scanned(tracer, "scan", function, init, xs, extra)


def scanned_over(
    tracer: Tracer, function: Any, carried: Sequence[Any], over: Sequence[Any], more: Sequence[Any]
) -> Any:
    """What a scan gives, asked for by what meets operators, in whose sight it is traced."""
    with torch._C._DisableTorchDispatch(), torch._C._DisablePythonDispatcher():
        return scan(tracer, function, carried, over, more)


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
    step = body_of(tracer, function, [*init, *xs, *extra], elements, changing=count + len(xs))
    if changed_sizes(tracer, init, extra, step, {}):
        raise Growing("what a scan carries changes its sizes", source=tracer.line(), hint="use a while_loop")
    equal = equal_sizes(tracer, init, extra, step, {})
    if equal:
        init = [resized(tracer, each, equal.get(place, {})) for place, each in enumerate(init)]
        step = body_of(tracer, function, [*init, *xs, *extra], elements, changing=count + len(xs))
    values = [v for v in (as_operand(tracer, each) for each in extra) if v is not None]
    given = [as_value(tracer, each) for each in init], [as_value(tracer, each) for each in xs]
    results, check = scan_of(step.body, *given, [*values, *step.captures])
    if check is not None:
        tracer.scope.checks.append(check)
    length = tracer.handle(xs[0]).twin.shape[0]
    twins = [t if i < count else t.new_empty((length, *t.shape)) for i, t in enumerate(step.twins)]
    return results_of(tracer, name, results, twins, step.spec)
