"""Tensors that are numbers in eager on one way of a branch or loop on data."""

from __future__ import annotations

from typing import Any

from irkit.core.ir import Value
from lowering.direct.tensors import Traced

DEEPEST = 12
"""Through so many operators is a number followed that is computed with other numbers."""


def note_number(tensor: Any) -> None:
    """Notes that a tensor is a number on one way."""
    if type(tensor) is Traced:
        value = tensor.tracer.outer_read(tensor.handle)
        tensor.tracer.mixed[id(value)] = value


def may_be_number(tensor: Any) -> bool:
    """Whether a tensor is a number in eager on one way, itself or as what numbers made of one."""
    if type(tensor) is not Traced or not tensor.tracer.mixed or tensor.dim():
        return False
    return is_noted(tensor.tracer, tensor.tracer.outer_read(tensor.handle), DEEPEST)


def is_noted(tracer: Any, value: Value, deepest: int) -> bool:
    """`may_be_number` of a value."""
    if id(value) in tracer.mixed:
        return True
    if not deepest or value.rank:
        return False
    others = [e for e in value.inputs if e is not None and (e.rank or not tracer.is_constant(e))]
    return bool(others) and all(is_noted(tracer, each, deepest - 1) for each in others)
