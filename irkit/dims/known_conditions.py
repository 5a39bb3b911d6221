"""What the ranges of symbols already say of a condition: that it is a bound of one of them, or that it always holds.

Only comparisons of a symbol with a whole number are looked at; what asks for more is left to be asked of each call.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from irkit.dims.ranges import Range
from irkit.dims.syntax import Conditions, tree_of

TURNED: Mapping[type, type] = MappingProxyType(
    {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}
)
"""The relation with its sides exchanged."""


def bound_of(condition: str, ranges: Mapping[str, Range]) -> tuple[str, Range] | None:
    """(symbol, its range) where a condition is nothing but a bound of one symbol, `batch >= 1`, within the range that
    is known of it; None where it is more, and where no size would be left."""
    node = tree_of(condition, "condition")
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    told = told_of(type(node.ops[0]), _side(node.left, condition), _side(node.comparators[0], condition))
    if told is None or told[0] not in ranges or told[1] not in (ast.Lt, ast.LtE, ast.Gt, ast.GtE):
        return None
    name, relation, number = told
    known = ranges[name]
    if relation in (ast.Gt, ast.GtE):
        low, high = max(known.lo, number + (relation is ast.Gt)), known.hi
    else:
        top = number - (relation is ast.Lt)
        low, high = known.lo, top if known.hi is None else min(known.hi, top)
    return (name, Range(low, high)) if high is None or low <= high else None


def always_holds(condition: str, ranges: Mapping[str, Range]) -> bool:
    """Whether a condition holds for all sizes in these ranges, as far as that is seen."""

    def compared(relations: Sequence[type], sides: Sequence[str | int | None]) -> bool | None:
        if len(relations) != 1:
            return None
        told = told_of(relations[0], sides[0], sides[1])
        known = None if told is None else ranges.get(told[0])
        return None if told is None or known is None else decided(known, told[1], told[2])

    try:
        return (
            Conditions(_side, compared, joined, negated, bool).read(tree_of(condition, "condition"), condition) is True
        )
    except RecursionError:  # whoever asks the condition of a call says what is wrong with it
        return False


def told_of(relation: type, left: str | int | None, right: str | int | None) -> tuple[str, type, int] | None:
    """(symbol, relation, number) of a comparison of a symbol with a whole number, whichever stands first."""
    if isinstance(left, str) and isinstance(right, int):
        return left, relation, right
    if isinstance(left, int) and isinstance(right, str):
        return right, TURNED[relation], left
    return None


def decided(known: Range, relation: type, number: int) -> bool | None:
    """Whether all sizes in a range stand in a relation to a number; None where some do and some do not."""
    low, high = known.lo, float("inf") if known.hi is None else known.hi
    if relation in (ast.Eq, ast.NotEq):
        same = False if not low <= number <= high else True if low == high else None
        return same if same is None or relation is ast.Eq else not same
    if relation in (ast.Lt, ast.GtE):
        below = True if high < number else False if low >= number else None
        return below if below is None or relation is ast.Lt else not below
    above = True if low > number else False if high <= number else None
    return above if above is None or relation is ast.Gt else not above


def joined(parts: Sequence[bool | None], decisive: bool) -> bool | None:
    """`or` of the parts where `decisive`, else `and`."""
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def negated(inner: bool | None) -> bool | None:
    """The opposite of what is known."""
    return None if inner is None else not inner


def _side(node: ast.expr, _: str) -> str | int | None:
    """The symbol or the whole number that a side is; None for what is computed."""
    if isinstance(node, ast.Name):
        return node.id
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None
