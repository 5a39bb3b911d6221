"""Numbers that a model computes of its sizes, as values of a graph: whole numbers, fractions of them, and doubles.

They are those of Python: a quotient is rounded down, whatever the signs, and `/` is exact until `double` is asked for.
Python's whole numbers have no end, and those of the file have 64 bits: where one might go beyond, it is said whether it
does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.errors import DimensionError

MOST = (1 << 63) - 1
LONG = (1 << 31) - 1
"""No axis is taken to be longer."""


@attrs.frozen
class Whole:
    """A whole number in the graph, int64, which is `most` away from 0 at most; `said` are true where it is right."""

    value: Value
    most: int = LONG
    said: tuple[Value, ...] = ()


@attrs.frozen
class Number:
    """A number in the graph: int64 or float64, the former divided by `over` where that is given, which is above 0.
    `said` are true where nothing on the way was divided by 0, or beyond 64 bits; `power` is the number itself where it
    is a constant. A whole number is `most` away from 0 at most, what it is divided by `over_most`."""

    value: Value
    over: Value | None = None
    said: tuple[Value, ...] = ()
    power: int | float | None = None
    most: int = LONG
    over_most: int = 1

    @property
    def top(self) -> Whole:
        """What is divided."""
        return Whole(self.value, self.most)

    @property
    def bottom(self) -> Whole:
        """What it is divided by."""
        return Whole(self.under, self.over_most)

    @property
    def is_double(self) -> bool:
        """Whether it is held as a double."""
        return self.value.dtype == DType.DOUBLE

    @property
    def under(self) -> Value:
        """What it is divided by."""
        return const(1) if self.over is None else self.over

    @property
    def double(self) -> Value:
        """The nearest double."""
        if self.is_double:
            return self.value
        found = op.Cast(self.value, to=int(DType.DOUBLE))
        return found if self.over is None else op.Div(found, op.Cast(self.over, to=int(DType.DOUBLE)))


def constant(number: Any) -> Number:
    """A constant. Raises DimensionError for a whole number that 64 bits do not hold."""
    if not isinstance(number, int):
        return Number(const(number, DType.DOUBLE), power=number)
    if abs(number) > MOST:
        raise DimensionError(f"a file computes no size beyond 64 bits: {number}", hint="check it with the contract")
    return Number(const(number, DType.INT64), power=number, most=abs(number))


def computed(function: Callable[[Value, Value], Value], a: Whole, b: Whole, most: int) -> Whole:
    """A sum, a difference or a product that is `most` away from 0 at most. Where 64 bits might not hold it, its double
    says whether they do."""
    said = tuple(dict.fromkeys((*a.said, *b.said)))
    value = function(a.value, b.value)
    if most <= MOST:
        return Whole(value, most, said)
    near = function(*(op.Cast(each.value, to=int(DType.DOUBLE)) for each in (a, b)))
    return Whole(value, MOST, (*said, held(near)))


def times(a: Whole, b: Whole) -> Whole:
    """The product of two whole numbers."""
    return computed(op.Mul, a, b, a.most * b.most)


def held(near: Value) -> Value:
    """Whether 64 bits hold the whole number that a double is near to, or is beyond by a millionth at most."""
    return op.Less(op.Abs(near), const(2.0**63 * (1 - 2.0**-50), DType.DOUBLE))


def said_by(a: Number, b: Number) -> tuple[Value, ...]:
    """What both of them say."""
    return tuple(dict.fromkeys((*a.said, *b.said)))


def crossed(a: Number, b: Number) -> tuple[Whole, Whole]:
    """Two whole numbers that compare as two numbers that are none of them doubles."""
    if a.over is None and b.over is None:
        return a.top, b.top
    return times(a.top, b.bottom), times(b.top, a.bottom)


def less(a: Number, b: Number) -> Number:
    """Whether the one is less than the other, as a number that is a flag."""
    if a.is_double or b.is_double:
        return Number(op.Less(a.double, b.double), said=said_by(a, b))
    one, other = crossed(a, b)
    return Number(op.Less(one.value, other.value), said=(*said_by(a, b), *one.said, *other.said))


def largest(a: Number, b: Number) -> Number:
    """The greater of the two."""
    return chosen(less(a, b), b, a)


def least(a: Number, b: Number) -> Number:
    """The smaller of the two."""
    return chosen(less(b, a), b, a)


def chosen(flag: Number, a: Number, b: Number) -> Number:
    """The first where the flag is set, else the second."""
    said = tuple(dict.fromkeys((*flag.said, *said_by(a, b))))
    if a.is_double or b.is_double:
        return Number(op.Where(flag.value, a.double, b.double), said=said)
    over = None if a.over is None and b.over is None else op.Where(flag.value, a.under, b.under)
    most, over_most = max(a.most, b.most), max(a.over_most, b.over_most)
    return Number(op.Where(flag.value, a.value, b.value), over, said, most=most, over_most=over_most)


def added(function: Callable[[Value, Value], Value]) -> Callable[[Number, Number], Number]:
    """A sum or a difference."""

    def number(a: Number, b: Number) -> Number:
        if a.is_double or b.is_double:
            return Number(function(a.double, b.double), said=said_by(a, b))
        one, other = crossed(a, b)
        return over_both(computed(function, one, other, one.most + other.most), a, b)

    return number


def over_both(top: Whole, a: Number, b: Number) -> Number:
    """A whole number divided by what two numbers are divided by."""
    if a.over is None and b.over is None:
        return Number(top.value, None, (*said_by(a, b), *top.said), most=top.most)
    under = times(a.bottom, b.bottom)
    said = (*said_by(a, b), *top.said, *under.said)
    return Number(top.value, under.value, said, most=top.most, over_most=under.most)


def multiplied(a: Number, b: Number) -> Number:
    """The product."""
    if a.is_double or b.is_double:
        return Number(op.Mul(a.double, b.double), said=said_by(a, b))
    return over_both(times(a.top, b.top), a, b)


def ratio(a: Number, b: Number) -> Number:
    """The exact quotient; 1 stands for a divisor of 0, of which `said` tells."""
    zero = const(0.0, DType.DOUBLE) if b.is_double else const(0)
    none = op.Equal(b.value, zero)
    one = op.Where(none, const(1.0, DType.DOUBLE) if b.is_double else const(1), b.value)
    said = (*said_by(a, b), op.Not(none))
    if a.is_double or b.is_double:
        return Number(op.Div(a.double, Number(one, b.over).double), said=said)
    sign = op.Where(op.Less(one, const(0)), const(-1), const(1))
    under = times(Whole(op.Mul(one, sign), b.most), a.bottom)
    top = times(Whole(op.Mul(a.value, sign), a.most), b.bottom)
    return Number(top.value, under.value, (*said, *under.said, *top.said), most=top.most, over_most=under.most)


def floor(given: Number) -> Number:
    """The greatest whole number that is not above it."""
    if given.is_double:
        below = op.Floor(given.value)
        fits = held(below)
        near = op.Where(fits, below, const(0.0, DType.DOUBLE))
        return Number(op.Cast(near, to=int(DType.INT64)), said=(*given.said, fits), most=MOST)
    if given.over is None:
        return given
    left = op.Mod(given.value, given.over)
    exact = computed(op.Sub, given.top, Whole(left, given.over_most), given.most + given.over_most)
    return Number(op.Div(exact.value, given.over), said=(*given.said, *exact.said), most=given.most)


def ceil(given: Number) -> Number:
    """The least whole number that is not below it."""
    return negative(floor(negative(given)))


def trunc(given: Number) -> Number:
    """The whole number beside it on the side of 0."""
    return chosen(less(given, constant(0)), ceil(given), floor(given))


def rounded(given: Number) -> Number:
    """The nearest whole number, of two the even one."""
    below = floor(given)
    twice = multiplied(subtracted(given, below), constant(2))
    odd = op.Equal(op.Mod(below.value, const(2)), const(1))
    above, under = less(constant(1), twice), less(twice, constant(1))
    up = op.Or(above.value, op.And(odd, op.Not(under.value)))
    return chosen(Number(up, said=said_by(above, under)), summed(below, constant(1)), below)


def double(given: Number) -> Number:
    """The nearest double, as a number."""
    return Number(given.double, said=given.said)


def root(given: Number) -> Number:
    """The square root, as a double; below 0 there is none."""
    some = op.Not(op.Less(given.double, const(0.0, DType.DOUBLE)))
    return Number(op.Sqrt(op.Max(given.double, const(0.0, DType.DOUBLE))), said=(*given.said, some))


def quotient(a: Number, b: Number) -> Number:
    """`a // b`; a double where one of them is."""
    found = floor(ratio(a, b))
    return double(found) if a.is_double or b.is_double else found


def remainder(a: Number, b: Number) -> Number:
    """`a % b`, which has the sign of b."""
    return subtracted(a, multiplied(quotient(a, b), b))


def power(a: Number, b: Number) -> Number:
    """`a ** b` for a constant b that is whole. Raises DimensionError for another."""
    if not isinstance(b.power, int) or abs(b.power) > 16:
        raise DimensionError("a file computes only whole powers of sizes up to 16", hint="check it with the contract")
    found = constant(1)
    for _ in range(abs(b.power)):
        found = multiplied(found, a)
    return found if b.power >= 0 else ratio(constant(1), found)


def negative(given: Number) -> Number:
    """The number below 0 that is as large."""
    return multiplied(given, constant(-1))


summed, subtracted = added(op.Add), added(op.Sub)

OPERATORS: Mapping[type, Callable[[Number, Number], Number]] = {
    ast.Add: summed, ast.Sub: subtracted, ast.Mult: multiplied, ast.FloorDiv: quotient, ast.Mod: remainder,
    ast.Pow: power, ast.Div: ratio,
}  # fmt: skip
ROUNDED: Mapping[str, Callable[[Number], Number]] = {
    "floor": floor, "ceil": ceil, "trunc": trunc, "round": rounded, "sqrt": root, "double": double,
}  # fmt: skip
