"""Gradients of each sample, `torch.func.vmap` of `torch.func.grad`: the batch varies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

import irkit

torch.manual_seed(0)
NET = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
PARAMS = {name: p.detach() for name, p in NET.named_parameters()}


def scores(params: Any, x: torch.Tensor) -> torch.Tensor:
    return functional_call(NET, params, (x[None],))


LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "cross entropy": lambda p, x, y: F.cross_entropy(scores(p, x), y[None]),
    "cross entropy of a vector": lambda p, x, y: F.cross_entropy(scores(p, x)[0], y, reduction="sum"),
    "cross entropy of no reduction": lambda p, x, y: F.cross_entropy(scores(p, x), y[None], reduction="none")[0],
    "cross entropy without a class": lambda p, x, y: F.cross_entropy(scores(p, x), y[None], ignore_index=2),
    "nll loss": lambda p, x, y: F.nll_loss(scores(p, x).log_softmax(-1), y[None]),
    "nll loss of places": lambda p, x, y: F.nll_loss(
        scores(p, x)[..., None].repeat(1, 1, 2).log_softmax(1), y.repeat(1, 2)
    ),
    "a tensor of its own": lambda p, x, y: (scores(p, x) * torch.arange(3).view(1, 3)).square().sum() + 0 * y,
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_each_sample_are_those_of_eager(name: str) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return vmap(grad(LOSSES[name]), (None, 0, 0))(PARAMS, x, y)

    shapes = ({0: "n"}, {0: "n"})
    program = irkit.to_onnx(model, (torch.randn(4, 4), torch.randint(0, 3, (4,))), dynamic_shapes=shapes)
    assert "directly" in str(program.report)
    for n in (1, 2, 7):
        x, y = torch.randn(n, 4), torch.arange(n) % 3
        torch.testing.assert_close(program(x, y), model(x, y), rtol=1e-4, atol=1e-5, equal_nan=True)
