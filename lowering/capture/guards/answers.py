"""Whether conditions on sizes hold for some."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import sympy

from irkit import dims
from irkit.errors import DimensionError
from lowering.records.parts_in_order import parts_in_order

TESTS: Mapping[type, Callable[[Any, Any], bool]] = {
    sympy.Eq: operator.eq, sympy.Ne: operator.ne, sympy.StrictLessThan: operator.lt, sympy.LessThan: operator.le,
    sympy.StrictGreaterThan: operator.gt, sympy.GreaterThan: operator.ge,
}  # fmt: skip


@lru_cache(maxsize=1 << 12)
def is_of_integers(expr: Any) -> bool:
    """Whether a condition is made of relations of integers alone, without quotients that are none."""
    if type(expr) in TESTS or isinstance(expr, sympy.And | sympy.Or | sympy.Not | sympy.Add | sympy.Mul):
        return all(map(is_of_integers, expr.args))
    if isinstance(expr, sympy.Symbol):
        return bool(expr.is_integer)
    return bool(expr.is_Integer) or (type(expr) in WHOLE and all(map(is_of_integers, expr.args)))


WHOLE = (dims.Mod, dims.FloorDiv, dims.Min, dims.Max)


def is_true(expr: Any, sizes: Mapping[str, Any]) -> bool:
    """Whether a condition on integers holds for sizes. Raises DimensionError where it hangs on more than they tell."""
    test = TESTS.get(type(expr))
    if test is not None:
        left, right = expr.args
        return test(dims.number_of(left, sizes), dims.number_of(right, sizes))
    if isinstance(expr, sympy.Not):
        return not is_true(expr.args[0], sizes)
    return (all if isinstance(expr, sympy.And) else any)(is_true(each, sizes) for each in parts_in_order(expr))


def holds(expr: Any, sizes: Mapping[str, Any]) -> bool | None:
    """Whether a condition holds for sizes; None where it hangs on more than they tell. Each condition is computed once
    for the sizes that it hangs on: a capture asks all of them at thousands of points that differ in a name or two."""
    if expr is None:  # said in words
        return None
    first, names = first_equal(expr)
    try:
        return _holds(first, tuple([sizes[name] for name in names]))
    except KeyError:
        return None


@lru_cache(maxsize=1 << 12)
def first_equal(expr: Any) -> tuple[Any, tuple[str, ...]]:
    """The first condition that was asked and is equal to this one, and the names in it: what is looked up by the very
    same one is not compared part by part."""
    return expr, names_in(expr)


@lru_cache(maxsize=1 << 12)
def words(expr: Any) -> str:
    """The text of a condition, written once: each run of a model asks the same ones, and to write one takes longer than
    to ask it."""
    return str(expr)


@lru_cache(maxsize=1 << 12)
def names_in(expr: Any) -> tuple[str, ...]:
    """The names by which the sizes are looked up that a condition hangs on."""
    return tuple(dims.label(symbol) for symbol in dims.symbols_of(expr))


@lru_cache(maxsize=1 << 16)
def _holds(expr: Any, numbers: tuple[Any, ...]) -> bool | None:
    """Whether a condition holds where its names, in their order, have these sizes."""
    sizes = dict(zip(names_in(expr), numbers, strict=True))
    if is_of_integers(expr):
        try:
            return is_true(expr, sizes)
        except DimensionError:
            return None
        except ArithmeticError:  # a quotient by 0, of which sympy knows more
            pass
    with suppress(DimensionError, KeyError, TypeError, ZeroDivisionError):  # real numbers, or functions of sympy's own
        return truth_of(expr, sizes)
    try:
        found = expr.xreplace({s: sympy.Integer(sizes[dims.label(s)]) for s in expr.free_symbols})
        found = found.doit() if hasattr(found, "doit") else found
    except (DimensionError, TypeError, ZeroDivisionError):
        return None
    return bool(found) if found in (True, False, sympy.true, sympy.false) else None


def truth_of(expr: Any, sizes: Mapping[str, Any]) -> bool:
    """Whether a condition holds for sizes. Raises KeyError or DimensionError where it hangs on more than they tell."""
    if isinstance(expr, sympy.And | sympy.Or):
        return (all if isinstance(expr, sympy.And) else any)(truth_of(each, sizes) for each in parts_in_order(expr))
    if isinstance(expr, sympy.Not):
        return not truth_of(expr.args[0], sizes)
    return TESTS[type(expr)](*(dims.number_of(side, sizes) for side in expr.args))
