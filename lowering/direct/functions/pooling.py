"""Pooling over windows as long as a size says: `F.max_pool1d(x, x.size(2))`, `F.avg_pool2d(x, (h // 2, 1))`.

Windows that lie one behind the other are an axis of their own once the axis is split, and a window that is the whole
axis is one of them.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import statically_known_true

from lowering.direct.functions.numbers import hangs_on_data, has_symbols


def max_pool(
    own: Callable[..., Any], axes: int, x: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> torch.Tensor | None:  # fmt: skip
    """The greatest element of each window; None where no window is as long as a size says, or torch says where they
    stand too, or windows lie otherwise than one behind the other."""
    if return_indices:
        return None
    found = divided(x, axes, kernel_size, stride, padding, dilation, ceil_mode)
    if found is None:
        return None
    parts, inner, rest = found
    x = parts.amax(inner) if inner else parts
    kernel, by, around, apart = (
        per_axis(each, axes) for each in (kernel_size, stride or kernel_size, padding, dilation)
    )
    return own(
        x, chosen(kernel, rest, 1), chosen(by, rest, 1), chosen(around, rest, 0), chosen(apart, rest, 1), ceil_mode
    )


def avg_pool(
    own: Callable[..., Any], axes: int, x: torch.Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> torch.Tensor | None:  # fmt: skip
    """The mean of each window; None where `max_pool` says, or where another divisor is given."""
    if divisor_override is not None:
        return None
    found = divided(x, axes, kernel_size, stride, padding, 1, ceil_mode)
    if found is None:
        return None
    parts, inner, rest = found
    x = parts.mean(inner) if inner else parts
    kernel, by, around = (per_axis(each, axes) for each in (kernel_size, stride or kernel_size, padding))
    return own(x, chosen(kernel, rest, 1), chosen(by, rest, 1), chosen(around, rest, 0), ceil_mode, count_include_pad)


def lp_pool(
    own: Callable[..., Any], axes: int, x: torch.Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
    ceil_mode: bool = False,
) -> torch.Tensor | None:  # fmt: skip
    """The p-norm of each window; None where `max_pool` says."""
    if not has_symbols((kernel_size, stride)):
        return None
    mean = avg_pool(own, axes, x.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    if mean is None:
        return None
    elements = functools.reduce(operator.mul, per_axis(kernel_size, axes))
    return (torch.sign(mean) * F.relu(mean.abs())).mul(elements).pow(1.0 / norm_type)


def divided(
    x: torch.Tensor, axes: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[torch.Tensor, list[int], list[bool]] | None:
    """(x with an axis of windows and one of elements in place of each axis whose windows are as long as a size says,
    where these axes of elements stand, which of the last axes are left to torch); None where that cannot be: of a size
    that data tells, torch takes the number of the example, under a condition."""
    if not has_symbols((kernel_size, stride)) or hangs_on_data((kernel_size, stride)):
        return None
    kernel, by, around, apart = (per_axis(e, axes) for e in (kernel_size, stride or kernel_size, padding, dilation))
    if not isinstance(x, torch.Tensor) or x.dim() <= axes or any(len(e) != axes for e in (kernel, by, around, apart)):
        return None
    rest = [not (has_symbols(size) or has_symbols(step)) for size, step in zip(kernel, by, strict=True)]
    inner: list[int] = []
    first, shape = x.dim() - axes, x.shape
    for place, own in enumerate(rest):
        if own:
            continue
        size, length, at = kernel[place], shape[first + place], first + place + len(inner)
        whole = is_same(size, length)
        if around[place] != 0 or apart[place] != 1 or not (whole or (is_same(size, by[place]) and not ceil_mode)):
            return None
        if not 0 < size <= length:  # torch refuses it; and a condition, where sizes decide
            return None
        count = 1 if whole else length // size
        x = x if whole else x.narrow(at, 0, count * size)
        x = x.unflatten(at, (count, size))
        inner.append(at + 1)
    return x, inner, rest


def per_axis(given: Any, axes: int) -> list[Any]:
    """A number for each axis."""
    numbers = list(given) if isinstance(given, tuple | list) else [given]
    return numbers * axes if len(numbers) == 1 else numbers


def chosen(numbers: Sequence[Any], rest: Sequence[bool], otherwise: int) -> list[Any]:
    """The numbers of the axes that are left to torch; what changes nothing for the others."""
    return [number if own else otherwise for number, own in zip(numbers, rest, strict=True)]


def is_same(a: Any, b: Any) -> bool:
    """Whether two numbers are the same at all sizes."""
    return statically_known_true(a == b)


def of_pool(kind: Callable[..., Any], own: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """A function of pooling that takes sizes."""

    def pool(input: torch.Tensor, kernel_size: Any, stride: Any = None, *args: Any, **kwargs: Any) -> Any:
        return kind(own, axes, input, kernel_size, stride, *args, **kwargs)

    return pool


def of_lp_pool(own: Callable[..., Any], axes: int) -> Callable[..., Any]:
    """A function of power-average pooling that takes sizes."""

    def pool(input: torch.Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        return lp_pool(own, axes, input, norm_type, kernel_size, stride, ceil_mode)

    return pool


KINDS = (
    (F.max_pool1d, max_pool, torch.max_pool1d, 1), (torch.max_pool1d, max_pool, torch.max_pool1d, 1),
    (F.max_pool2d, max_pool, torch.max_pool2d, 2), (torch.max_pool2d, max_pool, torch.max_pool2d, 2),
    (F.max_pool3d, max_pool, torch.max_pool3d, 3), (torch.max_pool3d, max_pool, torch.max_pool3d, 3),
    (F.avg_pool1d, avg_pool, F.avg_pool1d, 1), (torch.avg_pool1d, avg_pool, F.avg_pool1d, 1),
    (F.avg_pool2d, avg_pool, F.avg_pool2d, 2), (F.avg_pool3d, avg_pool, F.avg_pool3d, 3),
)  # fmt: skip
POOLS: Mapping[Any, Callable[..., Any]] = types.MappingProxyType({
    **{func: of_pool(kind, own, axes) for func, kind, own, axes in KINDS},
    F.lp_pool1d: of_lp_pool(F.avg_pool1d, 1), F.lp_pool2d: of_lp_pool(F.avg_pool2d, 2),
    F.lp_pool3d: of_lp_pool(F.avg_pool3d, 3),
})  # fmt: skip
"""Functions of pooling, and what stands for them where a number among their arguments varies."""
