"""Element types changed, and numbers of few bits."""

from __future__ import annotations

from typing import Any

import torch

from lowering.torch_modules.common import torch_dtype

PLAIN = frozenset(
    (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.uint8, torch.int8, torch.int16,
     torch.int32, torch.int64)
)  # fmt: skip


def cast(x: torch.Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> torch.Tensor:
    """x in another element type."""
    return x.to(torch_dtype(to))


def cast_like(x: torch.Tensor, like: torch.Tensor, *, saturate: int = 1, round_mode: str = "up") -> torch.Tensor:
    """x in the element type of another."""
    return x.to(like.dtype)


def bit_cast(x: torch.Tensor, *, to: int) -> torch.Tensor:
    """The bits of x read as another element type of the same width."""
    return x.contiguous().view(torch_dtype(to))


def scaled(x: torch.Tensor, scale: torch.Tensor, axis: int) -> torch.Tensor:
    """A scale, or a zero point, in the form in which it goes with x: one number, one for each place along an axis."""
    if scale.dim() == 0 or scale.numel() == 1:
        return scale.reshape(())
    shape = [1] * x.dim()
    shape[axis] = -1
    return scale.reshape(shape)


def dequantize(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> torch.Tensor:
    """(x - zero) * scale."""
    number = x.to(torch.int32) if not x.is_floating_point() else x.float()
    if zero is not None:
        number = number - scaled(x, zero.to(number.dtype), axis)
    found = number.to(torch.float32) * scaled(x, scale, axis).float()
    return found.to(torch_dtype(output_dtype) if output_dtype else scale.dtype)


def quantize(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None = None, *, axis: int = 1, **_: Any
) -> torch.Tensor:
    """x / scale + zero, rounded and kept within the element type of zero."""
    kind = torch.uint8 if zero is None else zero.dtype
    limits = torch.iinfo(kind)
    found = torch.round(x / scaled(x, scale, axis))
    if zero is not None:
        found = found + scaled(x, zero.to(found.dtype), axis)
    return torch.clamp(found, limits.min, limits.max).to(kind)


TABLE = {
    "BitCast": bit_cast, "Cast": cast, "CastLike": cast_like, "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
}  # fmt: skip
