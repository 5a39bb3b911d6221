"""An element of a list whose place data, or the number of a round, tells: a row of all of them, stacked; and what a
function makes of elements of which a size that varies tells how many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from lowering.control_flow.rows import Open, elements_of, open_zip, row, same_number
from lowering.control_flow.values import is_open
from lowering.direct.functions.numbers import without_lists


def element_at(of: Any, place: Any) -> Any:
    """of[place], where data, or the number of a round, tells the place among tensors of one type, or numbers. A
    tensor gives the rows whose places are in a list of a length that data tells, too"""
    if isinstance(of, torch.Tensor):
        return of[without_lists(place)]
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


def open_map(function: Callable[..., Any], *given: Any) -> Any:
    """map(function, ...)"""
    if not any(isinstance(elements_of(each), Open) for each in given):
        return map(function, *given)
    if len(given) == 1:
        (only,) = map(elements_of, given)
        return Open(only.length, lambda i: function(only.at(i)), pieces=only.pieces)
    several = open_zip(*given)
    return Open(several.length, lambda i: function(*several.at(i)), pieces=several.pieces)
