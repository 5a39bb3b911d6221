"""Conditions on sizes of which some are settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy

from irkit import dims
from irkit.errors import DimensionError
from lowering.records.parts_in_order import parts_in_order


def settled_at(expr: Any, point: Mapping[str, int]) -> Any:
    """A condition where names have the sizes of a point. A part that divides by 0 there does not hold."""
    if isinstance(expr, sympy.And | sympy.Or):
        return expr.func(*(settled_at(part, point) for part in parts_in_order(expr)))
    try:
        return expr.xreplace({dims.symbol(name): sympy.Integer(size) for name, size in point.items()}).doit()
    except DimensionError:
        return sympy.false
