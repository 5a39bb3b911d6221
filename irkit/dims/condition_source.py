"""Conditions over dimensions as Python's own source, for those that are asked at every call.

`holds` goes through a function for each part of a condition. One that is made of whole numbers, sums, products and
comparisons is an expression of Python, too; it is written here from the tree that was read, so that no word of the
text, which may come from a file, is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from irkit.dims.syntax import Conditions, Reader, tree_of
from irkit.errors import DimensionError

LENGTH = 500
"""Of longer conditions there is no source: numbers stay so small that none has to be refused for its length."""
DEPTH = 50
"""Of conditions that are nested deeper there is none either: Python refuses 200 parentheses in one another."""
OPERATORS: Mapping[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
RELATIONS: Mapping[type, str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def condition_source(condition: str, variables: Mapping[str, str]) -> str | None:
    """An expression of Python that is true where the condition holds, over the variable of each dimension; None where
    it is long, speaks of other dimensions, or computes anything but whole numbers.

    It raises ZeroDivisionError where `holds` says False for it. Raises DimensionError for what is not a condition.
    """
    if len(condition) > LENGTH:
        return None
    tree = tree_of(condition, "condition")
    try:
        found = conditions_over(variables).read(tree, condition)
    except Unlike:
        return None
    return found if depth(found) <= DEPTH else None


def depth(source: str) -> int:
    """How deep parentheses are nested."""
    return max(accumulate((each == "(") - (each == ")") for each in source))


class Unlike(DimensionError):
    """Why a condition has no source."""


def conditions_over(variables: Mapping[str, str]) -> Conditions[str]:
    """What writes a condition over variables."""
    sides = Reader[str](
        number=whole_number,
        name=lambda name: variable_of(name, variables),
        operators=OPERATORS,
        functions={},
        negative=lambda operand: f"(-{operand})",
        chain=chain_source,
    )

    def side(node: ast.expr, source: str) -> str:
        if any(isinstance(each, (ast.Call, ast.Div, ast.Pow)) for each in ast.walk(node)):
            raise Unlike("it computes more than sums and products", hint="ask `holds`")
        return sides.read(node, source)

    return Conditions(side, compared_source, joined_source, lambda inner: f"(not {inner})", str)


def whole_number(number: Any) -> str:
    """A whole number as it is written. Raises Unlike for others."""
    if type(number) is not int:
        raise Unlike("its numbers are not whole", hint="ask `holds`")
    return str(number)


def variable_of(name: str, variables: Mapping[str, str]) -> str:
    """The variable of a dimension. Raises Unlike where there is none."""
    if name not in variables:
        raise Unlike(f"it speaks of {name}", hint="ask `holds`")
    return variables[name]


def chain_source(first: str, steps: Sequence[tuple[str, str]]) -> str:
    """`((a + b) - c)`"""
    for operator, operand in steps:
        first = f"({first} {operator} {operand})"
    return first


def compared_source(relations: Sequence[type], sides: Sequence[str]) -> str:
    """`(a < b <= c)`"""
    rest = (f" {RELATIONS[relation]} {side}" for relation, side in zip(relations, sides[1:], strict=True))
    return f"({sides[0]}{''.join(rest)})"


def joined_source(parts: Sequence[str], decisive: bool) -> str:
    """`(a or b)` where `decisive`, else `(a and b)`."""
    return f"({' or '.join(parts)})" if decisive else f"({' and '.join(parts)})"
