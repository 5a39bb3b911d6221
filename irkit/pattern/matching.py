"""The matcher: what the holes of a pattern hold where a value is an instance of it, and where it stopped if not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias, cast

import attrs

from irkit.core.ir import Graph, Value
from irkit.core.vocabulary import CALL, CONSTANT, ITEM
from irkit.nodes.calls import inlined_call
from irkit.ops.schemas import BODIES, COMMUTATIVE
from irkit.pattern.heads import describe, fits, is_of_constants, size
from irkit.pattern.language import Attr, Constant, Either, Hole, OfConstants, Op, Own, Pattern, Rest, Through, row_of
from irkit.pattern.predicates import Bound, Predicate, expected_text, shown_value


@attrs.frozen
class Miss:
    """Where a match failed: how many parts had matched, the path of operand numbers, the value there, and why."""

    matched: int
    path: Path
    value: Value | None
    reason: str


Path = tuple[int | tuple[str, int], ...]
"""The way from the root of a pattern to a part of it: operands by number, results of bodies by name and number."""

Reason = tuple[Any, ...]
"""A format, or a function that makes the words, and what either takes."""

Goals: TypeAlias = "tuple[Any, Any, Path, Goals] | None"
"""A linked list of what is still to be matched: pattern, value, path, further goals."""

Further = tuple["Why", Any]
"""Why an operator does not match, and else the goals that its operands add; a list of goals where there is a choice."""

Why = Reason | None
"""Why something does not match, put into words only where somebody asks. None where it does match."""

ORDERS = 120
"""In how many orders the operands of one operator are tried."""


class Search:
    """One search: how many users values have, where failures are noted, and what the parameters of bodies stand for."""

    __slots__ = ("bodies", "misses", "seen", "total", "users")

    def __init__(self, users: Callable[[Value], int] | None, misses: list[Miss] | None, total: int) -> None:
        self.users, self.misses, self.total = users, misses, total
        self.seen: dict[Value, Any] | None = None
        self.bodies: dict[int, tuple[Graph, tuple[Value | None, ...]]] | None = None

    def missed(self, pattern: Pattern, goals: Goals, path: Path, value: Value | None, why: Reason) -> None:
        """Notes a failure of `pattern`; `goals` are those that were still to come."""
        if self.misses is None:
            return
        left = size(pattern)
        while goals is not None:
            left += size(goals[0])
            goals = goals[3]
        words = why[0].format(*why[1:]) if type(why[0]) is str else why[0](*why[1:])
        self.misses.append(Miss(max(0, self.total - left), path, value, words))

    def used(self, value: Value) -> int:
        """How many values use a value: of the graph, or, for a value inside a body, of that body."""
        for body, _ in self.bodies.values() if self.bodies else ():
            if value in body.users:
                return len(body.users[value]) + sum(r is value for r in body.results)
        return self.users(value) if self.users is not None else 1

    def enter(self, node: Value, number: int) -> Why:
        """Makes the parameters of a body known: captures as what they are outside, others by their number."""
        body = node.bodies[number]
        if self.seen is None or self.bodies is None:
            self.seen, self.bodies = {}, {}
        known = self.bodies.setdefault(id(body), (body, node.inputs))
        if known[1] != node.inputs:
            return ("one body stands in two places, over other operands",)
        captures = node.attribute("captures", 0)
        outside = node.inputs[len(node.inputs) - captures :]
        first = len(body.params) - captures
        for index, own in enumerate(body.params):
            self.seen[own] = index if index < first else self.outside(outside[index - first])
        return None

    def outside(self, value: Any) -> Any:
        """What a parameter of a body stands for: a value outside; every other value stands for itself."""
        found = None if self.seen is None else self.seen.get(value)
        return found if type(found) is Value else value


def match(
    pattern: Pattern,
    value: Value,
    users: Callable[[Value], int] | None = None,
    misses: list[Miss] | None = None,
    bound: Bound | None = None,
) -> Bound | None:
    """What the holes of `pattern` hold if `value` is an instance of it; None if it is not.

    Args:
        users: how many values use a value; without it `.once()` asks for nothing.
        misses: where given, every failure is added to it (see `irkit.rewriting.explanations`).
        bound: what holes hold already.
    """
    search = Search(users, misses, 0 if misses is None else size(pattern))
    return _solve((pattern, value, (), None), {} if bound is None else dict(bound), search)


def _solve(goals: Goals, bound: Bound, search: Search) -> Bound | None:
    while goals is not None:
        pattern, value, path, goals = goals
        kind = type(pattern)  # pyright: ignore[reportUnknownVariableType]
        if search.seen is not None:
            value = search.outside(value)
        if kind is Op:
            why, more = _enter(pattern, value, path, goals, bound, search)
            if why is not None:
                return search.missed(pattern, goals, path, value, why)
            if type(more) is list:
                return _first(cast("list[Any]", more), bound, search)
            goals = more
        elif kind is Either:
            return _first([(choice, value, path, goals) for choice in pattern.choices], bound, search)
        elif kind is Through:
            goals = (pattern.inner, seen_through(value), path, goals)
        else:
            why = _leaf(pattern, value, bound, search) if kind is not OfConstants else _of_constants(value)
            if why is not None:
                return search.missed(pattern, goals, path, value, why)
    return bound


def _first(branches: list[Goals], bound: Bound, search: Search) -> Bound | None:
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
    return seen_through(inlined_call(call)[index])


# ---------------------------------------------------------------------------------------------- leaves


def _of_constants(value: Value | None) -> Why:
    if value is None:
        return ("the operand is absent",)
    operands = tuple([None if v is None else v.op for v in value.inputs])
    return None if is_of_constants(value.op, operands) else ("not all operands are constants",)


def _leaf(pattern: Any, value: Any, bound: Bound, search: Search) -> Why:  # noqa: C901, PLR0912 - one branch for each kind of pattern
    """Binds a hole, a constant or a rest; the reason why it cannot be bound, or None."""
    name = pattern.name
    kind = type(pattern)  # pyright: ignore[reportUnknownVariableType]
    if name and name in bound:
        return None if bound[name] is value else (_another, name, value, bound[name])
    if kind is Rest:
        if pattern.where and any(not test(v) for test in pattern.where for v in value):
            return _not_all, name, value, pattern.where
        if search.seen is not None:
            value = tuple(map(search.outside, value))
    elif kind is Own:
        if value is None or search.seen is None or search.seen.get(value) != pattern.index:
            return _found, "", value, f"parameter {pattern.index} of the body"
    elif value is None:
        if not pattern.optional:
            return "operand {} is absent", name
    else:
        if kind is Constant and value.op != CONSTANT:
            return _found, name, value, "a constant" if name or not pattern.where else describe(pattern)
        if kind is Hole and pattern.ops and value.op not in pattern.ops:
            return _found, name, value, " or ".join(pattern.ops)
        if pattern.type is not None:
            why = pattern.type.refuses(value, bound)
            if why:
                return "{}", f"{name}: {why}" if name else why
        for test in pattern.where:
            if not test(value):
                return _unlike, name, value, test
        if pattern.only_user and search.users is not None and search.used(value) > 1:
            return "{}: found {} users, expected 1", name, search.used(value)
    if name:
        bound[name] = value
    return None


def _found(name: str, value: Value | None, wanted: str) -> str:
    """`one: found Add, expected a constant`; a constant is shown with what it holds."""
    there = shown_value(value) if value is None or value.op == CONSTANT else value.op
    return f"{name}: found {there}, expected {wanted}" if name else f"found {there}, expected {wanted}"


def _another(name: str, value: Any, known: Value) -> str:
    there = [shown_value(v) if v is None or type(v) is Value else repr(v) for v in (value, known)]
    equal = there[0] == there[1] and type(value) is Value and value.op == CONSTANT
    hint = "; irkit.share(graph) makes equal values one" if equal else ""
    return f"{name}: found {there[0]}, expected another value, which it stands for already: {there[1]}{hint}"


def _unlike(name: str, value: Value, test: Predicate) -> str:
    prefix = f"{name}: " if name else ""
    return f"{prefix}found {shown_value(value)}, expected {expected_text(test)}"


def _not_all(name: str, values: tuple[Value | None, ...], where: tuple[Predicate, ...]) -> str:
    return next(_unlike(name, v, test) for v in values if v is not None for test in where if not test(v))


# ---------------------------------------------------------------------------------------------- operators


def _enter(pattern: Op, value: Any, path: Path, goals: Goals, bound: Bound, search: Search) -> Further:
    """(reason, goals): why `value` is no such operator, or the goals that its operands add (a list of alternatives
    where the operands may change places)."""
    if value is None:
        return ("the operand is absent",), None
    if pattern.only_user and search.users is not None and search.used(value) > 1:
        return ("found {} users of the {}, expected 1", search.used(value), value.op), None
    node = value
    if pattern.item is not None:
        if value.op != ITEM or value.attributes[0][1] != pattern.item:
            return (_no_op, value, pattern.ops, pattern.item), None
        node = value.inputs[0]
    if node.op not in pattern.ops:
        return (_no_op, node, pattern.ops), None
    if pattern.attributes or (node.attributes and not pattern.any_attributes):
        why = _attributes(pattern, node, bound)
        if why is not None:
            return why, None
    if pattern.is_more:
        why = _more(pattern, value, node, bound)
        if why is not None:
            return why, None
        if pattern.bodies:
            why, goals = _bodies(pattern, node, path, goals, search)
            if why is not None:
                return why, None
    return _operands(pattern, node, path, goals, bound, search)


def _more(pattern: Op, value: Value, node: Value, bound: Bound) -> Why:
    """What few patterns ask of an operator: its type, predicates, names that it has already."""
    if pattern.type is not None:
        why = pattern.type.refuses(value, bound)
        if why:
            return "{}", why
    for test in pattern.where:
        if not test(value):
            return _unlike, pattern.name, value, test
    if pattern.name and bound.setdefault(pattern.name, value) is not value:
        return _another, pattern.name, value, bound[pattern.name]
    if pattern.whole and bound.setdefault(pattern.whole, node) is not node:
        return _another, pattern.whole, node, bound[pattern.whole]
    return None


def _bodies(pattern: Op, node: Value, path: Path, goals: Goals, search: Search) -> tuple[Why, Goals]:
    """The goals that the patterns of bodies add."""
    names = BODIES[node.op]
    for name, wanted in pattern.bodies:
        number = names.index(name)
        results = node.bodies[number].results
        if len(wanted) > len(results):
            return ("{} gives back {} values, fewer than {}", name, len(results), len(wanted)), None
        why = search.enter(node, number)
        if why is not None:
            return why, None
        for index in reversed(range(len(wanted))):
            if wanted[index] is not None:
                goals = (wanted[index], results[index], (*path, (name, index)), goals)
    return None, goals


def _attributes(pattern: Op, value: Value, bound: Bound) -> Why:
    given = dict(value.attributes)
    seen = 0
    for name, wanted in pattern.attributes:
        if name in given:
            seen += 1
            found = given[name]
        else:
            found = _known_default(value.op, name) if type(value.op) is str else schema_default(value.op, name)
        if type(wanted) is not Attr:
            if found != wanted:
                return "attribute {}: found {!r}, expected {!r}", name, found, wanted
            continue
        if wanted.name in bound and bound[wanted.name] != found:
            return "attribute {}: found {!r}, expected {!r}, which {} is", name, found, bound[wanted.name], wanted.name
        for test in wanted.where:
            if not test(found):
                return "attribute {}: found {!r}, expected {}", name, found, expected_text(test)
        bound[wanted.name] = found
    if seen < len(given) and not pattern.any_attributes:
        other = next(n for n in given if n not in dict(pattern.attributes))
        return (
            "attribute {}: found {!r}, expected the default, {!r}",
            other,
            given[other],
            schema_default(value.op, other),
        )
    return None


def schema_default(op: str, name: str) -> Any:
    """The default of an attribute of an operator; None where it has none."""
    if type(op) is str:
        return _known_default(op, name)
    row = row_of(op)
    return None if row is None else row.attributes[name].default


@lru_cache(maxsize=1 << 12)
def _known_default(op: str, name: str) -> Any:
    row = row_of(op)
    return None if row is None else row.attributes[name].default


def attribute_of(value: Value, name: str) -> Any:
    """The attribute of a value, with the schema's default where it is not given."""
    found = value.attribute(name)
    return schema_default(value.op, name) if found is None else found


