"""Whether rules make two graphs equal, and by which steps: each is one application of one rule, and can be checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from irkit.checking.strategies import assert_equivalent
from irkit.core.ir import Graph, Value, require_graph
from irkit.equations import Equation
from irkit.errors import GraphError
from irkit.rewriting.rules import Rule, Rules
from irkit.saturation.chains import Chains, Rewritten, expression
from irkit.saturation.rounds import Bounds, Saturation, grow, saturation
from irkit.support.counts import count_text
from irkit.support.once import once
from irkit.support.results import as_tuple
from irkit.support.uncollected import without_collector
from passes.saturation.choice import bounds_of, rules_of
from passes.saturation.equations import EQUATIONS

REORDERED = "operands in another order"
"""What a step without a rule is called."""


@attrs.frozen
class Step:
    """One application of one rule, on the way from one graph to another: `rule` turns `part`, which stands in `before`,
    into `made`, which stands in its place in `after`; where `forward` is false, it turns `made` into `part`. `exact`
    says whether each bit is the same. `str` is the step as an equation."""

    rule: str
    forward: bool
    exact: bool
    before: Graph
    after: Graph
    part: Value
    made: Value

    def __str__(self) -> str:
        names = named(self.before)
        by = self.rule if self.forward else f"{self.rule}, backward"
        return f"{expression(self.part, names)} == {expression(self.made, names)}    by {by}"

    def check(self, n: int = 3, seed: int = 0) -> None:
        """Compares both graphs by numbers on `n` random arguments. Raises GraphError where they differ."""
        try:
            assert_equivalent(self.before, self.after, n, seed)
        except GraphError as error:
            raise GraphError(f"the step {self} is wrong: {error.what}", ir=error.ir, hint=error.hint) from error


@attrs.frozen(slots=False)
class Derivation:
    """Whether rules make two graphs equal: true where they do. Where it is false, `stopped` says which bound ended the
    search, and it is empty where the rules lead to nothing more, so that they do not make them equal. `apart` are the
    places of the results that are not equal; `fired` has how often each rule joined two classes."""

    apart: tuple[int, ...]
    rounds: int
    nodes: int
    stopped: str
    fired: Mapping[str, int]
    _made: Saturation = attrs.field(repr=False, eq=False)
    _first: Graph = attrs.field(repr=False, eq=False)
    _others: tuple[Value, ...] = attrs.field(repr=False, eq=False)

    def __bool__(self) -> bool:
        return not self.apart

    def __str__(self) -> str:
        by = ", ".join(f"{count} x {name}" for name, count in self.fired.items()) or "no rule"
        where = f"after {count_text(self.rounds, 'round')}, {count_text(self.nodes, 'operator')}, by {by}"
        if self:
            return f"equal {where}"
        end = f"the bound on {self.stopped} was reached" if self.stopped else "these rules lead to nothing more"
        return f"not shown to be equal in results {', '.join(map(str, self.apart))} {where}: {end}"

    @once
    def steps(self) -> tuple[Step, ...]:
        """The applications of rules that lead from the first graph to the second, result by result, in order: the graph
        after one step is that before the next. They are as few as the search has found, where what a value is used
        several times for counts as often. Of results that are apart there are none. Found once asked for."""
        chains, results = Chains(self._made.graph), list(self._first.results)
        found: list[Step] = []
        for place, other in enumerate(self._others):
            if place in self.apart:
                continue
            for each in chains.chain(results[place], other):
                before = Graph(self._first.params, tuple(results), signature=self._first.signature)
                results[place] = each.after
                after = Graph(self._first.params, tuple(results), signature=self._first.signature)
                found.append(step_of(each, before, after))
            results[place] = other
        return tuple(found)

    @property
    def explanation(self) -> str:
        """The steps as text, a line for each."""
        return "\n".join(f"{number}. {step}" for number, step in enumerate(self.steps, 1)) or "the graphs are the same"

    def check(self, n: int = 3, seed: int = 0) -> None:
        """Compares the graphs before and after each step by numbers on `n` random arguments. Raises GraphError for the
        first step that is wrong, by the name of its rule."""
        for step in self.steps:
            step.check(n, seed)


def step_of(found: Rewritten, before: Graph, after: Graph) -> Step:
    """The step that a link of a chain is."""
    rule = found.rule
    name, exact = (REORDERED, True) if rule is None else (rule.name, rule.exact)
    return Step(name, found.forward, exact, before, after, found.part, found.made)


def named(graph: Graph) -> dict[Value, str]:
    """The parameters by their public names, or by their place where they have none."""
    ports = graph.signature.params
    return {v: (ports[i].name if i < len(ports) else "") or f"%{i}" for i, v in enumerate(graph.params)}


@without_collector
def derivation(
    first: Graph,
    second: Graph,
    rules: Rules | Rule | Equation | Iterable[Rule | Equation] = EQUATIONS,
    *,
    nodes: int = 2000,
    rounds: int = 10,
    seconds: float = 5.0,
) -> Derivation:
    """Whether rules make two graphs of the same parameters equal, in any order and direction that they have: whether a
    rewrite by hand is one that a rule set gives, or an equation one that it lacks.

    Both are put into one e-graph, and the rules are applied until all results are in one class each, nothing is new, or
    a bound is reached. Parameters correspond by position. Nothing is computed: `steps` of what is returned are the
    applications that lead from the one to the other, and its `check` compares the numbers before and after each.

    Raises RewriteError for what is no rule or no bound; GraphError for other numbers of parameters or results, and as
    a call of a graph does where parameters have other types.
    """
    for each in (first, second):
        require_graph(each)
    counts = [(len(each.params), len(each.results)) for each in (first, second)]
    if counts[0] != counts[1]:
        raise GraphError(
            f"the graphs have {counts[0]} and {counts[1]} parameters and results", hint="give two of the same signature"
        )
    others = as_tuple(second(*first.params))
    both, bounds = Graph(first.params, (*first.results, *others)), bounds_of(nodes, rounds, seconds)
    made = saturation(both, (), Bounds(bounds.nodes, 0, bounds.seconds))
    grow(made, rules_of(rules), bounds, lambda: not apart(made, first, others))
    fired = dict(made.fired.most_common())
    apart_ = apart(made, first, others)
    return Derivation(apart_, made.rounds, made.graph.count, made.stopped, fired, made, first, others)


def apart(made: Saturation, first: Graph, others: tuple[Value, ...]) -> tuple[int, ...]:
    """The places of results that are in different classes."""
    number = made.graph.class_of
    return tuple(i for i, (a, b) in enumerate(zip(first.results, others, strict=True)) if number(a) != number(b))
