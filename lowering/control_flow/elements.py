"""An element of a list whose place data, or the number of a round, tells: a row of all of them, stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from lowering.control_flow.rows import row, same_number
from lowering.control_flow.values import is_open


def element_at(of: Any, place: Any) -> Any:
    """of[place], where data, or the number of a round, tells the place among tensors of one type, or numbers"""
    if type(of) not in (list, tuple) or not isinstance(place, torch.SymInt | torch.Tensor) or not is_open(place):
        return of[place]
    whole = stacked_elements(of)
    if whole is None:
        return of[place]
    number: Any = place.item() if isinstance(place, torch.Tensor) else place
    torch._check(number < len(of))
    torch._check(number >= -len(of))
    found = row(whole, number)
    return found if isinstance(of[0], torch.Tensor) else found.item()


def stacked_elements(of: Sequence[Any]) -> torch.Tensor | None:
    """Tensors of one type, stacked, or numbers of one kind; None for anything else."""
    kinds = {type(each) for each in of}
    if len(kinds) == 1 and kinds <= {bool, int, float}:
        return torch.tensor(of, dtype=torch.float64 if float in kinds else None)
    tensors = [each for each in of if isinstance(each, torch.Tensor)]
    if not tensors or len(tensors) < len(of) or any(each.is_complex() for each in tensors):
        return None
    first, *rest = tensors
    alike = all(
        each.dtype is first.dtype and each.dim() == first.dim() and all(map(same_number, each.shape, first.shape))
        for each in rest
    )
    return torch.stack(tensors) if alike else None
