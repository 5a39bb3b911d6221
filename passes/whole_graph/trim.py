"""Results of If, Loop and Scan that nobody uses, values that are carried for nothing, and values that never change.

Who uses a result is a question about the graph around, and so this is a pass and no rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import attrs

from irkit.build import retyping
from irkit.core import walk
from irkit.core.ir import Graph, Signature, Value, item, param
from irkit.core.types import Tuple, same_types
from irkit.core.vocabulary import ITEM
from irkit.rewriting.passes import Pass, graph_pass, in_bodies
from passes.rules.control_flow import parts_of, rebuild_results

TRIMMED = frozenset(("If", "Loop", "Scan"))
"""Operators that this is about."""


def trim_here(graph: Graph) -> Graph:
    """Unused results and carried values dropped, constant carried values captured, outside of bodies; again for as long
    as what was dropped used the results of others."""
    while (after := trimmed_once(graph)) is not graph:
        graph = after
    return graph


def trimmed_once(graph: Graph) -> Graph:
    """`trim_here`, as far as the users of results in this graph tell."""
    wanted: dict[Value, set[int]] = {v: set() for v in graph.order if v.op in TRIMMED and type(v.type) is Tuple}
    if not wanted:
        return graph
    for value in graph.order:
        if value.op == ITEM and value.inputs[0] in wanted:
            wanted[value.inputs[0]].add(value.attributes[0][1])
    new: dict[Value, Value] = {}
    results: dict[Value, dict[int, Value]] = {}
    for value in graph.order:
        source = value.inputs[0] if value.op == ITEM else None
        if source is not None and source in results:
            part = results[source][value.attributes[0][1]]  # whose sizes have the names that others know them by
            new[value] = part if same_types(part.type, value.type) is True else part.with_type(value.type)
            continue
        made = value
        if new and not new.keys().isdisjoint(value.inputs):
            made = new[value] = retyping.over(value, tuple([v if v is None else new.get(v, v) for v in value.inputs]))
        used = wanted.get(value)
        if used is not None:
            found = trimmed(made, used)
            if found is not None:
                results[value] = found
    if not results and not new:
        return graph
    return graph.with_results(new.get(r, r) for r in graph.results)


trim: Pass = in_bodies(graph_pass(trim_here))
"""Results, carried values and branches' results that nobody needs dropped, in bodies too."""


def trimmed(value: Value, used: set[int]) -> dict[int, Value] | None:
    """What stands for each result that is used of If, Loop or Scan; None where nothing is to be dropped."""
    return trimmed_if(value, used) if value.op == "If" else trimmed_loop(value, used)


def trimmed_if(value: Value, used: set[int]) -> dict[int, Value] | None:
    """Each branch without the results that nobody uses."""
    kept = sorted(used)
    if len(kept) == len(value.bodies[0].results):
        return None
    bodies = tuple(
        attrs.evolve(b, results=tuple(b.results[i] for i in kept), signature=Signature()) for b in value.bodies
    )
    types = cast(Tuple, value.type).items
    made = Value("If", value.inputs, value.attributes, bodies, Tuple(tuple(types[i] for i in kept)), value.origin)
    return {old: item(made, at) for at, old in enumerate(kept)}


@attrs.frozen(eq=False)
class Carry:
    """One carried value of a loop: where it starts, the body's parameter, and what a trip makes of it."""

    start: Value
    inside: Value
    back: Value


def trimmed_loop(value: Value, used: set[int]) -> dict[int, Value] | None:
    """A Loop or Scan without scan results and carried values that nobody needs; what never changes is captured."""
    (body,), parts = value.bodies, parts_of(value)
    lead = 2 if value.op == "Loop" else 0
    count = len(parts.own) - (lead if lead else value.attribute("num_scan_inputs"))
    back = body.results[1:] if lead else body.results
    starts = parts.own[lead : lead + count]
    carries = [Carry(s, body.params[lead + i], back[i]) for i, s in enumerate(starts) if s is not None]
    fixed = {i for i, c in enumerate(carries) if c.back is c.inside}
    rows = [i for i in range(count, len(back)) if i in used]
    needed = reached(carries, fixed, [*body.results[: 1 if lead else 0], *(back[i] for i in rows)], used)
    if not fixed and len(needed) == count and len(rows) == len(back) - count:
        return None
    if any(c.start.type.__class__ is not c.inside.type.__class__ for c in carries):
        return None  # an empty sequence, of another type than what is carried
    kept = [i for i in range(count) if i in needed]
    swaps = {carries[i].inside: param(carries[i].start.type) for i in sorted(fixed)}
    params = (
        *body.params[:lead], *(carries[i].inside for i in kept), *body.params[lead + count :],
        *(swaps[carries[i].inside] for i in sorted(fixed)),
    )  # fmt: skip
    results = rebuild_results((*body.results[: 1 if lead else 0], *(back[i] for i in (*kept, *rows))), swaps)
    made = smaller(
        value,
        [*kept, *rows],
        count,
        kept,
        [carries[i].start for i in sorted(fixed)],
        attrs.evolve(body, params=params, results=results, signature=Signature()),
    )
    found = {old: item(made, at) for at, old in enumerate([*kept, *rows])}
    return {**found, **{i: carries[i].start for i in fixed}}


def reached(carries: list[Carry], fixed: set[int], roots: list[Value], used: set[int]) -> set[int]:
    """The carried values that change, and that a result that is used, or the condition, depends on."""
    at = {c.inside: i for i, c in enumerate(carries)}
    needed = {i for i in range(len(carries)) if i in used and i not in fixed}
    roots = [*roots, *(carries[i].back for i in needed)]
    while True:
        seen = walk.post_order(roots)
        more = {at[v] for v in seen if v in at} - needed - fixed
        if not more:
            return needed
        needed |= more
        roots += [carries[i].back for i in more]


def smaller(
    value: Value, results: list[int], count: int, kept: list[int], captured: Iterable[Value], body: Graph
) -> Value:
    """The loop with those of its results, the carried values `kept` of its `count`, and further captures."""
    parts = parts_of(value)
    lead = 2 if value.op == "Loop" else 0
    own = (*parts.own[:lead], *(parts.own[lead + i] for i in kept), *parts.own[lead + count :])
    captures = (*parts.captures, *captured)
    given: dict[str, Any] = {**dict(value.attributes), "captures": len(captures)}
    for name in ("scan_output_axes", "scan_output_directions"):
        if name in given:
            given[name] = tuple(given[name][i - count] for i in results if i >= count)
            if not any(given[name]):
                del given[name]
    types = cast(Tuple, value.type).items
    type_ = Tuple(tuple(types[i] for i in results))
    return Value(value.op, (*own, *captures), tuple(sorted(given.items())), (body,), type_, value.origin)
