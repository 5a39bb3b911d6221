"""Real numbers of sizes in torch's graphs, computed node by node: the expression that torch has of them has lost the
order, and with it where each is rounded."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch
from torch.fx import Node

from irkit import dims
from irkit.dims import reals
from lowering.records.sizes import Sizes

OPERATORS: Mapping[Any, Any] = {
    operator.add: reals.total, operator.sub: reals.difference, operator.mul: reals.product,
    operator.truediv: reals.quotient, operator.pow: reals.power, operator.mod: reals.remainder,
    operator.neg: operator.neg, torch.sym_float: lambda x: x,
    math.sqrt: reals.root, getattr(torch, "_sym_sqrt", None): reals.root,
}  # fmt: skip
"""What each operator of Python computes of real numbers."""


ROUNDINGS: Mapping[Any, Any] = {
    math.floor: dims.Floor, math.ceil: dims.Ceil, math.trunc: dims.Trunc, torch.sym_int: dims.Trunc, round: dims.Round,
}  # fmt: skip


def keep_order(node: Node, sizes: Sizes) -> None:
    """Tells `sizes` what a node computes, where that is a real number, or one that is rounded to an integer."""
    recorded, function = node.meta.get("val"), {**OPERATORS, **ROUNDINGS}.get(node.target)
    if function is None or not isinstance(recorded, torch.SymFloat | torch.SymInt) or node.kwargs:
        return
    expr, kinds = recorded.node.expr, [type(each.meta.get("val")) for each in node.all_input_nodes]
    if expr.is_Symbol or expr.is_number or (isinstance(recorded, torch.SymInt) and torch.SymFloat not in kinds):
        return
    operands = [operand_of(each, sizes) for each in node.args if each is not None]  # round(x, None)
    of_data = any(not symbol.is_integer for each in operands for symbol in each.free_symbols)
    if node.target not in ROUNDINGS or (len(operands) == 1 and not of_data):
        sizes.tell(expr, function(*operands))


def operand_of(given: Any, sizes: Sizes) -> Any:
    """A number among the operands of a node."""
    recorded = given.meta["val"] if isinstance(given, Node) else given
    made = sizes.number(recorded.node.expr) if isinstance(recorded, torch.SymInt | torch.SymFloat) else recorded
    return sympy.sympify(made)


def by_some(own: Callable[..., Any]) -> Callable[..., Any]:
    """A division, which Python refuses by a constant 0 at once; by a number that varies it is a condition."""

    def handed_on(number: Any, other: Any) -> Any:
        if isinstance(other, int | float) and other == 0:
            raise ZeroDivisionError("division by zero")
        return own(number, other)

    return handed_on


def near_in_doubles(a: Any, b: Any, rel_tol: float, abs_tol: float) -> Any:
    """math.isclose(a, b), computed in doubles by the graph."""
    one, other = (torch.full((), each, dtype=torch.float64) for each in (a, b))
    reach = (torch.maximum(one.abs(), other.abs()) * rel_tol).clamp(min=abs_tol)
    near = ((one - other).abs() <= reach) & one.isfinite() & other.isfinite()
    return ((one == other) | near).item()
