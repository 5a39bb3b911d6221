"""Whether two results of a model are the same, structure and bits, and whether a program answers as its model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from irkit.errors import ContractError


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


def right_answers(program: Callable[..., Any], model: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> int:
    """How many of some calls a program answers: as eager does, or it fails the test; the others it refuses by a
    condition of its contract."""
    answered = 0
    for given in calls:
        try:
            found = program(*given)
        except ContractError:
            continue
        answered += 1
        torch.testing.assert_close(found, model(*given))
    return answered
