"""Equality saturation as a pass: all forms that equations lead to at once, and the cheapest by measured costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from irkit.checking.strategies import assert_equivalent
from irkit.core.ir import Graph, Value, require_graph
from irkit.core.types import same_types
from irkit.equations import Equation
from irkit.errors import RewriteError
from irkit.rewriting.rules import Rule, Rules, rule_set
from irkit.saturation.extraction import Extraction, graph_of
from irkit.saturation.rounds import Bounds, saturation
from irkit.support.uncollected import without_collector
from passes.saturation.equations import EQUATIONS
from passes.targets.operator_costs import microseconds

Cost = Callable[[Value], float]
"""What one operator costs, by its types and attributes, that of its operands left out."""


def rules_of(given: Rules | Rule | Equation | Iterable[Rule | Equation]) -> Rules:
    """Rules and equations as rules, an equation in all its directions. Raises RewriteError for anything else."""
    several = (given,) if isinstance(given, Rule | Equation) else tuple(given)
    found = tuple(rule for each in several for rule in (each.rules if isinstance(each, Equation) else (each,)))
    return rule_set(found)


@without_collector
def saturate(
    graph: Graph,
    rules: Rules | Rule | Equation | Iterable[Rule | Equation] = EQUATIONS,
    cost: Cost = microseconds,
    *,
    nodes: int = 2000,
    rounds: int = 10,
    seconds: float = 5.0,
    check: bool = False,
) -> Graph:
    """The cheapest graph among all that the rules lead to, in any order; the very same object where none is cheaper.

    Rules do not replace anything here: what they make is kept beside what they found, as one class of equal values,
    and the rules are applied to every combination, until nothing is new or a bound is reached. Then the graph with the
    least cost is taken out, with what is shared counted once. What hangs on constants alone costs nothing:
    `passes.optimize` computes it afterwards.

    Args:
        graph: bodies are left as they are; `irkit.in_bodies(passes.saturate)` works on them, too.
        rules: rules and equations, these in both directions.
        cost: of one operator, by its types and attributes. Without it the microseconds that were measured on ONNX
            Runtime's CPU provider, where an unknown size counts 32; `partial(microseconds, sizes={"n": 8})`, of
            `passes.targets`, says otherwise.
        nodes: no more are added than about so many.
        rounds: how often all rules are applied.
        seconds: how long that may take; choosing takes about as long again at most.
        check: whether both graphs are compared by numbers on random arguments.

    Raises RewriteError for what is no rule, and where a rule makes a value of another type; GraphError where `check`
    finds other numbers.
    """
    require_graph(graph)
    made = saturation(graph, rules_of(rules), Bounds(nodes, rounds, seconds))
    found = Extraction(made.graph, cost, tuple(made.graph.class_of(v) for v in graph.results))
    start = made.graph.choice_of(graph.order)
    choice = found.best(start)
    if found.total(choice) >= found.total(start) - 1e-9:
        return graph
    after = graph_of(found, choice, graph)
    for old, new in zip(graph.results, after.results, strict=True):
        if same_types(old.type, new.type) is not True:
            raise RewriteError(
                f"a result of type {old.type!r} became a {new.type!r}",
                hint="irkit.check_rule finds the rule that makes a value of another type",
            )
    if check:
        assert_equivalent(graph, after)
    return after
