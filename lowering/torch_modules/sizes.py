"""Sizes of tensors computed of other sizes, as Python's or torch's integers."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import sympy
import torch

from irkit.core.types import Type, dims_of
from irkit.dims import Dim, label
from irkit.dims.algebra import line_of
from irkit.dims.functions import FloorDiv, Mod
from irkit.dims.functions import Max as Largest
from irkit.dims.functions import Min as Smallest
from irkit.errors import DimensionError
from lowering.torch_modules.common import number

Term = tuple[Any, ...] | int | str
"""An expression as nested tuples: a number, the name of a symbol, or an operator with its operands."""


def term_of(dim: Dim) -> Term:
    """An expression over symbols. Raises DimensionError for a function that is none of whole numbers."""
    if type(dim) is int or getattr(dim, "is_Integer", False):
        return int(dim)
    expr: Any = dim
    if expr.is_Symbol:
        return label(expr)
    for kind, name in KINDS.items():
        if isinstance(expr, kind):
            return (name, *map(term_of, expr.args))
    raise DimensionError(
        f"the dimension {dim} has no form in torch",
        hint="write it with +, *, floordiv, mod, minimum and maximum of whole numbers",
    )


KINDS: Mapping[Any, str] = {
    sympy.Add: "+", sympy.Mul: "*", sympy.Pow: "**", FloorDiv: "//", Mod: "%", Largest: "max", Smallest: "min",
}  # fmt: skip


def number_of_term(term: Term, known: Mapping[str, Any]) -> Any:
    """The number that an expression is."""
    if isinstance(term, str):
        return known[term]
    if not isinstance(term, tuple):
        return term
    name, *parts = term
    args = [number_of_term(part, known) for part in parts]
    return reduce(FUNCTIONS[name], args)


FUNCTIONS: Mapping[str, Any] = {
    "+": operator.add, "*": operator.mul, "**": operator.pow, "//": operator.floordiv, "%": operator.mod,
    "max": torch.sym_max, "min": torch.sym_min,
}  # fmt: skip

Source = tuple[str, int, int, int, int]
"""Where a symbol is read: its name, the operand, its axis (-1: the content), and slope and offset of what is there."""


def sources_of(types: Sequence[Type | None], wanted: Iterable[str], scalars: Mapping[int, str]) -> list[Source]:
    """Where each wanted symbol stands among operands of these types, in a form that can be solved; those whose content
    is a symbol are given by place."""
    found: dict[str, Source] = {name: (name, at, -1, 1, 0) for at, name in scalars.items() if name in wanted}
    for at, type_ in enumerate(types):
        for axis, dim in enumerate(() if type_ is None else dims_of(type_)):
            line = None if type(dim) is int else line_of(dim)
            if line is None or label(line[0]) not in wanted:
                continue
            name, slope, offset = label(line[0]), line[1], line[2]
            if name not in found or (found[name][2] >= 0 and found[name][3:] != (1, 0) and (slope, offset) == (1, 0)):
                found[name] = (name, at, axis, slope, offset)
    return list(found.values())


def sizes(*operands: Any, terms: Sequence[Term], sources: Sequence[Source]) -> tuple[Any, ...]:
    """The values of expressions over sizes, and contents, of operands."""
    known: dict[str, Any] = {}
    for name, at, axis, slope, offset in sources:
        held = number(operands[at]) if axis < 0 else operands[at].shape[axis]
        known[name] = held if (slope, offset) == (1, 0) else (held - offset) // slope
    return tuple(number_of_term(tuple_of(term), known) for term in terms)


def tuple_of(term: Any) -> Term:
    """A term whose lists, which FX makes of tuples, are tuples again."""
    return tuple(map(tuple_of, term)) if isinstance(term, tuple | list) else term
