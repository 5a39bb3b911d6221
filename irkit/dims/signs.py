"""What is plain of the sign of a size, and of whether it is whole, read off its terms.

sympy goes further: it asks derivatives and roots, which takes seconds for a polynomial of a high degree. It is asked
where an expression is small; of a large one, what no term shows is unknown.
"""

from __future__ import annotations

from functools import lru_cache

import sympy

from irkit.errors import DimensionError

CACHE = 1 << 16
TERMS = 4
DEGREE = 3
"""sympy is asked about expressions of so many terms, each of that degree at most."""
NODES, DEPTH = 4096, 32
"""An expression of more nodes, or nested deeper, is refused: sympy goes through all of them in every step."""
POWER = 64
"""The largest power in an expression."""


@lru_cache(maxsize=CACHE)
def is_nonnegative(expr: sympy.Expr) -> bool:
    """True where an expression is known to be 0 or more."""
    return bool(expr.is_nonnegative) if is_small(expr) else all(map(_is_nonnegative, sympy.Add.make_args(expr)))


def _is_nonnegative(term: sympy.Expr) -> bool:
    if isinstance(term, sympy.Mul):
        return all(map(_is_nonnegative, term.args))
    if isinstance(term, sympy.Pow):
        return _is_nonnegative(term.base) and bool(term.exp.is_Rational)
    return bool(term.is_nonnegative) if not isinstance(term, sympy.Add) else is_nonnegative(term)


@lru_cache(maxsize=CACHE)
def sign(expr: sympy.Expr) -> int | None:
    """1 or -1 where an expression is above or below 0 for all values of its symbols, else None."""
    if is_small(expr):
        return 1 if expr.is_positive else -1 if expr.is_negative else None
    number, rest = expr.as_coeff_Add()
    if number.is_Integer and number > 0 and is_nonnegative(rest):
        return 1
    return -1 if number.is_Integer and number < 0 and is_nonnegative(-rest) else None


@lru_cache(maxsize=CACHE)
def is_whole(expr: sympy.Expr) -> bool:
    """True where an expression is known to be an integer."""
    return bool(expr.is_integer) if is_small(expr) else all(map(_is_whole, sympy.Add.make_args(expr)))


def _is_whole(term: sympy.Expr) -> bool:
    if isinstance(term, sympy.Mul):
        return all(map(_is_whole, term.args))
    if isinstance(term, sympy.Pow):
        return bool(term.exp.is_Integer and term.exp.is_nonnegative) and _is_whole(term.base)
    return bool(term.is_integer) if not isinstance(term, sympy.Add) else is_whole(term)


def is_small(expr: sympy.Expr) -> bool:
    """True for an expression about which sympy may be asked: an atom, a short polynomial of low degree."""
    if not isinstance(expr, sympy.Add | sympy.Mul | sympy.Pow):
        return True
    terms = sympy.Add.make_args(expr)
    return len(terms) <= TERMS and all(_degree(term) <= DEGREE for term in terms)


def _degree(term: sympy.Expr) -> int:
    found = 0
    for factor in sympy.Mul.make_args(term):
        base, power = factor.as_base_exp()
        if not (base.is_Symbol or base.is_Number):  # a function: sympy would go into its arguments
            return DEGREE + 1
        found += 0 if base.is_Number else abs(int(power)) if power.is_Integer else DEGREE + 1
    return found


def require_moderate(expr: sympy.Expr) -> None:
    """Raises DimensionError for an expression of a great many nodes, or nested deep."""
    nodes, depth = extent(expr)
    if nodes > NODES or depth > DEPTH:
        raise DimensionError(
            f"a size would be an expression of {nodes} parts, nested {depth} deep", hint="name such sizes"
        )


@lru_cache(maxsize=CACHE)
def extent(expr: sympy.Expr) -> tuple[int, int]:
    """(nodes, depth) of an expression, counted as a tree; what stands in it was counted before."""
    if not expr.args:
        return 1, 0
    if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and abs(expr.exp) > POWER:
        return NODES + 1, 1
    parts = [extent(part) for part in expr.args]
    return 1 + sum(nodes for nodes, _ in parts), 1 + max(depth for _, depth in parts)


def split_multiples(expr: sympy.Expr, divisor: int) -> tuple[sympy.Expr, sympy.Expr]:
    """(q, r) with expr = q * divisor + r, where q holds every term with a coefficient that `divisor` divides, and a
    constant is reduced to 0 <= c < divisor."""
    whole, rest = list[sympy.Expr](), list[sympy.Expr]()
    for term in sympy.Add.make_args(expr):
        coefficient, factors = term.as_coeff_Mul()
        if not isinstance(coefficient, sympy.Integer) or not is_whole(factors):
            return sympy.Integer(0), expr
        if factors == 1:
            q, r = divmod(int(coefficient), divisor)
            whole.append(sympy.Integer(q))
            rest.append(sympy.Integer(r))
        elif int(coefficient) % divisor == 0:
            whole.append(sympy.Integer(int(coefficient) // divisor) * factors)
        else:
            rest.append(term)
    return sympy.Add(*whole), sympy.Add(*rest)
