"""Normalizations."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from lowering.torch_modules.common import torch_dtype


def batch_norm(
    x: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:
    """x normalized by the statistics of its channels: those given, or its own, which are then carried on."""
    if not training_mode:
        return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)
    axes = [i for i in range(x.dim()) if i != 1]
    own, spread = x.mean(axes), x.var(axes, unbiased=False)
    found = F.batch_norm(x, own, spread, scale, bias, False, 0.0, epsilon)
    return found, mean * momentum + own * (1 - momentum), var * momentum + spread * (1 - momentum)


def instance_norm(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor, *, epsilon: float = 1e-5) -> torch.Tensor:
    """Each channel of each item normalized by itself."""
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def group_norm(
    x: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> torch.Tensor:
    """Groups of channels normalized."""
    return F.group_norm(x, num_groups, scale, bias, epsilon)


def layer_norm(
    x: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(x normalized over its last axes, the mean, one over the deviation)."""
    at = axis % x.dim()
    axes = list(range(at, x.dim()))
    wide = x.to(torch_dtype(stash_type)) if x.dtype != torch.float64 else x
    mean = wide.mean(axes, keepdim=True)
    inverse = torch.rsqrt(((wide - mean) ** 2).mean(axes, keepdim=True) + epsilon)
    if tuple(scale.shape) == tuple(x.shape[at:]) and (bias is None or bias.shape == scale.shape):
        return F.layer_norm(x, list(x.shape[at:]), scale, bias, epsilon), mean, inverse
    found = ((wide - mean) * inverse).to(x.dtype) * scale
    return found if bias is None else found + bias, mean, inverse


def rms_norm(
    x: torch.Tensor, scale: torch.Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> torch.Tensor:
    """x over the root of the mean square of its last axes."""
    axes = list(range(axis % x.dim(), x.dim()))
    wide = x.to(torch_dtype(stash_type)) if x.dtype != torch.float64 else x
    inverse = torch.rsqrt((wide * wide).mean(axes, keepdim=True) + epsilon)
    return (wide * inverse).to(x.dtype) * scale


def lp_norm(x: torch.Tensor, *, axis: int = -1, p: int = 2) -> torch.Tensor:
    """x over its p-norm along an axis, 0 where that is 0."""
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else torch.sqrt((x * x).sum(axis, keepdim=True))
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


def mean_variance(x: torch.Tensor, *, axes: Any = (0, 2, 3)) -> torch.Tensor:
    """x without its mean, over its deviation."""
    at = list(axes)
    mean = x.mean(at, keepdim=True)
    deviation = torch.sqrt((x * x).mean(at, keepdim=True) - mean * mean)
    return (x - mean) / (deviation + 1e-9)


def local_response(
    x: torch.Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> torch.Tensor:
    """x over a power of the squares of the channels beside it."""
    before = (size - 1) // 2
    squares = F.pad((x * x).movedim(1, -1), [before, size - 1 - before]).unfold(-1, size, 1).sum(-1).movedim(-1, 1)
    return x / (bias + alpha / size * squares) ** beta


TABLE = {
    "BatchNormalization": batch_norm, "GroupNormalization": group_norm, "InstanceNormalization": instance_norm,
    "LRN": local_response, "LayerNormalization": layer_norm, "LpNormalization": lp_norm,
    "MeanVarianceNormalization": mean_variance, "RMSNormalization": rms_norm,
}  # fmt: skip