def _operands(pattern: Op, node: Value, path: Path, goals: Goals, bound: Bound, search: Search) -> Further:
    wanted, at = pattern.operands, pattern.rest_at
    given: tuple[Any, ...] = node.inputs
    count, size, commutes = len(given), len(wanted), node.op in COMMUTATIVE
    if commutes and (size > 2 or (at is not None and size > 1 < count)):
        return _any_order(wanted, given, at, path, goals)
    if at is not None:
        after = size - at - 1
        if count < at + after:
            return ("found {} operands, expected {} or more", count, at + after), None
        given = (*given[:at], given[at : count - after], *given[count - after :])
    elif count != size:
        if count > size:
            return ("found {} operands, expected {}", count, size), None
        given = given + (None,) * (size - count)
    if commutes and size == 2 and at is None:
        (first, second), (a, b) = wanted, given
        crossed = fits(second, a) and fits(first, b)
        if not (fits(first, a) and fits(second, b)):
            if not crossed:
                return (_why_not, wanted, given), None
            given = given[::-1]
        elif crossed:
            left, right = (*path, 0), (*path, 1)
            return None, [(first, a, left, (second, b, right, goals)), (first, b, left, (second, a, right, goals))]
    if search.misses is None and search.seen is None:
        return _at_once(wanted, given, goals, bound, search)
    for index in reversed(range(size)):
        goals = (wanted[index], given[index], (*path, index), goals)
    return None, goals


