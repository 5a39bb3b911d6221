"""Why rules do or do not apply: how far each match came, where it stopped, and on which line of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from irkit.core.ir import Graph, Value
from irkit.core.types import same_types
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.core.walk import post_order
from irkit.errors import AbsentError, DimensionError, GraphError, TypeRuleError
from irkit.pattern import Miss, match
from irkit.pattern.heads import describe, root_ops, size
from irkit.pattern.matching import Path
from irkit.pattern.predicates import shown_value
from irkit.rewriting.driver import symbols_of
from irkit.rewriting.joint_rules import instances
from irkit.rewriting.rules import Decline, Match, Rule, Rules, rule_set
from irkit.rewriting.type_checks import refuse_other_type, refused_error, result_types, values_given

ROOTS = 5
"""Of how many rules it is said what they look for."""

LINES = 10
"""How many explanations the text of a list shows."""


@attrs.frozen
class Explanation:
    """Why a rule does or does not apply at a value.

    `matched` is True where the pattern matched; then `reason` is that of the rule's own decline, or empty where the
    rule applies. Otherwise `path` says where the deepest partial match failed (operand numbers from the root, names and
    result numbers of bodies), `at` is the value there, and `reason` is the condition that did not hold. `near` is the
    share of the pattern's parts that matched.
    """

    rule: str
    value: Value
    applies: bool
    matched: bool
    reason: str
    path: Path = ()
    at: Value | None = None
    near: float = 1.0

    def __str__(self) -> str:
        place = f"\n    {line_of(self.value)}{source_comment(self.value)}"
        if self.applies:
            return f"{self.rule} applies at {self.value!r}{place}"
        if self.matched:
            return f"{self.rule} matches at {self.value!r} and declines: {self.reason}{place}"
        where = "".join(f".inputs[{i}]" if isinstance(i, int) else f".{i[0]}[{i[1]}]" for i in self.path)
        there = (
            ""
            if self.at is None or self.at is self.value
            else f"\n    there: {line_of(self.at)}{source_comment(self.at)}"
        )
        return (
            f"{self.rule} does not match at {self.value!r}{where}, after {self.near:.0%} of its pattern: {self.reason}"
            f"{place}{there}"
        )


@attrs.frozen
class Explanations:
    """Why a rule does or does not apply, for each value that it may be about: where it applies first, then where it
    declines, then the near matches, the nearest first."""

    found: tuple[Explanation, ...]
    begin: str = ""
    """Which rules were asked, and the operators that the pattern of each ends in."""

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, index: int) -> Explanation:
        return self.found[index]

    def __str__(self) -> str:
        if not self.found:
            return f"nothing here could be the root of these patterns: {self.begin}"
        applied = sum(e.applies for e in self.found)
        declined = sum(e.matched and not e.applies for e in self.found)
        head = f"applies at {applied}, declines at {declined}, does not match at {len(self) - applied - declined}"
        lines = [head, *(str(e) for e in self.found[:LINES])]
        more = len(self.found) - LINES
        return "\n".join([*lines, *([f"and {more} more, less near"] if more > 0 else [])])


def explain(rule: Rule | Rules, value: Value | Graph, graph: Graph | None = None) -> Any:
    """Why a rule does or does not apply.

    Args:
        rule: a rule, or a rule set.
        value: a value; or a graph, for all of its values, those in bodies among them, that the rule may be about.
        graph: the graph that the value stands in, of whose users `.once()` and rules of several roots ask.

    Returns an Explanation for one rule and one value; else Explanations, the nearest first. Raises RewriteError for
    what is not a rule, GraphError for what is not a value.
    """
    if isinstance(rule, Rule) and isinstance(value, Value):
        return explanation_of(rule, value, graph)
    rules = rule_set(rule)
    if not isinstance(value, Value | Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GraphError(f"{value!r} is neither a value nor a graph", hint="ask about graph.results[0], or the graph")
    asked = places(value) if isinstance(value, Graph) else ((value, graph),)
    found = [explanation_of(each, v, g) for v, g in asked for each in rules if is_about(each, v)]
    return Explanations(tuple(sorted(found, key=lambda e: (-e.applies, -e.matched, -e.near))), roots_of(rules))


def roots_of(rules: Rules) -> str:
    """The operators that the patterns of rules end in, rule by rule, of the first few."""
    said = [
        f"{rule.name} looks for {' or '.join(sorted(root_ops(rule.pattern) or ('any operator',)))}" for rule in rules
    ]
    return ", ".join([*said[:ROOTS], *([f"and {len(said) - ROOTS} more"] if len(said) > ROOTS else [])])


def places(graph: Graph) -> Iterator[tuple[Value, Graph]]:
    """Each value of the graph and of its bodies, with the graph that it stands in."""
    for value in graph.order:
        yield value, graph
        for body in value.bodies:
            yield from places(body)


def is_about(rule: Rule, value: Value) -> bool:
    """Whether a rule may match values of that operator."""
    ops = root_ops(rule.pattern)
    return ops is None or value.op in ops


def explanation_of(rule: Rule, value: Value, graph: Graph | None) -> Explanation:
    """Why one rule does or does not apply at one value."""
    found: list[Miss] = []

    def users(v: Value) -> int:
        return 1 if graph is None else len(graph.users.get(v, ())) + sum(r is v for r in graph.results)

    bound = match(rule.pattern, value, None if graph is None else users, found)
    if bound is None:
        deepest = max(found, key=lambda miss: (miss.matched, len(miss.path)))
        near = deepest.matched / size(rule.pattern)
        return Explanation(rule.name, value, False, False, deepest.reason, deepest.path, deepest.value, near)
    roots: tuple[Value, ...] = (value,)
    if rule.others:
        beside = next(instances(rule, value, {} if graph is None else graph.users, users), None)
        if beside is None:
            wanted = " and ".join(map(describe, rule.others))
            return Explanation(rule.name, value, False, False, f"no {wanted} stands beside it", (), value, 0.9)
        roots, bound = beside
    m = Match(value, bound, lambda: frozenset() if graph is None else symbols_of(graph), roots)
    try:
        result = rule.function(m)
    except TypeRuleError as error:
        raise refused_error(rule, value, error) from error
    except (AbsentError, DimensionError) as error:  # rewriting passes over these
        return Explanation(rule.name, value, False, True, error.what, (), value)
    if isinstance(result, Decline):
        return Explanation(rule.name, value, False, True, result.reason, (), value)
    made = values_given(rule, roots, result)
    for old, new in zip(result_types(roots, made), made or (), strict=False):
        if same_types(new.type, old) is not True:
            refuse_other_type(rule, value, new, old, graph or closed_graph(roots))
    return Explanation(rule.name, value, made is not None, True, "" if made else "it gives its own root", (), value)


def closed_graph(results: tuple[Value, ...]) -> Graph:
    """The graph of some values over the parameters that they reach."""
    return Graph(tuple(v for v in post_order(results) if v.op == PARAM), results)


def misses(graph: Graph, rule: Rule) -> Iterator[Explanation]:
    """An explanation for every value of the graph whose operator the rule is about and where it does not apply."""
    for value in graph.order:
        if is_about(rule, value):
            found = explanation_of(rule, value, graph)
            if not found.applies:
                yield found


# ---------------------------------------------------------------------------------------------- one line of text


def line_of(value: Value) -> str:
    """A value as one line: its type, its operator, what its operands are, its attributes."""
    operands = ", ".join("_" if v is None else shown_value(v) for v in value.inputs)
    given = ", ".join(f"{n} = {a!r}" for n, a in value.attributes if value.op != CONSTANT)
    return f"{value.type!r} = {value.op}({operands})" + (f" {{{given}}}" if given else "")


def source_comment(value: Value) -> str:
    """Where a value came from, as a comment; empty where nobody has said."""
    found = str(value.origin)
    return f"  # {found}" if found else ""
