"""Numbers that a model computes of its sizes, as values of a graph: whole numbers, fractions of them, and doubles.

They are those of Python: a quotient is rounded down, whatever the signs, and `/` is exact until `double` is asked for.
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


@attrs.frozen
class Number:
    """A number in the graph: int64 or float64, the former divided by `over` where that is given, which is above 0.
    `said` are true where nothing on the way was divided by 0; `power` is the number itself where it is a constant."""

    value: Value
    over: Value | None = None
    said: tuple[Value, ...] = ()
    power: int | float | None = None

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
    """A constant."""
    return Number(const(number, DType.INT64 if isinstance(number, int) else DType.DOUBLE), power=number)


def said_by(a: Number, b: Number) -> tuple[Value, ...]:
    """What both of them say."""
    return tuple(dict.fromkeys((*a.said, *b.said)))


def crossed(a: Number, b: Number) -> tuple[Value, Value]:
    """Two values that compare as the numbers do."""
    if a.is_double or b.is_double:
        return a.double, b.double
    if a.over is None and b.over is None:
        return a.value, b.value
    return op.Mul(a.value, b.under), op.Mul(b.value, a.under)


def less(a: Number, b: Number) -> Value:
    """Whether the one is less than the other."""
    return op.Less(*crossed(a, b))


def largest(a: Number, b: Number) -> Number:
    """The greater of the two."""
    return chosen(less(a, b), b, a)


def least(a: Number, b: Number) -> Number:
    """The smaller of the two."""
    return chosen(less(b, a), b, a)


def chosen(flag: Value, a: Number, b: Number) -> Number:
    """The first where the flag is set, else the second."""
    said = said_by(a, b)
    if a.is_double or b.is_double:
        return Number(op.Where(flag, a.double, b.double), said=said)
    over = None if a.over is None and b.over is None else op.Where(flag, a.under, b.under)
    return Number(op.Where(flag, a.value, b.value), over, said)


def added(function: Callable[[Value, Value], Value]) -> Callable[[Number, Number], Number]:
    """A sum or a difference."""

    def number(a: Number, b: Number) -> Number:
        over = None if a.over is None and b.over is None else op.Mul(a.under, b.under)
        over = None if a.is_double or b.is_double else over
        return Number(function(*crossed(a, b)), over, said_by(a, b))

    return number


def multiplied(a: Number, b: Number) -> Number:
    """The product."""
    if a.is_double or b.is_double:
        return Number(op.Mul(a.double, b.double), said=said_by(a, b))
    over = None if a.over is None and b.over is None else op.Mul(a.under, b.under)
    return Number(op.Mul(a.value, b.value), over, said_by(a, b))


def ratio(a: Number, b: Number) -> Number:
    """The exact quotient; 1 stands for a divisor of 0, of which `said` tells."""
    zero = const(0.0, DType.DOUBLE) if b.is_double else const(0)
    none = op.Equal(b.value, zero)
    one = op.Where(none, const(1.0, DType.DOUBLE) if b.is_double else const(1), b.value)
    said = (*said_by(a, b), op.Not(none))
    if a.is_double or b.is_double:
        return Number(op.Div(a.double, Number(one, b.over).double), said=said)
    sign = op.Where(op.Less(one, const(0)), const(-1), const(1))
    over = op.Mul(op.Mul(one, sign), a.under)
    return Number(op.Mul(op.Mul(a.value, sign), b.under), over, said)


def floor(given: Number) -> Number:
    """The greatest whole number that is not above it."""
    if given.is_double:
        return Number(op.Cast(op.Floor(given.value), to=int(DType.INT64)), said=given.said)
    if given.over is None:
        return given
    left = op.Mod(given.value, given.over)
    return Number(op.Div(op.Sub(given.value, left), given.over), said=given.said)


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
    up = op.Or(less(constant(1), twice), op.And(odd, op.Not(less(twice, constant(1)))))
    return chosen(up, summed(below, constant(1)), below)


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
