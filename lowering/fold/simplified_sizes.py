"""Sizes as they read where what torch relied on holds: its guards, and the ranges of its symbols.

A table of 128 positions that is sliced to `seq` of them is `min(128, seq)` long; where a guard says that `seq` is that,
or a range that `seq` is no more, the size is `seq`. The graph refuses the sizes for which it is not. A run that learns
of such guards after it has met the table has its sizes settled at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from types import MappingProxyType
from typing import Any, cast

import attrs
import sympy

from irkit import dims
from irkit.core import walk
from irkit.core.attributes import Attributes
from irkit.core.ir import Fact, Graph, Port, Value, vertex
from irkit.core.types import Type, map_dims
from irkit.core.vocabulary import PARAM, SHAPE_VECTOR
from irkit.dims import Dim, Range
from irkit.errors import DimensionError
from lowering.capture.guards.guards import Guard
from lowering.errors import LoweringError
from lowering.fold.places_of_inputs import places_of_inputs
from lowering.fold.scope import Check
from lowering.records.sizes import Sizes
from passes.whole_graph.layer_calls import Alike, with_calls

EXTREMES = (dims.Max, dims.Min)
"""What torch writes for sizes that have an end."""


def relying_on(sizes: Sizes, guards: Sequence[Guard], ranges: Mapping[str, Range]) -> Sizes:
    """The same translation of torch's sizes, simplified by guards and by ranges of the symbols, by the user's names."""
    equal: dict[Any, Any] = {}
    for guard in guards:
        if isinstance(guard.expr, sympy.Eq) and guard.kind == "guard":
            found = solved(sizes, guard.expr)
            equal |= {extreme: size for extreme, size in found.items() if is_told(extreme, size, ranges)}
    return attrs.evolve(sizes, relied=Relied(equal, ranges))


def solved(sizes: Sizes, relation: Any) -> dict[Any, Any]:
    """{extreme: what it is} of an equation in which one minimum or maximum stands, alone; nothing of any other one."""
    try:
        left, right = (sizes.number(side) for side in relation.args)
        gap: Any = dims.sub(left, right)
    except (DimensionError, LoweringError):  # numbers out of data, which are no dimensions
        return {}
    if type(gap) is int:
        return {}
    found = gap.atoms(*EXTREMES)
    terms = {part: sign for sign in (1, -1) for part in found if sign * part in sympy.Add.make_args(gap)}
    if len(found) != 1 or not terms:
        return {}
    ((extreme, sign),) = terms.items()
    return {extreme: sympy.expand(extreme - sign * gap)}


def is_told(extreme: Any, size: Dim, ranges: Mapping[str, Range]) -> bool:
    """Whether what tells an extreme tells the size that it equals: names, and no number of data beside its own."""
    return all(s in extreme.free_symbols or s.name in ranges for s in dims.symbols_of(size))


@attrs.frozen
class Relied:
    """What is known of sizes: extremes that equal something simpler, and the ranges of symbols by name."""

    equal: Mapping[Any, Any]
    ranges: Mapping[str, Range]

    def __call__(self, size: Any) -> Any:
        """The size, with no minimum or maximum in it that is known to be one of its sides, or what a guard says."""
        if type(size) is int or not size.has(*EXTREMES):
            return size
        found: Any = dims.canonical(size.xreplace(self.equal))
        if type(found) is int:
            return found
        known = {extreme: self.side(extreme) for extreme in found.atoms(*EXTREMES)}
        return dims.canonical(found.xreplace({extreme: side for extreme, side in known.items() if side is not extreme}))

    def side(self, extreme: Any) -> Any:
        """The side of an extreme that is beyond all others; the extreme itself where that cannot be told."""
        for side in extreme.args:
            gaps = (side - other if isinstance(extreme, dims.Max) else other - side for other in extreme.args)
            if all(dims.bounds(self.expanded(gap), self.ranges).lo >= 0 for gap in gaps):
                return side
        return extreme

    @staticmethod
    def expanded(gap: Any) -> Dim:
        """The canonical form of a difference, in which what is in both is gone."""
        return dims.canonical(sympy.sympify(gap))


# ---------------------------------------------------------------------------------------------- sizes of a whole graph

Settle = Callable[[Dim], Dim]


def settled_sizes(
    order: Sequence[Value], settle: Settle, swaps: Mapping[Value, Value] = MappingProxyType({})
) -> dict[Value, Value]:
    """Each value in order, over the sizes that `settle` gives, and over that which stands for some of them, by `swaps`,
    and comes first; nothing where nothing changes. Parameters stay as they are."""
    known: dict[Dim, Dim] = {}

    def size(dim: Dim) -> Dim:
        if type(dim) is int:
            return dim
        found = known.get(dim)
        if found is None:
            found = known[dim] = settle(dim)
        return found

    types = {id(value.type): value.type for value in order}.values()
    vectors = [value.attributes for value in order if value.op == SHAPE_VECTOR]
    same = all(map_dims(each, size) is each for each in types) and all(settled(each, size) is each for each in vectors)
    if same and not swaps and not [value for value in order if value.bodies]:
        return {}
    return resized(order, size, {value: value for value in order if value.op == PARAM}, swaps)


def resized(
    order: Sequence[Value],
    size: Settle,
    params: Mapping[Value, Value],
    swaps: Mapping[Value, Value] = MappingProxyType({}),
) -> dict[Value, Value]:
    """`params`, and each value in order over these and other sizes, or as what stands for it, which comes first."""
    new: dict[Value | None, Value | None] = {None: None, **params}
    types: dict[int, Type] = {}  # most values share theirs with others, and so do those of layers that are alike
    vectors: dict[int, Attributes] = {}
    known: dict[int, Graph] = {}  # calls of what layers that are alike compute share it
    operand = new.__getitem__
    for value in order:
        if value in new:
            continue
        if value in swaps:
            new[value] = new[swaps[value]]
            continue
        old, attributes, bodies = value.type, value.attributes, value.bodies
        place = id(old)
        if place not in types:
            types[place] = map_dims(old, size)
        type_ = types[place]
        if value.op == SHAPE_VECTOR:
            attributes = vectors.get(id(attributes)) or vectors.setdefault(id(attributes), settled(attributes, size))
        inputs = tuple(map(operand, value.inputs))
        if bodies:
            known.update({id(body): body_resized(body, size) for body in bodies if id(body) not in known})
            bodies = tuple([known[id(body)] for body in bodies])
        same = type_ is old and attributes is value.attributes and inputs == value.inputs
        if same and (not bodies or all(map(is_, bodies, value.bodies))):
            new[value] = value
        else:
            new[value] = vertex(value.op, inputs, attributes, bodies, type_, value.origin)
    del new[None]
    return cast("dict[Value, Value]", new)


def settled(given: Attributes, size: Settle) -> Attributes:
    """The attributes of a vector of sizes, with other sizes; the same where none changes."""
    found = (("dims", tuple(map(size, given[0][1]))), *given[1:])
    return given if found == given else found


def body_resized(body: Graph, size: Settle) -> Graph:
    """A body over other sizes, those of its parameters too; the same where none changes."""
    params = {p: p.with_type(map_dims(p.type, size)) for p in body.params}
    new = resized(body.order, size, {p: p if p.type == q.type else q for p, q in params.items()})
    if all(after is before for before, after in new.items()):
        return body
    return attrs.evolve(body, params=tuple(new[p] for p in body.params), results=tuple(new[r] for r in body.results))


def settled_values(
    params: Sequence[tuple[Port, Value]],
    values: Sequence[Value],
    checks: Sequence[Check],
    relied: Any,
    layers: Sequence[Alike],
) -> tuple[list[Value], list[Check], Sequence[Fact], bool]:
    """(values, checks, facts about inputs, whether some of the values are made of numbers that data tells): over sizes
    as they read where the conditions hold, and over inputs in the place of what counts places in them from the end;
    over layers that are alike as calls, where no condition is to stand beside the graph."""
    called = None if checks else with_calls(values, [value for _, value in params], layers)
    roots: list[Any] = [*(values if called is None else called), *(c.condition for c in checks)]
    order = walk.post_order(roots)
    counting = any(value.inputs for value in order if value.op == SHAPE_VECTOR)
    if called is not None and counting:
        return settled_values(params, values, checks, relied, ())
    swaps, least = places_of_inputs(params, roots, order)
    new = settled_sizes(order, relied, swaps)
    found: list[Any] = [new.get(v, v) for v in roots]
    conditions = found[len(values) :]
    kept = [attrs.evolve(c, condition=condition) for c, condition in zip(checks, conditions, strict=True)]
    return found[: len(values)], kept, least, counting
