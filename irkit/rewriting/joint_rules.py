"""Rules with several roots: expressions over shared operands that are replaced together.

    @rule(p.MatMul(x, w), p.MatMul(x, v))      # two products of one x become one, and two slices of it

What is replaced together must not depend on itself through what it becomes, so all of a round lies in stretches of the
graph's order that do not overlap, and each is looked through for a way back before it is taken.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import sympy

from irkit.build import retyping
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.origins import NOWHERE
from irkit.errors import AbsentError, DimensionError, TypeRuleError
from irkit.pattern import Constant, Hole, Op, Pattern, match
from irkit.pattern.heads import root_ops
from irkit.pattern.predicates import Bound
from irkit.rewriting.rules import Made, Match, Rule, Rules
from irkit.rewriting.type_checks import refuse_other_type, refused_error, values_given

Users = Callable[[Value], int]

BESIDE = 32
"""How many values that share an operand with the first root are tried for each other one."""


@attrs.frozen(eq=False)
class Joint:
    """Values that stand together, in the order of the rule's patterns, and what its function made of them."""

    rule: Rule
    roots: tuple[Value, ...]
    made: tuple[Value, ...]
    first: int
    last: int


def together(
    graph: Graph, rules: Rules, symbols: Callable[[], frozenset[sympy.Symbol]], facts: Graph
) -> tuple[Graph, tuple[Joint, ...]]:
    """(graph, taken): the graph with rules of several roots applied wherever they match, once; and where. The very same
    object where none does. `facts` is the graph with what is known of its symbols."""
    places: dict[Value, int] = {}
    stretches: list[tuple[int, int]] = []
    taken: list[Joint] = []
    for each in rules:
        ops = root_ops(each.pattern)
        for value in graph.order if ops is None else [v for v in graph.order if v.op in ops]:
            places = places or {v: index for index, v in enumerate(graph.order)}
            found = applied(each, value, graph, places, symbols, stretches, facts)
            if found is not None:
                insort(stretches, (found.first, found.last))
                taken.append(found)
    if not taken:
        return graph, ()
    built: dict[Value, Value] = {}
    for joint in sorted(taken, key=lambda j: j.first):
        new = placed(joint, places)
        grow(built, new)
        built.update({root: built[n] for root, n in zip(joint.roots, new, strict=True)})
    grow(built, graph.results)
    return graph.with_results(built[r] for r in graph.results), tuple(taken)


def grow(built: dict[Value, Value], results: Iterable[Value]) -> None:
    """Adds to `built` all that the results reach, each value over what `built` has for its operands."""
    for value in walk.post_order(results, stop=built.__contains__):
        inputs: Any = tuple(map(built.get, value.inputs, value.inputs))  # type: ignore[arg-type]
        built[value] = value if inputs == value.inputs else value.with_inputs(inputs)


def applied(
    rule: Rule,
    value: Value,
    graph: Graph,
    places: Mapping[Value, int],
    symbols: Callable[[], frozenset[sympy.Symbol]],
    stretches: Sequence[tuple[int, int]],
    facts: Graph,
) -> Joint | None:
    """What a rule with several roots makes of `value` and what stands beside it; None where it does not apply."""

    def users(v: Value) -> int:
        return len(graph.users.get(v, ())) + sum(r is v for r in graph.results)

    for roots, bound in instances(rule, value, graph.users, users):
        first, last = min(places[r] for r in roots), max(places[r] for r in roots)
        if overlaps(stretches, first, last):
            continue
        try:
            found = rule.function(Match(value, bound, symbols, roots))
        except TypeRuleError as error:
            raise refused_error(rule, value, error) from error
        except (DimensionError, AbsentError):  # a vast size, or numbers that are not there: as with rules of one root
            continue
        made = one_for_each(rule, roots, found, facts)
        if made is None:
            continue
        if any(retyping.loses(new.type, old.type) for old, new in zip(roots, made, strict=True)):
            continue  # the values would be right, but what is known of their dimensions would be lost
        if not reaches(roots, made, places, first):
            return Joint(rule, roots, made, first, last)
    return None


