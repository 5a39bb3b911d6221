"""Arguments of operators on the meta device, of any sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from operator import eq
from typing import Any

import attrs
import torch
from torch._prims_common import compute_elementwise_output_strides

from irkit.support.once import once
from lowering.fold.memory.on_cpu import in_order_steps


@attrs.frozen(slots=False)
class Meta:
    """A tensor, mostly on the meta device, whose axes lie in memory in an order, the outermost first."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    dtype: torch.dtype
    on: str = "meta"

    @once
    def lasting(self) -> torch.Tensor:
        """The same one each time: one that has no numbers, of which operators that are told write nothing else."""
        return self.tensor()

    def tensor(self) -> torch.Tensor:
        """A new one, of zeros where it has numbers."""
        make = torch.empty if self.on == "meta" else torch.zeros
        order = self.order
        if all(map(eq, order, count())):
            return make(self.shape, dtype=self.dtype, device=self.on)
        made = make([self.shape[a] for a in order], dtype=self.dtype, device=self.on)
        return made.permute([order.index(a) for a in range(len(order))])


def order_of(twin: torch.Tensor) -> tuple[int, ...]:
    """The axes of a tensor, the outermost in memory first."""
    steps = twin.stride()
    return tuple(sorted(range(len(steps)), key=lambda a: -steps[a]))


def lies_in_order(x: torch.Tensor) -> bool:
    """Whether a tensor on the meta device lies in order, its axes of one element, too: operators lay out a result as
    the steps of these say, which may be those of channels that come last."""
    return x.is_meta and x.is_contiguous() and (1 not in x.shape or x.stride() == in_order_steps(x))


def laid_out(twin: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A tensor of another shape whose axes lie in memory in the order of a twin's."""
    return Meta(tuple(shape), order_of(twin), twin.dtype).tensor()


def of_elements(sizes: Sequence[int], dtype: torch.dtype, given: Sequence[torch.Tensor]) -> torch.Tensor:
    """What an operator on elements gives for tensors: new, and laid out as most of these are."""
    told = tuple(sizes)  # the step of an axis of one element may be any, and is that of others where it is stretched
    if all(each.is_contiguous() and (tuple(each.shape) == told or 1 not in each.shape) for each in given):
        return torch.empty(sizes, dtype=dtype, device="meta")
    steps = compute_elementwise_output_strides(*[each.expand(sizes) for each in given])
    return torch.empty_strided(sizes, steps, dtype=dtype, device="meta")


def lying_as(twin: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """The same numbers with the strides of a twin; as they are where some elements of that share their memory, but for
    those of an expanded axis."""
    if twin.is_contiguous() or twin.shape != numbers.shape:
        return numbers
    once = tuple([slice(0, 1) if step == 0 else slice(None) for step in twin.stride()])
    made = torch.empty_strided(numbers[once].shape, twin.stride(), dtype=numbers.dtype)
    shared = torch._debug_has_internal_overlap(made) == 1  # pyright: ignore[reportPrivateImportUsage]
    return numbers if shared else made.copy_(numbers[once]).expand(twin.shape)


def on_cpu(given: Any) -> Any:
    """An argument with its tensors on the CPU."""
    if isinstance(given, list | tuple):
        return type(given)(map(on_cpu, given))
    return attrs.evolve(given, on="cpu") if isinstance(given, Meta) else given


def is_on_cpu(given: Any) -> bool:
    """Whether a tensor of an argument is to lie on the CPU."""
    if isinstance(given, list | tuple):
        return any(map(is_on_cpu, given))
    return isinstance(given, Meta) and given.on == "cpu"


def made_of(given: Any) -> Any:
    """An argument with its tensors made."""
    if isinstance(given, list | tuple):
        return type(given)(map(made_of, given))
    if isinstance(given, Meta):
        return given.lasting if given.on == "meta" else given.tensor()
    return given


def with_defaults(given: Sequence[Any], *defaults: Any) -> tuple[Any, ...]:
    """Arguments, and the defaults of those that are left out."""
    return (*given, *defaults[len(given) :])


def plain_key(given: Any) -> Any:
    """Equal for equal arguments of equal types."""
    if isinstance(given, list | tuple):
        return (type(given), *map(plain_key, given))
    return given if isinstance(given, Meta) else (type(given), repr(given))
