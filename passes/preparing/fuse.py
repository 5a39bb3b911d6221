"""Fusions into ONNX Runtime's own operators, where a target has them and they were measured to be worth it.

A rule of `passes.rules.onnxruntime` says what equals what. Whether its result is wanted is asked of the very values
that it made: the target must allow their domain and have kernels for their element types, nothing may make a kernel
refuse when the model runs, and the table of measured costs must say that it pays. So nothing is fused first and taken
apart later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import cast

import attrs

from irkit.build.runtime.limits import limit
from irkit.core.ir import Graph, Value
from irkit.ops.runtime_table import CONTRIB as DOMAIN
from irkit.ops.runtime_table import is_contrib
from irkit.rewriting.face import Made, Match, Rule, Rules, decline, rewrite
from irkit.rewriting.firings import heard
from irkit.rewriting.passes import Observer, Pass, nobody
from irkit.rewriting.type_checks import values_given
from irkit.support.results import as_tuple
from irkit.support.uncollected import without_collector
from passes.pipelines.standard import selected_fusions
from passes.rules.onnxruntime import CONTRIB, HELD, PARTS, WHOLE
from passes.targets import Target
from passes.targets.costs import dtype_of, fusion_of, pays

NEAR = 64
"""How many values of a replacement are looked at."""


@without_collector
def fuse(graph: Graph, target: Target, *, rules: str = "", observe: Observer = nobody) -> Graph:
    """The graph with fused operators where the target has them and they pay; the very same object where it has none.

    `rules` is a text that chooses among the rules by name (`passes.pipelines.rule_sets`): "default-skip_layer_norm" is
    all but one, "-contrib" none. Raises RewriteError for a name of nothing.
    """
    whole, parts = (fusions(target, named(rules, each)) for each in (WHOLE, PARTS))
    if not whole and not parts:
        return graph

    def body(before: Graph, seen: Observer, _depth: int) -> Graph:
        told = heard(seen)
        return rewrite(rewrite(before, whole, told=told), parts, told=told)

    return Pass("fuse", (("target", str(target)),), body).run(graph, observe)


@without_collector
def hold(graph: Graph, target: Target, *, rules: str = "", observe: Observer = nobody) -> Graph:
    """The graph with weights in products as they lie in memory, where the target has products of such: they need not be
    turned when they are written. The very same object where nothing changes.

    `rules` is as `fuse` takes it. This is for the end, when nothing looks for products any more.
    """
    held = fusions(target, named(rules, HELD))
    if not held:
        return graph
    step = Pass(
        "hold", (("target", str(target)),), lambda before, seen, _depth: rewrite(before, held, told=heard(seen))
    )
    return step.run(graph, observe)


@lru_cache(maxsize=64)
def named(text: str, rules: Rules) -> Rules:
    """Those of some rules that a text names."""
    chosen = frozenset(selected_fusions(text))
    return tuple(r for r in rules if r in chosen)


@lru_cache(maxsize=16)
def fusions(target: Target, rules: Rules = CONTRIB) -> Rules:
    """The rules for a target, each of which declines, with a reason, where its result is not wanted there.

    `irkit.explain(rule, value)` tells the reason.
    """
    if DOMAIN not in target.domains:
        return ()
    return tuple(wanted_only(each, target) for each in rules)


def wanted_only(rule: Rule, target: Target) -> Rule:
    """The rule, declining where a fused operator of its replacement does not run or does not pay."""

    def function(m: Match) -> Made:
        found = rule.function(m)
        made = values_given(rule, m.roots, found)
        for value in () if made is None else fused(m, made):
            why = unwanted(value, target)
            if why:
                return decline(why)
        return found

    return attrs.evolve(rule, function=function)


def unwanted(value: Value, target: Target) -> str:
    """Why a fused operator is not wanted on a target; empty where it is."""
    why = target.problem(value)
    if why or not target.provider:
        return why
    why = limit(value)
    if why:
        return why
    good, ratio = pays(fusion_of(value), dtype_of(value), target.provider)
    return "" if good else ratio


def fused(m: Match, found: Value | tuple[Value, ...]) -> Iterator[Value]:
    """The operators of ONNX Runtime's own that a replacement holds, down to what the match found in the graph."""
    pending: list[Value | None] = list(as_tuple(found))
    seen = set(bound(m))
    for _ in range(NEAR):
        if not pending:
            return
        value = pending.pop()
        if value is None or value in seen:
            continue
        seen.add(value)
        if is_contrib(value.op):
            yield value
        pending += value.inputs


def bound(m: Match) -> Iterable[Value]:
    """The values that the match gave names to."""
    for part in m.bound_values():
        if isinstance(part, Value):
            yield part
        elif isinstance(part, tuple):
            yield from (v for v in cast("tuple[object, ...]", part) if isinstance(v, Value))
