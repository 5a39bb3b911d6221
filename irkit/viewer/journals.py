"""Histories of what else tells of rewriting: a journal of applications of rules, and the versions of `irkit.record`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from irkit.core.ir import Graph, Value, param
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.core.walk import post_order, rebuild
from irkit.errors import GraphError
from irkit.rewriting.history import History, Turn
from irkit.rewriting.journal import Applied
from irkit.rewriting.passes import Step, Trace

MOST = 64
"""How many values below the root of a rule are looked at."""


def trace_history(trace: Trace) -> History:
    """The history of a trace: its versions, of which no firings are known."""
    graphs = [version.graph for version in trace.versions]
    names = [version.made_by for version in trace.versions][1:]
    pairs = zip(names, graphs, graphs[1:], strict=False)
    return History(graphs[0], tuple(Turn(Step(name, a, b, 0.0)) for name, a, b in pairs), graphs[-1])


def journal_history(journal: Sequence[Applied]) -> History:
    """The history of a journal: each application by itself, what it found and what it made. Raises GraphError for a
    journal of nothing."""
    if not journal:
        raise GraphError("the journal is empty: no rule was applied", hint="irkit.explain(rule, graph) tells why")
    turns = [Turn(step_of(each)) for each in journal]
    return History(turns[0].step.before, tuple(turns), turns[-1].step.after)


def step_of(applied: Applied) -> Step:
    """An application as a step between two graphs of what it is about."""
    before, after = nearest(applied.before), nearest(applied.after)
    inside = (before | after) - (before & after - set(applied.before))
    cut: dict[Value, Value] = {}
    for value in post_order((*applied.before, *applied.after), stop=lambda v: v not in inside):
        for operand in value.inputs:
            if operand is not None and operand not in inside and operand not in cut:
                cut[operand] = operand if operand.op == CONSTANT else param(operand.type).with_origin(operand.origin)
    graphs = [graph_over(values, cut) for values in (applied.before, applied.after)]
    return Step(applied.rule.name, graphs[0], graphs[1], applied.seconds)


def nearest(roots: Iterable[Value]) -> set[Value]:
    """The roots and the nearest values below them."""
    found: dict[Value, None] = dict.fromkeys(roots)
    pending = list(found)
    while pending and len(found) < MOST:
        for operand in pending.pop(0).inputs:
            if operand is not None and operand not in found:
                found[operand] = None
                pending.append(operand)
    return set(found)


def graph_over(values: tuple[Value, ...], cut: dict[Value, Value]) -> Graph:
    """The graph of some values over parameters in place of what is cut."""
    built = rebuild(values, cut)
    results = tuple(built[v] for v in values)
    params = tuple(v for v in post_order(results) if v.op == PARAM)
    return Graph(params, results)
