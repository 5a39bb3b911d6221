"""The matcher: what the holes of a pattern hold where a value is an instance of it, and where it stopped if not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import attrs

from irkit.instantiate import inlined
from irkit.ir import Graph, Value
from irkit.onnx.schemas import BODIES, COMMUTATIVE
from irkit.pattern.heads import describe, fits, is_of_constants, size
from irkit.pattern.language import Attr, Constant, Either, Hole, OfConstants, Op, Own, Pattern, Rest, Through, row_of
from irkit.pattern.predicates import Predicate
from irkit.vocabulary import CALL, CONSTANT, ITEM


@attrs.frozen
class Miss:
    """Where a match failed: how many parts had matched, the path of operand numbers, the value there, and why."""

    matched: int
    path: tuple[Any, ...]
    value: Value | None
    reason: str


Goals = tuple[Any, Any, tuple[Any, ...], Any] | None
"""A linked list of what is still to be matched: pattern, value, path, further goals."""

ORDERS = 120
"""In how many orders the operands of one operator are tried."""


class Search:
    """One search: how many users values have, where failures are noted, and what the parameters of bodies stand for."""

    __slots__ = ("bodies", "misses", "seen", "total", "users")

    def __init__(self, users: Callable[[Value], int] | None, misses: list[Miss] | None, total: int) -> None:
        self.users, self.misses, self.total = users, misses, total
        self.seen: dict[Value, Any] | None = None
        self.bodies: dict[int, tuple[Graph, tuple[Value | None, ...]]] | None = None

    def missed(self, pattern: Pattern, goals: Goals, path: tuple[Any, ...], value: Value | None, why: str) -> None:
        """Notes a failure of `pattern`; `goals` are those that were still to come."""
        if self.misses is None:
            return
        left = size(pattern)
        while goals is not None:
            left += size(goals[0])
            goals = goals[3]
        self.misses.append(Miss(max(0, self.total - left), path, value, why))

    def used(self, value: Value) -> int:
        """How many values use a value: of the graph, or, for a value inside a body, of that body."""
        for body, _ in self.bodies.values() if self.bodies else ():
            if value in body.users:
                return len(body.users[value]) + sum(r is value for r in body.results)
        return self.users(value) if self.users is not None else 1

    def enter(self, node: Value, number: int) -> str:
        """Makes the parameters of a body known: captures as what they are outside, others by their number."""
        body = node.bodies[number]
        if self.seen is None or self.bodies is None:
            self.seen, self.bodies = {}, {}
        known = self.bodies.setdefault(id(body), (body, node.inputs))
        if known[1] != node.inputs:
            return "one body stands in two places, over other operands"
        captures = node.attribute("captures", 0)
        outside = node.inputs[len(node.inputs) - captures :]
        first = len(body.params) - captures
        for index, own in enumerate(body.params):
            self.seen[own] = index if index < first else self.outside(outside[index - first])
        return ""

    def outside(self, value: Any) -> Any:
        """What a parameter of a body stands for: a value outside; every other value stands for itself."""
        found = None if self.seen is None else self.seen.get(value)
        return found if type(found) is Value else value


def match(
    pattern: Pattern,
    value: Value,
    users: Callable[[Value], int] | None = None,
    misses: list[Miss] | None = None,
    bound: dict[str, Any] | None = None,
) -> dict[str, Any] | None:
    """What the holes of `pattern` hold if `value` is an instance of it; None if it is not.

    Args:
        users: how many values use a value; without it `.once()` asks for nothing.
        misses: where given, every failure is added to it (see `irkit.rewrite.explain`).
        bound: what holes hold already.
    """
    search = Search(users, misses, 0 if misses is None else size(pattern))
    return _solve((pattern, value, (), None), {} if bound is None else dict(bound), search)


def _solve(goals: Goals, bound: dict[str, Any], search: Search) -> dict[str, Any] | None:
    while goals is not None:
        pattern, value, path, goals = goals
        kind = type(pattern)
        if search.seen is not None:
            value = search.outside(value)
        if kind is Op:
            why, more = _enter(pattern, value, path, goals, bound, search)
            if why:
                return search.missed(pattern, goals, path, value, why)
            if type(more) is list:
                return _first(more, bound, search)
            goals = more
        elif kind is Either:
            return _first([(choice, value, path, goals) for choice in pattern.choices], bound, search)
        elif kind is Through:
            goals = (pattern.inner, seen_through(value), path, goals)
        else:
            why = _leaf(pattern, value, bound, search) if kind is not OfConstants else _of_constants(value)
            if why:
                return search.missed(pattern, goals, path, value, why)
    return bound


def _first(branches: list[Goals], bound: dict[str, Any], search: Search) -> dict[str, Any] | None:
    for branch in branches:
        found = _solve(branch, dict(bound), search)
        if found is not None:
            return found
    return None


def seen_through(value: Value | None) -> Value | None:
    """What a called function computes, where the value is its result; else the value itself."""
    if value is None:
        return None
    call, index = (value.inputs[0], value.attributes[0][1]) if value.op == ITEM else (value, 0)
    if call is None or call.op != CALL or any(v.bodies for v in call.bodies[0].order):
        return value
    return seen_through(inlined(call)[index])


# ---------------------------------------------------------------------------------------------- leaves


def _of_constants(value: Value | None) -> str:
    if value is None:
        return "the operand is absent"
    operands = tuple(None if v is None else v.op for v in value.inputs)
    return "" if is_of_constants(value.op, operands) else "not all operands are constants"


def _leaf(pattern: Any, value: Any, bound: dict[str, Any], search: Search) -> str:
    """Binds a hole, a constant or a rest; the reason why it cannot be bound, or an empty string."""
    name, kind = pattern.name, type(pattern)
    if name and name in bound:
        return "" if bound[name] is value else f"{name} stands for another value already"
    if kind is Rest:
        if any(not test(v) for test in pattern.where for v in value):
            return f"not all of {name} are {_names(pattern.where)}"
        if search.seen is not None:
            value = tuple(map(search.outside, value))
    elif kind is Own:
        if value is None or search.seen is None or search.seen.get(value) != pattern.index:
            return f"it is {value!r}, not parameter {pattern.index} of the body"
    elif value is None:
        if not pattern.optional:
            return f"operand {name} is absent"
    else:
        if kind is Constant and value.op != CONSTANT:
            return f"{name or describe(pattern)} is a {value.op}, no constant"
        if kind is Hole and pattern.ops and value.op not in pattern.ops:
            return f"{name or 'the operand'} is a {value.op}, no {' or '.join(pattern.ops)}"
        if pattern.type is not None:
            why = pattern.type.refuses(value, bound)
            if why:
                return f"{name}: {why}" if name else why
        for test in pattern.where:
            if not test(value):
                return f"{test.__name__} does not hold of {name}" if name else f"not so: it {test.__name__}"
        if pattern.only_user and search.users is not None and search.used(value) > 1:
            return f"{name} has {search.used(value)} users"
    if name:
        bound[name] = value
    return ""


def _names(where: tuple[Predicate, ...]) -> str:
    return " and ".join(test.__name__ for test in where)


# ---------------------------------------------------------------------------------------------- operators


def _enter(
    pattern: Op, value: Any, path: tuple[Any, ...], goals: Goals, bound: dict[str, Any], search: Search
) -> tuple[str, Any]:
    """(reason, goals): why `value` is no such operator, or the goals that its operands add (a list of alternatives
    where the operands may change places)."""
    if value is None:
        return "the operand is absent", None
    if pattern.only_user and search.users is not None and search.used(value) > 1:
        return f"the {value.op} has {search.used(value)} users", None
    node = value
    if pattern.item is not None:
        if value.op != ITEM or value.attributes[0][1] != pattern.item:
            return f"it is a {value.op}, no result {pattern.item} of {' or '.join(pattern.ops)}", None
        node = value.inputs[0]
    if node.op not in pattern.ops:
        return f"it is a {node.op}, no {' or '.join(pattern.ops)}", None
    if not pattern.any_attributes or pattern.attributes:
        why = _attributes(pattern, node, bound)
        if why:
            return why, None
    if pattern.is_more:
        why = _more(pattern, value, node, bound)
        if why:
            return why, None
        if pattern.bodies:
            why, goals = _bodies(pattern, node, path, goals, search)
            if why:
                return why, None
    return _operands(pattern, node, path, goals)


def _more(pattern: Op, value: Value, node: Value, bound: dict[str, Any]) -> str:
    """What few patterns ask of an operator: its type, predicates, names that it has already."""
    if pattern.type is not None:
        why = pattern.type.refuses(value, bound)
        if why:
            return why
    for test in pattern.where:
        if not test(value):
            return f"{test.__name__} does not hold"
    if pattern.name and bound.setdefault(pattern.name, value) is not value:
        return f"{pattern.name} stands for another value already"
    if pattern.whole and bound.setdefault(pattern.whole, node) is not node:
        return f"{pattern.whole} stands for another {node.op} already"
    return ""


def _bodies(pattern: Op, node: Value, path: tuple[Any, ...], goals: Goals, search: Search) -> tuple[str, Goals]:
    """The goals that the patterns of bodies add."""
    names = BODIES[node.op]
    for name, wanted in pattern.bodies:
        number = names.index(name)
        results = node.bodies[number].results
        if len(wanted) > len(results):
            return f"{name} gives back {len(results)} values, fewer than {len(wanted)}", None
        why = search.enter(node, number)
        if why:
            return why, None
        for index in reversed(range(len(wanted))):
            if wanted[index] is not None:
                goals = (wanted[index], results[index], (*path, (name, index)), goals)
    return "", goals


def _attributes(pattern: Op, value: Value, bound: dict[str, Any]) -> str:
    given = dict(value.attributes)
    seen = 0
    for name, wanted in pattern.attributes:
        if name in given:
            seen += 1
            found = given[name]
        else:
            found = schema_default(value.op, name)
        if type(wanted) is not Attr:
            if found != wanted:
                return f"attribute {name} is {found!r}, not {wanted!r}"
            continue
        if wanted.name in bound and bound[wanted.name] != found:
            return f"{wanted.name} is {bound[wanted.name]!r} already, and attribute {name} is {found!r}"
        for test in wanted.where:
            if not test(found):
                return f"{test.__name__} does not hold of attribute {name}, {found!r}"
        bound[wanted.name] = found
    if seen < len(given) and not pattern.any_attributes:
        other = next(n for n in given if n not in dict(pattern.attributes))
        return f"attribute {other} is {given[other]!r}, not the default"
    return ""


@cache
def schema_default(op: str, name: str) -> Any:
    """The default of an attribute of an operator; None where it has none."""
    row = row_of(op)
    return None if row is None else row.attributes[name].default


def attribute_of(value: Value, name: str) -> Any:
    """The attribute of a value, with the schema's default where it is not given."""
    found = value.attribute(name)
    return schema_default(value.op, name) if found is None else found


