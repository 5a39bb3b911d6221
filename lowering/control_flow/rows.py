"""What a model iterates over where only data or a size that varies tells how often, and lists that grow so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import attrs
import torch

from irkit.support.arguments import type_text
from lowering.control_flow.values import NUMBERS, is_open, is_symbolic, user_line
from lowering.errors import CaptureError


@attrs.frozen(eq=False)
class Open:
    """Elements by their number: `length` says how many there are, `at` gives the one of a number, a tensor."""

    length: Any
    at: Callable[[Any], Any]


def open_range(*given: Any) -> Any:
    """range(...), of which the length may be a number of data; of a step that varies, one that is above 0"""
    if not any(isinstance(each, torch.Tensor | torch.SymInt) for each in given):
        return range(*given)
    numbers: list[Any] = [each.item() if isinstance(each, torch.Tensor) else each for each in given]
    if not any(map(varies, numbers)):
        return range(*numbers)
    start, stop, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if varies(step) and not varies(stop - start - step) and stop - start == step:
        return [start]  # one round over all of it
    if not step > 0 if varies(step) else step == 0:
        raise CaptureError(
            "the step of a range is 0, or varies and may be less", source=user_line(), hint="step by a number"
        )
    span = stop - start if step > 0 else start - stop
    if varies(step):
        return Open(torch.sym_max((span + step - 1) // step, 0), lambda i: start + i.item() * step)
    length = torch.sym_max((span + abs(step) - 1) // abs(step), 0) if abs(step) != 1 else torch.sym_max(span, 0)
    return Open(length, lambda i: start + i.item() * step)


def varies(number: Any) -> bool:
    """Whether a number is a symbolic one that is not always the same."""
    return isinstance(number, NUMBERS) and is_symbolic(number)


def elements_of(given: Any) -> Any:
    """What is iterated over, as `Open` where its length varies; anything else as it is."""
    if isinstance(given, torch.Tensor) and given.dim() and varies(given.shape[0]):
        return Open(given.shape[0], lambda i: row(given, i))
    if isinstance(given, GrownList):
        return given.elements()
    return given


def row(of: torch.Tensor, number: Any) -> torch.Tensor:
    """The row of a tensor that has this number, which is one of its."""
    number = number if isinstance(number, torch.Tensor) else torch.scalar_tensor(number, dtype=torch.int64)
    return torch.ops.aten.index.Tensor(of, [number])


def open_enumerate(given: Iterable[Any], start: int = 0) -> Any:
    """enumerate(...)"""
    elements = elements_of(given)
    if isinstance(elements, Open):
        return Open(elements.length, lambda i: (i.item() + start, elements.at(i)))
    return enumerate(given, start)


def open_zip(*given: Any, strict: bool = False) -> Any:
    """zip(...)"""
    every = [elements_of(each) for each in given]
    first = next((each for each in every if isinstance(each, Open)), None)
    if first is None:
        return zip(*given, strict=strict)
    length, parts = first.length, []
    for each, own in zip(every, given, strict=True):
        if isinstance(each, Open):
            length = length if each.length is length else torch.sym_min(length, each.length)
            parts.append(each.at)
        elif isinstance(own, torch.Tensor):
            length = torch.sym_min(length, own.shape[0])
            parts.append(partial(row, own))
        else:
            raise CaptureError(
                f"zip goes over a tensor of a length that varies, and over {type_text(own)}",
                source=user_line(),
                hint="zip tensors, or stack what is zipped with them",
            )
    return Open(length, lambda i: tuple(part(i) for part in parts))


def open_reversed(given: Any) -> Any:
    """reversed(...)"""
    elements = elements_of(given)
    if isinstance(elements, Open):
        return Open(elements.length, lambda i: elements.at(elements.length - 1 - i))
    return reversed(given)


def open_len(given: Any) -> Any:
    """len(...)"""
    elements = elements_of(given)
    return elements.length if isinstance(elements, Open) else len(given)


# ---------------------------------------------------------------------------------------------- lists


class GrowingList(list[Any]):
    """A list in a round of a loop on data: what the round appends is noted, the rest of it is not there to be read."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.gained: list[Any] = []

    def append(self, element: Any) -> None:
        self.gained.append(element)

    def extend(self, elements: Iterable[Any]) -> None:
        self.gained.extend(elements)

    def __iadd__(self, elements: Iterable[Any]) -> GrowingList:
        self.extend(elements)
        return self

    def copy(self) -> GrowingList:
        return self

    def refused(self, *_: Any, **__: Any) -> Any:
        """Raises CaptureError: nobody knows yet what is in it."""
        raise CaptureError(
            f"the list {self.name!r} grows in a loop on data, and is read in it",
            source=user_line(),
            hint="carry what is read in a variable of its own",
        )

    __getitem__ = __setitem__ = __delitem__ = __len__ = __iter__ = __contains__ = __add__ = __bool__ = refused
    insert = pop = remove = clear = sort = reverse = index = count = refused  # type: ignore[assignment]


