"""Copies by Python of what the model holds, by `deepcopy` and `pickle`, which copy memory that several may share."""

from __future__ import annotations

from typing import Any

import torch

from lowering.errors import CaptureError

SHARED = "a view, or several tensors that share their memory, are copied by deepcopy, which copies that memory"
PICKLED = "a tensor is pickled, saved or copied by copy.copy, whose content only data tells"
BY_CLONE = "copy it by clone(), or return it"


def deep_copied(tensor: torch.Tensor, memo: Any) -> torch.Tensor:
    """copy.deepcopy(tensor) of a buffer or a constant."""
    memory = tensor.untyped_storage()._cdata
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return copied_once(tensor, memo, ("memory", memory), whole)


def copied_once(tensor: torch.Tensor, memo: Any, memory: Any, whole: bool) -> torch.Tensor:
    """A copy of a tensor that deepcopy makes, and of its memory, of which it makes one. Raises CaptureError for a part
    of memory, and where another tensor in that memory was copied."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if memory in memo or not whole:
        raise CaptureError(SHARED, hint=BY_CLONE)
    memo[memory] = memo[id(tensor)] = found = tensor.clone()
    return found


def refuse_pickled(tensor: torch.Tensor, protocol: Any) -> Any:
    """Raises CaptureError: of a tensor that a model holds, its memory is asked for, which the program does not have."""
    raise CaptureError(PICKLED, hint=BY_CLONE)
