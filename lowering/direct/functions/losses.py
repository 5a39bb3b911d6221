"""Losses of samples that `torch.func.vmap` goes through one by one: its rule of `gather` counts the samples of the
example, in C++, and the batch then varies no more."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F


def cross_entropy(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> torch.Tensor | None:  # fmt: skip
    """F.cross_entropy without `gather`, inside a transform; None where there is none, or for what is not the plain loss
    of class numbers."""
    if weight is not None or label_smoothing or not is_plain(input, target, size_average, reduce):
        return None
    scores = F.log_softmax(input, 1 if input.dim() > 1 else 0)
    return nll_loss(scores, target, None, None, ignore_index, None, reduction)


def nll_loss(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> torch.Tensor | None:  # fmt: skip
    """F.nll_loss without `gather`, inside a transform: the scores of all other classes are left out; None as in
    `cross_entropy`."""
    if weight is not None or not is_plain(input, target, size_average, reduce):
        return None
    axis = 1 if input.dim() > 1 else 0
    classes = torch.arange(input.shape[axis], device=input.device)
    classes = classes.view(-1, *[1] * (input.dim() - axis - 1))
    counts = target != ignore_index
    chosen = (classes == target.unsqueeze(axis)) & counts.unsqueeze(axis)
    losses = -torch.where(chosen, input, 0.0).sum(axis)
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / counts.sum().to(total.dtype)


def is_plain(input: torch.Tensor, target: torch.Tensor, size_average: Any, reduce: Any) -> bool:
    """Whether a transform is at work, and the target is a number of a class for each place."""
    level = torch._C._functorch.maybe_current_level()  # type: ignore[attr-defined]
    if level is None or size_average is not None or reduce is not None:
        return False
    return not target.is_floating_point() and target.dim() == max(0, input.dim() - 1)
