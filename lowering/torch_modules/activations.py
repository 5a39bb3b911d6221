"""Activation functions, and the softmax family."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def gelu(x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    """x times the chance that a normal number is below it."""
    return F.gelu(x, approximate=approximate)


def elu(x: torch.Tensor, *, alpha: float = 1.0) -> torch.Tensor:
    """x, or below zero alpha * (exp(x) - 1)."""
    return F.elu(x, alpha)


def celu(x: torch.Tensor, *, alpha: float = 1.0) -> torch.Tensor:
    """x, or below zero alpha * (exp(x / alpha) - 1)."""
    return F.celu(x, alpha)


def selu(
    x: torch.Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> torch.Tensor:
    """gamma * elu(x)."""
    return gamma * torch.where(x > 0, x, alpha * (torch.exp(torch.clamp(x, max=0)) - 1))


def hard_sigmoid(x: torch.Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> torch.Tensor:
    """alpha * x + beta between 0 and 1."""
    return torch.clamp(alpha * x + beta, 0, 1)


def hard_swish(x: torch.Tensor) -> torch.Tensor:
    """x * hard_sigmoid(x)."""
    return x * hard_sigmoid(x, alpha=1 / 6)


def leaky_relu(x: torch.Tensor, *, alpha: float = 0.01) -> torch.Tensor:
    """x, or below zero alpha * x."""
    return torch.where(x < 0, alpha * x, x)


def prelu(x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """x, or below zero slope * x."""
    return torch.where(x < 0, slope * x, x)


def shrink(x: torch.Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> torch.Tensor:
    """x moved towards zero by bias where it is beyond lambd, else 0."""
    near = torch.zeros_like(x)
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, near)).to(x.dtype)


def thresholded_relu(x: torch.Tensor, *, alpha: float = 1.0) -> torch.Tensor:
    """x where it is above alpha, else 0."""
    return torch.where(x > alpha, x, torch.zeros_like(x))


def softplus(x: torch.Tensor) -> torch.Tensor:
    """log(1 + exp(x)), by the form that neither overflows nor loses small ones."""
    return torch.logaddexp(x, torch.zeros_like(x))


def swish(x: torch.Tensor, *, alpha: float = 1.0) -> torch.Tensor:
    """x * sigmoid(alpha * x)."""
    return x * torch.sigmoid(alpha * x)


def softmax(x: torch.Tensor, *, axis: int = -1) -> torch.Tensor:
    """exp(x) over the sum of it along an axis."""
    return torch.softmax(x, axis)


def log_softmax(x: torch.Tensor, *, axis: int = -1) -> torch.Tensor:
    """The logarithm of softmax."""
    return torch.log_softmax(x, axis)


def hardmax(x: torch.Tensor, *, axis: int = -1) -> torch.Tensor:
    """1 at the first largest number along an axis, else 0."""
    return torch.zeros_like(x).scatter(axis, x.argmax(axis, keepdim=True), 1)


TABLE = {
    "Celu": celu, "Elu": elu, "Gelu": gelu, "HardSigmoid": hard_sigmoid, "HardSwish": hard_swish, "Hardmax": hardmax,
    "LeakyRelu": leaky_relu, "LogSoftmax": log_softmax, "Mish": F.mish, "PRelu": prelu, "Relu": torch.relu,
    "Selu": selu, "Shrink": shrink, "Sigmoid": torch.sigmoid, "Softmax": softmax, "Softplus": softplus,
    "Softsign": F.softsign, "Swish": swish, "ThresholdedRelu": thresholded_relu,
}  # fmt: skip
