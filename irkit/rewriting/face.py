"""Rewriting: rule sets applied to graphs, and why a rule did not apply.

A rule set is a tuple of rules, added with `+`. Rules look only downward, at operands and never at users, so a value
that no rule matches is settled, and never tried again. A pattern part marked `.once()` is the one exception: the
driver answers it from the users of the graph that the sweep began with, and sweeps again until nothing changes. So it
does for rules of several roots, which are applied between sweeps.
"""

from __future__ import annotations

from irkit.core.ir import Graph, require_graph
from irkit.rewriting.driver import DEPTH, Plan
from irkit.rewriting.explanations import Explanation, Explanations, explain, misses
from irkit.rewriting.firings import Told
from irkit.rewriting.rules import Decline, Made, Match, Rule, Rules, decline, rule, rule_set
from irkit.support.tracebacks import is_told
from irkit.support.uncollected import without_collector

__tracebackhide__ = is_told

__all__ = ["Decline", "Explanation", "Explanations", "Made", "Match", "Rule", "Rules", "decline", "explain"]
__all__ += ["misses", "rewrite", "rewrite_where", "rule"]


@without_collector
def rewrite(
    graph: Graph, rules: Rules | Rule, *, tidy: Rules = (), depth: int = DEPTH, told: Told | None = None
) -> Graph:
    """`graph` with the rules applied until none matches, and equal values shared; in bodies too, each distinct one
    once. The very same object is returned where nothing changes.

    Values are visited operands first, so a rule sees operands in their final form. New values carry the origin of
    the value that they replace, and the rule's name. Where several rules match, the first of the set is taken. The
    rules of `tidy` are applied to what the others made, and to what stands over that, and to nothing else. `told` is
    told of each firing, an `irkit.rewriting.Firing`, as it happens.

    Raises RewriteError for what is not a rule, where a replacement has another type than what it replaces, and where
    the rules run in a circle (more than `depth` replacements in a row grow out of one value)."""
    require_graph(graph)
    return Plan(rule_set(rules), depth, tidy, told).rewrite(graph)


@without_collector
def rewrite_where(graph: Graph, rules: Rules | Rule, *, told: Told | None = None) -> Graph:
    """As `rewrite`, of a graph that one of the rules applies to; any other is left as it is, equal values too, which is
    found out sooner. The rules have one root each. Raises what `rewrite` raises."""
    require_graph(graph)
    plan = Plan(rule_set(rules), told=told)
    return plan.rewrite(graph) if plan.applies(graph) else graph
