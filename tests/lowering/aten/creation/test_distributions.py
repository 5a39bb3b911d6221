"""Distributions whose parameters are tensors: each draw against what the distribution says, by chi squared or by the
largest distance of the shares. With a seed no test can fail by chance."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from irkit.doors.to_onnx import to_onnx
from lowering.program.program import Program

SIZE = 20_000
GAMMA, DIRICHLET = torch.ops.aten._standard_gamma, torch.ops.aten._sample_dirichlet


@cache
def program_of(function: Callable[..., Any], count: int) -> Program:
    """The function of that many tensors as a program that draws from a seed."""
    model = torch.nn.Module()
    model.forward = lambda *xs: function(*xs)
    args = tuple(torch.full((SIZE,), 0.5) for _ in range(count))
    return to_onnx(model, args, seed=3)


def drawn(function: Callable[..., Any], *parameters: float) -> np.ndarray:
    """`SIZE` numbers of these parameters, in f64."""
    found = program_of(function, len(parameters))(*(torch.full((SIZE,), p) for p in parameters))
    assert found.shape == (SIZE,) and found.dtype is torch.float32
    return found.double().numpy()


def log_factorial(k: Any) -> np.ndarray:
    """log(k!)"""
    return torch.lgamma(torch.as_tensor(k, dtype=torch.float64) + 1).numpy()


def excess(counts: np.ndarray, log_probability: Callable[[np.ndarray], np.ndarray], most: int) -> float:
    """How many deviations chi squared lies above its mean, over counts that are expected 20 times at least."""
    assert counts.min() >= 0 and counts.max() <= most and (counts == np.floor(counts)).all()
    seen = np.bincount(counts.astype(int), minlength=most + 1)
    expected = np.exp(log_probability(np.arange(most + 1.0))) * counts.size
    often = expected > 20
    seen, expected = np.append(seen[often], seen[~often].sum()), np.append(expected[often], expected[~often].sum())
    free = often.sum()
    return float((((seen - expected) ** 2 / np.maximum(expected, 1e-9)).sum() - free) / (2 * free) ** 0.5)


@pytest.mark.parametrize("rate", [0.5, 9.99, 10.0, 1000.0])
def test_poisson(rate: float) -> None:
    counts = drawn(torch.poisson, rate)
    most = int(rate + 12 * rate**0.5 + 12)
    assert abs(excess(counts, lambda k: k * np.log(rate) - rate - log_factorial(k), most)) < 3.5
    assert abs(np.corrcoef(counts[1:], counts[:-1])[0, 1]) < 5 / SIZE**0.5
    assert excess(counts, lambda k: k * np.log(rate * 1.1) - rate * 1.1 - log_factorial(k), most) > 3.5


@pytest.mark.parametrize(("trials", "chance"), [(7, 0.9), (20, 0.5), (1000, 0.97)])
def test_binomial(trials: int, chance: float) -> None:
    counts = drawn(torch.binomial, float(trials), chance)
    ways = log_factorial(trials)

    def log_probability(k: np.ndarray) -> np.ndarray:
        rest = trials - k
        return ways - log_factorial(k) - log_factorial(rest) + k * np.log(chance) + rest * np.log1p(-chance)

    assert abs(excess(counts, log_probability, trials)) < 3.5


@pytest.mark.parametrize("shape", [0.1, 1.0, 50.0])
def test_gamma(shape: float) -> None:
    numbers = np.sort(drawn(GAMMA, shape))
    shares = torch.special.gammainc(torch.full((SIZE,), shape, dtype=torch.float64), torch.from_numpy(numbers)).numpy()
    below = np.arange(SIZE) / SIZE
    assert np.maximum(np.abs(below - shares), np.abs(below + 1 / SIZE - shares)).max() * SIZE**0.5 < 2.2


def test_dirichlet() -> None:
    shapes = torch.tensor([[1.0, 2.0, 5.0]]).repeat(SIZE, 1)  # torch traces it with fixed sizes only
    found = to_onnx(DIRICHLET, (shapes,), seed=5)(shapes)
    torch.testing.assert_close(found.sum(-1), torch.ones(SIZE))
    torch.testing.assert_close(found.mean(0), torch.tensor([0.125, 0.25, 0.625]), atol=0.005, rtol=0)
    torch.testing.assert_close(found.var(0), torch.tensor([7 / 576, 12 / 576, 15 / 576]), atol=0.002, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_ends_of_the_parameters(dtype: torch.dtype) -> None:
    """What is certain is not left to chance, and empty tensors and scalars are drawn too."""
    zero, one = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
    counts = to_onnx(torch.poisson, (zero,), dynamic_shapes=({0: "n"},))
    assert (counts(zero) == 0).all() and counts(zero).dtype is dtype and counts(zero[:0]).shape == (0,)
    assert counts(zero + float("inf")).isinf().all()
    if dtype in (torch.float32, torch.float64):  # torch's own kernel has no others
        successes = to_onnx(torch.binomial, (one, one))
        for n, p, expected in ((zero, one / 2, 0), (one * 5, zero, 0), (one * 5, one, 5), (one * 64, one, 64)):
            assert (successes(n, p) == expected).all()
    assert (to_onnx(GAMMA, (zero,))(zero) == torch.finfo(dtype).tiny).all()
    scalar = torch.tensor(20.0, dtype=dtype)
    assert to_onnx(torch.poisson, (scalar,))(scalar).shape == ()
