"""`x[i]` and `x[i] = y` of traced tensors, with places that vary: sizes, and what tensors of no axes hold."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from irkit.errors import IrkitError
from lowering.direct.functions.arrays import Array, indices
from lowering.direct.functions.numbers import tensor_of
from lowering.direct.sizes import SizeNode
from lowering.direct.tensors import Traced
from lowering.direct.tracer import Tracer

INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def write_places(tracer: Tracer, x: Any, index: Any, value: Any) -> None:
    """x[index] = value, where torch leaves out no axis of `value` for being 1 long: it may where it refuses that."""
    tracer.asked.unstripped, before = True, tracer.asked.raised
    try:
        return torch.Tensor.__setitem__(x, index, value)
    except (RuntimeError, IndexError, IrkitError):
        tracer.asked.unstripped, tracer.asked.raised = False, before
        return torch.Tensor.__setitem__(x, index, value)
    finally:
        tracer.asked.unstripped = False


def without_symbols(x: Any, index: Any, *value: Any) -> tuple[Any, ...]:
    """The arguments of an indexing where `x` is selected from already by each number that varies.

    Such a number is a size, or what a tensor of no axes holds; at the ends of a slice, too.
    """
    index = indices(index)
    if isinstance(index, list) and holds_numbers(index) and all(isinstance(each, int | torch.SymInt) for each in index):
        index = places_of(index)  # a list with lists or tensors in it is a tuple to torch
    parts = list(index) if isinstance(index, tuple) else [index]
    if isinstance(index, tuple) and any(map(holds_numbers, parts)):
        parts = [places_of(part) if holds_numbers(part) else part for part in parts]
        index = tuple(parts)
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
            x = x.select(dim, place_within(x.shape[dim], part.item() if isinstance(part, torch.Tensor) else part))
        else:
            rest.append(part)
    return (x, tuple(rest) or Ellipsis, *value)


def place_within(size: Any, place: Any) -> Any:
    """A place along an axis; in a body, where it is beyond the axis for the example, which need not come there, one
    that is within it, under the condition that it is the same."""
    node = getattr(place, "node", None)
    if not isinstance(node, SizeNode) or not node.asked.inside:
        return place
    length = size.node.hint if isinstance(size, torch.SymInt) else size
    if length < 1 or -length <= node.hint < length:
        return place
    torch._check(place < size)
    torch._check(place >= -size)
    return torch.sym_max(torch.sym_min(place, size - 1), -size)


def has_traced(index: Any) -> bool:
    """Whether a part of an index of a weight is a tensor that is traced, or a number that varies."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(each, Traced | torch.SymInt | slice | list | Array) for each in parts)


def holds_numbers(part: Any) -> bool:
    """Whether a part of an index is a list of places, of which some vary."""
    leaves = pytree.tree_leaves(part) if isinstance(part, list | tuple) else ()
    return any(type(each) is Traced or isinstance(each, torch.SymInt) for each in leaves)


def places_of(part: Any) -> torch.Tensor:
    """A list of places, or of lists of them, as a tensor."""
    if isinstance(part, list | tuple):
        return torch.stack([places_of(each) for each in part])
    return part if isinstance(part, torch.Tensor) else tensor_of(part, torch.int64)


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
