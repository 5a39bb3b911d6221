"""Gradients of operators with bodies: an If is one of the gradients of its branches, a Loop or Scan a Loop backwards.

A loop gives, besides its results, what it carried into each trip (`with_saved_trips`). On the way back, trip by trip
from the last, the gradients of its body are computed from that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core import walk
from irkit.core.ir import Graph, Signature, Value
from irkit.core.types import DType, Tensor, Tuple, same_types
from irkit.dims import Dim
from passes.gradients.node import Node, Slopes, ints, is_float, zeros
from passes.rules.control_flow import rebuild_results

Back = Callable[[Sequence[Value], Sequence[Value], Sequence[Value]], list[Value | None]]
"""The gradients for values, given results and the gradients for them."""

LOOPS = ("Loop", "Scan")


def through_body(
    back: Back, body: Graph, seeds: Sequence[tuple[int, Value]], wrt: Sequence[int], given: Sequence[Value]
) -> list[Value]:
    """The gradients for parameters `wrt` of a body, of which `given` are the operands; zeros where nothing flows.

    They are found on the body alone: an operand may itself hang on another one.
    """
    inside = [body.params[i] for i in wrt]
    found = back([body.results[i] for i, _ in seeds], [seed for _, seed in seeds], inside)
    made = [zeros(x) if g is None else g for x, g in zip(inside, found, strict=True)]
    return list(rebuild_results(made, dict(zip(body.params, given, strict=True))))


def through_if(node: Node, wanted: Sequence[bool], back: Back) -> Slopes:
    """The gradients for what the branches capture: an If of the gradients of its branches."""
    value, captures = node.value, node.inputs[1:]
    places = [i for i, wants in enumerate(wanted[1:]) if wants]
    if not places:
        return [None] * len(node.inputs)

    def branch(body: Graph) -> Callable[[], Any]:
        def made() -> Any:
            seeds = [(i, s) for i, (r, s) in enumerate(zip(body.results, node.slopes, strict=False)) if is_float(r)]
            return tuple(map(op.Identity, through_body(back, body, seeds, places, captures)))

        return made

    then, other = value.bodies
    made = op.If(node.inputs[0], then_branch=branch(then), else_branch=branch(other))
    slopes = iter(made)
    return [None, *(next(slopes) if i in places else None for i in range(len(captures)))]


# ---------------------------------------------------------------------------------------------- loops


@attrs.frozen(eq=False)
class Shape:
    """What stands where in a Loop or Scan: operands and results of the body by number.

    `lead`: the trip and the condition of a Loop; `carried` values; `scanned` sequences; `captured` operands; `rows`:
    results of the body that are stacked.
    """

    lead: int
    carried: int
    scanned: int
    captured: int
    rows: int

    @property
    def first_row(self) -> int:
        """The number of the first result of the body that is stacked."""
        return (1 if self.lead else 0) + self.carried


def shape_of_loop(value: Value) -> Shape:
    """What stands where in a Loop or Scan."""
    captured, lead = value.attribute("captures", 0), 2 if value.op == "Loop" else 0
    scanned = 0 if lead else int(value.attribute("num_scan_inputs"))
    carried = len(value.inputs) - lead - scanned - captured
    rows = len(value.bodies[0].results) - (1 if lead else 0) - carried
    return Shape(lead, carried, scanned, captured, rows)


def of_each(value: Value, name: str, count: int) -> list[int]:
    """An attribute of a Scan that says something of each sequence or row; 0 where it is not given."""
    return [int(i) for i in value.attribute(name, None) or (0,) * count]


def with_saved_trips(graph: Graph) -> Graph:
    """The graph with loops that also give what they carried into each trip, in bodies too.

    A loop that carries a value whose sizes change, or a sequence, stays as it is: its values cannot be stacked.
    """
    swaps: dict[Value, Value] = {}
    for value in graph.order:
        if not value.bodies:
            continue
        bodies = tuple(map(with_saved_trips, value.bodies))
        made = value
        if any(a is not b for a, b in zip(bodies, value.bodies, strict=True)):
            made = attrs.evolve(value, bodies=bodies)
        if made.op in LOOPS and not changing(made):
            made = saving(made)
        if made is not value:
            swaps[value] = made
    if not swaps:
        return graph
    built = walk.rebuild_through(graph.results, swaps)
    return attrs.evolve(graph, results=tuple(built[v] for v in graph.results))


def changing(value: Value) -> list[str]:
    """What a loop carries that cannot be stacked, in words."""
    (body,), shape = value.bodies, shape_of_loop(value)
    ins = body.params[shape.lead : shape.lead + shape.carried]
    outs = body.results[1 if shape.lead else 0 :][: shape.carried]
    rows = zip(value.inputs[shape.lead :], ins, outs, strict=False)
    return [
        f"a {given.type!r} that comes back as a {back.type!r}"
        for start, given, back in rows
        if start is None or not isinstance(given.type, Tensor) or same_types(given.type, back.type) is not True
    ]


def saving(value: Value) -> Value:
    """A loop with further results: each carried value as each trip found it, stacked, and of a Loop the trips."""
    (body,), shape = value.bodies, shape_of_loop(value)
    kept = [*body.params[shape.lead : shape.lead + shape.carried], *body.params[: 1 if shape.lead else 0]]
    known = cast(Tuple, value.type).items
    trips = trips_of(value, shape)
    more = tuple(Tensor(p.dtype, (trips, *p.shape)) for p in kept)
    attributes: dict[str, Any] = dict(value.attributes)
    for name in ("scan_output_axes", "scan_output_directions"):
        if attributes.get(name):
            attributes[name] = (*attributes[name], *(0 for _ in kept))
    wider = attrs.evolve(body, results=(*body.results, *map(op.Identity, kept)), signature=Signature())
    type_ = Tuple((*known, *more))
    return Value(value.op, value.inputs, tuple(sorted(attributes.items())), (wider,), type_, value.origin)


def trips_of(value: Value, shape: Shape) -> Dim:
    """How many trips a loop takes, as the type of a row or a sequence says it."""
    if shape.scanned:
        axis = of_each(value, "scan_input_axes", shape.scanned)[0]
        sequence = value.inputs[shape.carried]
        return cast(Value, sequence).shape[axis]
    if shape.rows:
        return cast(Tensor, cast(Tuple, value.type).items[shape.carried]).shape[0]
    return dims.fresh()


def saves_trips(value: Value, shape: Shape) -> bool:
    """True for a loop that `saving` made."""
    (body,) = value.bodies
    kept = [*body.params[shape.lead : shape.lead + shape.carried], *body.params[: 1 if shape.lead else 0]]
    last = body.results[len(body.results) - len(kept) :]
    return shape.rows >= len(kept) and all(
        r.op == "Identity" and r.inputs[0] is p for r, p in zip(last, kept, strict=True)
    )


def flipped(x: Value) -> Value:
    """x with its first axis backwards."""
    return op.Slice(x, ints([-1]), ints([np.iinfo(np.int64).min]), ints([0]), ints([-1]))


def from_front(x: Value, axis: int) -> Value:
    """x with its first axis as that number."""
    at = axis % x.rank
    return op.Transpose(x, perm=[*range(1, at + 1), 0, *range(at + 1, x.rank)]) if at else x


def through_loop(node: Node, wanted: Sequence[bool], back: Back) -> Slopes:
    """The gradients for what a Loop or Scan began with, scanned and captured: a Loop over its trips backwards."""
    value, (body,) = node.value, node.value.bodies
    shape = shape_of_loop(value)
    if not saves_trips(value, shape):
        raise node.refuse(
            f"it carries {'; '.join(changing(value)) or 'what cannot be stacked'}",
            hint="let each trip give back the sizes that it takes, filled up to the largest, or give rows instead",
        )
    begin = shape.lead + shape.carried + shape.scanned
    carried = [i for i in range(shape.carried) if is_float(body.params[shape.lead + i])]
    scanned = [i for i in range(shape.scanned) if wanted[shape.carried + i]]
    captured = [i for i in range(shape.captured) if wanted[begin + i]]
    wrt = [*(shape.lead + i for i in carried), *(shape.carried + i for i in scanned), *(begin + i for i in captured)]
    trips = Trips(node, shape)

    def trip(i: Value, going: Value, *state: Value) -> tuple[Value, ...]:
        """Trip number `count - 1 - i`: the gradients of what it found, and of what it captured added up."""
        at = op.Sub(op.Sub(trips.count, const(1, DType.INT64)), i)
        seeds = [(trips.inner + k, slope) for k, slope in zip(carried, state, strict=False)]
        seeds += trips.slopes_of_rows(at, i)
        found = through_body(back, body, seeds, wrt, trips.operands(at, i))
        first, last = len(carried), len(carried) + len(scanned)
        sums = (op.Add(a, g) for a, g in zip(state[first:], found[last:], strict=True))
        return (going, *found[:first], *sums, *found[first:last])

    starts = [*(node.slopes[i] for i in carried), *(zeros(trips.captures[i]) for i in captured)]
    made = op.Loop(trips.count, True, *starts, body=trip)
    found: dict[int, Value] = {shape.lead + k: made[i] for i, k in enumerate(carried)}
    found |= {begin + k: made[len(carried) + i] for i, k in enumerate(captured)}
    for i, k in enumerate(scanned, start=len(starts)):
        rows = made[i] if trips.in_turns[k] else flipped(made[i])
        found[shape.carried + k] = from_front(rows, trips.in_axes[k])
    return [found.get(i) for i in range(len(value.inputs))]


class Trips:
    """What a loop found in each of its trips, and the gradients for the rows that each gave."""

    def __init__(self, node: Node, shape: Shape) -> None:
        value, (body,) = node.value, node.value.bodies
        self.node, self.shape, self.inner = node, shape, 1 if shape.lead else 0
        begin = shape.lead + shape.carried
        self.scanned = cast(Sequence[Value], value.inputs[begin : begin + shape.scanned])
        self.captures = cast(Sequence[Value], value.inputs[begin + shape.scanned :])
        own = shape.rows - shape.carried - self.inner
        self.stacks = [node.result(shape.carried + own + i) for i in range(shape.carried + self.inner)]
        self.rows = [i for i in range(own) if is_float(body.results[shape.first_row + i])]
        self.in_axes, self.in_turns = (of_each(value, f"scan_input_{k}", shape.scanned) for k in WORDS)
        self.out_axes, self.out_turns = (of_each(value, f"scan_output_{k}", shape.rows) for k in WORDS)
        if shape.scanned:
            length = op.Gather(op.Shape(self.scanned[0]), ints([self.in_axes[0] % self.scanned[0].rank]))
            self.count = op.Squeeze(length, ints([0]))
        else:
            self.count = op.Size(self.stacks[-1])

    def operands(self, at: Value, from_end: Value) -> list[Value]:
        """What the body was given in trip number `at`, which is number `from_end` from the last."""
        lead = [op.Gather(self.stacks[-1], at, axis=0), const(True)] if self.shape.lead else []
        states = [op.Gather(stack, at, axis=0) for stack in self.stacks[: self.shape.carried]]
        places = zip(self.scanned, self.in_axes, self.in_turns, strict=True)
        parts = [op.Gather(x, from_end if turn else at, axis=axis) for x, axis, turn in places]
        return [*lead, *states, *parts, *self.captures]

    def slopes_of_rows(self, at: Value, from_end: Value) -> list[tuple[int, Value]]:
        """(the number of a result of the body, the gradient for it) of the rows of trip number `at`."""
        return [
            (
                self.shape.first_row + i,
                op.Gather(
                    self.node.slopes[self.shape.carried + i],
                    from_end if self.out_turns[i] else at,
                    axis=self.out_axes[i],
                ),
            )
            for i in self.rows
        ]


WORDS = ("axes", "directions")
"""What a Scan says of each sequence and row."""
