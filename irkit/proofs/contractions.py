"""Sums of products over places of no name, in one form: what an element of a product of matrices is.

A sum is a function symbol of its term and, for each place that it is over, that place and how many there are. Terms are
products; what does not hang on a place stands in front of the sum, sums of sums are one sum, sums that share no place
are apart, and places are named in the order that makes the smallest text. So two sums of the same terms are the same
expression, whichever way the products were grouped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, permutations
from typing import Any, cast

import sympy

BOUND, NAMED = "over_", "at_"
"""How the places of a sum are called while it is made, and in the sum."""
PLACES = 4
"""Sums over more places at once are not brought into one form."""

SUM: Any = sympy.Function("sum")


class Unprovable(Exception):
    """What the elements of a value are cannot be said; the text says why."""


def sum_over(term: sympy.Expr, place: sympy.Expr, size: sympy.Expr) -> sympy.Expr:
    """The sum of a term over a place, which goes from 0 to a size; the term itself where it is over no place."""
    if not isinstance(place, sympy.Symbol):
        return flat_sum(term)
    found = sympy.Integer(0)
    for each in sympy.Add.make_args(sympy.expand(term)):
        inside = [f for f in factors(each) if place in f.free_symbols]
        outside = sympy.Mul(*(f for f in factors(each) if place not in f.free_symbols))
        found += outside * (summed(inside, [(place, size)]) if inside else size)
    return flat_sum(found)


def flat_sum(expression: sympy.Expr) -> sympy.Expr:
    """The expression, expanded."""
    return sympy.expand(expression)


def factors(term: sympy.Expr) -> Iterator[sympy.Expr]:
    """The factors of a product, each as often as it stands there."""
    for each in sympy.Mul.make_args(term):
        base, power = each.as_base_exp()
        if is_sum(base) and power.is_Integer and power > 0:
            yield from [base] * int(power)
        else:
            yield each


def is_sum(expression: sympy.Expr) -> bool:
    """True for a sum over places."""
    return isinstance(expression, sympy.core.function.AppliedUndef) and expression.func == SUM


def summed(inside: Sequence[sympy.Expr], over: list[tuple[sympy.Symbol, sympy.Expr]]) -> sympy.Expr:
    """The product of the sums of factors that hang together. Raises Unprovable for a sum within another function."""
    fresh, plain = count(), list[sympy.Expr]()
    for each in inside:
        if not is_sum(each):
            if any(f.func == SUM for f in each.atoms(sympy.core.function.AppliedUndef)):
                raise Unprovable("a sum stands within another function in a sum")
            plain.append(each)
            continue
        body, *places = cast("tuple[sympy.Expr, ...]", each.args)
        renamed: dict[Any, Any] = {
            old: sympy.Symbol(f"{BOUND}in_{next(fresh)}", integer=True, nonnegative=True) for old in places[::2]
        }
        over = [*over, *((renamed[old], size) for old, size in zip(places[::2], places[1::2], strict=True))]
        plain += sympy.Mul.make_args(with_names(body, renamed))
    found: sympy.Expr = sympy.Integer(1)
    while over:
        group, own = [over[0]], list[sympy.Expr]()
        while more := [f for f in plain if any(s in f.free_symbols for s, _ in group)]:
            own += more
            plain = [f for f in plain if f not in more]
            group += [o for o in over if o not in group and any(o[0] in f.free_symbols for f in more)]
        over = [o for o in over if o not in group]
        found = sympy.Mul(found, named(sympy.Mul(*own), group) if own else sympy.Mul(*(size for _, size in group)))
    return sympy.Mul(found, *plain)


def named(term: sympy.Expr, over: list[tuple[sympy.Symbol, sympy.Expr]]) -> sympy.Expr:
    """The sum with its places named in the order that makes the smallest text. Raises Unprovable for too many."""
    if len(over) > PLACES:
        raise Unprovable(f"a sum is over more than {PLACES} places")
    names = [sympy.Symbol(f"{NAMED}{i}", integer=True, nonnegative=True) for i in range(len(over))]
    made = list[sympy.Expr]()
    for order in permutations(over):
        body = with_names(term, dict(zip((place for place, _ in order), names, strict=True)))
        pairs = [part for name, (_, size) in zip(names, order, strict=True) for part in (name, size)]
        made.append(SUM(body, *pairs))
    return min(made, key=str)


def with_names(expression: sympy.Expr, names: Mapping[Any, Any]) -> sympy.Expr:
    """The expression with other symbols."""
    return cast("sympy.Expr", cast("Any", expression).xreplace(names))
