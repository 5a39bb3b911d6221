"""What torch.export takes for contiguous at the example's sizes: `contiguous` gives back the very tensor then, and
leaves no trace of having been asked."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from lowering.records.torch_internals import C, statically_known_true


class InOrder(TorchFunctionMode):
    """A block in which a tensor that `contiguous` gives back is required to lie in order at all sizes."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the function gives."""
        made = func(*args, **(kwargs or {}))
        if len(args) == 1 and not kwargs and made is args[0] and getattr(func, "__name__", "") == "contiguous":
            with C.DisableTorchFunction():
                require_order(made)
        return made


def require_order(x: torch.Tensor) -> None:
    """Asks torch's sizes for what makes a tensor lie in order, where its strides do not say so by themselves."""
    expected: Any = 1
    for size, step in zip(reversed(x.shape), reversed(x.stride()), strict=True):
        if isinstance(size, int) and size == 1:
            continue
        if not statically_known_true(step == expected) and bool(size != 1) and bool(step != expected):
            return  # torch has its own reasons
        expected = expected * size
