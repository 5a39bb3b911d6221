"""Symbolic dimensions: what is computed with them.

A dimension is an `int`, or a sympy expression in canonical form: an expanded polynomial over atoms, where an atom is a
symbol or one of the functions of `functions` with canonical arguments. Symbols are non-negative integers, because a
size may be 0; a symbol that stands for a data-dependent *number* (torch's `item()`) may be declared signed.
Equality has three answers: `same` says True, False, or None where it cannot tell, and None is never taken for no.
`sympy.simplify` is used nowhere: it costs 10 to 150 ms a call. What is ignored of pyright's has no types in sympy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from typing import Any, cast

import sympy
from sympy import Integer

from irkit.dims import signs
from irkit.dims.functions import FloorDiv, Max, Min, Mod, interval, number_of, replace_symbols
from irkit.dims.multiples import with_inner_multiples, with_multiples
from irkit.dims.ranges import LEAST, Range
from irkit.dims.symbols import CACHE, foreign, is_fresh, is_own, label, text
from irkit.errors import DimensionError

Dim = int | sympy.Expr
"""An int, or a canonical sympy expression over `symbol`s."""

TERMS = 256
"""A product of sizes with more terms than this is refused: a file that asks for it means harm."""


# ---------------------------------------------------------------------------------------------- symbols


_INT = frozenset((int,))


def any_fresh(shape: Iterable[Dim]) -> bool:
    """True where one of the dimensions is a symbol made by `fresh`."""
    return sympy.Dummy in map(type, shape)


def are_numbers(sizes: Iterable[Dim]) -> bool:
    """True where every dimension is a number."""
    return _INT.issuperset(map(type, sizes))


def symbols_of(dim: Dim) -> tuple[sympy.Symbol, ...]:
    """The symbols that stand in a dimension, by name."""
    if type(dim) is int:
        return ()
    return _symbols_of(dim)


@lru_cache(maxsize=CACHE)
def _symbols_of(expr: sympy.Expr) -> tuple[sympy.Symbol, ...]:
    return tuple(sorted(expr.free_symbols, key=lambda s: (str(s), getattr(s, "dummy_index", 0))))  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------- arithmetic


def dim(value: Any) -> Dim:
    """The canonical dimension that an int or a sympy expression stands for."""
    if type(value) is int:
        return value
    if isinstance(value, sympy.Basic):
        return canonical(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise no_dimension(value)
    try:
        return int(value)
    except (TypeError, ValueError) as error:  # an array
        raise no_dimension(value) from error


def no_dimension(value: object) -> DimensionError:
    """The error for what is none."""
    return DimensionError(
        f"{value!r} is not a dimension", hint="give an int, or a sympy expression over irkit.symbol(...)"
    )


@lru_cache(maxsize=CACHE)
def canonical(expr: sympy.Expr) -> Dim:
    """The expanded form of an expression; an int where it is a number."""
    if expr.is_Symbol:
        return expr
    if isinstance(expr, Integer):
        return int(expr)
    if _is_factored(expr):
        expr = sympy.expand(with_inner_multiples(expr))
    expr = with_multiples(expr)
    if isinstance(expr, Integer):
        return int(expr)
    return expr


@lru_cache(maxsize=CACHE)
def _is_factored(expr: sympy.Basic) -> bool:
    """True where `sympy.expand` might change an expression: a sum is a factor, or stands in a power."""
    if isinstance(expr, sympy.Mul) and any(isinstance(arg, sympy.Add) for arg in expr.args):
        return True
    if isinstance(expr, sympy.Pow) and expr.has(sympy.Add):  # pyright: ignore[reportUnknownMemberType]
        return True
    return any(map(_is_factored, expr.args))


def add(a: Dim, b: Dim) -> Dim:
    """a + b"""
    if type(a) is int and type(b) is int:
        return a + b
    return _add(a, b)


def sub(a: Dim, b: Dim) -> Dim:
    """a - b"""
    if type(a) is int and type(b) is int:
        return a - b
    return _add(a, mul(b, -1))


def mul(a: Dim, b: Dim) -> Dim:
    """a * b"""
    if type(a) is int and type(b) is int:
        return a * b
    if type(a) is int and a == 1:
        return _terms(b)[0]
    if type(b) is int and b == 1:
        return _terms(a)[0]
    return _mul(a, b)


def floordiv(a: Dim, b: Dim) -> Dim:
    """a // b, rounded down"""
    if type(a) is int and type(b) is int and b != 0:
        return a // b
    return _call(FloorDiv, a, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """a / b rounded up: -(-a // b)"""
    if type(b) is int and b > 0:
        return floordiv(add(a, b - 1), b)
    return mul(floordiv(mul(a, -1), b), -1)


def mod(a: Dim, b: Dim) -> Dim:
    """a % b, with the sign of b"""
    if type(a) is int and type(b) is int and b != 0:
        return a % b
    return _call(Mod, a, b)


def maximum(*parts: Dim) -> Dim:
    """The largest of `parts`, one or more."""
    return max(parts) if parts and all(type(p) is int for p in parts) else _call(Max, *parts)


def minimum(*parts: Dim) -> Dim:
    """The smallest of `parts`, one or more."""
    return min(parts) if parts and all(type(p) is int for p in parts) else _call(Min, *parts)


def product(parts: Iterable[Dim]) -> Dim:
    """The product of `parts`; 1 where there are none."""
    return reduce(mul, parts, 1)


@lru_cache(maxsize=CACHE)
def _add(a: Dim, b: Dim) -> Dim:
    return moderate(canonical(sympy.Add(*_terms(a, b))))


@lru_cache(maxsize=CACHE)
def _mul(a: Dim, b: Dim) -> Dim:
    _terms(a, b)
    terms = len(sympy.Add.make_args(sympy.sympify(a))) * len(sympy.Add.make_args(sympy.sympify(b)))
    if terms > TERMS:
        raise DimensionError(f"the product of two sizes would have {terms} terms", hint="name such sizes")
    return moderate(canonical(sympy.Mul(a, b)))


def moderate(found: Dim) -> Dim:
    """The size, where an int64 holds its numbers and it is no vast expression. Raises DimensionError for others."""
    if type(found) is int and not LEAST <= found < -LEAST:
        raise DimensionError("a size would be a number beyond 64 bits", hint="sizes are below 2**63")
    if isinstance(found, sympy.Expr):
        for term in sympy.Add.make_args(found):
            number: Any = term.args[0] if term.is_Mul else term  # a number stands first
            if number.is_Integer and not LEAST <= int(number) < -LEAST:
                raise DimensionError(f"a size would contain the number {number}", hint="sizes are below 2**63")
        signs.require_moderate(found)
    return found


@lru_cache(maxsize=CACHE)
def _call(function: sympy.core.function.FunctionClass, *args: Dim) -> Dim:
    return moderate(canonical(function(*_terms(*args))))


@lru_cache(maxsize=CACHE)
def _terms(*given: Any) -> tuple[Any, ...]:
    """The operands, one or more. Raises DimensionError for what is not a number and no expression, a text say, and for
    symbols of sympy's own."""
    if not given:
        raise DimensionError("a maximum or minimum needs at least one dimension", hint="give one or more")
    for each in given:
        if not (isinstance(each, int | float | sympy.Basic) or hasattr(each, "__index__")):
            raise DimensionError(
                f"{each!r} is not a dimension", hint='give an int, or an expression over irkit.symbol("n")'
            )
        symbols: Any = each.free_symbols if isinstance(each, sympy.Basic) else ()
        for found in symbols:
            if not is_own(found):
                raise foreign(found)
    return given


# ---------------------------------------------------------------------------------------------- questions


def same(a: Dim, b: Dim) -> bool | None:
    """True where a equals b for every value of the symbols, False where for none, None where it cannot be told."""
    if a is b:
        return True
    if type(a) is int and type(b) is int:
        return a == b
    return _same(a, b)


@lru_cache(maxsize=CACHE)
def _same(a: Dim, b: Dim) -> bool | None:
    _terms(a, b)
    if a == b:
        return True
    if (isinstance(a, sympy.Symbol) and isinstance(b, sympy.Symbol)) or is_fresh(a) or is_fresh(b):
        return None
    try:
        gap = sub(a, b)
    except DimensionError:  # vast
        return None
    if type(gap) is int:
        return gap == 0
    sign = signs.sign(gap)
    return False if sign in (-1, 1) else None


def bounds(expr: Dim, ranges: Mapping[str, Range]) -> Range:
    """An interval that holds every value of `expr` when each symbol stays in its range (missing ones: from 0 up, or
    anything for signed symbols). Interval arithmetic: sound, not always tight; an end that it cannot tell is open,
    and an open lower end is given as -2**63."""
    lo, hi = interval(sympy.sympify(expr), ranges)
    return Range(LEAST if lo == -math.inf else math.floor(lo), None if hi == math.inf else math.ceil(hi))


# ---------------------------------------------------------------------------------------------- values


def substitute(expr: Dim, values: Mapping[sympy.Symbol, Dim]) -> Dim:
    """`expr` with symbols replaced by dimensions."""
    if type(expr) is int or not any(s in values for s in symbols_of(expr)):
        return expr
    return canonical(replace_symbols(expr, {k: sympy.sympify(v) for k, v in values.items()}).doit())


def evaluate(expr: Dim, values: Mapping[str, int]) -> int:
    """The number that `expr` is under an assignment of its symbols by name.

    Raises DimensionError where a symbol has no value or the result is not an integer.
    """
    if type(expr) is int:
        return expr
    try:
        found = number_of(expr, values)
        whole = int(found)
    except (ArithmeticError, TypeError, ValueError) as error:  # a quotient by 0, a root of a negative number
        if isinstance(error, DimensionError):
            raise
        raise DimensionError(f"the dimension {text(expr)} has no value: {error}", hint="give sizes of it") from error
    if found != whole:
        raise DimensionError(
            f"the dimension {text(expr)} is {found}, not an integer",
            hint="divide with // where the size need not come out whole",
        )
    return whole


def line_of(expr: Dim) -> tuple[sympy.Symbol, int, int] | None:
    """(symbol, slope, offset) of what is linear in its only symbol; None for everything else."""
    names, line = () if type(expr) is int else symbols_of(expr), cast(Any, expr)
    if len(names) != 1 or expr is names[0]:
        return (names[0], 1, 0) if len(names) == 1 else None
    if not line.is_polynomial(names[0]) or sympy.degree(line, gen=names[0]) != 1:
        return None
    slope, offset = line.coeff(names[0], 1), line.coeff(names[0], 0)
    return (names[0], int(slope), int(offset)) if slope.is_Integer and offset.is_Integer else None


def solve(expr: Dim, value: int) -> tuple[str, int] | None:
    """(name, number): what the symbol of `line_of` must be for `expr` to equal `value`; None where it is not a line.

    Raises DimensionError where no integer fits.
    """
    found = line_of(expr)
    if found is None:
        return None
    symbol, slope, offset = found
    if (value - offset) % slope:
        raise DimensionError(f"no integer {symbol} makes {expr} equal {value}", hint=f"give a size that is {expr}")
    return label(symbol), (value - offset) // slope
