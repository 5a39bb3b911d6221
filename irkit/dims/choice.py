"""Sizes of which a condition decides: what a condition says of others, and the one size that is either of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy

from irkit.dims.algebra import Dim, add, bounds, canonical, maximum, minimum, mod, mul, same, sub
from irkit.dims.functions import FloorDiv, Max, Min, Mod
from irkit.dims.ranges import Range
from irkit.errors import DimensionError

ATOMS = (Mod, FloorDiv, Max, Min)


def chosen(condition: Any, one: Dim, other: Dim, ranges: Mapping[str, Range]) -> Dim | None:
    """The size that is `one` where a relation of integers holds, and `other` where it does not; None for a relation
    that arithmetic of integers does not tell."""
    condition = plain(condition)
    if same(one, other) is True:
        return one
    if equal_where(condition, one, other, ranges):
        return other
    if equal_where(negation(condition), one, other, ranges):
        return one
    flag = indicator(condition)
    return None if flag is None else add(other, mul(flag, sub(one, other)))


def negation(condition: Any) -> Any:
    """The opposite of a relation, or of several joined by "and" and "or", without a "not"."""
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
    """1 where a relation of integers holds, and 0 where it does not; None for one that this does not tell."""
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


def equal_where(condition: Any, one: Dim, other: Dim, ranges: Mapping[str, Range]) -> bool:
    """Whether two sizes are seen to be equal wherever a relation holds."""
    if isinstance(condition, sympy.Or):
        return all(equal_where(each, one, other, ranges) for each in condition.args)
    nothing = list(zeros(condition, ranges))
    gap = sub(one, other)
    if any(same(gap, each) is True or same(gap, mul(each, -1)) is True for each in nothing):
        return True
    known = {part: value for each in nothing for part, value in told_of_zero(each, ranges)}
    return bool(known) and same(replaced(one, known), replaced(other, known)) is True


def replaced(size: Dim, known: Mapping[Any, Any]) -> Dim:
    """A size with what is known of its parts in their place."""
    if type(size) is int:
        return size
    try:
        found: Any = size.xreplace(dict(known))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        return canonical(found.doit())
    except DimensionError:  # a quotient by 0
        return size


def zeros(condition: Any, ranges: Mapping[str, Range]) -> Iterator[Dim]:
    """What is 0 where a relation holds, or where all of several do."""
    for part in sympy.And.make_args(condition):
        if isinstance(part, sympy.core.relational.Relational):
            left, right = tuple[Any, Any](part.args)
            if left.is_integer and right.is_integer:
                yield from zeros_of_gap(part, sub(canonical(left), canonical(right)), ranges)


def zeros_of_gap(relation: Any, gap: Dim, ranges: Mapping[str, Range]) -> Iterator[Dim]:
    """What is 0 where a relation holds, by the gap between its sides."""
    if isinstance(relation, sympy.Eq):
        yield gap
    elif isinstance(relation, sympy.Ne):
        known = bounds(gap, ranges)
        if (known.lo, known.hi) in ((0, 1), (-1, 0)):
            yield sub(gap, known.hi or known.lo)
    else:
        more = gap if isinstance(relation, sympy.Le | sympy.Lt) else mul(gap, -1)  # more <= 0, or < 0
        more = more if isinstance(relation, sympy.Le | sympy.Ge) else add(more, 1)
        if bounds(more, ranges).lo >= 0 or is_never_less(more):
            yield more


def is_never_less(size: Dim) -> bool:
    """Whether a size is evidently not below 0: a maximum without one of its parts, a part without a minimum."""
    terms = sympy.Add.make_args(sympy.sympify(size))
    for each in terms:
        factor, atom = each.as_coeff_Mul()
        if isinstance(atom, Max | Min) and factor == (1 if isinstance(atom, Max) else -1):
            rest: Any = sympy.Add(*(-factor * term for term in terms if term is not each))
            if any(rest == part for part in atom.args):
                return True
    return False


def told_of_zero(nothing: Dim, ranges: Mapping[str, Range]) -> Iterator[tuple[Any, Any]]:
    """(part of a size, what it is) for a sum that is 0: its parts that are no symbols, and all of those that are never
    below 0, where they stand in it without a factor."""
    terms: Any = sympy.Add.make_args(sympy.sympify(nothing))
    parts = [each.as_coeff_Mul() for each in terms]
    signs = {factor > 0 for factor, _ in parts}
    if len(signs) == 1 and all(atom != 1 and bounds(atom, ranges).lo >= 0 for _, atom in parts):
        for _, atom in parts:
            yield atom, sympy.Integer(0)
            if isinstance(atom, Mod):
                size, unit = tuple[Any, Any](atom.args)
                yield mod(mul(canonical(size), -1), canonical(unit)), sympy.Integer(0)
        return
    for kinds in (ATOMS, (sympy.Symbol,)):
        for factor, atom in parts:
            if isinstance(atom, kinds) and abs(factor) == 1:
                rest = sympy.Add(*(-factor * f * each for f, each in parts if each is not atom))
                if not rest.has(atom):
                    yield atom, rest
                    return
