"""Activations that ONNX Runtime lacks, each by others in its own place, as a deep model has one in each of its layers.

A sweep over the whole graph would look for rules at everything above the lowest of them. What stands for such an
operator hangs on its type alone, so it is made once, and put in the place of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any, cast

from irkit.core import walk
from irkit.core.ir import Graph, Value, param, vertex
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT
from irkit.rewriting.driver import Plan
from irkit.rewriting.face import Match
from irkit.rewriting.firings import Firing, Told
from irkit.rewriting.rules import Rule
from passes.legal.runtime.activations import EXPANSIONS


def activations_by_others(
    graph: Graph, rule: Rule, quirks: Plan, wants: Callable[[Value], bool], told: Told | None
) -> Graph | None:
    """The graph with the activations of which a target `wants` others by these, as the rule of legalization has it;
    None where the target wants more, or what is made has its `quirks`, or where what stands for one of them hangs on
    more than its type: rules tidy up beside casts. `told` is told once of all that are alike."""
    if any(value.bodies for value in graph.order):
        return None
    known: dict[object, Sequence[Value] | None] = {}
    stands: dict[Value, Sequence[Value]] = {}
    for value in graph.order:
        if not wants(value):
            continue
        given = value.inputs[0] if value.op in EXPANSIONS and len(value.inputs) == 1 else None
        if given is None or given.op in (CONSTANT, "Cast"):
            return None
        key = (value.op, value.type, value.attributes, given.type)
        if key not in known:
            known[key] = by_others(value, given, wants)
        found = known[key]
        if found is None:
            return None
        stands[value] = found
    if not stands:
        return None
    after = put_in_place(graph, stands, rule.name)
    if any(value.op == "Cast" and value.inputs[0] in stands for value in graph.order) or quirks.applies(after):
        return None
    if told is not None:
        times = Counter(map(id, stands.values()))
        first = {id(made): (value, made) for value, made in reversed(stands.items())}
        for key, (value, made) in first.items():
            told(Firing(rule, (value,), (value,), (made[-1],), 0.0, times[key]))
    return after


def by_others(value: Value, given: Value, wants: Callable[[Value], bool]) -> Sequence[Value] | None:
    """A parameter in the place of an activation's operand, and the operators, in order, that compute of it what that
    does; None where they hold constants, or others are wanted of them."""
    if not isinstance(given.type, Tensor) or given.dtype is DType.DOUBLE:
        return None
    x = param(given.type)
    function: Any = EXPANSIONS[value.op]
    made = function(cast("Match", None), vertex(value.op, (x,), value.attributes, (), value.type, value.origin))
    order = walk.post_order((made,))
    plain = order[0] is x and made.type == value.type and all(each.inputs for each in order[1:])
    return None if not plain or any(map(wants, order[1:])) else order


def put_in_place(graph: Graph, stands: Mapping[Value, Sequence[Value]], rule: str) -> Graph:
    """The graph with values by others, which have their origins, and the rule among what they went through."""
    new: dict[Value | None, Value | None] = {None: None}
    operand = new.__getitem__
    for value in graph.order:
        inputs = tuple(map(operand, value.inputs))
        if value not in stands:
            same = all(map(is_, inputs, value.inputs))
            new[value] = value if same else vertex(value.op, inputs, value.attributes, (), value.type, value.origin)
            continue
        first, *others = stands[value]
        origin = value.origin.after(rule)
        new[first] = inputs[0]
        for each in others:
            new[each] = vertex(each.op, tuple(map(operand, each.inputs)), each.attributes, (), each.type, origin)
        new[value] = new[others[-1]]
    return graph.with_results(cast("Value", new[result]) for result in graph.results)
