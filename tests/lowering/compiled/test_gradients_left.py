"""Gradients that a compiled step leaves at parameters are those that eager leaves, for an optimizer outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit

WAYS = (
    "dropped outside", "zeroed outside", "dropped inside by the optimizer", "dropped inside by the model",
    "summed over two calls", "summed over all calls", "held by somebody", "all inside",
)  # fmt: skip


def rounds(way: str, wrapped: Callable[[Any], Any]) -> list[Any]:
    """What five calls of a step give and leave, with an optimizer outside of it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor) -> torch.Tensor:
        if way == "dropped inside by the optimizer":
            optimizer.zero_grad()
        if way == "dropped inside by the model":
            model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        if way == "all inside":
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    called, found, held = wrapped(step), [], []
    for number in range(5):
        if way in ("dropped outside", "held by somebody"):
            optimizer.zero_grad()
        if way == "zeroed outside":
            optimizer.zero_grad(set_to_none=False)
        found.append(called(torch.randn(2 + number % 3, 3)))
        if way == "held by somebody":
            held.append(model[0].weight.grad)
        if way == "summed over two calls" and number % 2:
            optimizer.step()
            optimizer.zero_grad()
        elif way not in ("summed over two calls", "summed over all calls", "all inside"):
            optimizer.step()
        found += [torch.zeros(0) if p.grad is None else p.grad.clone() for p in model.parameters()]
    return [*found, *held, *model.parameters()]


@pytest.mark.parametrize("way", WAYS)
def test_gradients_that_a_compiled_step_leaves_are_those_of_eager(way: str) -> None:
    made = rounds(way, lambda step: irkit.compile(step, fallback=False))
    for one, other in zip(made, rounds(way, lambda step: step), strict=True):
        torch.testing.assert_close(one, other)


def test_a_program_keeps_the_gradients_that_replace_others() -> None:
    model = torch.nn.Linear(3, 2)

    def step(x: torch.Tensor) -> torch.Tensor:
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    program = irkit.to_onnx(step, (torch.randn(2, 3),), dynamic_shapes=({0: "n"},))
    assert model.weight.grad is None and program.check(2)
    assert {port.binds for port in program.graph.signature.results if port.role == "state"} == {
        "model.weight.grad",
        "model.bias.grad",
    }
