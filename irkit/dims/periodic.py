"""Sizes of one symbol that grow by the same in every period, as quotients of it do: the shortest form of them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy

from irkit.dims.algebra import Dim, add, floordiv, mul, symbols_of
from irkit.dims.functions import FloorDiv, Max, Min, Mod, number_of
from irkit.dims.signs import extent

LONGEST = 2048
"""The longest period in which every size is looked at."""


@lru_cache(maxsize=4096)
def shortest(size: Dim) -> Dim:
    """A size as one quotient, `m * ((p*n + c) // q)`, where it is that for every n; else as it is."""
    names = symbols_of(size)
    if type(size) is int or len(names) != 1:
        return size
    growth = growth_of(size)
    if growth is None or growth[0] > LONGEST:
        return size
    (symbol,), (period, slope) = names, growth
    values = [int(number_of(size, {symbol.name: n})) for n in range(period)]
    whole = math.gcd(*values, int(slope * period))
    for factor in dict.fromkeys((whole, 1)):
        if not factor:
            continue
        each = slope / factor
        for more in range(each.denominator):
            first = values[0] // factor * each.denominator + more
            if all(factor * ((each.numerator * n + first) // each.denominator) == v for n, v in enumerate(values)):
                made = mul(floordiv(add(mul(symbol, each.numerator), first), each.denominator), factor)
                return made if weight(made) < weight(size) else size
    return size


def weight(size: Dim) -> tuple[int, tuple[int, int]]:
    """How many terms an expression has, and parts, and how deep it is."""
    expr = sympy.sympify(size)
    return len(sympy.Add.make_args(expr)), extent(expr)


def growth_of(size: Any) -> tuple[int, Fraction] | None:
    """(period, slope): an expression is greater by their product where its symbol is greater by the period; None for
    one that does not grow so."""
    if size.is_Integer or type(size) is int:
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
        number, rest = size.as_coeff_Mul()
        if number.is_Integer and number != 1:
            found = growth_of(rest)
            return None if found is None else (found[0], found[1] * int(number))
        return (period, Fraction(0)) if not any(slopes) else None
    if isinstance(size, Max | Min):
        return (period, slopes[0]) if len(set(slopes)) == 1 else None
    if isinstance(size, FloorDiv | Mod) and size.args[1].is_Integer and size.args[1] > 0:
        unit, (period, slope) = int(size.args[1]), known[0]
        period *= unit // math.gcd(int(slope * period), unit)
        return period, slope / unit if isinstance(size, FloorDiv) else Fraction(0)
    return None
