"""Batch norm whose statistics are moved by a number that data tells, as the mean of all batches so far is."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def averaged_batch_norm(
    input: torch.Tensor, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: Any = 0.1, eps: float = 1e-5,
) -> torch.Tensor | None:  # fmt: skip
    """F.batch_norm in training with a momentum that is a number of each call; None where torch must take it."""
    if not isinstance(momentum, torch.SymFloat) or running_mean is None:
        return None
    if not training:
        return F.batch_norm(input, running_mean, running_var, weight, bias, False, 0.0, eps)
    share: Any = momentum
    before = [each.detach().clone() for each in (running_mean, running_var)]
    made = F.batch_norm(input, running_mean, running_var, weight, bias, True, 1.0, eps)
    with torch.no_grad():
        for each, old in zip((running_mean, running_var), before, strict=True):
            each.mul_(share).add_(old * (1 - share))
    return made
