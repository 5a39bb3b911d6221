"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from lowering.torch_modules.common import lowest, padded_ends, spatial_pads

MAX = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


def around_of(
    x: torch.Tensor,
    kernel: Sequence[int],
    auto_pad: str,
    pads: Any,
    stride: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: int,
) -> list[tuple[int, int]]:
    """Pads of each axis; with `ceil_mode` so many more at the end that the last window that begins within is whole."""
    found = spatial_pads(auto_pad, pads, x.shape[2:], kernel, stride, dilation)
    if not ceil_mode or auto_pad not in ("NOTSET", ""):
        return found
    more: list[tuple[int, int]] = []
    for size, (a, b), k, s, d in zip(x.shape[2:], found, kernel, stride, dilation, strict=True):
        span = d * (k - 1) + 1
        count = -(-(size + a + b - span) // s) + 1
        if (count - 1) * s >= size + a:
            count -= 1
        more.append((a, max(b, (count - 1) * s + span - size - a)))
    return more


def max_pool(
    x: torch.Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] = (),
    kernel_shape: Sequence[int],
    pads: Sequence[int] = (),
    storage_order: int = 0,
    strides: Sequence[int] = (),
) -> torch.Tensor:
    """The largest number of each window."""
    rank = len(kernel_shape)
    stride, dilation = list(strides or [1] * rank), list(dilations or [1] * rank)
    around = around_of(x, kernel_shape, auto_pad, pads, stride, dilation, ceil_mode)
    wide = x if x.is_floating_point() else x.double()
    filled = padded_ends(wide, around, lowest(wide.dtype))
    return MAX[rank - 1](filled, list(kernel_shape), stride, 0, dilation).to(x.dtype)


def windows_summed(
    x: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> torch.Tensor:
    """The sum of each window of the last axes, axis by axis."""
    first = x.dim() - len(kernel)
    for i, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        span = d * (k - 1) + 1
        x = x.unfold(first + i, span, s)[..., ::d].sum(-1)
    return x


def average_pool(
    x: torch.Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] = (),
    kernel_shape: Sequence[int],
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> torch.Tensor:
    """The mean of each window, of what is inside, or with the pads that were given."""
    rank = len(kernel_shape)
    stride, dilation = list(strides or [1] * rank), list(dilations or [1] * rank)
    around = around_of(x, kernel_shape, auto_pad, pads, stride, dilation, ceil_mode)
    given = spatial_pads(auto_pad, pads, x.shape[2:], kernel_shape, stride, dilation)
    one = torch.ones([1, 1, *x.shape[2:]], dtype=x.dtype)
    if count_include_pad:
        one = padded_ends(one, given, 1.0)
        rest = [(a - c, b - d) for (a, b), (c, d) in zip(around, given, strict=True)]
        one = padded_ends(one, rest)
    else:
        one = padded_ends(one, around)
    counts = windows_summed(one, kernel_shape, stride, dilation)
    return windows_summed(padded_ends(x, around), kernel_shape, stride, dilation) / counts


def lp_pool(
    x: torch.Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] = (),
    kernel_shape: Sequence[int],
    p: int = 2,
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> torch.Tensor:
    """The p-norm of each window."""
    rank = len(kernel_shape)
    stride, dilation = list(strides or [1] * rank), list(dilations or [1] * rank)
    around = around_of(x, kernel_shape, auto_pad, pads, stride, dilation, ceil_mode)
    return windows_summed(padded_ends(x.abs() ** p, around), kernel_shape, stride, dilation) ** (1 / p)


def global_average_pool(x: torch.Tensor) -> torch.Tensor:
    """The mean of each channel."""
    return x.mean(list(range(2, x.dim())), keepdim=True)


def global_max_pool(x: torch.Tensor) -> torch.Tensor:
    """The largest number of each channel."""
    return x.amax(list(range(2, x.dim())), keepdim=True)


def global_lp_pool(x: torch.Tensor, *, p: int = 2) -> torch.Tensor:
    """The p-norm of each channel."""
    return (x.abs() ** p).sum(list(range(2, x.dim())), keepdim=True) ** (1 / p)


TABLE = {
    "AveragePool": average_pool, "GlobalAveragePool": global_average_pool, "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool, "LpPool": lp_pool, "MaxPool": max_pool,
}  # fmt: skip
