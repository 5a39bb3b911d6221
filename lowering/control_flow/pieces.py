"""Tensors of a list that have unequal lengths, as one: joined along the axis in which they differ, beside their lengths.

A loop on data makes such lists, and `torch.split` does by lengths that data tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import torch

from lowering.control_flow.values import user_line
from lowering.errors import CaptureError

EVEN = "the tensors of a list that are stacked have equal sizes"
SOME = "a list that is joined has an element"


@attrs.frozen(eq=False)
class Pieces:
    """Tensors that differ along one axis: `joined` along it, and the `lengths` that they have there, int64[count]."""

    joined: torch.Tensor
    lengths: torch.Tensor
    axis: int

    @property
    def shape(self) -> tuple[Any]:
        """(how many there are,)"""
        return (self.lengths.shape[0],)

    def at(self, number: Any) -> torch.Tensor:
        """The piece of a number, which is one of its."""
        place = number if isinstance(number, torch.Tensor) else torch.scalar_tensor(number, dtype=torch.int64)
        length, end = (torch.ops.aten.index.Tensor(each, [place]) for each in (self.lengths, self.lengths.cumsum(0)))
        return self.part(end - length, length.item())

    def part(self, start: Any, length: Any) -> torch.Tensor:
        """So much of what is joined, from a start."""
        return self.joined.index_select(self.axis, torch.arange(length) + start)

    def __getitem__(self, place: Any) -> Any:
        if not isinstance(place, slice):
            return self.at(place if place >= 0 else self.lengths.shape[0] + place)
        if place.step is not None and place.step != 1:
            raise CaptureError(
                "a list of tensors of unequal lengths is read in steps",
                source=user_line(),
                hint="read its elements one after the other",
            )
        taken = self.lengths[place]
        before = self.lengths[: place.start].sum() if place.start is not None else 0
        return Pieces(self.part(before, taken.sum().item()), taken, self.axis)

    def flip(self, _: int) -> Pieces:
        """The same backwards. Raises CaptureError."""
        raise CaptureError(
            "a list of tensors of unequal lengths is read backwards",
            source=user_line(),
            hint="reverse what it is made of",
        )

    def unbind(self, _: int) -> list[torch.Tensor]:
        """The pieces, as many as there are for the example."""
        return [self.at(number) for number in range(self.lengths.shape[0].__index__())]

    def even(self) -> torch.Tensor:
        """The pieces stacked along a new first axis. That they have one length is kept as a condition."""
        length = self.lengths[0]
        torch.ops.aten._assert_async.msg((self.lengths == length).all(), EVEN)
        shape = self.joined.shape
        parts = shape[: self.axis], self.lengths.shape[0], length.item(), shape[self.axis + 1 :]
        return self.joined.reshape(*parts[0], *parts[1:3], *parts[3]).movedim(self.axis, 0)

    @classmethod
    def of(cls, part: Any, axis: int) -> Pieces:
        """Pieces as they are, or the rows of a tensor."""
        if isinstance(part, Pieces):
            return part
        lengths = torch.full((part.shape[0],), part.shape[1 + axis], dtype=torch.int64)
        return cls(part.movedim(0, axis).flatten(axis, axis + 1), lengths, axis)


def joined_parts(parts: Sequence[Any]) -> Any:
    """Rows and pieces one after the other, as one of both. Raises CaptureError for pieces that differ along two axes."""
    if len(parts) == 1:
        return parts[0]
    axes = {each.axis for each in parts if isinstance(each, Pieces)}
    if not axes:
        return torch.cat([*parts])
    if len(axes) > 1:
        raise CaptureError(
            "a list has tensors that differ along several axes", source=user_line(), hint="use a list for each"
        )
    (axis,) = axes
    every = [Pieces.of(each, axis) for each in parts]
    return Pieces(torch.cat([p.joined for p in every], axis), torch.cat([p.lengths for p in every]), axis)


def split(tensor: torch.Tensor, lengths: torch.Tensor, dim: int = 0) -> Pieces:
    """torch.split(tensor, lengths, dim), by lengths that data tells. That they are not negative and add up to the size
    of the axis is kept as a condition."""
    axis = dim % tensor.dim()
    lengths = lengths.to(torch.int64)
    torch.ops.aten._assert_async.msg((lengths >= 0).all(), "the lengths by which a tensor is split are not negative")
    total = lengths.sum().item()
    torch._check(total == tensor.shape[axis], lambda: "the lengths by which a tensor is split add up to its size")
    return Pieces(tensor, lengths, axis)