def instances(
    rule: Rule, value: Value, users_of: Mapping[Value, tuple[Value, ...]], users: Users
) -> Iterator[tuple[tuple[Value, ...], Bound]]:
    """(roots, bound) of every way in which the patterns of a rule match `value` and values that share its operands."""
    bound = match(rule.pattern, value, users)
    if bound is not None:
        yield from _more((value,), bound, rule.others, users_of, users)


def _more(
    roots: tuple[Value, ...], bound: Bound, others: tuple[Pattern, ...], users_of: Any, users: Users
) -> Iterator[tuple[tuple[Value, ...], Bound]]:
    if not others:
        yield roots, bound
        return
    for candidate in candidates(others[0], bound, users_of):
        if candidate not in roots:
            found = match(others[0], candidate, users, None, bound)
            if found is not None:
                yield from _more((*roots, candidate), found, others[1:], users_of, users)


def candidates(
    pattern: Pattern, bound: Mapping[str, Any], users_of: Mapping[Value, tuple[Value, ...]]
) -> tuple[Value, ...]:
    """The values that may be the root of a pattern some of whose parts are known: the value itself, or the users of the
    known operand that has the fewest."""
    if isinstance(pattern, Hole) or (isinstance(pattern, Op) and pattern.name in bound):
        known = bound.get(pattern.name)
        return (known,) if isinstance(known, Value) else ()
    parts = pattern.operands if isinstance(pattern, Op) else ()
    names = [o.name for o in parts if isinstance(o, Hole | Op | Constant) and o.name]
    direct = [bound[n] for n in names if isinstance(bound.get(n), Value)]
    ops = root_ops(pattern)
    lists = [users_of.get(v, ()) for v in direct or (v for v in bound.values() if isinstance(v, Value))]
    if isinstance(pattern, Op) and pattern.item is not None:
        lists = [tuple(i for v in each for i in users_of.get(v, ())) for each in lists]
    chosen = min(lists, key=len, default=()) if direct else tuple(dict.fromkeys(v for each in lists for v in each))
    return tuple(v for v in chosen if ops is None or v.op in ops)[:BESIDE]


def overlaps(stretches: Sequence[tuple[int, int]], first: int, last: int) -> bool:
    """True where [first, last] meets one of the stretches, which are sorted and do not meet each other."""
    at = bisect_left(stretches, (first, last))
    before = at > 0 and stretches[at - 1][1] >= first
    return before or (at < len(stretches) and stretches[at][0] <= last)


def reaches(roots: tuple[Value, ...], made: tuple[Value, ...], places: Mapping[Value, int], first: int) -> bool:
    """True where what is made needs one of the values that it is to replace."""
    replaced = {r for r, n in zip(roots, made, strict=True) if n is not r}
    changed = [n for r, n in zip(roots, made, strict=True) if n is not r]

    def stop(value: Value) -> bool:
        return value not in replaced and places.get(value, first + 1) <= first

    return any(v in replaced for v in walk.post_order(changed, stop=stop))


def placed(joint: Joint, places: Mapping[Value, int]) -> tuple[Value, ...]:
    """What a rule made, its new values with the origin of what they replace."""
    origin = joint.roots[0].origin.after(joint.rule.name)
    swaps: dict[Value, Value] = {}
    for value in walk.post_order(joint.made, stop=places.__contains__):
        if value in places:
            continue
        inputs = tuple(v if v is None else swaps.get(v, v) for v in value.inputs)
        new = value if inputs == value.inputs else value.with_inputs(inputs)
        swaps[value] = new.with_origin(origin) if new.origin is NOWHERE else new
    return tuple(swaps.get(v, v) for v in joint.made)


def one_for_each(rule: Rule, roots: tuple[Value, ...], made: Made, graph: Graph) -> tuple[Value, ...] | None:
    """What a rule returned for its roots; None where it declined. Raises RewriteError where it is not one value of the
    right type for each."""
    found = values_given(rule, roots, made)
    if found is None:
        return None
    for old, new in zip(roots, found, strict=True):
        refuse_other_type(rule, old, new, old.type, graph)
    return found
