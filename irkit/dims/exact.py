"""Sums, products and quotients of ints, Fractions and floats: exact, or rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

Number = Any
"""An int, a Fraction, or a float."""

_WHOLE: frozenset[type] = frozenset((int,))


def exact_sum(numbers: Sequence[Number]) -> Number:
    """The sum, rounded once where a float is among the numbers."""
    if _WHOLE.issuperset(map(type, numbers)):
        return sum(numbers)
    kinds: set[type] = set(map(type, numbers))
    if float not in kinds or complex in kinds:
        return shortest(sum(numbers))
    return float(sum(map(Fraction, numbers)))


def exact_product(numbers: Sequence[Number]) -> Number:
    """The product, rounded once where a float is among the numbers."""
    if _WHOLE.issuperset(map(type, numbers)):
        return math.prod(numbers)
    return exact_quotient(numbers, [1] * len(numbers))


def exact_quotient(bases: Sequence[Number], exponents: Sequence[int]) -> Number:
    """The product of powers, rounded once where a float is among their bases."""
    factors, kinds = list(zip(bases, exponents, strict=True)), frozenset(map(type, bases))
    if complex in kinds or (kinds <= _WHOLE and all(exponent >= 0 for exponent in exponents)):
        return math.prod(base**exponent for base, exponent in factors)
    top, bottom = 1, 1
    for base, exponent in factors:
        over, under = Fraction(base).as_integer_ratio() if type(base) is not int else (base, 1)
        if exponent < 0:
            over, under = under, over
        top, bottom = top * over ** abs(exponent), bottom * under ** abs(exponent)
    found = Fraction(top, bottom)
    return float(found) if float in kinds else shortest(found)


def shortest(number: Number) -> Any:
    """An int where a Fraction is one."""
    return int(number) if type(number) is Fraction and number.denominator == 1 else number
