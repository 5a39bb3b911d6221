"""One number of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lowering.torch_modules.common import Ints, axes_of, highest, ints, lowest, number, wide_floats


def reduced(
    function: Callable[[torch.Tensor, list[int], bool], torch.Tensor],
    x: torch.Tensor,
    axes: Ints,
    keepdims: int,
    noop_with_empty_axes: int,
) -> torch.Tensor:
    """A function over axes: those given, or all, or none where none are asked for so."""
    if axes is None or not ints(axes):
        if noop_with_empty_axes:
            return function(x.unsqueeze(0), [0], False).to(x.dtype)
        return function(x, list(range(x.dim())), bool(keepdims)).to(x.dtype)
    return function(x, axes_of(axes, x.dim()), bool(keepdims)).to(x.dtype)


def over(function: Callable[[torch.Tensor, list[int], bool], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The reduction by a function of a tensor, axes, and whether these are kept."""

    def reduce(x: torch.Tensor, axes: Ints = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> torch.Tensor:
        return reduced(function, x, axes, keepdims, noop_with_empty_axes)

    reduce.__name__ = reduce.__qualname__ = function.__name__
    return reduce


def sums(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The sum."""
    return torch.sum(x, axes, keepdim=keep) if axes else x


def means(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The mean."""
    if not axes:
        return x
    if x.is_floating_point():
        return torch.mean(x, axes, keepdim=keep)
    count = 1
    for axis in axes:
        count = count * x.shape[axis]
    return torch.div(torch.sum(x, axes, keepdim=keep), count, rounding_mode="trunc")


def largest(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The largest."""
    if not axes:
        return x
    if of_nothing(x, axes):
        return filled(x, axes, keep, lowest(x.dtype))
    return torch.any(x, axes, keepdim=keep) if x.dtype == torch.bool else torch.amax(x, axes, keepdim=keep)


def smallest(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The smallest."""
    if not axes:
        return x
    if of_nothing(x, axes):
        return filled(x, axes, keep, highest(x.dtype))
    return torch.all(x, axes, keepdim=keep) if x.dtype == torch.bool else torch.amin(x, axes, keepdim=keep)


def of_nothing(x: torch.Tensor, axes: list[int]) -> bool:
    """Whether there is nothing along some of the axes."""
    return any(type(x.shape[axis]) is int and x.shape[axis] == 0 for axis in axes)


def filled(x: torch.Tensor, axes: list[int], keep: bool, number_: Any) -> torch.Tensor:
    """One number in the shape that a reduction gives."""
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
    return torch.full(shape, number_, dtype=x.dtype)


def products(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The product."""
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keep)
    return x


def l1(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The sum of the absolute numbers."""
    return sums(torch.abs(x), axes, keep)


def l2(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The root of the sum of squares."""
    wide = wide_floats(x) if x.is_floating_point() else x.double()
    return torch.sqrt(sums(wide * wide, axes, keep))


def log_sum(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The logarithm of the sum."""
    return torch.log(sums(wide_floats(x), axes, keep))


def log_sum_exp(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The logarithm of the sum of exponentials."""
    wide = wide_floats(x) if x.is_floating_point() else x.double()
    return torch.logsumexp(wide, axes, keepdim=keep) if axes else wide


def sum_square(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    """The sum of squares."""
    return sums(x * x, axes, keep)


def argmax(x: torch.Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> torch.Tensor:
    """Where the largest number along an axis is: the first place, or the last."""
    return arg(torch.argmax, x, axis, keepdims, select_last_index)


def argmin(x: torch.Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> torch.Tensor:
    """Where the smallest number along an axis is: the first place, or the last."""
    return arg(torch.argmin, x, axis, keepdims, select_last_index)


def arg(function: Any, x: torch.Tensor, axis: int, keepdims: int, last: int) -> torch.Tensor:
    """Where an extreme is."""
    if not last:
        return function(x, axis, keepdim=bool(keepdims))
    return x.shape[axis] - 1 - function(x.flip(axis), axis, keepdim=bool(keepdims))


def cumsum(x: torch.Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> torch.Tensor:
    """The sums of all up to each element."""
    return running(torch.cumsum, x, int(number(axis)), exclusive, reverse, 0)


def cumprod(x: torch.Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> torch.Tensor:
    """The products of all up to each element."""
    return running(torch.cumprod, x, int(number(axis)), exclusive, reverse, 1)


def running(function: Any, x: torch.Tensor, axis: int, exclusive: int, reverse: int, start: int) -> torch.Tensor:
    """A running total, without the element itself where that is asked for, and from the end."""
    x = x.flip(axis) if reverse else x
    if exclusive:
        first = torch.full_like(x.narrow(axis, 0, min(1, x.shape[axis])), start)
        x = torch.cat([first, x.narrow(axis, 0, max(x.shape[axis] - 1, 0))], axis)
    found = function(x, axis).to(x.dtype)
    return found.flip(axis) if reverse else found


TABLE = {
    "ArgMax": argmax, "ArgMin": argmin, "CumProd": cumprod, "CumSum": cumsum, "ReduceL1": over(l1),
    "ReduceL2": over(l2), "ReduceLogSum": over(log_sum), "ReduceLogSumExp": over(log_sum_exp),
    "ReduceMax": over(largest), "ReduceMean": over(means), "ReduceMin": over(smallest), "ReduceProd": over(products),
    "ReduceSum": over(sums), "ReduceSumSquare": over(sum_square),
}  # fmt: skip