def _operands(pattern: Op, node: Value, path: tuple[Any, ...], goals: Goals) -> tuple[str, Any]:
    wanted, at = pattern.operands, pattern.rest_at
    given: tuple[Any, ...] = node.inputs
    if (len(wanted) > 2 or (at is not None and len(wanted) > 1 < len(given))) and node.op in COMMUTATIVE:
        return _any_order(wanted, given, at, path, goals)
    if at is not None:
        after = len(wanted) - at - 1
        if len(given) < at + after:
            return f"it has {len(given)} operands, fewer than {at + after}", None
        middle = given[at : len(given) - after]
        given = (*given[:at], middle, *given[len(given) - after :])
    if at is None and len(given) != len(wanted):
        if len(given) > len(wanted):
            return f"it has {len(given)} operands, more than {len(wanted)}", None
        given = given + (None,) * (len(wanted) - len(given))
    if len(wanted) == 2 and node.op in COMMUTATIVE and at is None:
        straight = _ordered(wanted, given, path, goals)
        crossed = _ordered(wanted, given[::-1], path, goals)
        if straight is None and crossed is None:
            return _why_not(wanted, given), None
        if straight is None or crossed is None:
            return "", straight or crossed
        return "", [straight, crossed]
    for index in reversed(range(len(wanted))):
        goals = (wanted[index], given[index], (*path, index), goals)
    return "", goals


