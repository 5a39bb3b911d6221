"""Rewriting: rule sets applied to graphs, and why a rule did not apply.

A rule set is a tuple of rules, added with `+`. Rules look only downward, at operands and never at users, so a value
that no rule matches is settled, and never tried again. A pattern part marked `.once()` is the one exception: the
driver answers it from the users of the graph that the sweep began with, and sweeps again until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from irkit.errors import RewriteError
from irkit.ir import Graph, Value
from irkit.pattern import Miss, match, root_ops
from irkit.pause import uncollected
from irkit.rule import Decline, Match, Rule, Rules, decline, rule
from irkit.sweep import DEPTH, Plan

__all__ = ["Decline", "Explanation", "Match", "RewriteError", "Rule", "Rules", "decline", "explain", "misses"]
__all__ += ["rewrite", "rule"]


@uncollected
def rewrite(graph: Graph, rules: Rules | Rule, *, depth: int = DEPTH) -> Graph:
    """`graph` with the rules applied until none matches, and equal values shared; in bodies too, each distinct one
    once. The very same object is returned where nothing changes.

    Values are visited operands first, so a rule sees operands in their final form. New values carry the origin of
    the value that they replace, and the rule's name. Where several rules match, the first of the set is taken.

    Raises RewriteError where a replacement has another type than what it replaces, or where the rules run in a
    circle (more than `depth` replacements in a row grow out of one value).
    """
    return Plan((rules,) if isinstance(rules, Rule) else tuple(rules), depth).rewrite(graph)


@attrs.frozen
class Explanation:
    """Why a rule does or does not apply at a value.

    `matched` is True where the pattern matched; then `reason` is that of the rule's own decline, or empty where the
    rule applies. Otherwise `path` says where the deepest partial match failed (operand numbers from the root),
    `at` is the value there, and `reason` is the condition that did not hold.
    """

    rule: str
    value: Value
    applies: bool
    matched: bool
    reason: str
    path: tuple[int, ...] = ()
    at: Value | None = None

    def __str__(self) -> str:
        if self.applies:
            return f"{self.rule} applies at {self.value!r}"
        if self.matched:
            return f"{self.rule} matches at {self.value!r} and declines: {self.reason}"
        where = "".join(f".inputs[{i}]" for i in self.path)
        return f"{self.rule} does not match at {self.value!r}{where}: {self.reason}"


def explain(rule: Rule, value: Value, graph: Graph | None = None) -> Explanation:
    """Why `rule` does or does not apply at `value`. With `graph`, `.once()` is asked of its users."""
    found: list[Miss] = []
    users = None if graph is None else lambda v: len(graph.users.get(v, ())) + sum(r is v for r in graph.results)
    bound = match(rule.pattern, value, users, found)
    if bound is None:
        deepest = max(found, key=lambda miss: (len(miss.path), miss.matched))
        return Explanation(rule.name, value, False, False, deepest.reason, deepest.path, deepest.value)
    result: Any = rule.function(Match(value, bound))
    if isinstance(result, Decline):
        return Explanation(rule.name, value, False, True, result.reason, (), value)
    return Explanation(rule.name, value, result is not value, True, "", (), value)


def misses(graph: Graph, rule: Rule) -> Iterator[Explanation]:
    """An explanation for every value of the graph whose operator the rule is about and where it does not apply."""
    ops = root_ops(rule.pattern)
    for value in graph.order:
        if ops is None or value.op in ops:
            found = explain(rule, value, graph)
            if not found.applies:
                yield found
