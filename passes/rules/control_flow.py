"""If, Loop and Scan: rules that simplify one of them, looking at it alone.

What depends on who uses the results is in `passes.whole_graph.trim`; what moves nodes between a body and the graph
around it is in `passes.hoist`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
import numpy as np

from irkit.build import const, op, retyping
from irkit.core import walk
from irkit.core.attributes import AttributeMap
from irkit.core.ir import Graph, Value, item, param
from irkit.core.types import DType, Tensor, Tuple, Type, types_of
from irkit.core.vocabulary import CONSTANT, SHAPE_VECTOR
from irkit.dims import Dim, is_fresh
from irkit.nodes.calls import applied_body
from irkit.ops.schemas import spec
from irkit.ops.types.contents import contents
from irkit.ops.types.context import Context
from irkit.ops.types.control import inner_symbols
from irkit.pattern import const as constant
from irkit.pattern import hole, p, rest
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from irkit.rewriting.numbering import is_random
from passes.analysis.questions import scan_axes

TRIPS = 8
"""Loops of at most so many trips are written out,"""

NODES = 32
"""where that makes at most so many operators."""


# ---------------------------------------------------------------------------------------------- parts


@attrs.frozen(eq=False)
class Parts:
    """The operands of a value with bodies, divided into its own and the captures."""

    own: tuple[Value | None, ...]
    captures: tuple[Value, ...]


def parts_of(value: Value) -> Parts:
    """The operands of a value with bodies, divided into its own and the captures."""
    at = len(value.inputs) - value.attribute("captures", 0)
    return Parts(value.inputs[:at], tuple(v for v in value.inputs[at:] if v is not None))


def with_captures(
    value: Value, own: Iterable[Value | None], captures: Iterable[Value], bodies: Iterable[Graph]
) -> Value:
    """The same value over other operands, captures and bodies; its type stays."""
    taken = tuple(captures)
    given = tuple(sorted({**dict(value.attributes), "captures": len(taken)}.items()))
    return Value(value.op, (*own, *taken), given, tuple(bodies), value.type, value.origin)


def results_of(value: Value) -> Value | tuple[Value, ...]:
    """What a rule returns for a value with bodies: its results."""
    return tuple(item(value, i) for i in range(len(value.type.items))) if isinstance(value.type, Tuple) else value


def rebuild_results(results: Iterable[Value], swaps: Mapping[Value, Value]) -> tuple[Value, ...]:
    """The results with each key of `swaps` replaced by its value; types are inferred again where the new values say
    more."""
    found, new = tuple(results), dict(swaps)
    for value in walk.post_order(found, stop=swaps.__contains__):
        inputs = tuple([v if v is None else new[v] for v in value.inputs])
        same = all(a is b for a, b in zip(inputs, value.inputs, strict=True))
        new[value] = value if same else retyping.over(value, inputs)
    return tuple(new[r] for r in found)


def is_plain(body: Graph, value: Value) -> bool:
    """False for a body that binds named symbols: written out twice, it would bind them twice."""
    context = Context(spec(value.op), value.inputs, dict(value.attributes), value.bodies, 1)
    return all(is_fresh(s) for s in inner_symbols(context, body))


# ---------------------------------------------------------------------------------------------- captures


def _captured(rng: np.random.Generator) -> Value:
    """An If that captures one value twice, and another for nothing."""
    x, y, flag = param(Tensor(DType.FLOAT, (2,))), param(Tensor(DType.FLOAT, (2,))), param(Tensor(DType.BOOL, ()))
    bodies: list[Graph] = []
    for _ in range(2):
        a, b, c = (param(x.type) for _ in range(3))
        bodies.append(Graph((a, b, c), ((op.Add if rng.random() < 0.5 else op.Sub)(a, c),)))
    inputs = (flag, x, y, x)
    return Value("If", inputs, (("captures", 3),), tuple(bodies), Tuple((x.type,)))


@rule(hole("value", ops=("If", "Loop", "Scan", "SequenceMap")), sample=_captured)
def plain_captures(m: Match) -> Made:
    """If/Loop/Scan(captures) -> the same without captures that are unused, repeated or constant"""
    value = m.root
    parts = parts_of(value)
    count = len(parts.captures)
    if not count:
        return decline("there are no captures")
    ends = [body.params[len(body.params) - count :] for body in value.bodies]
    used = [any(is_used(body, end[i]) for body, end in zip(value.bodies, ends, strict=True)) for i in range(count)]
    first: dict[Value, int] = {}
    for index, outer in enumerate(parts.captures):
        if used[index] and not is_leaf(outer):
            first.setdefault(outer, index)
    if len(first) == count:
        return decline("each capture is needed")
    bodies: list[Graph] = []
    for body, end in zip(value.bodies, ends, strict=True):
        swaps: dict[Value, Value] = {}
        for index, (outer, inside) in enumerate(zip(parts.captures, end, strict=True)):
            if used[index] and first.get(outer) != index:
                swaps[inside] = outer if is_leaf(outer) else end[first[outer]]
        kept = (*body.params[: len(body.params) - count], *(end[i] for i in first.values()))
        bodies.append(attrs.evolve(body, params=kept, results=rebuild_results(body.results, swaps)))
    return results_of(with_captures(value, parts.own, first, bodies))


def has_bodies(graph: Graph) -> bool:
    """True for a graph that holds another."""
    return next(walk.bodies(graph.order), None) is not None


def is_leaf(value: Value) -> bool:
    """True for a value that a body may hold itself: a constant, or sizes that need no binder."""
    return value.op == CONSTANT or (value.op == SHAPE_VECTOR and not value.inputs)


def is_used(body: Graph, inside: Value) -> bool:
    """True where `inside` is a result of the body or is used to compute one."""
    return bool(body.users.get(inside)) or inside in body.results


# ---------------------------------------------------------------------------------------------- branches


def _if(rng: np.random.Generator) -> Value | None:
    x = param(Tensor(DType.FLOAT, (2,)))
    y = op.Relu(x)
    taken = bool(rng.random() < 0.5)
    return op.If(taken, then_branch=lambda: op.Add(x, y), else_branch=lambda: op.Sub(x, y))[0].inputs[0]


@rule(p.If(constant("cond"), *rest("captures")), sample=_if)
def constant_if(m: Match) -> Made:
    """If(constant) -> the branch that it takes"""
    taken = m.root.bodies[0 if bool(m.cond.blob.array.reshape(-1)[0]) else 1]
    return in_place(m.root, applied_body(taken, m.captures, m.root.origin))


def _same(rng: np.random.Generator) -> Value | None:
    x, flag = param(Tensor(DType.FLOAT, (2,))), param(Tensor(DType.BOOL, ()))
    return op.If(flag, then_branch=lambda: op.Exp(op.Neg(x)), else_branch=lambda: op.Exp(op.Neg(x)))[0].inputs[0]


@rule(p.If(hole("cond"), *rest("captures")), sample=_same)
def same_branches(m: Match) -> Made:
    """If(cond) -> either branch, where both are equal"""
    first, second = m.root.bodies
    if first.token != second.token or first.symbols_used != second.symbols_used or draws(first):
        return decline("the branches differ")
    return in_place(m.root, applied_body(first, m.captures, m.root.origin))


def draws(body: Graph) -> bool:
    """True where a body draws random numbers."""
    return any(is_random(v) for v in body.order)


def in_place(value: Value, results: tuple[Value, ...]) -> Value | tuple[Value, ...]:
    """What a rule returns to replace `value` by these results."""
    return results if isinstance(value.type, Tuple) else results[0]


# ---------------------------------------------------------------------------------------------- loops


def _loop(rng: np.random.Generator) -> Value | None:
    x, trips = param(Tensor(DType.FLOAT, (2,))), int(rng.integers(0, 4))

    def body(i: Value, flag: Value, total: Value) -> Value | tuple[Value, ...]:
        step = op.Mul(op.Cast(i, to=1), x)
        return flag, op.Add(total, step), step

    return op.Loop(trips, True, op.Neg(x), body=body)[0].inputs[0]


@rule(p.Loop(hole("count", optional=True), hole("flag", optional=True), *rest("others")), sample=_loop)
def short_loop(m: Match) -> Made:
    """Loop of a few trips, whose number is known -> the trips written out one after the other"""
    value, (body,) = m.root, m.root.bodies
    trips = trips_of(m.count, m.flag, body)
    if trips is None or trips > TRIPS or trips * len(body) > max(NODES, len(body)):
        return decline("the number of trips is not known, or large")
    parts = parts_of(value)
    carried = tuple(v for v in parts.own[2:] if v is not None)
    rows: list[tuple[Value, ...]] = []
    if trips > 1 and not is_plain(body, value):
        return decline("each trip binds a named size")
    for trip in range(trips):
        operands = (const(np.array(trip)), const(np.array(True)), *carried, *parts.captures)
        found = applied_body(body, operands, value.origin)[1:]
        carried = found[: len(carried)]
        rows.append(found[len(carried) :])
    types = types_of(value.type)
    stacked = [joined([row[i] for row in rows], t, 0) for i, t in enumerate(types[len(carried) :])]
    if any(v is None for v in stacked):
        return decline("the size of an empty result is not known")
    return in_place(value, (*carried, *stacked))  # type: ignore[arg-type]


def trips_of(count: Value | None, flag: Value | None, body: Graph) -> int | None:
    """How many trips a Loop makes; None where that is not known."""
    go = True if flag is None else (bool(flag.blob.array.all()) if flag.blob is not None else None)
    most = None if count is None else (contents(count) or (None,))[0]
    if go is False or (type(most) is int and most <= 0):
        return 0
    if go is None or type(most) is not int:
        return None
    back = body.results[0]
    steady = back is body.params[1] or (back.blob is not None and bool(back.blob.array.all()))
    return most if steady or most == 1 else None


def joined(values: list[Value], type: Type, axis: int) -> Value | None:
    """The values stacked along a new axis; None where there are none and the shape of one is not known."""
    if values:
        raised = [op.Unsqueeze(v, np.array([axis])) for v in values]
        return raised[0] if len(raised) == 1 else op.Concat(*raised, axis=axis)
    if not isinstance(type, Tensor):
        return None
    shape = [0 if i == axis else d for i, d in enumerate(type.shape)]
    sizes = [d for d in shape if isinstance(d, int)]
    return const(np.zeros(sizes, type.dtype.numpy)) if len(sizes) == len(shape) else None


def _scan(rng: np.random.Generator) -> Value | None:
    x, steps = param(Tensor(DType.FLOAT, (2,))), int(rng.integers(0, 4))
    axis, back = int(rng.integers(0, 2)), int(rng.integers(0, 2))
    rows = param(Tensor(DType.FLOAT, (steps, 2) if axis == 0 else (2, steps)))

    def body(total: Value, row: Value) -> Value | tuple[Value, ...]:
        found = op.Add(op.Mul(total, row), x)
        return found, op.Neg(found)

    given: AttributeMap = {
        "scan_input_axes": [axis], "scan_input_directions": [back], "scan_output_axes": [-1 if back else 0],
        "scan_output_directions": [int(rng.integers(0, 2))],
    }  # fmt: skip
    return op.Scan(x, rows, num_scan_inputs=1, body=body, **given)[0].inputs[0]


@rule(p.Scan(*rest("operands")), sample=_scan)
def short_scan(m: Match) -> Made:
    """Scan of a few steps, whose number is known -> the steps written out one after the other"""
    value, (body,) = m.root, m.root.bodies
    parts = parts_of(value)
    at = len(parts.own) - value.attribute("num_scan_inputs")
    states, sequences = (tuple(v for v in own if v is not None) for own in (parts.own[:at], parts.own[at:]))
    results = types_of(value.type)
    rows = results[len(states) :]
    axes = scan_axes(value, "scan_input_axes", [v.rank for v in sequences])
    steps: Dim = sequences[0].shape[axes[0]]
    if type(steps) is not int or steps > TRIPS or steps * len(body) > max(NODES, len(body)):
        return decline("the number of steps is not known, or large")
    if steps > 1 and not is_plain(body, value):
        return decline("each step binds a named size")
    turned = value.attribute("scan_input_directions") or (0,) * len(sequences)
    found: list[tuple[Value, ...]] = []
    for step in range(steps):
        taken = [
            element(v, a, steps, steps - 1 - step if t else step)
            for v, a, t in zip(sequences, axes, turned, strict=True)
        ]
        made = applied_body(body, (*states, *taken, *parts.captures), value.origin)
        states = made[: len(states)]
        found.append(made[len(states) :])
    ends = scan_axes(value, "scan_output_axes", [len(t.shape) for t in rows if isinstance(t, Tensor)])
    back = value.attribute("scan_output_directions") or (0,) * len(rows)
    stacked = [
        joined([row[i] for row in (reversed(found) if back[i] else found)], t, ends[i]) for i, t in enumerate(rows)
    ]
    if any(v is None for v in stacked):
        return decline("the size of an empty result is not known")
    return in_place(value, (*states, *stacked))  # type: ignore[arg-type]


def element(value: Value, axis: int, steps: int, step: int) -> Value:
    """One element of what is scanned along an axis."""
    if steps == 1:
        return op.Squeeze(value, np.array([axis]))
    return op.Gather(value, np.array(step), axis=axis)


CONTROL: tuple[Rule, ...] = (constant_if, same_branches, plain_captures, short_loop, short_scan)
"""Rules about If, Loop and Scan. All are exact."""
