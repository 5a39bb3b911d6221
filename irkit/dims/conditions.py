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

from irkit.errors import DimensionError

LONG = 1_000_000
"""A condition of more characters than this is refused, and a number of more than `BITS` bits."""
BITS = 10_000

_COMPARE: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
Truth = Callable[[Mapping[str, int]], bool | None]
Number = Any  # an int, a Fraction, or a float
Size = Callable[[Mapping[str, int]], Number]


def holds(condition: str, sizes: Mapping[str, int]) -> bool | None:
    """Whether a condition over dimension symbols (`batch >= 4 and seq % 8 == 0`) holds under an assignment.

    None where it speaks of a symbol without a value, False where one of its sides is no number: a quotient by 0, the
    root of a negative number. Raises DimensionError for what is no condition. The text is parsed, never executed, so
    that it may come from a file.
    """
    if len(condition) > LONG:
        raise DimensionError(f"a condition of more than {LONG:,} characters is refused")
    try:
        return _truth_of(condition)(sizes)
    except DimensionError:
        raise
    except (ZeroDivisionError, ValueError, OverflowError):
        return False
    except RecursionError as error:
        raise DimensionError(f"{_short(condition)} is nested too deeply") from error


@lru_cache(maxsize=1024)  # a program asks the same of every call
def _truth_of(condition: str) -> Truth:
    """What tells whether a condition holds."""
    try:
        return _truth(ast.parse(condition.strip(), mode="eval").body, condition)
    except DimensionError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DimensionError(f"{_short(condition)} is no condition") from error


def _truth(node: ast.expr, source: str) -> Truth:
    if isinstance(node, ast.BoolOp):
        return _joined([_truth(v, source) for v in node.values], isinstance(node.op, ast.Or))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(node.operand, source)

        def negated(sizes: Mapping[str, int]) -> bool | None:
            answer = inner(sizes)
            return None if answer is None else not answer

        return negated
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        value = node.value
        return lambda sizes: value
    if isinstance(node, ast.Compare) and all(type(o) in _COMPARE for o in node.ops):
        sides = [_side(side, source) for side in (node.left, *node.comparators)]
        return _compared([_COMPARE[type(o)] for o in node.ops], sides)
    raise DimensionError(f"{_short(source)} is no condition", hint="compare dimensions, join with and, or, not")


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


def _compared(relations: Sequence[Callable[[Any, Any], bool]], sides: Sequence[Size]) -> Truth:
    """Whether each relation holds between two sides that follow one another."""

    def compared(sizes: Mapping[str, int]) -> bool | None:
        found = [side(sizes) for side in sides]
        if None in found:
            return None
        return all(relation(a, b) for relation, a, b in zip(relations, found[:-1], found[1:], strict=True))

    return compared


# ---------------------------------------------------------------------------------------------- the two sides


def _side(node: ast.expr, source: str) -> Size:
    """The value of an expression over dimensions; None where a symbol has no value."""
    names = _names(node)
    value = _value(node, source)
    return lambda sizes: value(sizes) if all(name in sizes for name in names) else None


def _names(node: ast.expr) -> frozenset[str]:
    """The dimensions that an expression speaks of; one with an odd name stands in quotes."""
    called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    plain = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in called}
    return frozenset(plain | {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and type(n.value) is str})


def _value(node: ast.expr, source: str) -> Size:
    """The number that an expression is, once all its symbols have a value."""
    if isinstance(node, ast.BinOp):
        return _chain(node, source)
    if isinstance(node, ast.Name | ast.Constant):
        name = node.id if isinstance(node, ast.Name) else node.value
        if type(name) is str:
            return lambda sizes: sizes[name]
        if type(name) is int or (type(name) is float and math.isfinite(name)):
            return lambda sizes: name
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _value(node.operand, source)
        return lambda sizes: -operand(sizes)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALL and not node.keywords:
        function, parts = _CALL[node.func.id], [_value(each, source) for each in node.args]
        if len(parts) == 1 or (parts and node.func.id in ("max", "min")):
            return lambda sizes: function([part(sizes) for part in parts])
    raise DimensionError(f"{_short(source)} is no condition over sizes", hint="write its sides like 2*batch + seq // 2")


def _chain(node: ast.expr, source: str) -> Size:
    """The value of `a + b - c ...`, which the tree holds as deep as there are operands, in one loop."""
    steps: list[tuple[Callable[[Number, Number], Number], Size]] = []
    while isinstance(node, ast.BinOp):
        if type(node.op) not in _BINARY:
            raise DimensionError(f"{_short(source)} is no condition over sizes", hint="use + - * / // % and **")
        steps.append((_BINARY[type(node.op)], _value(node.right, source)))
        node = node.left
    first = _value(node, source)
    steps.reverse()

    def computed(sizes: Mapping[str, int]) -> Number:
        found = first(sizes)
        for function, operand in steps:
            found = _moderate(function(found, operand(sizes)))
        return found

    return computed


def _ratio(a: Number, b: Number) -> Number:
    return a / b if isinstance(a, float) or isinstance(b, float) else Fraction(a) / b


def _power(a: Number, b: Number) -> Number:
    if isinstance(b, int) and _bits(a) * abs(b) > BITS:
        raise DimensionError(f"a power of more than {BITS:,} bits is refused in a condition")
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
        raise DimensionError(f"a number of more than {BITS:,} bits is refused in a condition")
    return found


def _short(source: str) -> str:
    return repr(source if len(source) <= 200 else source[:200] + "...")


_BINARY: Mapping[type, Callable[[Number, Number], Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Div: _ratio, ast.Pow: _power,
}  # fmt: skip
_CALL: Mapping[str, Callable[[list[Number]], Number]] = {
    "max": max, "min": min, "floor": lambda x: math.floor(x[0]), "ceil": lambda x: math.ceil(x[0]),
    "trunc": lambda x: math.trunc(x[0]), "round": lambda x: round(x[0]), "sqrt": lambda x: math.sqrt(x[0]),
}  # fmt: skip
