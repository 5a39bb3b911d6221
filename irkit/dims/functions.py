"""The functions that dimensions are made of beside sums and products, and the numbers that they are."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, cast

import sympy
from sympy import Integer

from irkit.dims import signs
from irkit.dims.exact import Number, exact_product, exact_quotient, exact_sum, shortest
from irkit.dims.ranges import Range
from irkit.dims.symbols import CACHE, label
from irkit.dims.written import Program, source_of
from irkit.errors import DimensionError

DIGITS = 1 << 16
"""An integer of more bits is no size, nor a step on the way to one."""

_Part = Any
"""An expression of sympy, or a part of one, which sympy gives no types."""
Ends = tuple[float, float]
"""The least and the greatest that something may be: integers, or infinite."""

FINE, LARGE = 1 << 10, 1 << 20
"""A number with a denominator that is a power of 2 up to the first, and a numerator up to the second, keeps products of
sizes exact."""
HALF = Fraction(1, 2)
PARTS = 16
"""Of a sum that is divided by another, or of a maximum whose parts are compared with one another: longer ones are left
as they are."""


class _IntegerFunction(sympy.Function):
    """Base of the functions below: integer-valued, evaluated only where the answer is plain."""

    def _eval_is_integer(self) -> bool:
        return True

    def _eval_is_finite(self) -> bool:
        return True


class _Picked(_IntegerFunction):
    """Base of those that are integers where their arguments are."""

    def _eval_is_integer(self) -> bool | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return all(map(signs.is_whole, self.args)) or None

    def _eval_is_real(self) -> bool:
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
            if (multiple := _with_remainder(a, b)) is not None:
                return cls(multiple, b)
            # Terms divisible by b leave the floor: floor((k*b*x + r) / b) = k*x + floor(r / b).
            whole, rest = signs.split_multiples(a, int(b))
            if rest == 0:
                return whole
            if whole != 0:
                return whole + cls(rest, b)
            if isinstance(a, cls) and isinstance(a.args[1], Integer) and a.args[1] > 0:
                return cls(a.args[0], a.args[1] * b)
            return None
        if (whole := _whole_quotient(a, b)) is not None:
            return whole
        short = signs.is_small(b) and len(sympy.Add.make_args(a)) <= PARTS and not b.has(_IntegerFunction)  # pyright: ignore[reportUnknownMemberType]
        quotient = sympy.cancel(a / b) if short else a / b
        return quotient if signs.is_whole(quotient) and quotient.is_polynomial() else None  # pyright: ignore[reportUnknownMemberType]

    def _eval_is_nonnegative(self) -> bool | None:
        a, b = self.args
        return True if signs.is_nonnegative(a) and signs.is_nonnegative(b) else None


class Mod(_Picked):
    """a - b * floor(a / b): the sign is that of b, as with Python's `%`."""

    nargs = (2,)

    @classmethod
    def eval(cls, a: sympy.Expr, b: sympy.Expr) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if b == 0:
            raise DimensionError(f"the dimension {a} % 0 has no value", hint="divide by a size that is not 0")
        if isinstance(a, Integer) and isinstance(b, Integer):
            return Integer(int(a) % int(b))
        if a == b or a == 0 or (b == 1 and signs.is_whole(a)):
            return Integer(0)
        if isinstance(b, Integer) and b > 0:
            whole, rest = signs.split_multiples(a, int(b))
            if rest == 0:
                return Integer(0)
            if whole != 0:
                return cls(rest, b)
        if _whole_quotient(a, b) is not None:
            return Integer(0)
        rest = _congruent(a, b)
        return None if rest == a else cls(rest, b)

    def _eval_is_nonnegative(self) -> bool | None:
        return True if signs.is_nonnegative(self.args[1]) else None


def _congruent(a: _Part, b: _Part) -> _Part:
    """What has the same remainder by b as a sum has, without multiples of b and remainders by it: b - n % b is -n."""
    terms = sympy.Add.make_args(a)
    if len(terms) > PARTS or not signs.is_whole(a):
        return a
    found: list[_Part] = []
    for term in terms:
        coefficient, factor = term.as_coeff_Mul()
        if isinstance(factor, Mod) and factor.args[1] == b and coefficient.is_Integer:
            found.append(coefficient * factor.args[0])
        elif _whole_quotient(term, b) is None:
            found.append(term)
    return a if tuple(found) == terms else sympy.expand(sympy.Add(*found))


