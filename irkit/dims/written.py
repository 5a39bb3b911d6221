"""Numbers of expressions that are asked for at very many sizes: by Python code that is written for one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy

from irkit.dims.exact import Number
from irkit.dims.symbols import label

OFTEN = 64
"""So many numbers of an expression are computed part by part before code is written for it, which takes as long."""
_Values = Mapping[str, Number]
_Part = Any
"""An expression of sympy, or a part of one, which sympy gives no types."""


class Program:
    """How the number of an expression is computed: by steps, and, if it is asked for often, by code."""

    __slots__ = ("code", "left", "steps", "write")

    def __init__(self, steps: Sequence[Callable[[list[Number], _Values], Number]], write: Callable[[], str]) -> None:
        self.steps, self.write = steps, write
        self.left = OFTEN if len(steps) > 1 else -1
        self.code: Callable[[_Values], Number] | None = None

    def number(self, values: _Values) -> Number:
        """The number for these values of the symbols."""
        if self.code is not None:
            told = self.code(values)
            if told is not None:
                return told
        elif self.left > 0:
            self.left -= 1
            if not self.left:
                self.code = compiled(self.write())
        found: list[Number] = []
        for step in self.steps:
            found.append(step(found, values))
        return found[-1]


def compiled(source: str) -> Callable[[_Values], Number] | None:
    """The function of a source; None for no source."""
    made: dict[str, Callable[[_Values], Number]] = {}
    if source:
        exec(compile(source, "<size>", "exec"), made)
    return made.get("number")


def source_of(expr: _Part, signs: Mapping[_Part, str], digits: int) -> str:
    """Python code for the number of an expression of integers: sums, products, powers of up to so many binary digits,
    and functions that `signs` tells an operator or a function of Python's for. It gives None where a size is not known,
    or no int. "" for any other expression."""
    names: dict[_Part, str] = {}
    before, lines = list[str](), list[str]()

    def written(part: _Part) -> str | None:
        if part in names:
            return names[part]
        if part.is_Integer:
            return f"({int(part)})"
        name = f"n{len(names)}"
        if part.is_Symbol:
            before.append(f"{name} = values.get({label(part)!r})")
            names[part] = name
            return name
        args = [written(arg) for arg in part.args]
        text = None if None in args else text_of(part, [arg for arg in args if arg is not None], signs)
        if text is None:
            return None
        name = names[part] = f"n{len(names)}"
        if isinstance(part, sympy.Pow):
            lines.append(f"if {args[0]}.bit_length() * {args[1]} > {digits}: return None")
        lines.append(f"{name} = {text}")
        return name

    result = written(expr)
    if result is None:
        return ""
    known = [f"if type({line.partition(' ')[0]}) is not int: return None" for line in before]
    return "\n    ".join(["def number(values):", *before, *known, *lines, f"return {result}"])


def text_of(part: _Part, args: Sequence[str], signs: Mapping[_Part, str]) -> str | None:
    """How one part is computed of others; None for what need be no integer."""
    if isinstance(part, sympy.Add):
        return " + ".join(args)
    if isinstance(part, sympy.Mul):
        return " * ".join(args)
    if isinstance(part, sympy.Pow):
        return f"{args[0]} ** {args[1]}" if part.args[1].is_Integer and part.args[1] > 0 else None
    sign = signs.get(part.func)
    if sign is None:
        return None
    return f"{sign}({', '.join(args)})" if sign.isalpha() else f"{args[0]} {sign} {args[1]}"
