"""The loop: rules are matched on all classes, what they make is joined to what it replaces, until nothing is new."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from functools import cache, partial

import attrs

from irkit.core.ir import Graph, Value
from irkit.core.types import same_types
from irkit.core.vocabulary import PARAM
from irkit.errors import AbsentError, DimensionError, TypeRuleError
from irkit.pattern import Op, match
from irkit.pattern.heads import guards, root_ops
from irkit.pattern.predicates import Bound
from irkit.rewriting.driver import symbols_of
from irkit.rewriting.rules import Match, Rule, Rules
from irkit.rewriting.type_checks import (
    refuse_foreign_parameter,
    refuse_other_type,
    refused_error,
    result_types,
    values_given,
)
from irkit.saturation.egraph import EGraph
from irkit.saturation.instances import Finder

MATCHES = 400
"""How many new instances of one rule are taken in a round; a rule with more waits for a while afterwards."""

Instance = tuple[Hashable, tuple[Value, ...], Bound]
"""What tells an instance of a rule from others, its roots, and what the names hold."""


@attrs.frozen
class Bounds:
    """When saturation ends at the latest: nodes, rounds, seconds."""

    nodes: int = 2000
    rounds: int = 10
    seconds: float = 5.0


@attrs.define(eq=False)
class Saturation:
    """An e-graph of a graph's values, with what was done to it."""

    source: Graph
    graph: EGraph
    rounds: int = 0
    complete: bool = False
    """Whether the rules have nothing to add any more."""
    stopped: str = ""
    """Which of the bounds ended it; empty where it is complete."""
    fired: Counter[str] = attrs.field(factory=Counter[str])


def saturation(source: Graph, rules: Rules, bounds: Bounds | None = None) -> Saturation:
    """All forms of the values of a graph that the rules lead to, as far as the bounds allow.

    A rule that makes a value whose type irkit cannot show to be the same is passed over; what a rule's function asks of
    numbers that are not there, or of sizes that would be vast, likewise. Raises RewriteError, as rewriting does, for a
    rule that returns no value, as many as there are results, of the types of those.
    """
    made = Saturation(source, EGraph())
    for value in source.order:
        made.graph.add(value)
    grow(made, rules, bounds or Bounds())
    return made


def grow(made: Saturation, rules: Rules, bounds: Bounds, is_enough: Callable[[], bool] = lambda: False) -> None:
    """Adds what the rules lead to, as far as the bounds allow, or until it is enough, which is asked between rounds;
    `made.complete` says whether that is all, `made.stopped` which bound ended it."""
    run = _Run(made, rules, bounds, time.monotonic() + bounds.seconds)
    made.complete, rounds = False, 0
    while not made.complete and rounds < bounds.rounds and not run.is_over() and not is_enough():
        made.complete = not run.round()
        made.rounds, rounds = made.rounds + 1, rounds + 1
    made.stopped = "" if made.complete or is_enough() else run.reached() or "rounds"


class _Run:
    """What the rounds share: which instances were tried, and which rules wait."""

    def __init__(self, made: Saturation, rules: Rules, bounds: Bounds, end: float) -> None:
        self.made, self.rules, self.bounds, self.end = made, rules, bounds, end
        self.seen: set[Hashable] = set()
        self.waits: dict[int, int] = {}
        self.often: Counter[int] = Counter()
        self.symbols = cache(partial(symbols_of, made.source))
        self.params = frozenset(made.source.params)

    def is_over(self) -> bool:
        """True where a bound is reached."""
        return bool(self.reached())

    def reached(self) -> str:
        """Which bound is reached, of nodes and seconds; empty for none."""
        if self.made.graph.count > self.bounds.nodes:
            return "nodes"
        return "seconds" if time.monotonic() > self.end else ""

    def round(self) -> bool:
        """One round; True where something was new, or a rule waits."""
        graph, waited = self.made.graph, False
        found: list[tuple[Rule, Instance]] = []
        for index, rule in enumerate(self.rules):
            if self.waits.get(index, 0) > self.made.rounds:
                waited = True
                continue
            fresh: list[Instance] = []
            for each in self.instances(rule):
                key = (index, each[0])
                if key not in self.seen:
                    self.seen.add(key)
                    fresh.append(each)
                if len(fresh) >= MATCHES << self.often[index] or time.monotonic() > self.end:
                    self.often[index] += 1
                    self.waits[index] = self.made.rounds + 1 + (1 << self.often[index])
                    waited = True
                    break
            found += [(rule, each) for each in fresh]
        changed = False
        for rule, (_, roots, bound) in found:
            if self.is_over():
                return True
            changed |= self.apply(rule, roots, bound)
        graph.rebuild()
        return changed or waited

    def instances(self, rule: Rule) -> Iterator[Instance]:
        """The instances of a rule, in all classes."""
        finder = Finder(self.made.graph)
        for key, value in self.roots(finder, rule, 0):
            bound = match(rule.pattern, value)
            if bound is not None:
                yield from self.others(finder, rule, 1, key, (value,), bound)

    def others(
        self, finder: Finder, rule: Rule, at: int, key: Hashable, roots: tuple[Value, ...], bound: Bound
    ) -> Iterator[Instance]:
        """The instances of the further patterns of a rule, over what the first ones hold."""
        if at > len(rule.others):
            yield key, roots, bound
            return
        for more, value in self.roots(finder, rule, at):
            if any(self.made.graph.class_of(value) == self.made.graph.class_of(each) for each in roots):
                continue
            found = match(rule.others[at - 1], value, bound=bound)
            if found is not None:
                yield from self.others(finder, rule, at + 1, (key, more), (*roots, value), found)

    def roots(self, finder: Finder, rule: Rule, at: int) -> Iterator[tuple[Hashable, Value]]:
        """The instances of one pattern of a rule, judged by operators and by what is asked of the root alone."""
        pattern = (rule.pattern, *rule.others)[at]
        ops, asked, graph = root_ops(pattern), guards(pattern), self.made.graph
        for number, node in graph.nodes():
            if ops is not None and node.value.op not in ops:
                continue
            if time.monotonic() > self.end:
                return
            if isinstance(pattern, Op) and pattern.type is not None and not pattern.type.may_be(node.value):
                continue
            several = finder.at(pattern, node) if isinstance(pattern, Op) else finder.of(pattern, number)
            for key, value in several:
                if value is not None and value.op != PARAM and all(guard(value) for guard in asked):
                    graph.add(value)
                    yield key, value

    def apply(self, rule: Rule, roots: tuple[Value, ...], bound: Bound) -> bool:
        """Joins what a rule makes of an instance to it; True where that is new."""
        graph, source = self.made.graph, self.made.source
        try:
            found = rule.function(Match(roots[0], bound, self.symbols, roots if rule.others else ()))
        except TypeRuleError as error:
            raise refused_error(rule, roots[0], error) from error
        except (DimensionError, AbsentError):
            return False
        several = values_given(rule, roots, found)
        if several is None:
            return False
        for old, new in zip(result_types(roots, several), several, strict=True):
            refuse_other_type(rule, roots[0], new, old, source)
        refuse_foreign_parameter(rule, roots[0], several, lambda v: v in graph or v in self.params)
        if len(several) != len(roots):  # of an operator with several results, which are values of their own
            return False
        changed = False
        for old, new in zip(roots, several, strict=True):
            if same_types(old.type, new.type) is True:
                changed |= graph.join_by(rule, old, new)
        if changed:
            self.made.fired[rule.name] += 1
        return changed
