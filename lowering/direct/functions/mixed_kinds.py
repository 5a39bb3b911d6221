"""Tensors that are numbers in eager on one way of a branch or loop on data."""

from __future__ import annotations

from typing import Any

import torch

from irkit.core.ir import Value

DEEPEST = 12
"""Through so many operators is a number followed that is computed with other numbers."""


def is_traced(tensor: Any) -> bool:
    """Whether a value is a tensor of a model that is traced."""
    return isinstance(tensor, torch.Tensor) and getattr(tensor, "handle", None) is not None


def note_number(tensor: Any) -> None:
    """Notes that a tensor is a number on one way."""
    if is_traced(tensor):
        value = tensor.tracer.outer_read(tensor.handle)
        tensor.tracer.mixed[id(value)] = value


def may_be_number(tensor: Any) -> bool:
    """Whether a tensor is a number in eager on one way, itself or as what numbers made of one."""
    if not is_traced(tensor) or not tensor.tracer.mixed or tensor.dim():
        return False
    return is_noted(tensor.tracer, tensor.tracer.outer_read(tensor.handle), DEEPEST)


def is_noted(tracer: Any, value: Value, deepest: int) -> bool:
    """`may_be_number` of a value."""
    if id(value) in tracer.mixed:
        return True
    plain = all(e is None or hasattr(e.type, "shape") for e in value.inputs)
    if not deepest or not plain or value.rank:  # what comes out of a branch or loop was noted there
        return False
    others = [e for e in value.inputs if e is not None and (e.rank or not tracer.is_constant(e))]
    return bool(others) and all(is_noted(tracer, each, deepest - 1) for each in others)
