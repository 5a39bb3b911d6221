"""Tensors that are numbers in eager on one way of a branch or loop on data."""

from __future__ import annotations

from typing import Any

import torch

from irkit.core.ir import Value


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
    return is_noted(tensor.tracer, tensor.tracer.outer_read(tensor.handle))


def is_noted(tracer: Any, value: Value) -> bool:
    """`may_be_number` of a value: whether nothing but noted ones and constants made it, by operators on numbers."""
    seen, pending = set[int](), [value]
    while pending:
        each = pending.pop()
        if id(each) in seen or id(each) in tracer.mixed:
            continue
        seen.add(id(each))
        given = [e for e in each.inputs if e is not None]
        if each.rank or not all(hasattr(e.type, "shape") for e in given):
            return False  # what comes out of a branch or loop was noted there
        varying = [e for e in given if e.rank or not tracer.is_constant(e)]
        if not varying:
            return False
        pending += varying
    return True
