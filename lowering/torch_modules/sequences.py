"""Sequences, which are lists, and optionals, of which an empty one is None."""

from __future__ import annotations

from typing import Any

import torch

from lowering.torch_modules.common import number


def sequence_at(xs: Any, at: Any) -> Any:
    """One element."""
    return xs[number(at)]


def construct(*xs: Any) -> list[Any]:
    """The operands as a sequence."""
    return list(xs)


def empty(**_: Any) -> list[Any]:
    """Nothing."""
    return []


def erase(xs: Any, at: Any = None) -> list[Any]:
    """A sequence without one element, the last where none is named."""
    place = (len(xs) - 1 if at is None else number(at)) % len(xs)
    return [*xs[:place], *xs[place + 1 :]]


def insert(xs: Any, x: Any, at: Any = None) -> list[Any]:
    """A sequence with one element more, before a place, or at its end."""
    place = len(xs) if at is None else number(at)
    place = place + len(xs) if place < 0 else place
    return [*xs[:place], x, *xs[place:]]


def length(xs: Any) -> torch.Tensor:
    """How many elements there are."""
    return torch.scalar_tensor(len(xs), dtype=torch.int64)


def concat_from(xs: Any, *, axis: int, new_axis: int = 0) -> torch.Tensor:
    """The elements one after the other."""
    return torch.stack(list(xs), axis) if new_axis else torch.cat(list(xs), axis)


def optional(x: Any = None, **_: Any) -> Any:
    """What may be there."""
    return x


def has_element(x: Any = None) -> torch.Tensor:
    """Whether it is there."""
    return torch.tensor(x is not None)


TABLE = {
    "ConcatFromSequence": concat_from, "Optional": optional, "OptionalGetElement": optional,
    "OptionalHasElement": has_element, "SequenceAt": sequence_at, "SequenceConstruct": construct,
    "SequenceEmpty": empty, "SequenceErase": erase, "SequenceInsert": insert, "SequenceLength": length,
}  # fmt: skip
