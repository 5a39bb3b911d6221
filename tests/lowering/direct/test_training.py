"""A training step, captured directly, is a program with state; what it was captured from stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import irkit


class Step(torch.nn.Module):
    """One step of an optimizer on a net of two layers, which has made a step before."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
        self.optimizer = kind(self.net.parameters(), **options)
        self(torch.randn(5, 4), torch.randn(5, 2))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            self.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self.net(x), y)
            loss.backward()
        self.optimizer.step()
        return loss.detach()


OPTIMIZERS: Any = {
    "sgd": lambda: Step(torch.optim.SGD, lr=0.1),
    "momentum": lambda: Step(torch.optim.SGD, lr=0.1, momentum=0.9),
    "adam": lambda: Step(torch.optim.Adam, lr=0.05),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_training_go_on_from_each_other(name: str) -> None:
    step, eager = OPTIMIZERS[name](), OPTIMIZERS[name]()
    before = copy.deepcopy(step.optimizer.state_dict())
    gradients = [p.grad.clone() for p in step.parameters() if p.grad is not None]
    program = irkit.to_onnx(
        step, (torch.randn(5, 4), torch.randn(5, 2)), dynamic_shapes=({0: "n"}, {0: "n"}), capture="direct"
    )
    state: Any = None
    for size in (3, 5, 4):
        x, y = torch.randn(size, 4), torch.randn(size, 2)
        loss, state = program.run((x, y), {}, state)
        torch.testing.assert_close(loss, eager(x, y), rtol=1e-4, atol=1e-5)
    for known, weight in zip(before["state"].values(), step.optimizer.state_dict()["state"].values(), strict=True):
        torch.testing.assert_close(known, weight, rtol=0, atol=0)
    left = [p.grad for p in step.parameters()]
    for gradient, now in zip(gradients, left, strict=True):
        assert type(now) is torch.Tensor and torch.equal(gradient, now)


class Counting(torch.nn.Module):
    """A model that takes a number out of a buffer before it writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.count.item()  # type: ignore[operator]
        self.count.add_(2)  # type: ignore[operator]
        return x * first + self.count.item()  # type: ignore[operator]


def test_a_number_out_of_a_buffer_that_is_written_is_no_constant() -> None:
    program, eager = irkit.to_onnx(Counting(), (torch.ones(3),), capture="direct"), Counting()
    state: Any = None
    for _ in range(3):
        found, state = program.run((torch.ones(3),), {}, state)
        torch.testing.assert_close(found, eager(torch.ones(3)))
