"""Both sides of a rule on given values: what it matches there, what it replaces, and what it made instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import sympy

from irkit.core.ir import Value, item
from irkit.core.types import Tuple
from irkit.pattern import match
from irkit.pattern.predicates import Bound
from irkit.rewriting.rules import Match, Rule


def match_of(rule: Rule, roots: tuple[Value, ...], symbols: Callable[[], frozenset[sympy.Symbol]]) -> Match | None:
    """The match of a rule on values, one for each of its patterns; None where one of them does not fit."""
    bound: Bound | None = {}
    for pattern, value in zip((rule.pattern, *rule.others), roots, strict=True):
        bound = match(pattern, value, None, None, bound)
        if bound is None:
            return None
    return Match(roots[0], bound, symbols, roots if rule.others else ())


def results_of(value: Value) -> tuple[Value, ...]:
    """The value, or each result of an operator with several."""
    if isinstance(value.type, Tuple):
        return tuple(item(value, i) for i in range(len(value.type.items)))
    return (value,)


def sides(roots: Value | Sequence[Value], found: Any) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """The results of both sides: what a rule is to replace, and what it made, one value for each."""
    if isinstance(roots, Value):
        several = isinstance(found, tuple)
        return results_of(roots), cast("tuple[Value, ...]", found) if several else results_of(found)
    return tuple(roots), tuple(found)
