"""Symbolic dimensions: the only file that does algebra.

A dimension is an `int`, or a sympy expression in canonical form: an expanded polynomial over atoms, where an atom is a
symbol or one of the integer functions below with canonical arguments. Symbols are non-negative integers, because a
size may be 0; a symbol that stands for a data-dependent *number* (torch's `item()`) may be declared signed.
Equality has three answers: `same` says True, False, or None where it cannot tell, and None is never taken for no.
`sympy.simplify` is used nowhere: it costs 10 to 150 ms a call. What is ignored of pyright's has no types in sympy.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, reduce
from typing import Any, cast

import sympy
from sympy import Integer

from irkit.dims import signs
from irkit.dims.ranges import LEAST, Range
from irkit.dims.symbols import CACHE, foreign, is_fresh, is_own, text
from irkit.errors import DimensionError

Dim = int | sympy.Expr
"""An int, or a canonical sympy expression over `symbol`s."""

DIGITS = 1 << 16
"""An integer of more bits is no size, nor a step on the way to one."""

Ends = tuple[float, float]
"""The least and the greatest that something may be: integers, or infinite."""

TERMS = 256
"""A product of sizes with more terms than this is refused: a file that asks for it means harm."""
PARTS = 16
"""Of a sum that is divided by another, or of a maximum whose parts are compared with one another: longer ones are left
as they are."""


# ---------------------------------------------------------------------------------------------- symbols


_INT = frozenset((int,))


def any_fresh(shape: Iterable[Dim]) -> bool:
    """True where one of the dimensions is a symbol made by `fresh`."""
    return sympy.Dummy in map(type, shape)


def are_numbers(sizes: Iterable[Dim]) -> bool:
    """True where every dimension is a number."""
    return _INT.issuperset(map(type, sizes))


def label(symbol: sympy.Symbol) -> str:
    """The name by which values and ranges of a symbol are looked up: its own, or a unique one for a fresh symbol."""
    return f"?{symbol.dummy_index}" if isinstance(symbol, sympy.Dummy) else symbol.name


def symbols_of(dim: Dim) -> tuple[sympy.Symbol, ...]:
    """The symbols that stand in a dimension, by name."""
    if type(dim) is int:
        return ()
    return _symbols_of(dim)


@lru_cache(maxsize=CACHE)
def _symbols_of(expr: sympy.Expr) -> tuple[sympy.Symbol, ...]:
    return tuple(sorted(expr.free_symbols, key=lambda s: (str(s), getattr(s, "dummy_index", 0))))  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------- integer functions


class _IntegerFunction(sympy.Function):
    """Base of the functions below: integer-valued, evaluated only where the answer is plain."""

    def _eval_is_integer(self) -> bool:
        return True

    def _eval_is_finite(self) -> bool:
        return True


class FloorDiv(_IntegerFunction):
    """floor(a / b) for integers, rounding down for negatives as Python's `//` does."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if b == 1:
            return a
        if b == 0:
            raise DimensionError(f"the dimension {a} // 0 has no value", hint="divide by a size that is not 0")
        if a == 0:
            return a
        if isinstance(a, Integer) and isinstance(b, Integer):
            return Integer(int(a) // int(b))
        if a == b and signs.sign(b) == 1:
            return Integer(1)
        if isinstance(b, Integer) and b > 0:
            # Terms divisible by b leave the floor: floor((k*b*x + r) / b) = k*x + floor(r / b).
            whole, rest = signs.split_multiples(a, int(b))
            if rest == 0:
                return whole
            if whole != 0:
                return whole + cls(rest, b)
            if isinstance(a, cls) and isinstance(a.args[1], Integer) and a.args[1] > 0:
                return cls(a.args[0], a.args[1] * b)
            return None
        short = signs.is_small(b) and len(sympy.Add.make_args(a)) <= PARTS and not b.has(_IntegerFunction)  # pyright: ignore[reportUnknownMemberType]
        quotient = sympy.cancel(a / b) if short else a / b
        return quotient if signs.is_whole(quotient) and quotient.is_polynomial() else None  # pyright: ignore[reportUnknownMemberType]

    def _eval_is_nonnegative(self) -> bool | None:
        a, b = self.args
        return True if signs.is_nonnegative(a) and signs.is_nonnegative(b) else None


class Mod(_IntegerFunction):
    """a - b * floor(a / b) for integers: the sign is that of b, as with Python's `%`."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if b == 0:
            raise DimensionError(f"the dimension {a} % 0 has no value", hint="divide by a size that is not 0")
        if isinstance(a, Integer) and isinstance(b, Integer):
            return Integer(int(a) % int(b))
        if b == 1 or a == b or a == 0:
            return Integer(0)
        if isinstance(b, Integer) and b > 0:
            whole, rest = signs.split_multiples(a, int(b))
            if rest == 0:
                return Integer(0)
            if whole != 0:
                return cls(rest, b)
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if signs.is_nonnegative(self.args[1]) else None


class Max(_IntegerFunction):
    """The largest of its arguments."""

    @classmethod
    def eval(cls, *args: Any) -> Any:
        return _extreme(cls, args, max)

    def _eval_is_nonnegative(self) -> bool | None:
        return True if any(map(signs.is_nonnegative, self.args)) else None


class Min(_IntegerFunction):
    """The smallest of its arguments."""

    @classmethod
    def eval(cls, *args: Any) -> Any:
        return _extreme(cls, args, min)

    def _eval_is_nonnegative(self) -> bool | None:
        return True if all(map(signs.is_nonnegative, self.args)) else None


class Trunc(_IntegerFunction):
    """A real number rounded towards zero."""

    nargs = (1,)

    @classmethod
    def eval(cls, x: sympy.Expr) -> sympy.Expr | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _rounded(x, math.trunc)


class Floor(_IntegerFunction):
    """A real number rounded down."""

    nargs = (1,)

    @classmethod
    def eval(cls, x: sympy.Expr) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if x.is_Rational or not x.is_rational_function():  # pyright: ignore[reportUnknownMemberType]
            return _rounded(x, math.floor)
        numerator, denominator = x.as_numer_denom()
        if denominator != 1 and signs.is_whole(numerator) and signs.is_whole(denominator):
            return FloorDiv(numerator, denominator)
        return _rounded(x, math.floor)


class Ceil(_IntegerFunction):
    """A real number rounded up."""

    nargs = (1,)

    @classmethod
    def eval(cls, x: sympy.Expr) -> sympy.Expr | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        numerator, denominator = x.as_numer_denom()
        if denominator.is_Integer and denominator != 1 and signs.is_whole(numerator):
            return cast(sympy.Expr, FloorDiv(numerator + denominator - 1, denominator))
        return _rounded(x, math.ceil)


class Round(_IntegerFunction):
    """A real number rounded to the nearest integer, halves to even."""

    nargs = (1,)

    @classmethod
    def eval(cls, x: sympy.Expr) -> sympy.Expr | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _rounded(x, round)


FUNCTIONS: Mapping[str, Any] = {
    "max": Max, "min": Min, "trunc": Trunc, "floor": Floor, "ceil": Ceil, "round": Round, "sqrt": sympy.sqrt,
}  # fmt: skip
"""The functions that a dimension may call, by the name they have in text."""


def _rounded(x: sympy.Expr, rounding: Callable[[Any], int]) -> Any:
    exact = cast(Any, x).xreplace({n: Integer(int(n)) for n in x.atoms(sympy.Float) if float(n).is_integer()})
    if signs.is_whole(exact):  # 1.0*n is torch's float of n
        return exact
    return Integer(rounding(x)) if x.is_number else None


def _extreme(
    cls: sympy.core.function.FunctionClass, args: tuple[sympy.Expr, ...], pick: Callable[..., int]
) -> sympy.Expr | None:
    flat: dict[Any, None] = {}
    numbers: list[int] = []
    for arg in args:
        for part in arg.args if isinstance(arg, cls) else (arg,):
            if isinstance(part, Integer):
                numbers.append(int(part))
            else:
                flat[part] = None
    if numbers:
        best = pick(numbers)
        low = all(map(signs.is_nonnegative, flat)) and best <= 0
        if not (pick is max and low and flat):
            flat[Integer(best)] = None
    parts = sorted(_dominant(list(flat), pick), key=sympy.default_sort_key)
    if len(parts) == 1:
        return parts[0]
    return None if tuple(parts) == args else cls(*parts)


def _dominant(parts: list[sympy.Expr], pick: Callable[..., int]) -> list[sympy.Expr]:
    """`parts` without those that another part is always beyond; all of them where they are many."""
    kept: list[Any] = []
    if len(parts) > PARTS:
        return parts
    for part in parts:
        if not any(_beats(other, part, pick) for other in kept):
            kept = [k for k in kept if not _beats(part, k, pick)]
            kept.append(part)
    return kept


def _beats(a: sympy.Expr, b: sympy.Expr, pick: Callable[..., int]) -> bool:
    apart = a - b if pick is max else b - a
    return signs.is_nonnegative(apart) or _interval(apart, {})[0] >= 0


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
    if any(isinstance(node, (sympy.Mul, sympy.Pow)) and node.has(sympy.Add) for node in sympy.preorder_traversal(expr)):  # pyright: ignore[reportUnknownMemberType]
        expr = sympy.expand(expr)
    if isinstance(expr, Integer):
        return int(expr)
    return expr


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
    lo, hi = _interval(sympy.sympify(expr), ranges)
    return Range(LEAST if lo == -math.inf else int(lo), None if hi == math.inf else int(hi))


def _interval(expr: Any, ranges: Mapping[str, Range]) -> Ends:
    if isinstance(expr, Integer):
        return int(expr), int(expr)
    if expr.is_Symbol:
        known = ranges.get(label(expr))
        if known is not None:
            return known.lo, math.inf if known.hi is None else known.hi
        return (0 if expr.is_nonnegative else -math.inf), math.inf
    parts = [_interval(arg, ranges) for arg in expr.args]
    if isinstance(expr, sympy.Add):
        return sum(p[0] for p in parts), sum(p[1] for p in parts)
    if isinstance(expr, sympy.Mul):
        return reduce(_times, parts)
    if isinstance(expr, sympy.Pow) and isinstance(expr.args[1], Integer) and expr.args[1] > 0:
        return reduce(_times, [parts[0]] * int(expr.args[1]))
    if isinstance(expr, Max):
        return max(p[0] for p in parts), max(p[1] for p in parts)
    if isinstance(expr, Min):
        return min(p[0] for p in parts), min(p[1] for p in parts)
    if isinstance(expr, FloorDiv) and parts[1][0] > 0:
        corners = [_floor(a, b) for a in parts[0] for b in parts[1]]
        return min(corners), max(corners)
    if isinstance(expr, Mod) and parts[1][0] > 0:
        return 0, min(parts[1][1] - 1, parts[0][1]) if parts[0][0] >= 0 else parts[1][1] - 1
    return (0 if signs.is_nonnegative(expr) else -math.inf), math.inf


def _floor(a: Any, b: Any) -> int:
    if abs(a) == math.inf:
        return a if b != math.inf else (0 if a > 0 else -1)
    return (0 if a >= 0 else -1) if b == math.inf else a // b


def _times(a: Ends, b: Ends) -> Ends:
    corners = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(corners), max(corners)


# ---------------------------------------------------------------------------------------------- values


def substitute(expr: Dim, values: Mapping[sympy.Symbol, Dim]) -> Dim:
    """`expr` with symbols replaced by dimensions."""
    if type(expr) is int or not any(s in values for s in symbols_of(expr)):
        return expr
    found: Any = expr
    return canonical(found.xreplace({k: sympy.sympify(v) for k, v in values.items()}).doit())


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


def number_of(expr: Any, values: Mapping[str, int]) -> Any:
    """The number, an integer or not, that an expression is under an assignment of its symbols by name."""
    if expr.is_Symbol:
        if label(expr) not in values:
            raise DimensionError(f"the dimension symbol {label(expr)!r} has no value", hint=f"known: {sorted(values)}")
        return values[label(expr)]
    if expr.is_Integer:
        return int(expr)
    if expr.is_Rational:
        return int(expr.p) / int(expr.q)
    if expr.is_Number or expr.is_NumberSymbol:
        return float(expr)
    args = [number_of(arg, values) for arg in expr.args]
    if isinstance(expr, sympy.Add):
        return sum(args)
    if isinstance(expr, sympy.Mul):
        return _exact_product(expr.args, args)
    if isinstance(expr, sympy.Pow):
        return power(expr, *args)
    return _FOLD[type(expr)](*args)


def power(expr: Any, base: Any, exponent: Any) -> Any:
    """base ** exponent. Raises DimensionError for an integer far beyond any size, which would take minutes."""
    if type(base) is int and type(exponent) is int and base.bit_length() * exponent > DIGITS:
        raise DimensionError(f"the dimension {expr} is beyond any size", hint="give smaller sizes, or a smaller power")
    return base**exponent if exponent != -1 else 1 / base


def _exact_product(parts: tuple[sympy.Expr, ...], numbers: list[Any]) -> Any:
    """The product, integers first and divisions last, so that 3 * 4 / 2 stays exact."""
    top, bottom = 1, 1
    for part, number in zip(parts, numbers, strict=True):
        if isinstance(part, sympy.Pow) and part.args[1] == -1:
            bottom *= 1 / number if number else 0
        elif isinstance(part, sympy.Rational) and not part.is_Integer:
            top, bottom = top * int(part.p), bottom * int(part.q)
        else:
            top *= number
    if bottom == 1:
        return top
    bottom = round(bottom) if abs(bottom - round(bottom)) < 1e-9 else bottom
    return top // bottom if isinstance(top, int) and isinstance(bottom, int) and top % bottom == 0 else top / bottom


_FOLD: dict[type[sympy.Basic], Callable[..., Any]] = {
    FloorDiv: operator.floordiv,  # pyright: ignore[reportUnknownMemberType]  # typeshed has none
    Mod: operator.mod, Max: max, Min: min, Trunc: math.trunc, Floor: math.floor, Ceil: math.ceil, Round: round,
}  # fmt: skip


def line_of(expr: Dim) -> tuple[sympy.Symbol, int, int] | None:
    """(symbol, slope, offset) of what is linear in its only symbol; None for everything else."""
    names, line = () if type(expr) is int else symbols_of(expr), cast(Any, expr)
    if len(names) != 1 or expr is names[0]:
        return (names[0], 1, 0) if len(names) == 1 else None
    if not line.is_polynomial(names[0]) or sympy.degree(line, gen=names[0]) != 1:
        return None
    return names[0], int(line.coeff(names[0], 1)), int(line.coeff(names[0], 0))


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