def _at_once(
    wanted: tuple[Pattern, ...], given: tuple[Any, ...], goals: Goals, bound: Bound, search: Search
) -> Further:
    """The goals of operands in this order, where nobody asks how far the match came: leaves are bound at once, so that
    most of what fails does so here."""
    part: Any
    for part, value in zip(reversed(wanted), reversed(given), strict=True):
        kind = type(part)  # pyright: ignore[reportUnknownVariableType]
        if kind is Hole and part.is_free and value is not None:
            if bound.setdefault(part.name, value) is not value:
                return (_another, part.name, value, bound[part.name]), None
        elif kind is Hole or kind is Constant or kind is Rest:
            why = _leaf(part, value, bound, search)
            if why is not None:
                return why, None
        else:
            goals = (part, value, (), goals)
    return None, goals


def _any_order(
    wanted: tuple[Pattern, ...], given: tuple[Value | None, ...], at: int | None, path: Path, goals: Goals
) -> Further:
    """The goals of three operands and more, in every order whose operators fit; what is left goes to the rest."""
    fixed = [w for i, w in enumerate(wanted) if i != at]
    if len(given) < len(fixed) or (at is None and len(given) > len(fixed)):
        return ("found {} operands, expected {}{}", len(given), len(fixed), "" if at is None else " or more"), None
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
        return (None, found[0]) if found else ((_why_not, tuple(fixed), given), None)
    return None, found


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


def _why_not(wanted: tuple[Pattern, ...], given: tuple[Value | None, ...]) -> str:
    there = " and ".join(shown_value(v) if v is None or v.op == CONSTANT else v.op for v in given)
    return f"found operands {there}, expected {' and '.join(map(describe, wanted))}"


def _no_op(value: Value, wanted: tuple[str, ...], item: int | None = None) -> str:
    there = value
    if item is not None and value.op == ITEM and value.inputs[0] is not None:
        there = value.inputs[0]
        if value.attributes[0][1] != item:
            return (
                f"found result {value.attributes[0][1]} of {there.op}, expected result {item} of {' or '.join(wanted)}"
            )
    return _found("", there, f"{'' if item is None else f'result {item} of '}{' or '.join(wanted)}")
