"""Tensors that are made of numbers which vary: torch takes those of the example."""

from __future__ import annotations

import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from lowering.errors import CaptureError
from lowering.records.disguised_lists import Disguised
from lowering.records.message_lines import asks_text
from lowering.records.sizes import is_unbacked

NUMBERS = (torch.tensor, torch.as_tensor)
"""Functions that make a tensor of numbers, of which torch takes those that the example has."""
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Gathered(list[Any], ABC):
    """A list of numbers or tensors of which nobody knows how many there are; one tensor holds all."""

    @abstractmethod
    def gathered(self, dtype: torch.dtype | None) -> torch.Tensor:
        """All elements as one tensor, of that type, or of the one that torch.tensor takes for them."""

    @abstractmethod
    def places(self) -> torch.Tensor:
        """All elements as an index, which may have none."""

    @abstractmethod
    def returned(self) -> Any:
        """What a program returns for it, of which torch's pytree makes the list."""

    def __repr__(self) -> str:
        if asks_text(sys._getframe(1)):
            raise CaptureError(
                "the text of a list is asked for, of which only data or sizes tell what it holds",
                hint="keep it for a message: raise, assert, print and logging may have it",
            )
        return f"{type(self).__name__} of {list.__len__(self)} parts"


def has_symbols(numbers: Any) -> bool:
    """Whether nested lists of numbers have some in them that vary."""
    if isinstance(numbers, Gathered):
        return True
    if isinstance(numbers, list | tuple):
        return any(map(has_symbols, numbers))
    return isinstance(numbers, SYMBOLIC) and getattr(numbers.node, "constant", 0) is None


def hangs_on_data(numbers: Any) -> bool:
    """Whether nested lists of numbers have some in them that data tells, rather than sizes."""
    if isinstance(numbers, Gathered):
        return True
    if isinstance(numbers, list | tuple):
        return any(map(hangs_on_data, numbers))
    symbols: Any = numbers.node.expr.free_symbols if isinstance(numbers, SYMBOLIC) and has_symbols(numbers) else ()
    return any(is_unbacked(symbol.name) for symbol in symbols)


def tensor_of(numbers: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """torch.tensor(numbers): the tensor of nested lists of numbers"""
    if isinstance(numbers, Gathered):
        return numbers.gathered(dtype)
    if isinstance(numbers, list | tuple):
        parts = [tensor_of(each, dtype) for each in numbers]
        kind = dtype or functools.reduce(torch.promote_types, (each.dtype for each in parts))
        return torch.stack([each.to(kind) for each in parts])
    if isinstance(numbers, torch.SymBool | bool):
        made = truth_of(numbers)
        return made if dtype is None else made.to(dtype)
    whole = isinstance(numbers, int | torch.SymInt)
    if dtype is torch.float16:  # of which torch.tensor makes an infinity, and torch.full none
        return torch.scalar_tensor(numbers, dtype=dtype)
    return torch.full((), numbers, dtype=dtype or (torch.int64 if whole else torch.get_default_dtype()))


def without_lists(index: Any) -> Any:
    """An index with tensors in the place of lists of places or truths whose length data tells."""
    if isinstance(index, tuple):
        return tuple(map(without_lists, index)) if any(isinstance(each, list) for each in index) else index
    index = index.answering() if type(index) is Disguised else index
    return index.places() if isinstance(index, Gathered) else index


def truth_of(answer: Any) -> torch.Tensor:
    """A truth that may vary as a tensor."""
    parts = getattr(getattr(answer, "node", None), "parts", None)
    if parts is None:
        number = torch.sym_ite(answer, 1, 0) if has_symbols(answer) else int(answer)
        return torch.where(torch.full((), number) > 0, True, False)
    name, *rest = parts
    every = [truth_of(torch.SymBool(each)) if each.is_bool() else number_of(each) for each in rest]
    return getattr(torch, LOGICAL.get(str(name), str(name)))(*every)


LOGICAL = {"and": "logical_and", "or": "logical_or", "not": "logical_not"}


def number_of(node: Any) -> torch.Tensor:
    """The number behind a node as a tensor, as exact as Python has it."""
    kind, dtype = (torch.SymInt, torch.int64) if node.is_int() else (torch.SymFloat, torch.float64)
    number: Any = kind(node)
    return torch.full((), number, dtype=dtype)


def evenly_spaced(start: Any, end: Any, steps: Any, *, dtype: Any = None, device: Any = None, **more: Any) -> Any:
    """torch.linspace(start, end, steps) of floats, where the number of steps varies, which torch takes as it is for the
    example; None where it does not vary. Each is counted from the nearer end, as torch does."""
    kind = dtype or torch.get_default_dtype()
    if not has_symbols(steps) or not kind.is_floating_point or more.get("out") is not None:
        return None
    first, last = (
        each.to(kind) if isinstance(each, torch.Tensor) else tensor_of(each, kind).to(device) for each in (start, end)
    )
    places = torch.arange(steps, device=device)
    gap = (last - first) / torch.sym_max(steps - 1, 1)
    rising, falling = first + places * gap, last - (steps - 1 - places) * gap
    return torch.where(places < torch.sym_max(steps // 2, 1), rising, falling)


def frequencies(n: Any, d: float = 1.0, **more: Any) -> Any:
    """torch.fft.fftfreq(n, d), where n varies, which torch takes as it is for the example; None where it does not vary:
    `[0, 1, ..., -2, -1] / (n * d)`, the negative ones from the middle on."""
    if not has_symbols(n) or hangs_on_data(n) or more.get("out") is not None:
        return None
    places = torch.arange(n, device=more.get("device"))
    return scaled(torch.where(places < (n + 1) // 2, places, places - n), n, d, **more)


def half_frequencies(n: Any, d: float = 1.0, **more: Any) -> Any:
    """torch.fft.rfftfreq(n, d), as `frequencies`: `[0, 1, ..., n // 2] / (n * d)`"""
    if not has_symbols(n) or hangs_on_data(n) or more.get("out") is not None:
        return None
    return scaled(torch.arange(n // 2 + 1, device=more.get("device")), n, d, **more)


def scaled(places: torch.Tensor, n: Any, d: float, *, dtype: Any = None, **more: Any) -> torch.Tensor:
    """places / (n * d), by the factor that torch multiplies with."""
    return places.to(dtype or torch.get_default_dtype()) * (1.0 / (n * d))


def nested_lists(x: torch.Tensor) -> Any:
    """x.tolist(): nested lists of the numbers in a tensor."""
    return x.item() if x.dim() == 0 else [nested_lists(each) for each in x.unbind(0)]


def tensor_of_lists(elements: Any, count: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """torch.tensor of as many nested lists: `elements` is the structure of one, with those of all in its leaves."""
    if isinstance(elements, torch.Tensor):
        return elements if dtype is None else elements.to(dtype)
    if isinstance(elements, list | tuple) and elements:
        parts = [tensor_of_lists(each, count, dtype) for each in elements]
        kind = functools.reduce(torch.promote_types, (each.dtype for each in parts))
        return torch.stack([each.to(kind) for each in parts], 1)
    return torch.tensor(elements, dtype=dtype).expand(count)


def lists_of_shape(shape: Sequence[int]) -> Any:
    """Nested lists of a shape."""
    return [lists_of_shape(shape[1:]) for _ in range(shape[0])] if shape else 0


def places_of(part: Any) -> torch.Tensor:
    """A list of places, or of lists of them, as a tensor."""
    if isinstance(part, list | tuple):
        return torch.stack([places_of(each) for each in part])
    return part if isinstance(part, torch.Tensor) else tensor_of(part, torch.int64)
