"""Tensors of a list that have unequal lengths, as one: joined along the axis in which they differ, with the lengths.

A loop on data makes such lists, and `torch.split` does by lengths that data tells.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import attrs
import torch

from lowering.control_flow.shared_memory import Holder, link_element
from lowering.control_flow.values import user_line
from lowering.errors import CaptureError

EVEN = "the tensors of a list that are stacked have equal sizes"
ALIKE = "the tensors of a list that are joined agree in their other sizes"
SOME = "a list that is joined has an element"


@attrs.frozen(eq=False)
class Pieces(Holder):
    """Tensors that differ along one axis: `joined` along it, and the `lengths` that they have there, int64[count]."""

    joined: torch.Tensor
    lengths: torch.Tensor
    axis: int

    @property
    def held(self) -> Sequence[Any]:
        """What is joined."""
        return (self.joined,)

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
        found = self.joined.index_select(self.axis, torch.arange(length) + start)
        link_element(found, self.joined)
        return found

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
        shape: list[Any] = list(self.joined.shape)
        shape[self.axis : self.axis + 1] = [self.lengths.shape[0], length.item()]
        return self.joined.reshape(shape).movedim(self.axis, 0)

    @classmethod
    def of(cls, part: Any, axis: int) -> Pieces:
        """Pieces as they are, or the rows of a tensor."""
        if isinstance(part, Pieces):
            return part
        lengths = torch.full((part.shape[0],), part.shape[1 + axis], dtype=torch.int64)
        return cls(part.movedim(0, axis).flatten(axis, axis + 1), lengths, axis)


@attrs.frozen(eq=False)
class Blocks(Pieces):
    """Tensors that differ along several `axes`: `joined` along one axis, into which these were flattened, before all
    others; `sizes` are what they have there, int64[count, axes], and `lengths` their products."""

    sizes: torch.Tensor
    axes: tuple[int, ...]

    @classmethod
    def flattened(cls, tensor: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
        """A tensor with these axes as one, before all others."""
        return tensor.movedim([*axes], [*range(len(axes))]).flatten(0, len(axes) - 1)

    @classmethod
    def of_sizes(cls, joined: torch.Tensor, sizes: torch.Tensor, axes: tuple[int, ...]) -> Blocks:
        """The blocks of these sizes, which lie one after the other."""
        return cls(joined, sizes.prod(1), 0, sizes, axes)

    def at(self, number: Any) -> torch.Tensor:
        """The block of a number, which is one of its."""
        place = number if isinstance(number, torch.Tensor) else torch.scalar_tensor(number, dtype=torch.int64)
        end = torch.ops.aten.index.Tensor(self.lengths.cumsum(0), [place])
        numbers = [each.item() for each in torch.ops.aten.index.Tensor(self.sizes, [place]).unbind(0)]
        for each in numbers:
            torch._check(each >= 0)
        length = reduce(operator.mul, numbers)
        part = self.joined.index_select(0, torch.arange(length) + (end - length))
        link_element(part, self.joined)
        return part.reshape(*numbers, *self.joined.shape[1:]).movedim([*range(len(numbers))], [*self.axes])

    def even(self) -> torch.Tensor:
        """The blocks stacked along a new first axis. That they have the same sizes is kept as a condition."""
        torch.ops.aten._assert_async.msg((self.sizes == self.sizes[0]).all(), EVEN)
        numbers = [each.item() for each in self.sizes[0].unbind(0)]
        shape: list[Any] = [self.sizes.shape[0], *numbers, *self.joined.shape[1:]]
        whole = self.joined.reshape(shape)
        return whole.movedim([*range(1, len(numbers) + 1)], [axis + 1 for axis in self.axes])

    def along_first(self) -> torch.Tensor:
        """The blocks joined along the first of the axes. That they agree in the others is kept as a condition."""
        others = self.sizes[:, 1:]
        torch.ops.aten._assert_async.msg((others == others[0]).all(), ALIKE)
        torch.ops.aten._assert_async.msg((self.sizes >= 0).all(), ALIKE)
        numbers: list[Any] = [self.sizes[:, 0].sum().item(), *(each.item() for each in others[0].unbind(0))]
        whole = self.joined.reshape([*numbers, *self.joined.shape[1:]])
        return whole.movedim([*range(len(numbers))], [*self.axes])

    def __getitem__(self, place: Any) -> Any:
        return self.refused("read in part") if isinstance(place, slice) else super().__getitem__(place)

    def refused(self, what: str) -> Any:
        """Raises CaptureError."""
        raise CaptureError(
            f"a list of tensors that differ along several axes is {what}",
            source=user_line(),
            hint="go over its elements one after the other",
        )


def joined_parts(parts: Sequence[Any]) -> Any:
    """Rows and pieces one after the other, as one of both. Raises CaptureError for two axes."""
    if len(parts) == 1:
        return parts[0]
    axes = {each.axis for each in parts if isinstance(each, Pieces)}
    if not axes:
        return torch.cat([*parts])
    if len(axes) > 1 or any(isinstance(each, Blocks) for each in parts):
        raise CaptureError(
            "a list has tensors that differ along several axes", source=user_line(), hint="use a list for each"
        )
    (axis,) = axes
    every = [Pieces.of(each, axis) for each in parts]
    return Pieces(torch.cat([p.joined for p in every], axis), torch.cat([p.lengths for p in every]), axis)


def even_pieces(tensor: torch.Tensor, size: Any, dim: int = 0) -> Pieces:
    """torch.split(tensor, size, dim), of an axis whose size varies: all have one length but for the last one."""
    length = tensor.shape[dim]
    torch._check(size > 0)
    starts = torch.arange(torch.sym_max((length + size - 1) // size, 1)) * size
    return Pieces(tensor, (length - starts).clamp(max=size), dim % tensor.dim())


def split_pieces(tensor: torch.Tensor, lengths: torch.Tensor, dim: int = 0) -> Pieces:
    """torch.split(tensor, lengths, dim), by lengths that data tells. That they are not negative and add up to the size
    of the axis is kept as a condition."""
    axis = dim % tensor.dim()
    lengths = lengths.to(torch.int64)
    torch.ops.aten._assert_async.msg((lengths >= 0).all(), "the lengths by which a tensor is split are not negative")
    total = lengths.sum().item()
    torch._check(total == tensor.shape[axis], lambda: "the lengths by which a tensor is split add up to its size")
    return Pieces(tensor, lengths, axis)
