"""Conditions on sizes in the one way in which they are said, however torch or a model puts them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sympy

from irkit import dims
from irkit.dims.algebra import line_of
from irkit.errors import DimensionError


def as_said(condition: Any) -> Any:
    """A condition in the one way in which it is said: a name on the left, and by itself where one number is left."""
    condition = in_lowest_terms(condition)
    if not isinstance(condition, sympy.Eq) or condition.free_symbols & condition.atoms(sympy.Float):
        return closed(condition)
    left, right = tuple[Any, Any](condition.args)
    if left.is_Symbol or not all(s.is_integer for s in condition.free_symbols):
        return condition
    if right.is_Symbol:
        return sympy.Eq(right, left, evaluate=False)
    left, right = (right, left) if left.is_Integer else (left, right)
    if right.is_Integer and len(left.free_symbols) == 1 and line_of(left) is not None:
        try:
            ((symbol,), (_, number)) = left.free_symbols, dims.solve(left, int(right)) or ("", None)
        except DimensionError:
            return condition
        return condition if number is None else sympy.Eq(symbol, number, evaluate=False)
    return condition


def closed(expr: Any) -> Any:
    """A comparison of an integer with a number, by <= or >= only: torch has several ways to say one thing."""
    if not isinstance(expr, sympy.Lt | sympy.Gt | sympy.Le | sympy.Ge):
        return expr
    expr = alone_on_the_left(expr.reversed if expr.args[0].is_number else expr)
    if expr in (sympy.true, sympy.false):
        return expr
    symbol, limit = expr.args
    if not (symbol.is_Symbol and symbol.is_integer and limit.is_Integer):
        return expr
    if isinstance(expr, sympy.Lt):
        return sympy.Le(symbol, limit - 1)
    return sympy.Ge(symbol, limit + 1) if isinstance(expr, sympy.Gt) else expr


def alone_on_the_left(expr: Any) -> Any:
    """`16 - n > 0` as `n < 16`: one integer, plus or minus a number, compared with a number."""
    side, limit = expr.args
    number, rest = side.as_coeff_Add()
    factor, symbol = rest.as_coeff_Mul()
    if not (symbol.is_Symbol and number.is_Integer and limit.is_Integer and factor in (1, -1)) or side.is_Symbol:
        return expr
    return expr.func(symbol, limit - number) if factor == 1 else expr.reversed.func(symbol, number - limit)


def in_lowest_terms(expr: Any) -> Any:
    """A comparison of integers without a factor that is in all of its terms."""
    if not isinstance(expr, sympy.core.relational.Relational) or not all(s.is_integer for s in expr.free_symbols):
        return expr
    sides: Any = expr.args
    terms = [[term.as_coeff_Mul() for term in sympy.Add.make_args(side)] for side in sides]
    factors = [factor for side in terms for factor, _ in side if factor != 0]
    common = math.gcd(*map(int, factors)) if factors and all(f.is_Integer for f in factors) else 1
    if common < 2:
        return with_whole_limit(expr)
    return expr.func(*(sympy.Add(*(factor / common * rest for factor, rest in side)) for side in terms))


ROUNDING = {sympy.Ge: sympy.ceiling, sympy.Lt: sympy.ceiling, sympy.Le: sympy.floor, sympy.Gt: sympy.floor}


def with_whole_limit(expr: Any) -> Any:
    """`3*n >= 1` as `n >= 1`: a multiple of an integer compared with a number, as that integer with a number."""
    expr = expr.reversed if expr.args[0].is_number and type(expr) in ROUNDING else expr
    side, limit = expr.args
    terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(side)]
    factors = [factor for factor, _ in terms]
    if type(expr) not in ROUNDING or not limit.is_Integer or not all(f.is_Integer and f != 0 for f in factors):
        return expr
    common = math.gcd(*map(int, factors))
    if common < 2 or any(rest == 1 for _, rest in terms):
        return expr
    least = ROUNDING[type(expr)](limit / common)
    return expr.func(sympy.Add(*(factor / common * rest for factor, rest in terms)), least)


def as_one_comparison(expr: Any) -> Any:
    """The alternatives `n == 1` or `n >= 2` and their like as one comparison of non-negative n."""
    if not isinstance(expr, sympy.Or):
        return expr
    parts: list[Any] = [closed(part) for part in expr.args]
    symbol: Any = parts[0].args[0]
    others: list[Any] = [part for part in parts if not isinstance(part, sympy.Eq)]
    if not symbol.is_Symbol or len(others) != 1 or any(p.args[0] != symbol or not p.args[1].is_Integer for p in parts):
        return expr
    other: Any = others[0]
    equal = {int(p.args[1]) for p in parts if p is not other}
    limit = int(other.args[1])
    if isinstance(other, sympy.Ne):
        return sympy.true if limit in equal else expr
    if not isinstance(other, sympy.Ge):
        return expr
    while limit - 1 in equal:
        limit -= 1
    left: list[Any] = [sympy.Eq(symbol, size) for size in sorted(equal) if size < limit]
    return sympy.true if limit <= 0 else sympy.Or(*left, sympy.Ge(symbol, limit))


# ---------------------------------------------------------------------------------------------- alternatives as spans

Span = tuple[int, float]
"""The least and the greatest, which may be infinite, of whole numbers that are not negative."""


def in_fewest_words(expr: Any) -> Any:
    """Alternatives that compare one size, which is not negative, with numbers, as those that say it:
    `(n >= 2) or (n <= 3)` is true, and `(n >= 6) or (n <= 2) or (n <= 4)` is `n != 5`."""
    if not isinstance(expr, sympy.Or):
        return expr
    parts: list[Any] = [closed(part) for part in expr.args]
    (symbol, *others) = expr.free_symbols
    if others or any(p.func not in SPANNING or p.args[0] != symbol or not p.args[1].is_Integer for p in parts):
        return expr
    found = spans_joined([span for part in parts for span in spans_of(part, int(part.args[1]))])
    if len(found) == 2 and found[0][0] == 0 and found[1] == (found[0][1] + 2, math.inf):
        return sympy.Ne(symbol, int(found[0][1]) + 1)
    return sympy.Or(*(being_within(symbol, *span) for span in found))


SPANNING = (sympy.Eq, sympy.Ne, sympy.Ge, sympy.Le)
"""Relations of a size and a number, as `closed` writes them."""


def spans_of(relation: Any, limit: int) -> list[Span]:
    """The numbers that stand in a relation with a limit."""
    below, beyond = (0, limit - 1), (max(limit + 1, 0), math.inf)
    found: list[list[Span]] = [[(limit, limit)], [below, beyond], [(max(limit, 0), math.inf)], [(0, limit)]]
    return [span for span in found[SPANNING.index(relation.func)] if 0 <= span[0] <= span[1]]


def spans_joined(spans: Sequence[Span]) -> list[Span]:
    """Spans in order, of which none touches another."""
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def being_within(symbol: Any, low: int, high: float) -> Any:
    """The condition that a size is in a span."""
    if low == high:
        return sympy.Eq(symbol, low)
    ends: list[Any] = [sympy.Ge(symbol, low)] if low > 0 else []
    return sympy.And(*ends, *([] if high == math.inf else [sympy.Le(symbol, int(high))]))
