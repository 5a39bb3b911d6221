"""Whether two results of a model are the same, structure and bits."""

from __future__ import annotations

from typing import Any

import torch


def is_same(a: Any, b: Any) -> bool:
    """Whether two results are of one structure, their tensors equal bit by bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
    if type(a).__module__.startswith("transformers.cache_utils"):
        return is_same(vars(a), vars(b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(is_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(is_same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)
