"""Sizes of one symbol that grow by the same in every period, as quotients of it do: the shortest form of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy

from irkit.dims.algebra import Dim, add, evaluate, floordiv, mul, symbols_of
from irkit.dims.functions import FloorDiv, Max, Min, Mod
from irkit.dims.signs import extent

LONGEST = 2048
"""The longest period in which every size is looked at."""


@lru_cache(maxsize=4096)
def shortest(size: Dim) -> Dim:
    """A size as one quotient, `m * ((p*n + c) // q)`, where it is that for every n; else as it is."""
    made = size if type(size) is int else quotient_of((size,), lambda n, symbol: evaluate(size, {symbol: n}))
    return size if made is None or weight(made) >= weight(size) else made


def shortest_choice(flag: Dim, one: Dim, other: Dim) -> Dim | None:
    """The size that is `one` where the flag is 1, and `other` where it is 0, as one quotient; None where it is none."""
    if type(flag) is int:
        return one if flag else other

    def value(n: int, symbol: str) -> int:
        at = {symbol: n}
        return evaluate(one if evaluate(flag, at) else other, at)

    return quotient_of((flag, one, other), value)


def quotient_of(parts: tuple[Dim, ...], value: Callable[[int, str], int]) -> Dim | None:
    """The quotient that a number is for every n, where it is told by a first part that does not grow, if there are
    several, and others that grow alike; None where it is none."""
    names = {symbol for each in parts for symbol in symbols_of(each)}
    growths = [growth_of(each) for each in parts]
    known = [each for each in growths if each is not None]
    if len(names) != 1 or len(known) < len(parts) or len({s for _, s in known[len(parts) > 1 :]}) > 1:
        return None
    (symbol,), period, slope = names, math.lcm(*(p for p, _ in known)), known[-1][1]
    if period > LONGEST or (len(parts) > 1 and known[0][1]):
        return None
    values = [value(n, symbol.name) for n in range(period)]
    whole = math.gcd(*values, int(slope * period))
    for factor in dict.fromkeys((whole, 1)):
        if not factor:
            continue
        each = slope / factor
        rise, run = each.numerator, each.denominator
        ends = [
            v // factor * run - rise * n for n, v in enumerate(values)
        ]  # first is from there on, and less than run more
        if max(ends) < min(ends) + run:
            return mul(floordiv(add(mul(symbol, rise), max(ends)), run), factor)
    return None


def weight(size: Dim) -> tuple[int, tuple[int, int]]:
    """How many terms an expression has, and parts, and how deep it is."""
    expr = sympy.sympify(size)
    return len(sympy.Add.make_args(expr)), extent(expr)


def growth_of(size: Any) -> tuple[int, Fraction] | None:
    """(period, slope): an expression is greater by their product where its symbol is greater by the period; None for
    one that does not grow so."""
    if type(size) is int or size.is_Integer:
        return 1, Fraction(0)
    if size.is_Symbol:
        return 1, Fraction(1)
    parts = [growth_of(each) for each in size.args]
    known = [each for each in parts if each is not None]
    if len(known) < len(parts):
        return None
    period, slopes = math.lcm(*(p for p, _ in known)), [s for _, s in known]
    if isinstance(size, sympy.Add):
        return period, sum(slopes, Fraction(0))
    if isinstance(size, sympy.Mul):
        told: Any = size.as_coeff_Mul()  # pyright: ignore[reportUnknownVariableType] - sympy's
        number, rest = told
        if number.is_Integer and number != 1:
            found = growth_of(rest)
            return None if found is None else (found[0], found[1] * int(number))
        return (period, Fraction(0)) if not any(slopes) else None
    if isinstance(size, Max | Min):
        return (period, slopes[0]) if len(set(slopes)) == 1 else None
    unit: Any = size.args[-1]
    if isinstance(size, FloorDiv | Mod) and unit.is_Integer and unit > 0:
        unit, (period, slope) = int(unit), known[0]
        period *= unit // math.gcd(int(slope * period), unit)
        return period, slope / unit if isinstance(size, FloorDiv) else Fraction(0)
    return None
