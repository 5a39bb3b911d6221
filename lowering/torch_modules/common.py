"""What most functions need: numbers out of operands, paddings, and element types.

A function of the tables takes the operands of one operator, then its attributes by name with ONNX's defaults, and gives
a tensor, or a tuple of tensors. Operands that are sizes (`Ints`) come as tuples of Python's or of torch's integers, as
far as they are known; `ints` reads them off tensors otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from irkit.core.types import DType
from lowering.records.types import TORCH

Function = Callable[..., Any]
Ints = Sequence[Any] | torch.Tensor | None
"""Numbers that are sizes or axes: Python's, torch's symbolic ones, or a tensor of them."""


def ints(x: Any) -> list[Any]:
    """The elements of sizes or axes as numbers."""
    if isinstance(x, torch.Tensor):
        return x.reshape(-1).tolist()
    return list(x) if isinstance(x, tuple | list) else [x]


def number(x: Any) -> Any:
    """The only element of an operand."""
    return x.item() if isinstance(x, torch.Tensor) else ints(x)[0]


def vector(x: Any) -> Any:
    """Sizes as a tensor of int64; what is one already as it is."""
    if isinstance(x, torch.Tensor) or x is None:
        return x
    parts = [torch.scalar_tensor(each, dtype=torch.int64) for each in x]
    return torch.stack(parts) if parts else torch.zeros(0, dtype=torch.int64)


def torch_dtype(number_: int) -> torch.dtype:
    """torch's element type of the number that ONNX has for it."""
    return TORCH[DType(number_)]


def axes_of(axes: Ints, rank: int) -> list[int]:
    """Axes counted from the front; all of them where none are given."""
    return list(range(rank)) if axes is None else [int(a) % rank if rank else 0 for a in ints(axes)]


def wide_floats(x: torch.Tensor) -> torch.Tensor:
    """Narrow floats as float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def spatial_pads(
    auto_pad: str,
    pads: Sequence[int],
    sizes: Sequence[Any],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[tuple[int, int]]:
    """(before, after) for each spatial axis, as `auto_pad` or `pads` say."""
    rank = len(kernel)
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        found: list[tuple[int, int]] = []
        for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
            out = -(-size // stride)
            total = max(0, (out - 1) * stride + (k - 1) * dilation + 1 - size)
            small, large = total // 2, total - total // 2
            found.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
        return found
    given = list(pads) if pads and auto_pad in ("NOTSET", "") else [0] * (2 * rank)
    return list(zip(given[:rank], given[rank:], strict=True))


def padded_ends(x: torch.Tensor, pads: Sequence[tuple[int, int]], value: float = 0.0) -> torch.Tensor:
    """A tensor with its last axes padded; itself where nothing is."""
    if not any(map(any, pads)):
        return x
    flat = [n for pair in reversed(pads) for n in pair]
    return torch.nn.functional.pad(x, flat, value=value)


def lowest(dtype: torch.dtype) -> Any:
    """The smallest number of an element type."""
    if dtype == torch.bool:
        return False
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> Any:
    """The largest number of an element type."""
    if dtype == torch.bool:
        return True
    return math.inf if dtype.is_floating_point else torch.iinfo(dtype).max