class Rows:
    """Elements of a list that a loop on data made: tensors of one shape, of which only data tells how many there are.
    `torch.stack` and `torch.cat` take it among others."""

    def __init__(self, stacked: torch.Tensor) -> None:
        self.stacked = stacked

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        joined = {torch.stack: stack, torch.cat: cat, torch.concat: cat, torch.concatenate: cat}
        if func in joined:
            return joined[func](*args, **(kwargs or {}))
        raise CaptureError(
            f"{getattr(func, '__name__', func)} is given what a loop on data appended to a list",
            source=user_line(),
            hint="join the list with torch.stack or torch.cat",
        )


def parts_of(tensors: Sequence[Any]) -> Sequence[Any]:
    """What a list holds: tensors, and rows among them."""
    return [*list.__iter__(tensors)] if isinstance(tensors, list) else tensors


def stack(tensors: Sequence[Any], dim: int = 0) -> torch.Tensor:
    """torch.stack(tensors, dim)"""
    parts = [each.stacked if isinstance(each, Rows) else each.unsqueeze(0) for each in parts_of(tensors)]
    whole = torch.cat(parts) if len(parts) > 1 else parts[0]
    return whole.movedim(0, dim)


def cat(tensors: Sequence[Any], dim: int = 0, axis: int | None = None) -> torch.Tensor:
    """torch.cat(tensors, dim)"""
    dim = dim if axis is None else axis
    parts = []
    for each in parts_of(tensors):
        if isinstance(each, Rows):
            place = dim % (each.stacked.dim() - 1)
            each = each.stacked.movedim(0, place).flatten(place, place + 1)
        parts.append(each)
    return torch.cat(parts, dim) if len(parts) > 1 else parts[0]


class GrownList(list[Any]):
    """A list to which a loop on data appended: what it held before, then `Rows`. It is read by number, by a loop, by
    torch.stack and torch.cat."""

    def __init__(self, before: Sequence[Any], gained: Sequence[torch.Tensor], name: str) -> None:
        if not gained:
            raise CaptureError(
                f"the list {name!r} grows in a loop on data by what is no tensor",
                source=user_line(),
                hint="append tensors or numbers",
            )
        if any(each.shape[1:] != gained[0].shape[1:] or each.dtype is not gained[0].dtype for each in gained):
            raise CaptureError(
                f"the list {name!r} gains tensors of several types in a round of a loop on data",
                source=user_line(),
                hint="use a list for each",
            )
        stacked = gained[0] if len(gained) == 1 else torch.stack(list(gained), 1).flatten(0, 1)
        own = list.__iter__(before) if isinstance(before, GrownList) else iter(before)
        super().__init__([*own, Rows(stacked)])
        self.name = name

    def whole(self) -> torch.Tensor:
        """All elements, stacked."""
        return stack(self)

    def elements(self) -> Open:
        """The elements by number."""
        whole = self.whole()
        return Open(whole.shape[0], lambda i: row(whole, i))

    def __getitem__(self, place: Any) -> Any:
        return self.whole()[place]

    def __iter__(self) -> Any:
        return iter(self.whole())

    def append(self, element: Any) -> None:
        super().append(element)

    def refused(self, *_: Any) -> Any:
        """Raises CaptureError: how many there are only data tells."""
        raise CaptureError(
            f"how many elements the list {self.name!r} has only data tells, and they are counted",
            source=user_line(),
            hint="stack the list, and take the size of the result",
        )

    __len__ = __bool__ = __contains__ = refused
    insert = pop = remove = clear = sort = reverse = index = count = refused  # type: ignore[assignment]


def is_endless(given: Any) -> bool:
    """Whether what is iterated over is told by data."""
    return isinstance(given, Open) or is_open(given)
