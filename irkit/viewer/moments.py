"""The history of a graph as plain data: moments that follow one another, each with what it changed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator

from irkit.core.ir import Graph
from irkit.rewriting.explanations import Explanation, explanation_of, is_about, places
from irkit.rewriting.history import History, Turn
from irkit.rewriting.rules import Rule, Rules
from irkit.viewer.contents import Plain
from irkit.viewer.ledger import Ledger, graph_data
from irkit.viewer.tables import Tables

NEAR = 0.6
"""A match that failed is told of where this share of its pattern was there."""

NEAR_MISSES, SECONDS = 2000, 2.0
"""How many near misses are told of, and how long they are looked for."""


def history_data(history: History, tables: Tables, own: Rules = ()) -> Plain:
    """The history as plain data: `graphs` has the first version, `turns` the passes, `moments` what each firing and
    each pass changed, `rules` the rules, `misses` why rules did not fire in the graph after the last optimization."""
    ledger = Ledger(tables)
    first = graph_data(history.graph, ledger)
    moments: list[Plain] = []
    rules: dict[str, Rule] = {each.name: each for each in own}
    turns: list[Plain] = []
    misses: list[Plain] = []
    asked = last_optimized(history)
    for number, turn in enumerate(history.turns):
        for moment in moments_of(turn, ledger):
            moments.append({"turn": number, **moment})
        rules |= {firing.rule.name: firing.rule for firing in turn.firings}
        turns.append(turn_data(turn))
        if turn is asked:
            misses = [{"moment": len(moments) - 1, **m} for m in misses_data(turn.step.after, ledger, rules, own)]
    names = {name: {"doc": r.doc, "exact": r.exact, "own": r in own} for name, r in rules.items()}
    return {"graphs": [first], "turns": turns, "moments": moments, "rules": names, "misses": misses}


def turn_data(turn: Turn) -> Plain:
    """A pass as plain data."""
    step = turn.step
    return {
        "name": step.name,
        "title": title_of(step.name),
        "ms": round(step.seconds * 1000, 3),
        "before": len(step.before),
        "after": len(step.after),
        "firings": len(turn.firings),
        "changed": step.changed,
    }


def title_of(name: str) -> str:
    """The name of a pass without its options; of one that only runs another where it may, that of the other."""
    inner = re.search(r"inner=(\w+)", name)
    return (inner[1] if inner else name.partition("{")[0]).removesuffix("_here")


def moments_of(turn: Turn, ledger: Ledger) -> Iterator[Plain]:
    """What each firing of a pass changed, and what the pass did beside. Nothing for a pass that changed nothing."""
    if not turn.step.changed:
        return
    before = ledger.sync(turn.step.before)
    if any(before.values()):
        yield {"kind": "between", **before}
    for firing in turn.firings:
        root = ledger.known(firing.roots[0])
        delta = ledger.fire(firing)
        head = {"kind": "firing", "rule": firing.rule.name, "ms": round(firing.seconds * 1000, 4), "root": root}
        yield {**head, **(delta or {"add": [], "change": [], "remove": []}), "seen": delta is not None}
    yield {"kind": "pass", "ms": round(turn.step.seconds * 1000, 3), **ledger.sync(turn.step.after)}


def last_optimized(history: History) -> Turn | None:
    """The last pass of optimization that changed something: what follows fits the graph to a target."""
    found = [turn for turn in history.turns if turn.step.changed and turn.firings]
    optimized = [turn for turn in found if turn.step.name.partition("{")[0] not in FITTING]
    return (optimized or found or [None])[-1]


FITTING = ("fuse", "legalize", "steer", "group_products", "rows", "hold", "materialize_dims", "quantize", "precision")
"""Passes that fit a graph to a target."""


def misses_data(graph: Graph, ledger: Ledger, rules: dict[str, Rule], own: Rules) -> list[Plain]:
    """Why rules that fired somewhere, and the own ones, do not apply elsewhere, in bodies too: the nearest first."""
    found: list[tuple[Explanation, bool]] = []
    end = time.perf_counter() + SECONDS
    everywhere = tuple(places(graph))
    for rule in sorted(rules.values(), key=lambda rule: rule not in own):  # what the time does not suffice for
        for value, here in everywhere:
            if is_about(rule, value) and time.perf_counter() < end:
                each = explanation_of(rule, value, here)
                if not each.applies and (each.matched or each.near >= NEAR or rule in own):
                    found.append((each, rule in own))
    found.sort(key=lambda pair: (not pair[1], -pair[0].matched, -pair[0].near))
    return [data for each, _ in found[:NEAR_MISSES] for data in miss_data(each, ledger)]


def miss_data(miss: Explanation, ledger: Ledger) -> Iterable[Plain]:
    """A near miss as plain data; none where its value has no row."""
    number = ledger.known(miss.value)
    if number is None:
        return []
    there = None if miss.at is None else ledger.known(miss.at)
    path = "".join(f".inputs[{i}]" if isinstance(i, int) else f".{i[0]}[{i[1]}]" for i in miss.path)
    matched = {"matched": miss.matched, "near": round(miss.near, 3)}
    return [{"rule": miss.rule, "id": number, **matched, "reason": miss.reason, "path": path, "at": there}]
