"""Expressions and conditions over sizes as text, in Python's syntax: the one reader of it.

A reader says what numbers, names, operators and calls mean to it: a dimension, a number once sizes are known, a
relation over torch's symbols. The text is parsed, never executed, so that it may come from a file.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs

from irkit.errors import DimensionError

T = TypeVar("T")


def tree_of(source: str, kind: str) -> ast.expr:
    """The tree of a text. Raises DimensionError, which says that it is no `kind`, for what Python cannot parse."""
    try:
        return ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DimensionError(f"{short(source)} is not a {kind}", hint=WRITTEN) from error


def names_in(node: ast.expr) -> frozenset[str]:
    """The dimensions that a text speaks of; one with an odd name stands in quotes."""
    nodes = list(ast.walk(node))
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    plain = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called}
    return frozenset(plain | {n.value for n in nodes if isinstance(n, ast.Constant) and type(n.value) is str})


def short(source: str) -> str:
    """The text in quotes, cut where it is long."""
    return repr(source if len(source) <= 200 else source[:200] + "...")


def one_by_one(first: T, steps: Sequence[tuple[Callable[[T, T], T], T]]) -> T:
    """Each operator applied to what came before it and to its right operand."""
    return functools.reduce(lambda left, step: step[0](left, step[1]), steps, first)


@attrs.frozen
class Reader(Generic[T]):
    """What the parts of an expression mean; what is not in a table is refused with DimensionError.

    `operators` are what `chain` applies, by their kinds in `ast`. `functions` take a list of operands: those called max
    and min any number of them, all others one.
    """

    number: Callable[[Any], T]
    name: Callable[[str], T]
    operators: Mapping[type, Any]
    functions: Mapping[str, Callable[[list[T]], T]]
    negative: Callable[[T], T]
    chain: Callable[[T, Sequence[tuple[Any, T]]], T] = one_by_one

    def read(self, node: ast.expr, source: str) -> T:
        """What an expression means. `source` is the text that an error names."""
        if isinstance(node, ast.BinOp):
            return self._chained(node, source)
        if isinstance(node, ast.Name):
            return self.name(node.id)
        if isinstance(node, ast.Constant):
            value = node.value
            if type(value) is str:
                return self.name(value)
            if type(value) is int or (type(value) is float and math.isfinite(value)):
                return self.number(value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.negative(self.read(node.operand, source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions:
            called, given = node.func.id, [self.read(each, source) for each in node.args]
            if node.keywords or not given or (len(given) > 1 and called not in ("max", "min")):
                raise DimensionError(f"{called} in {short(source)} has the wrong number of arguments", hint=WRITTEN)
            return self.functions[called](given)
        raise _refused(source)

    def _chained(self, node: ast.expr, source: str) -> T:
        """What `a + b - c ...` means, which the tree holds as deep as there are operands, in one loop."""
        steps: list[tuple[Any, T]] = []
        while isinstance(node, ast.BinOp):
            if type(node.op) not in self.operators:
                raise _refused(source)
            steps.append((self.operators[type(node.op)], self.read(node.right, source)))
            node = node.left
        return self.chain(self.read(node, source), steps[::-1])


@attrs.frozen
class Conditions(Generic[T]):
    """What the parts of a condition mean, over sides that `sides` reads."""

    sides: Callable[[ast.expr, str], Any]
    compared: Callable[[Sequence[type], Sequence[Any]], T]
    """The relations, and the sides, of which there is one more."""
    joined: Callable[[Sequence[T], bool], T]
    """`or` of the parts where the flag is set, else `and`."""
    negated: Callable[[T], T]
    known: Callable[[bool], T]

    def read(self, node: ast.expr, source: str) -> T:
        """What a condition means. Raises DimensionError for what is none."""
        if isinstance(node, ast.BoolOp):
            return self.joined([self.read(v, source) for v in node.values], isinstance(node.op, ast.Or))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.negated(self.read(node.operand, source))
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return self.known(node.value)
        if isinstance(node, ast.Compare) and all(type(o) in RELATIONS for o in node.ops):
            sides = [self.sides(side, source) for side in (node.left, *node.comparators)]
            return self.compared([type(o) for o in node.ops], sides)
        raise DimensionError(f"{short(source)} is not a condition", hint="compare dimensions, join with and, or, not")


RELATIONS = frozenset((ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE))


WRITTEN = "write it like `2*batch + seq // 2`; a condition like `n >= 1`"
"""What to try where a text is none that irkit reads."""


def _refused(source: str) -> DimensionError:
    return DimensionError(f"{short(source)} is not a dimension expression", hint="write it like `2*batch + seq // 2`")
