"""Real numbers computed of sizes, as Python and torch compute them: in doubles, each operation rounded once.

An expression stands for the double nearest to what it is of exact integers, constants and `Double`s. Each operation of
this module takes such expressions and gives one, in which sympy merges nothing that is rounded by itself: a compound
operand goes into a `Double`. What is exact without is left alone: sums and products of integers and small binary
fractions, and the quotient of two integers, which is rounded once at the end. Sizes are below 2**51.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import sympy

from irkit.dims import signs
from irkit.dims.algebra import dim, mod
from irkit.dims.functions import Double, Max, Mod, is_exact
from irkit.dims.symbols import CACHE

Real = Any
"""A sympy expression of a real number; sympy has no types."""


def leaf(x: Real) -> Real:
    """An operand of an operation that is rounded: a constant, a symbol, or what sympy does not look into."""
    return x if x.is_Float else Double(x)


def total(a: Real, b: Real) -> Real:
    """a + b"""
    return a + b if is_exact(a) and is_exact(b) and is_exact(a + b) else leaf(a) + leaf(b)


def difference(a: Real, b: Real) -> Real:
    """a - b"""
    return total(a, -b) if is_exact(a) and is_exact(b) else leaf(a) - leaf(b)


def product(a: Real, b: Real) -> Real:
    """a * b"""
    return a * b if is_exact(a) and is_exact(b) and is_exact(a * b) else leaf(a) * leaf(b)


def quotient(a: Real, b: Real) -> Real:
    """a / b"""
    a, b = plain(a), b if b.is_Float and is_power_of_two(b) else plain(b)
    if is_exact(a) and is_exact(b) and not (a.has(sympy.Float) or b.has(sympy.Float)):
        return a / b
    if b.is_Float:
        return product(a, 1 / b) if is_power_of_two(b) else leaf(a) / Double(b)
    return leaf(a) / leaf(b)


def plain(x: Real) -> Real:
    """A whole number as an integer, of which a quotient is exact."""
    return sympy.Integer(int(x)) if x.is_Float and float(x).is_integer() else x


def is_power_of_two(x: Real) -> bool:
    """True for a float whose inverse is exact."""
    top, bottom = float(x).as_integer_ratio()
    return top > 0 and (top & (top - 1), bottom & (bottom - 1)) == (0, 0)


def remainder(a: Real, b: Real) -> Real:
    """a % b, which is exact but where the signs differ."""
    a, b = plain(a), plain(b)
    return sympy.sympify(mod(dim(a), dim(b))) if signs.is_whole(a) and signs.is_whole(b) else Mod(leaf(a), leaf(b))


def power(a: Real, b: Real) -> Real:
    """a ** b"""
    return leaf(a) ** (sympy.Float(int(b)) if b.is_Integer else leaf(b))


def root(x: Real) -> Real:
    """The square root of a number."""
    return sympy.sqrt(Double(x))


def side(x: Real, other: Real) -> Real:
    """A number as it is compared with another: a quotient of integers is as exact as the integer or short fraction that
    it is compared with, and anything else is compared as a double. An amount is the greater of a number and its
    negative, which has a text form: they differ in the sign of a zero alone, which no comparison tells."""
    if x.has(sympy.Abs):
        x = x.replace(sympy.Abs, _greater_of_both_signs)
    if is_exact(x) or not (x.has(Double) or ratio(x)):
        return x
    return x if is_exact(other) and not x.has(Double) else Double(x)


def _greater_of_both_signs(x: Real) -> Real:
    return cast(Real, Max)(x, -x)


@lru_cache(maxsize=CACHE)
def ratio(x: Real) -> tuple[Real, Real] | None:
    """(numerator, denominator), integers, of what is computed of integers by + - * / alone; None for anything else."""
    if not is_ratio(x):
        return None
    top, bottom = x.as_numer_denom()
    return (top, bottom) if signs.is_whole(top) and signs.is_whole(bottom) else None


def is_ratio(x: Real) -> bool:
    """True for what is computed of integers by + - * / alone."""
    if isinstance(x, sympy.Add | sympy.Mul):
        return all(map(is_ratio, x.args))
    if isinstance(x, sympy.Pow):
        return bool(x.args[1].is_Integer) and is_ratio(x.args[0])
    return bool(x.is_Rational) or (not x.is_Float and not isinstance(x, Double) and signs.is_whole(x))


def fraction(x: Real) -> tuple[Real, Real]:
    """(what multiplies, what divides) of a product."""
    top, bottom = list[Real](), list[Real]()
    factors: tuple[Real, ...] = sympy.Mul.make_args(x)
    for factor in factors:
        if factor.is_Rational and not factor.is_Integer:
            top, bottom = [*top, sympy.Integer(factor.p)], [*bottom, sympy.Integer(factor.q)]
        elif isinstance(factor, sympy.Pow) and factor.args[1].is_Integer and factor.args[1].is_negative:
            bottom.append(factor.args[0] ** -cast(Real, factor.args[1]))
        else:
            top.append(factor)
    return sympy.Mul(*top), sympy.Mul(*bottom)
