"""Every application of a rule as a value: what it found, what it made, how long it took; and which broke a graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import attrs

from irkit.core.ir import Graph, Value
from irkit.core.walk import post_order
from irkit.errors import RewriteError
from irkit.pattern.heads import names_of
from irkit.rewriting.explanations import line_of, source_comment
from irkit.rewriting.face import Made, rewrite
from irkit.rewriting.rules import Decline, Match, Rule, Rules, decline
from irkit.support.counts import count_text
from irkit.support.results import as_tuple


@attrs.frozen(eq=False)
class Applied:
    """One application of a rule. `before` and `after` are the values that it found and made, `removed` and `added` how
    many operators its pattern spans and its replacement has, `seconds` the time that its function took."""

    rule: Rule
    before: tuple[Value, ...]
    after: tuple[Value, ...]
    removed: int
    added: int
    seconds: float

    def __str__(self) -> str:
        lines = [f"{self.rule.name}: {count_text(self.removed, 'operator')} -> {self.added}"]
        lines += [f"  - {line_of(v)}{source_comment(v)}" for v in self.before]
        return "\n".join([*lines, *(f"  + {line_of(v)}" for v in self.after)])


def with_journal(rules: Rules | Rule, journal: list[Applied], most: int | None = None) -> Rules:
    """The rules, each of which adds to `journal` what it does. With `most`, they decline after so many applications:
    as rewriting is deterministic, the first n applications can be replayed."""
    return tuple(_journaled(each, journal, most) for each in ((rules,) if isinstance(rules, Rule) else rules))


def _journaled(rule: Rule, journal: list[Applied], most: int | None) -> Rule:
    holes = frozenset[str]().union(*map(names_of, (rule.pattern, *rule.others)))

    def function(m: Match) -> Made:
        if most is not None and len(journal) >= most:
            return decline("no more applications are wanted")
        start = time.perf_counter()
        found = rule.function(m)
        seconds = time.perf_counter() - start
        if not isinstance(found, Decline) and found is not m.root and found != m.roots:
            given = frozenset(v for name in holes for v in _values(m.get(name)))
            after = tuple(_values(found))
            journal.append(Applied(rule, m.roots, after, _count(m.roots, given), _count(after, given), seconds))
        return found

    return attrs.evolve(rule, function=function)


def _values(found: Made) -> Iterable[Value]:
    return [v for v in as_tuple(found) if isinstance(v, Value)]


def _count(roots: Iterable[Value], given: frozenset[Value]) -> int:
    """How many operators stand between values and what the holes hold."""
    return sum(bool(v.inputs) for v in post_order(roots, stop=given.__contains__))


# ---------------------------------------------------------------------------------------------- counted by rule


@attrs.frozen
class Usage:
    """What one rule did: how often it was applied, operators that its patterns spanned and its replacements had, and
    the seconds in its function."""

    rule: str
    applied: int
    removed: int
    added: int
    seconds: float


def usage(journal: Iterable[Applied]) -> tuple[Usage, ...]:
    """What each rule of a journal did, the one that was applied most first."""
    by_name: dict[str, list[Applied]] = {}
    for each in journal:
        by_name.setdefault(each.rule.name, []).append(each)
    found = [
        Usage(name, len(a), sum(x.removed for x in a), sum(x.added for x in a), sum(x.seconds for x in a))
        for name, a in by_name.items()
    ]
    return tuple(sorted(found, key=lambda u: (-u.applied, u.rule)))


# ---------------------------------------------------------------------------------------------- bisected


def culprit(graph: Graph, rules: Rules | Rule, good: Callable[[Graph], bool]) -> Applied | None:
    """The first application after which `good` does not hold of the graph any more, found in log2(n) rewritings; None
    where it holds of the graph with all of them.

    Takes for granted that what once went bad stays bad. Raises RewriteError where the graph is bad as it is.
    """
    if not good(graph):
        raise RewriteError(
            "the graph is bad before any rule is applied", hint="irkit.verify(graph) says what is wrong with it"
        )
    journal: list[Applied] = []
    if good(rewrite(graph, with_journal(rules, journal))):
        return None
    low, high = 0, len(journal)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(rewrite(graph, with_journal(rules, [], middle))) else (low, middle)
    found: list[Applied] = []
    rewrite(graph, with_journal(rules, found, high))
    return found[high - 1]
