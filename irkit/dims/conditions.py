"""Conditions over dimensions as text, `batch >= 4 and seq % 8 == 0`: whether one holds under an assignment of sizes.

A text is computed as Python would compute it, in exact integers and fractions, and no algebra is done: a condition
that torch found is asked of every call, and may be far longer than what is sensible to expand.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from irkit.dims.syntax import Conditions, Reader, names_in, short, tree_of
from irkit.errors import DimensionError

LONG = 1_000_000
"""A condition of more characters than this is refused, and a number of more than `BITS` bits."""
BITS = 10_000
HALF = Fraction(1, 2)
SMALLER = "a condition compares sizes, which are far smaller: take out the power, or make it small"

_COMPARE: Mapping[type, Callable[[Number, Number], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
Truth = Callable[[Mapping[str, int]], bool | None]
Number = Any  # an int, a Fraction, or a float
Size = Callable[[Mapping[str, int]], Number]


def holds(condition: str, sizes: Mapping[str, int]) -> bool | None:
    """Whether a condition over dimension symbols (`batch >= 4 and seq % 8 == 0`) holds under an assignment.

    None where it speaks of a symbol without a value, False where one of its sides is not a number: a quotient by 0, the
    root of a negative number. Raises DimensionError for what is not a condition. The text is parsed, never executed, so
    that it may come from a file.
    """
    if len(condition) > LONG:
        raise DimensionError(
            f"a condition of more than {LONG:,} characters is refused",
            hint="state its parts as conditions of their own",
        )
    try:
        return _truth_of(condition)(sizes)
    except DimensionError:
        raise
    except (ZeroDivisionError, ValueError, OverflowError):
        return False
    except RecursionError as error:
        raise DimensionError(
            f"{short(condition)} is nested too deeply", hint="state its parts as conditions of their own"
        ) from error


@lru_cache(maxsize=1024)  # a program asks the same of every call
def _truth_of(condition: str) -> Truth:
    """What tells whether a condition holds."""
    try:
        return _CONDITIONS.read(tree_of(condition, "condition"), condition)
    except RecursionError as error:
        raise DimensionError(
            f"{short(condition)} is not a condition",
            hint="write relations of sizes, joined by and, or, not: batch >= 4 and seq % 8 == 0",
        ) from error


def _joined(parts: Sequence[Truth], decisive: bool) -> Truth:
    """`or` of the parts where `decisive`, else `and`; as in Python, what follows the part that decides is not asked."""

    def joined(sizes: Mapping[str, int]) -> bool | None:
        unknown = False
        for part in parts:
            answer = part(sizes)
            if answer is decisive:
                return decisive
            unknown = unknown or answer is None
        return None if unknown else not decisive

    return joined


def _negated(inner: Truth) -> Truth:
    def negated(sizes: Mapping[str, int]) -> bool | None:
        answer = inner(sizes)
        return None if answer is None else not answer

    return negated


def _compared(relations: Sequence[type], sides: Sequence[Size]) -> Truth:
    """Whether each relation holds between two sides that follow one another."""
    asked = [_COMPARE[each] for each in relations]
    if len(asked) == 1:
        return _compared_once(asked[0], *sides)

    def compared(sizes: Mapping[str, int]) -> bool | None:
        found = [side(sizes) for side in sides]
        if None in found:
            return None
        return all(relation(a, b) for relation, a, b in zip(asked, found[:-1], found[1:], strict=True))

    return compared


def _compared_once(relation: Callable[[Number, Number], bool], left: Size, right: Size) -> Truth:
    """The same of one relation, of which most conditions are made."""

    def compared(sizes: Mapping[str, int]) -> bool | None:
        a, b = left(sizes), right(sizes)
        return None if a is None or b is None else relation(a, b)

    return compared


# ---------------------------------------------------------------------------------------------- the two sides


def _side(node: ast.expr, source: str) -> Size:
    """The value of an expression over dimensions; None where a symbol has no value."""
    names, value = frozenset(names_in(node)), _SIZES.read(node, source)
    if not names:
        return value
    if isinstance(node, ast.Name):
        return lambda sizes, name=node.id: sizes.get(name)
    return lambda sizes: value(sizes) if names <= sizes.keys() else None


def _chain(first: Size, steps: Sequence[tuple[Callable[[Number, Number], Number], Size]]) -> Size:
    """The value of `a + b - c ...`"""

    def computed(sizes: Mapping[str, int]) -> Number:
        found = first(sizes)
        for function, operand in steps:
            found = _moderate(function(found, operand(sizes)))
        return found

    return computed


def _lifted(function: Callable[[list[Number]], Number]) -> Callable[[list[Size]], Size]:
    return lambda parts: lambda sizes: function([part(sizes) for part in parts])


def _ratio(a: Number, b: Number) -> Number:
    return a / b if isinstance(a, float) or isinstance(b, float) else Fraction(a) / b


def _power(a: Number, b: Number) -> Number:
    if isinstance(b, int) and _bits(a) * abs(b) > BITS:
        raise DimensionError(f"a power of more than {BITS:,} bits is refused in a condition", hint=SMALLER)
    if b == HALF and isinstance(b, Fraction):
        return math.sqrt(a)
    return Fraction(a) ** b if isinstance(b, int) and b < 0 and not isinstance(a, float) else a**b


def _bits(number: Number) -> int:
    """How long the parts of an exact number are; 0 for a float."""
    if isinstance(number, float):
        return 0
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def _moderate(found: Number) -> Number:
    """The number, where it is none that only a file which means harm asks for."""
    if isinstance(found, complex):
        raise ValueError("a root of a negative number")
    if _bits(found) > BITS:
        raise DimensionError(f"a number of more than {BITS:,} bits is refused in a condition", hint=SMALLER)
    return found


_BINARY: Mapping[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,  # pyright: ignore[reportUnknownMemberType]  # typeshed has none
    ast.Mod: operator.mod, ast.Div: _ratio, ast.Pow: _power,
}  # fmt: skip
_SIZES: Reader[Size] = Reader(
    number=lambda number: lambda sizes: number,
    name=lambda name: lambda sizes: sizes[name],
    operators=_BINARY,
    functions={
        "max": _lifted(max),
        "min": _lifted(min),
        "floor": _lifted(lambda x: math.floor(x[0])),
        "ceil": _lifted(lambda x: math.ceil(x[0])),
        "trunc": _lifted(lambda x: math.trunc(x[0])),
        "round": _lifted(lambda x: round(x[0])),
        "sqrt": _lifted(lambda x: math.sqrt(x[0])),
        "double": _lifted(lambda x: float(x[0])),
    },
    negative=lambda operand: lambda sizes: -operand(sizes),
    chain=_chain,
)
_CONDITIONS: Conditions[Truth] = Conditions(_side, _compared, _joined, _negated, lambda value: lambda sizes: value)