def _ordered(wanted: Any, given: Any, path: tuple[Any, ...], goals: Goals) -> Goals:
    """The goals of two operands in this order; None where their operators show at once that they do not fit."""
    if not (fits(wanted[0], given[0]) and fits(wanted[1], given[1])):
        return None
    return wanted[0], given[0], (*path, 0), (wanted[1], given[1], (*path, 1), goals)


def _any_order(
    wanted: tuple[Pattern, ...], given: tuple[Value | None, ...], at: int | None, path: tuple[Any, ...], goals: Goals
) -> tuple[str, Any]:
    """The goals of three operands and more, in every order whose operators fit; what is left goes to the rest."""
    fixed = [w for i, w in enumerate(wanted) if i != at]
    if len(given) < len(fixed) or (at is None and len(given) > len(fixed)):
        return f"it has {len(given)} operands, {'fewer' if len(given) < len(fixed) else 'more'} than {len(fixed)}", None
    found: list[Goals] = []
    for places in _assignments(fixed, given):
        more = goals
        if at is not None:
            left = tuple(v for i, v in enumerate(given) if i not in places)
            more = (wanted[at], left, path, more)
        for w, place in reversed(list(zip(fixed, places, strict=True))):
            more = (w, given[place], (*path, place), more)
        found.append(more)
        if len(found) == ORDERS:
            break
    if len(found) < 2:
        return ("", found[0]) if found else (_why_not(tuple(fixed), given), None)
    return "", found


def _assignments(
    wanted: list[Pattern], given: tuple[Value | None, ...], taken: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """Which operand each pattern may stand for, judged by operators alone, the order as written first."""
    if len(taken) == len(wanted):
        yield taken
        return
    for index, value in enumerate(given):
        if index not in taken and fits(wanted[len(taken)], value):
            yield from _assignments(wanted, given, (*taken, index))


def _why_not(wanted: Any, given: Any) -> str:
    ops = " and ".join("nothing" if v is None else v.op for v in given)
    return f"its operands are {ops}, where {' and '.join(describe(w) for w in wanted)} are needed"
