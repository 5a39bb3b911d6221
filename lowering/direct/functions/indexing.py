"""`x[i]` and `x[i] = y`, with numbers that vary."""

from __future__ import annotations

from typing import Any

import torch

from irkit.errors import IrkitError
from lowering.direct.tensors import Traced
from lowering.direct.tracer import Tracer

INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def write_places(tracer: Tracer, x: Any, index: Any, value: Any) -> None:
    """x[index] = value, where torch leaves out no axis of `value` for being 1 long: what is broadcast is the same, but
    for a place with fewer axes than `value`, which torch refuses then; there it may ask."""
    tracer.asked.unstripped = True
    try:
        return torch.Tensor.__setitem__(x, index, value)
    except (RuntimeError, IndexError, IrkitError):
        tracer.asked.unstripped = False
        return torch.Tensor.__setitem__(x, index, value)
    finally:
        tracer.asked.unstripped = False


def without_symbols(x: Any, index: Any, *value: Any) -> tuple[Any, ...]:
    """The arguments of an indexing where `x` is selected from already by each number that varies.

    Such a number is a size, or what a tensor of no axes holds; at the ends of a slice, too.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    ends = [part for part in parts if isinstance(part, slice)]
    if any(varies(end) for part in ends for end in (part.start, part.stop, part.step)):
        parts = [sliced(part) if isinstance(part, slice) else part for part in parts]
        index = tuple(parts)
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


def sliced(part: slice) -> slice:
    """A slice whose ends are numbers, where tensors of no axes were."""
    ends = (part.start, part.stop, part.step)
    return slice(*(end.item() if varies(end) and isinstance(end, torch.Tensor) else end for end in ends))


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
