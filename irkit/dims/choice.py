"""Sizes of which a condition decides: the one size that is either of two."""

from __future__ import annotations

from typing import Any

import sympy

from irkit.dims.algebra import Dim, add, canonical, maximum, minimum, mul, same, sub
from irkit.dims.periodic import shortest, shortest_choice


def choose_size(condition: Any, one: Dim, other: Dim) -> Dim | None:
    """The size that is `one` where a condition on integers holds, and `other` where it does not; None for a condition
    that arithmetic of integers does not tell."""
    condition, one, other = plain(condition), shortest(one), shortest(other)
    if condition in (sympy.true, sympy.false):
        return one if condition == sympy.true else other
    gap = sub(one, other)
    if gap == 0 or is_zero_where(condition, gap):
        return other
    if is_zero_where(negation(condition), gap):
        return one
    flag = indicator(condition)
    if flag is None:
        return None
    found = shortest_choice(flag, one, other)
    return add(other, mul(flag, gap)) if found is None else found


def negation(condition: Any) -> Any:
    """The opposite of a condition, without a "not"."""
    if isinstance(condition, sympy.And | sympy.Or):
        made: Any = sympy.Or if isinstance(condition, sympy.And) else sympy.And
        return made(*map(negation, condition.args))
    return plain(condition.args[0]) if isinstance(condition, sympy.Not) else sympy.Not(condition)


def plain(condition: Any) -> Any:
    """The same without a "not"."""
    if isinstance(condition, sympy.And | sympy.Or):
        return condition.func(*map(plain, condition.args))
    return negation(condition.args[0]) if isinstance(condition, sympy.Not) else condition


def indicator(condition: Any) -> Dim | None:
    """1 where a condition on integers holds, and 0 where it does not; None for one that this does not tell."""
    if isinstance(condition, sympy.And | sympy.Or):
        parts = [indicator(each) for each in condition.args]
        known = [each for each in parts if each is not None]
        if len(known) < len(parts):
            return None
        return minimum(*known) if isinstance(condition, sympy.And) else maximum(*known)
    if not isinstance(condition, sympy.core.relational.Relational):
        return None
    left, right = tuple[Any, Any](condition.args)
    if not (left.is_integer and right.is_integer):
        return None
    gap = sub(canonical(left), canonical(right))
    if isinstance(condition, sympy.Eq | sympy.Ne):
        apart = minimum(1, maximum(gap, mul(gap, -1)))
        return apart if isinstance(condition, sympy.Ne) else sub(1, apart)
    more = gap if isinstance(condition, sympy.Gt | sympy.Ge) else mul(gap, -1)
    return maximum(0, minimum(1, add(more, 1) if isinstance(condition, sympy.Ge | sympy.Le) else more))


def is_zero_where(condition: Any, gap: Dim) -> bool:
    """Whether a condition says by itself, or as one of several that all hold, that a sum is 0."""
    for part in sympy.And.make_args(condition):
        if isinstance(part, sympy.Eq):
            left, right = tuple[Any, Any](part.args)
            if left.is_integer and right.is_integer:
                nothing = sub(canonical(left), canonical(right))
                if same(gap, nothing) is True or same(gap, mul(nothing, -1)) is True:
                    return True
    return False
