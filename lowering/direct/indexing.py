"""`x[i]` and `x[i] = y` with numbers that vary, which torch would make constants of: they become selections."""

from __future__ import annotations

from typing import Any

import torch

from lowering.direct.tensors import Traced

INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def selected(x: Any, index: Any, *value: Any) -> tuple[Any, ...]:
    """The arguments of an indexing where `x` is selected from already by each number that varies.

    Such a number is a size, or what a tensor of no axes holds.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    if not any(map(varies, parts)):
        return (x, index, *value)
    rest: list[Any] = []
    for place, part in enumerate(parts):
        if varies(part):
            after = sum(map(consumed, parts[place + 1 :]))
            dim = -1 - after if Ellipsis in kinds(parts[:place]) else sum(map(consumed, rest))
            x = x.select(dim, part.item() if isinstance(part, torch.Tensor) else part)
        else:
            rest.append(part)
    return (x, tuple(rest) or Ellipsis, *value)


def varies(part: Any) -> bool:
    """Whether a part of an index is a number that varies."""
    if isinstance(part, torch.SymInt):
        return True
    return type(part) is Traced and part.dim() == 0 and part.dtype in INTEGERS


def kinds(parts: list[Any]) -> list[Any]:
    """The parts that are no tensors, which cannot be compared with others."""
    return [part for part in parts if not isinstance(part, torch.Tensor | torch.SymInt | list)]


def consumed(part: Any) -> int:
    """How many axes a part of an index is about."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    mask = isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8)
    return part.dim() if mask else 1
