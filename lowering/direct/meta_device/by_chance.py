"""Tensors whose elements lie in order only where an axis has one element or none, as in the example: what is computed
of them lies otherwise where it has more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from irkit import dims
from irkit.errors import DimensionError
from lowering.direct.meta_device.arguments import lies_in_order
from lowering.direct.meta_device.asked import laid_as_asked, may_lie_otherwise
from lowering.direct.meta_device.results import is_in_order_by_chance, teller

REFUSED = (ArithmeticError, AssertionError, IndexError, RuntimeError, TypeError, ValueError, DimensionError)


def lie_by_chance(handles: Iterable[Any], at: Callable[[Any], Any], others: Mapping[str, int]) -> bool:
    """Whether some tensor lies in order by chance, for an axis of one element or none that has more at `others`, or is
    known to lie otherwise at other sizes, as `at` gives it."""
    for h in handles:
        if h.memory.elsewhere is not None:
            return True
        shape = h.twin.shape
        if 1 not in shape and 0 not in shape:
            continue
        dims_here = zip(h.value.shape, shape, strict=False)
        grows = any(size < 2 and has_more(dim, others, size) for dim, size in dims_here)
        if grows and is_turned_elsewhere(h, at):
            return True
    return False


def has_more(dim: dims.Dim, others: Mapping[str, int], size: int = 1) -> bool:
    """Whether an axis of one element, or of none, has another number of them at other sizes of the names: where a run
    is made for a size of 1, it has not. Of what data tells that is not known."""
    if type(dim) is int:
        return False
    if not all(symbol.name in others for symbol in dims.symbols_of(dim)):
        return True
    return dims.evaluate(dim, others) != size


def is_turned_elsewhere(handle: Any, at: Callable[[Any], Any]) -> bool:
    """Whether a tensor that lies in order has its axes in another order; strides tell that of several axes of one
    element, or of what lies in no order, only at other sizes."""
    if is_in_order_by_chance(handle.twin):
        return True
    if not handle.lenses or (handle.twin.is_contiguous() and handle.twin.shape.count(1) < 2):
        return False
    try:
        return not at(handle).is_contiguous()
    except REFUSED:
        return False


def may_lie_apart(handle: Any) -> bool:
    """Whether a tensor may lie in another way than in order, in the example or elsewhere."""
    return bool(handle.lenses) or handle.memory.elsewhere is not None or not lies_in_order(handle.twin)


def note_elsewhere(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], at: Callable[[Any], Any], found: Sequence[Any]
) -> None:
    """Keeps of the results of an operator on tensors that lie in order by chance how they lie at other sizes, if in no
    order; `at` gives an argument as it is there. Nothing of what torch refuses there."""
    try:
        named = {name: torch.device("meta") if name == "device" else at(each) for name, each in kwargs.items()}
        given = [at(each) for each in args]
        told = teller(func)(*given, **named)
        told = laid_as_asked(func, given, named, told) if may_lie_otherwise(func) else told
    except REFUSED:
        return
    for each, other in zip(found, told if isinstance(told, tuple | list) else [told], strict=False):
        if isinstance(other, torch.Tensor) and not other.is_contiguous() and not each.lenses:
            each.memory.elsewhere = other if other.dim() == each.twin.dim() else None
