"""Conditions on sizes at some of which a graph is right, or is another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.errors import DimensionError
from lowering.capture.guards.answers import holds
from lowering.capture.guards.comparisons import as_one_comparison, as_said
from lowering.capture.guards.guards import Guard
from lowering.capture.guards.questions import Questions
from lowering.capture.guards.settled import settled_at


def being_at(point: Mapping[str, int]) -> Any:
    """The condition that sizes are those of a point."""
    relations: list[Any] = [sympy.Eq(dims.symbol(name), size) for name, size in point.items()]
    return sympy.And(*relations)


def only_at(guard: Guard, point: Mapping[str, int], or_else: Any) -> Guard:
    """A condition that need hold at a point only, and there where another does not."""
    there = attrs.evolve(guard, expr=sympy.Or(settled_at(guard.expr, point), or_else))
    return guard_widened(there, sympy.Not(being_at(point)))


def guard_widened(guard: Guard, or_else: Any) -> Guard:
    """A condition that need not hold where another does."""
    expr = as_one_comparison(sympy.Or(guard.expr, or_else))
    return attrs.evolve(guard, expr=expr, text=str(expr))


def about(guard: Guard, names: set[str]) -> bool:
    """Whether a condition hangs on one of the names."""
    return any(s.name in names for s in getattr(guard.expr, "free_symbols", ()))


def is_fixing(guard: Guard) -> bool:
    """Whether a condition says that a name is a number."""
    sides: Any = guard.expr.args if isinstance(guard.expr, sympy.Eq) else ()
    return any(s.is_Symbol for s in sides) and any(s.is_Integer for s in sides)


def is_required(guard: Guard, asked: Questions, point: Mapping[str, int]) -> bool:
    """Whether torch refuses an operator at a point that a condition refuses: it was seen to refuse it beyond that, or
    requires that sizes are equal neither of which is 1 there, where it might broadcast them; and nothing else asked."""
    if guard.expr in asked.own:
        return False
    if guard.expr in asked.beyond:
        return True
    if not isinstance(guard.expr, sympy.Eq) or is_fixing(guard):
        return False
    sides: Any = guard.expr.args
    try:
        return all(side.is_Integer or dims.evaluate(side, point) > 1 for side in sides)
    except (DimensionError, ArithmeticError, KeyError):
        return False


def is_equation(guard: Guard, names: set[str]) -> bool:
    """Whether a condition says that a size of these names is what other sizes make it."""
    equal = guard.expr.atoms(sympy.Eq) if guard.expr is not None else ()
    return any(s.name not in names for each in equal for s in each.free_symbols)


def counts(expr: Any) -> bool:
    """Whether a condition says how many of something there are: that a size, or what is computed of sizes and is no
    remainder, is a number."""
    if isinstance(expr, sympy.Or | sympy.And):
        return (all if isinstance(expr, sympy.Or) else any)(map(counts, expr.args))
    number = isinstance(expr, sympy.Eq) and any(side.is_Integer for side in expr.args)
    return number and not expr.has(dims.Mod)


def guards_refusing(guards: Iterable[Guard], sizes: Mapping[str, int]) -> list[Guard]:
    """The conditions that refuse sizes; those on data, which are others there than in the example, do not tell."""
    return [guard for guard in guards if not guard.is_of_data and holds(guard.expr, sizes) is False]


def is_either(expr: Any, other: Any) -> bool:
    """Whether a condition, or one of those that it is made of by "or", holds where another one does not."""
    return as_said(sympy.Not(other)) in map(as_said, sympy.Or.make_args(expr))


def texts(guards: Sequence[Guard]) -> frozenset[str]:
    """What conditions say."""
    return frozenset(guard.text for guard in guards)
