"""Equality saturation as a pass: all forms that equations lead to at once, and the cheapest by measured costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import attrs
import numpy as np

from irkit.checking.strategies import assert_equivalent
from irkit.core.ir import Graph, Value, require_graph
from irkit.core.types import same_types
from irkit.equations import Equation
from irkit.errors import RewriteError
from irkit.rewriting.rules import Rule, Rules, rule_set
from irkit.saturation.extraction import Extraction, graph_of
from irkit.saturation.rounds import Bounds, saturation
from irkit.support.arguments import require_count
from irkit.support.counts import count_text
from irkit.support.uncollected import without_collector
from passes.saturation.equations import EQUATIONS
from passes.targets.operator_costs import microseconds

Cost = Callable[[Value], float]
"""What one operator costs, by its types and attributes, that of its operands left out."""


def rules_of(given: Rules | Rule | Equation | Iterable[Rule | Equation]) -> Rules:
    """Rules and equations as rules, an equation in all its directions. Raises RewriteError for anything else."""
    if isinstance(given, str):
        raise RewriteError(
            f"{given!r} is not a rule", hint="give rules and equations: passes.saturation.EQUATIONS, or your own"
        )
    several = (given,) if isinstance(given, Rule | Equation) else tuple(given)
    found = tuple(rule for each in several for rule in (each.rules if isinstance(each, Equation) else (each,)))
    return rule_set(found)


@attrs.frozen
class Search:
    """What equality saturation came to: `graph` is the cheapest that was found, and costs `after` where the given one
    costs `before`. `classes` of equal values with `nodes` operators were there at the end, after so many `rounds`.
    `stopped` says which bound ended it, "nodes", "rounds" or "seconds"; empty where the rules had nothing to add.
    `fired` has how often each rule joined two classes, the most frequent first."""

    graph: Graph
    before: float
    after: float
    classes: int
    nodes: int
    rounds: int
    stopped: str
    fired: Mapping[str, int]
    seconds: float

    def __str__(self) -> str:
        end = f"stopped by the bound on {self.stopped}" if self.stopped else "nothing is left to add"
        rows = [f"  {count} x {name}" for name, count in self.fired.items()]
        return "\n".join(
            (
                f"cost {self.before:.6g} to {self.after:.6g}, in {self.seconds:.2f} s",
                f"{count_text(self.nodes, 'operator')} in {count_text(self.classes, 'class', 'classes')} "
                f"after {count_text(self.rounds, 'round')}; {end}",
                *rows,
            )
        )


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
    `passes.optimize` computes it afterwards. `passes.saturation.search` tells how it went.

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

    Raises RewriteError for what is no rule, no bound or no cost, and where a rule makes a value of another type;
    GraphError where `check` finds other numbers.
    """
    return search(graph, rules, cost, nodes=nodes, rounds=rounds, seconds=seconds, check=check).graph


@without_collector
def search(
    graph: Graph,
    rules: Rules | Rule | Equation | Iterable[Rule | Equation] = EQUATIONS,
    cost: Cost = microseconds,
    *,
    nodes: int = 2000,
    rounds: int = 10,
    seconds: float = 5.0,
    check: bool = False,
) -> Search:
    """What `passes.saturate` comes to with these arguments, and how: what it cost and costs, which rules fired, and
    which bound ended it. Raises as `passes.saturate` does."""
    start_time = time.monotonic()
    require_graph(graph)
    made = saturation(graph, rules_of(rules), bounds_of(nodes, rounds, seconds))
    found = Extraction(made.graph, checked_cost(cost), tuple(made.graph.class_of(v) for v in graph.results))
    start = made.graph.choice_of(graph.order)
    choice = found.best(start)
    before, after = found.total(start), found.total(choice)
    best = graph
    if after < before - 1e-9:
        best = graph_of(found, choice, graph)
        refuse_other_results(graph, best)
        if check:
            assert_equivalent(graph, best)
    return Search(
        best,
        before,
        min(before, after),
        len(made.graph.classes),
        made.graph.count,
        made.rounds,
        made.stopped,
        dict(made.fired.most_common()),
        time.monotonic() - start_time,
    )


def refuse_other_results(before: Graph, after: Graph) -> None:
    """Raises RewriteError where a result has another type than it had."""
    for old, new in zip(before.results, after.results, strict=True):
        if same_types(old.type, new.type) is not True:
            raise RewriteError(
                f"a result of type {old.type!r} became a {new.type!r}",
                hint="irkit.check_rule finds the rule that makes a value of another type",
            )


def bounds_of(nodes: object, rounds: object, seconds: object) -> Bounds:
    """The bounds of a search. Raises RewriteError for what are none."""
    counts = require_count(nodes, "nodes", RewriteError), require_count(rounds, "rounds", RewriteError)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
        raise RewriteError(f"seconds is {seconds!r}, and must be a number from 0 on", hint="give it as in seconds=5.0")
    return Bounds(*counts, float(seconds))


def checked_cost(cost: Cost) -> Cost:
    """The cost, which raises RewriteError where it is no number from 0 on. Raises RewriteError for no function."""
    if not callable(cost):
        raise RewriteError(
            f"the cost {cost!r} is no function of an operator", hint="write cost=lambda value: 1.0, to count operators"
        )

    def checked(value: Value) -> float:
        found = cast("object", cost(value))
        if not isinstance(found, int | float | np.number) or not 0 <= found < float("inf"):
            raise RewriteError(
                f"the cost of {value!r} is {found!r}", hint="give a number from 0 on for each operator, finite"
            )
        return float(cast("float", found))

    return checked