def _whole_quotient(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
    """a / b where b, which is no sum, is a factor of each part of a: (n*Max(k, m) + 2*n) / n is Max(k, m) + 2."""
    parts: Any = () if b.is_Add else sympy.Add.make_args(a)
    quotients = [part / b for part in parts] if len(parts) <= PARTS else []
    return sympy.Add(*quotients) if quotients and all(map(signs.is_whole, quotients)) else None


class Max(_Picked):
    """The largest of its arguments."""

    @classmethod
    def eval(cls, *args: Any) -> Any:
        return _extreme(cls, args, max)

    def _eval_is_nonnegative(self) -> bool | None:
        return True if any(map(signs.is_nonnegative, self.args)) else None


class Min(_Picked):
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
        return _rounded(_bare(x), math.trunc)


class Floor(_IntegerFunction):
    """A real number rounded down."""

    nargs = (1,)

    @classmethod
    def eval(cls, x: sympy.Expr) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x = _bare(x)
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
        x = _bare(x)
        numerator, denominator = x.as_numer_denom()
        if denominator.is_Integer and denominator != 1 and signs.is_whole(numerator):
            return cast(sympy.Expr, FloorDiv(numerator + denominator - 1, denominator))
        return _rounded(x, math.ceil)


class Round(_IntegerFunction):
    """A real number rounded to the nearest integer, halves to even."""

    nargs = (1,)

    @classmethod
    def eval(cls, x: sympy.Expr) -> sympy.Expr | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _rounded(_bare(x), round)


class Double(sympy.Function):
    """The double nearest to a real number, through which sympy does not look: Python and torch round after each
    operation, and n * (m / n) is not always m."""

    nargs = (1,)

    @classmethod
    def eval(cls, x: sympy.Expr) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        bare: Any = -x if x.could_extract_minus_sign() else x
        if bare.is_Symbol or bare.is_Integer or isinstance(bare, cls):
            return x
        if isinstance(bare, _IntegerFunction) and signs.is_whole(bare):
            return x
        return sympy.Float(int(x.p) / int(x.q)) if x.is_Rational else None  # type: ignore[attr-defined]

    @classmethod
    def _should_evalf(cls, arg: Any) -> int:
        """Never: `Double(0.1)` would become 0.1, and dividing by that the product with 10.0, which is rounded twice."""
        return -1

    def _eval_is_real(self) -> bool:
        return True

    def _eval_is_finite(self) -> bool:
        return True

    def _eval_is_nonnegative(self) -> bool | None:
        return True if signs.is_nonnegative(self.args[0]) else None

    def _eval_evalf(self, prec: int) -> Any:
        return sympy.Float(number_of(self, {})) if self.is_number else None


@lru_cache(maxsize=CACHE)
def is_exact(x: Any) -> bool:
    """True where doubles hold every value of an expression, and of all that it is computed of: sums and products of
    integers and short binary fractions."""
    if x.is_Number:
        top, bottom = (int(x.p), int(x.q)) if x.is_Rational else float(x).as_integer_ratio() if x.is_Float else (0, 0)
        return abs(top) <= LARGE and bottom <= FINE and bottom & (bottom - 1) == 0 if not x.is_Integer else True
    if isinstance(x, sympy.Add | sympy.Mul):
        return all(map(is_exact, x.args))
    if isinstance(x, sympy.Pow):
        return bool(x.args[1].is_Integer and x.args[1].is_positive) and is_exact(cast(Any, x.args[0]))
    return signs.is_whole(x)


def replace_symbols(expr: Any, values: Mapping[Any, Any]) -> Any:
    """An expression with others in the place of symbols, and of other parts; each goes into a `Double` where it becomes
    an operand of doubles, so that sympy merges nothing that is rounded by itself."""
    if expr in values or not expr.has(sympy.Float, Double):
        return expr.xreplace(values)
    args = [replace_symbols(arg, values) for arg in expr.args]
    made = expr.func(*args) if args else expr
    if not isinstance(expr, sympy.Add | sympy.Mul | sympy.Pow) or signs.is_whole(expr) or is_exact(made):
        return made
    double: Any = Double
    return expr.func(*(double(new) if old in values else new for old, new in zip(expr.args, args, strict=True)))


FUNCTIONS: Mapping[str, Any] = {
    "max": Max, "min": Min, "trunc": Trunc, "floor": Floor, "ceil": Ceil, "round": Round, "sqrt": sympy.sqrt,
    "double": Double,
}  # fmt: skip
"""The functions that a dimension may call, by the name they have in text."""


def _bare(x: Any) -> Any:
    """What is rounded to an integer of a number that is rounded to a double at any rate."""
    return x.args[0] if isinstance(x, Double) else x


def _rounded(x: sympy.Expr, rounding: Callable[[Any], int]) -> Any:
    exact = cast(Any, x).xreplace({n: Integer(int(n)) for n in x.atoms(sympy.Float) if float(n).is_integer()})
    if signs.is_whole(exact):  # 1.0*n is torch's float of n
        return exact
    return Integer(rounding(number_of(x, {}))) if x.is_number else None


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
    return signs.is_nonnegative(apart) or interval(apart, {})[0] >= 0


# ---------------------------------------------------------------------------------------------- intervals


def interval(expr: _Part, ranges: Mapping[str, Range], known: dict[_Part, Ends] | None = None) -> Ends:
    """The ends between which every value of an expression is, where symbols are in their ranges. `known` keeps those of
    its parts, for other expressions and the same ranges."""
    return _interval(expr, ranges, {} if known is None else known)


def _interval(expr: _Part, ranges: Mapping[str, Range], known: dict[_Part, Ends]) -> Ends:
    """The same, of parts whose ends are `known` already: a part may stand in an expression many times."""
    found = known.get(expr)
    if found is None:
        found = known[expr] = _ends(expr, ranges, known)
    return found


def _with_remainder(a: Any, b: Integer) -> Any:
    """x of x - x % b, whose quotient by b is that of x; None for anything else."""
    for term in a.args if isinstance(a, sympy.Add) else ():
        sign, factor = term.as_coeff_Mul()
        if sign == -1 and isinstance(factor, Mod) and factor.args[1] == b:
            remainder: Any = Mod(a - term, b)
            if remainder == factor:
                return a - term
    return None


@lru_cache(maxsize=CACHE)
def _with_remainders(expr: Any) -> Any:
    """A sum in which multiples of `n // k` that k divides are `n - n % k`: n - 8*(n // 8) is n % 8."""
    terms: list[Any] = []
    for term in expr.args:
        coefficient, factor = term.as_coeff_Mul()
        divisor: Any = factor.args[1] if isinstance(factor, FloorDiv) else sympy.S.Zero
        whole: Any = factor.args[0] if divisor else None
        integers = bool(divisor.is_Integer and divisor > 0 and coefficient.is_Integer and signs.is_whole(whole))
        if integers and coefficient % divisor == 0:
            terms.append(coefficient / divisor * (whole - Mod(whole, divisor)))
        else:
            terms.append(term)
    return expr if tuple(terms) == expr.args else sympy.expand(sympy.Add(*terms))


def _ends_by_sides(expr: Any, ranges: Mapping[str, Range], known: dict[_Part, Ends], ends: Ends) -> Ends:
    """The ends of a sum, no wider than these, as it is with one side of an extreme in it or the other: what a side has
    in common with the other terms counts once. n + 1 - Max(0, n) is 1 or n + 1."""
    extremes = [term for term in expr.args if isinstance(term.as_coeff_Mul()[1], Max | Min)]
    for term in extremes if len(extremes) <= SIDES else ():
        coefficient, extreme = term.as_coeff_Mul()
        if coefficient in (1, -1) and len(extreme.args) <= SIDES:
            rest = [each for each in expr.args if each is not term]
            sides = [[coefficient * each for each in sympy.Add.make_args(side)] for side in extreme.args]
            either = [_interval(sympy.Add(*rest, *each), ranges, known) for each in sides]
            pick = max if isinstance(extreme, Max) is (coefficient == 1) else min
            low, high = (pick(each[end] for each in either) for end in (0, 1))
            ends = max(ends[0], low), min(ends[1], high)
    return ends


SIDES = 2
"""Of so many extremes in a sum, each of so many sides, is looked at what the sum is with either side."""


def _ends(expr: _Part, ranges: Mapping[str, Range], known: dict[_Part, Ends]) -> Ends:
    """The ends of an expression whose parts are between theirs."""
    parts = [_interval(arg, ranges, known) for arg in expr.args]
    if expr.is_Rational:
        number: Any = shortest(Fraction(int(expr.p), int(expr.q)))
        return number, number
    if expr.is_Symbol:
        given = ranges.get(label(expr))
        if given is not None:
            return given.lo, math.inf if given.hi is None else given.hi
        return (0 if expr.is_nonnegative else -math.inf), math.inf
    if isinstance(expr, sympy.Add):
        ends: Ends = sum(p[0] for p in parts), sum(p[1] for p in parts)
        other = _with_remainders(expr)
        again = ends if other is expr else _interval(other, ranges, known)
        ends = max(ends[0], again[0]), min(ends[1], again[1])
        return ends if ends[0] > -math.inf else _ends_by_sides(expr, ranges, known, ends)
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


# ---------------------------------------------------------------------------------------------- numbers


def number_of(expr: _Part, values: Mapping[str, int]) -> Number:
    """The number that an expression is under an assignment of its symbols by name: exact, an int or a Fraction, where
    no double is in it; else a float, rounded once by each operation on doubles."""
    return _program(expr).number(values)


PROGRAMS = 1 << 13
"""Of so many expressions it is known how their numbers are computed."""
_Step = Callable[[list[Number], Mapping[str, int]], Number]
"""What a part of an expression is, of what the parts before it are and the values of symbols."""


@lru_cache(maxsize=PROGRAMS)
def _program(expr: _Part) -> Program:
    """How the number of an expression is computed."""
    return Program(_steps(expr), lambda: source_of(expr, _SIGNS, DIGITS))


def _steps(expr: _Part) -> tuple[_Step, ...]:
    """How the number of an expression is computed: each part that differs once, after those that it is made of. Sizes
    behind several layers contain the sizes before them many times over."""
    places: dict[_Part, int] = {}
    steps: list[_Step] = []

    def place_of(part: _Part) -> int:
        if part not in places:
            step = _step(part, [place_of(arg) for arg in _operands(part)])
            places[part] = len(steps)
            steps.append(step)
        return places[part]

    place_of(expr)
    return tuple(steps)


def _operands(expr: _Part) -> Sequence[Any]:
    """The parts of which the number of an expression is computed."""
    if isinstance(expr, sympy.Mul):
        return [arg.args[0] if _whole_power(arg) < 0 else arg for arg in expr.args]
    return () if expr.is_Number or expr.is_NumberSymbol else expr.args


def _whole_power(factor: _Part) -> int:
    """The exponent of a factor, where it is an integer; else 1."""
    if isinstance(factor, sympy.Pow) and isinstance(factor.args[1], Integer):
        return int(factor.args[1])
    return 1


def _step(expr: _Part, places: Sequence[int]) -> _Step:
    """How one part of an expression is computed of those at `places`."""
    if expr.is_Symbol:
        return _looked_up(label(expr))
    if not places:
        return _constant(expr)
    if isinstance(expr, sympy.Add):
        return lambda found, _: exact_sum([found[i] for i in places])
    if isinstance(expr, sympy.Mul):
        exponents = [min(_whole_power(arg), 1) for arg in expr.args]
        if min(exponents) >= 0:
            return lambda found, _: exact_product([found[i] for i in places])
        return lambda found, _: exact_quotient([found[i] for i in places], exponents)
    if isinstance(expr, sympy.Pow):
        base, exponent = places
        return lambda found, _: power(expr, found[base], found[exponent])
    function = _FOLD.get(expr.func)
    if function is None:  # a quotient by 0, or a function of sympy's own
        raise TypeError(f"{expr} is no number")
    if len(places) == 1:
        (only,) = places
        return lambda found, _: function(found[only])
    if len(places) == 2:
        one, two = places
        return lambda found, _: function(found[one], found[two])
    return lambda found, _: function(*(found[i] for i in places))


def _looked_up(name: str) -> _Step:
    def value_of(_: list[Number], values: Mapping[str, int]) -> Number:
        if name not in values:
            raise DimensionError(f"the dimension symbol {name!r} has no value", hint=f"known: {sorted(values)}")
        return values[name]

    return value_of


def _constant(expr: _Part) -> _Step:
    """The number that an expression without parts is. Raises TypeError where it is none."""
    if expr.is_Rational:
        number: Number = int(expr) if expr.is_Integer else Fraction(int(expr.p), int(expr.q))
    elif expr.is_Number or expr.is_NumberSymbol:
        number = float(expr)
    else:
        raise TypeError(f"{expr} is no number")
    return lambda _found, _values: number


def power(expr: _Part, base: Number, exponent: Number) -> Number:
    """base ** exponent. Raises DimensionError for an integer far beyond any size, which would take minutes."""
    if type(exponent) is not int:
        root = exponent == HALF and type(exponent) is Fraction and base >= 0
        return math.sqrt(base) if root else base ** float(exponent)
    if type(base) is int and base.bit_length() * exponent > DIGITS:
        raise DimensionError(f"the dimension {expr} is beyond any size", hint="give smaller sizes, or a smaller power")
    return exact_quotient([base], [exponent])


_FOLD: dict[Any, Callable[..., Any]] = {
    FloorDiv: operator.floordiv,  # pyright: ignore[reportUnknownMemberType]  # typeshed has none
    Mod: operator.mod, Max: max, Min: min, Trunc: math.trunc, Floor: math.floor, Ceil: math.ceil, Round: round,
    Double: float, sympy.Abs: abs,
}  # fmt: skip
_SIGNS: Mapping[_Part, str] = {FloorDiv: "//", Mod: "%", Max: "max", Min: "min"}
