"""Sums that are a multiple: what is padded, or cut, to a multiple of a size."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy

from irkit.dims import signs
from irkit.dims.functions import PARTS, FloorDiv, Mod
from irkit.dims.symbols import CACHE

_Part = Any
"""An expression of sympy, or a part of one, which sympy gives no types."""


@lru_cache(maxsize=CACHE)
def with_multiples(expr: _Part) -> _Part:
    """A sum in which no size stands beside what it lacks of a multiple, or has more: n + -n % k is k*ceil(n / k), and
    n - n % k is k*(n // k). Of such a size it is seen what it is divided by k, and a product of several is one term."""
    if not isinstance(expr, sympy.Add) or len(expr.args) > PARTS or not signs.is_whole(expr):
        return expr
    for term in expr.args:
        coefficient, factor = term.as_coeff_Mul()
        if isinstance(factor, Mod) and coefficient.is_Integer:
            whole, unit = tuple[_Part, _Part](factor.args)
            _, varying = whole.as_coeff_Add()
            beside = sympy.Add.make_args(-coefficient * varying)
            if not unit.is_Add and signs.is_whole(whole) and all(each in expr.args for each in beside):
                rest = expr - term + coefficient * whole
                return with_multiples(sympy.expand(rest - coefficient * unit * quotient(whole, unit)))
    return expr


@lru_cache(maxsize=CACHE)
def with_inner_multiples(expr: _Part) -> _Part:
    """The same of every sum in an expression, inner ones first."""
    if not expr.has(Mod):
        return expr
    args = tuple(map(with_inner_multiples, expr.args))
    return with_multiples(expr if args == expr.args else expr.func(*args))


def quotient(whole: _Part, unit: _Part) -> _Part:
    """whole // unit, as that of the opposite rounded up where this is the plainer one."""
    made: _Part = FloorDiv
    if unit.is_Integer and unit > 0 and whole.could_extract_minus_sign():
        return -made(sympy.expand(unit - 1 - whole), unit)
    return made(whole, unit)
