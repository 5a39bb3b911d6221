"""In which order the parts of a condition are asked: as in Python, what follows the part that decides is not asked."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sympy

QUOTIENTS = frozenset("FloorDiv CleanDiv Mod PythonMod ModularIndexing IntTrueDiv FloatTrueDiv".split())
"""What divides by its second argument, in irkit's algebra and in torch's, by name."""


@lru_cache(maxsize=1 << 12)
def parts_in_order(expr: Any) -> tuple[Any, ...]:
    """The parts of an `and` or an `or`, those that have a value at more sizes first: sympy sorts them by their names,
    and a quotient by 0 must not be met where another part decides."""
    return tuple(sorted(expr.args, key=quotients))


def quotients(expr: Any) -> int:
    """How many quotients and remainders by what is no number are in an expression."""
    return sum(divides_by_sizes(each) for each in sympy.preorder_traversal(expr))


def divides_by_sizes(expr: Any) -> bool:
    """Whether an expression is a quotient or a remainder by what is no number."""
    if isinstance(expr, sympy.Pow):
        return bool(expr.exp.is_negative) and not expr.base.is_number
    return type(expr).__name__ in QUOTIENTS and not expr.args[1].is_number


def where_defined(part: Any) -> Any:
    """A part of an `or` that others follow, false where it divides by 0: these may decide there."""
    divisors = {each.args[1] for each in sympy.preorder_traversal(part) if type(each).__name__ in QUOTIENTS}
    asked = [sympy.Ne(each, 0) for each in divisors if not each.is_number]
    return sympy.And(*asked, part) if asked else part
