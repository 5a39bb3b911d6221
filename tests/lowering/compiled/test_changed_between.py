"""What of a model or an optimizer is changed between calls of a compiled step counts for the next one, as in eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import irkit

Change = Callable[[nn.Sequential, torch.optim.Optimizer], object]


def load_halves(_: nn.Sequential, optimizer: torch.optim.Optimizer) -> None:
    """Loads what the optimizer keeps, halved: a checkpoint, whose tensors are others."""
    saved = copy.deepcopy(optimizer.state_dict())
    for kept in saved["state"].values():
        kept["momentum_buffer"] = kept["momentum_buffer"] / 2
    optimizer.load_state_dict(saved)


def leave_gradients(net: nn.Sequential, _: torch.optim.Optimizer) -> None:
    """Leaves gradients of another loss at the weights."""
    F.mse_loss(net(torch.ones(2, 4)), torch.ones(2, 2)).backward()


def halve(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Halves the gradients that a step is about to use."""
    for p in optimizer.param_groups[0]["params"]:
        if p.grad is not None:
            p.grad.mul_(0.5)


def halve_one(parameter: torch.Tensor) -> None:
    """Halves the gradient that a parameter just got."""
    assert parameter.grad is not None
    parameter.grad.mul_(0.5)


CHANGES: dict[str, Change] = {
    "what the optimizer keeps is loaded": load_halves,
    "what the optimizer keeps is cleared": lambda net, optimizer: optimizer.state.clear(),
    "gradients are left": leave_gradients,
    "a weight is frozen": lambda net, optimizer: net[0].requires_grad_(False),
    "a hook of a gradient": lambda net, optimizer: next(net.parameters()).register_hook(lambda g: g / 2),
    "a hook after a gradient": lambda net, optimizer: next(net.parameters()).register_post_accumulate_grad_hook(
        halve_one
    ),
    "a hook before steps": lambda net, optimizer: optimizer.register_step_pre_hook(halve),
    "a parameter group less": lambda net, optimizer: optimizer.param_groups[0]["params"].pop(),
}


def trained(wrapped: Callable[[Any], Any], change: Change, ends_clean: bool) -> list[Any]:
    """What four calls of a step give and leave, with a change after the second one."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not ends_clean:
            optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        if ends_clean:
            optimizer.zero_grad()
        return loss.detach()

    called, found = wrapped(step), []
    for number in range(4):
        generator = torch.Generator().manual_seed(number)
        found.append(called(torch.randn(3, 4, generator=generator), torch.randn(3, 2, generator=generator)))
        found += [p.detach().clone() for p in net.parameters()]
        found += [None if p.grad is None else p.grad.clone() for p in net.parameters()]
        found += [kept["momentum_buffer"].clone() for kept in optimizer.state.values()]
        if number == 1:
            change(net, optimizer)
    return found


@pytest.mark.parametrize("ends_clean", [False, True], ids=["drops first", "drops last"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_calls_counts_for_the_next_one(change: str, ends_clean: bool) -> None:
    made = trained(lambda step: irkit.compile(step, fallback=False), CHANGES[change], ends_clean)
    for one, other in zip(made, trained(lambda step: step, CHANGES[change], ends_clean), strict=True):
        assert (one is None) is (other is None)
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
