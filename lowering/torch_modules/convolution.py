"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from lowering.torch_modules.common import padded_ends, spatial_pads

CONV = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> torch.Tensor:
    """A convolution of one to three spatial axes."""
    rank = x.dim() - 2
    stride, dilation = list(strides or [1] * rank), list(dilations or [1] * rank)
    around = spatial_pads(auto_pad, pads, x.shape[2:], weight.shape[2:], stride, dilation)
    if all(a == b for a, b in around):
        return CONV[rank - 1](x, weight, bias, stride, [a for a, _ in around], dilation, group)
    return CONV[rank - 1](padded_ends(x, around), weight, bias, stride, 0, dilation, group)


def conv_transpose(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> torch.Tensor:
    """The transpose of a convolution: computed without pads, and then cut, or padded with the bias."""
    rank = x.dim() - 2
    stride, dilation = list(strides or [1] * rank), list(dilations or [1] * rank)
    extra = list(output_padding or [0] * rank)
    whole = TRANSPOSED[rank - 1](x, weight, None, stride, 0, 0, group, dilation)
    ends = cut_ends(x, weight, whole, auto_pad, extra, output_shape, pads, stride)
    found = padded_ends(whole, [(-a, -b + e) for (a, b), e in zip(ends, extra, strict=True)])
    return found if bias is None else found + bias.reshape(1, -1, *[1] * rank)


def cut_ends(
    x: torch.Tensor,
    weight: torch.Tensor,
    whole: torch.Tensor,
    auto_pad: str,
    extra: Sequence[int],
    output_shape: Sequence[int],
    pads: Sequence[int],
    stride: Sequence[int],
) -> list[tuple[int, int]]:
    """How many places are cut off at both ends of each axis."""
    rank = x.dim() - 2
    if not output_shape and auto_pad in ("NOTSET", "", "VALID"):
        given = list(pads) if pads and auto_pad != "VALID" else [0] * (2 * rank)
        return list(zip(given[:rank], given[rank:], strict=True))
    wanted = list(output_shape)[-rank:] if output_shape else [n * s for n, s in zip(x.shape[2:], stride, strict=True)]
    found: list[tuple[int, int]] = []
    for size, target, e in zip(whole.shape[2:], wanted, extra, strict=True):
        total = size + e - target
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return found


def conv_integer(
    x: torch.Tensor, weight: torch.Tensor, zero_x: Any = None, zero_w: Any = None, **attributes: Any
) -> torch.Tensor:
    """A convolution of small integers without their zero points, as int32."""
    a = x.to(torch.float64) - (0 if zero_x is None else zero_x.to(torch.float64))
    b = weight.to(torch.float64)
    if zero_w is not None:
        b = b - zero_w.to(torch.float64).reshape(-1, *[1] * (weight.dim() - 1))
    return conv(a, b, **attributes).to(torch.int32)


TABLE = {"Conv": conv, "ConvInteger": conv_integer, "ConvTranspose": conv_transpose}
