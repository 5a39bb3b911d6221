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


@pytest.mark.parametrize("stale", [False, True])
def test_a_whole_step_leaves_the_gradients_that_it_used(stale: bool) -> None:
    def steps(wrapped: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        if stale:
            model(torch.ones(2, 3)).sum().backward()

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        called, found, held = wrapped(step), [], []
        for number in range(3):
            found.append(called(torch.randn(2 + number, 3, generator=torch.Generator().manual_seed(number))))
            held += [p.grad for p in model.parameters()]  # each call drops them for others
        return [*found, *held, *model.parameters()]

    for one, other in zip(steps(lambda s: irkit.compile(s, fallback=False)), steps(lambda s: s), strict=True):
        torch.testing.assert_close(one, other)


def test_a_parameter_that_a_step_does_not_reach_gets_no_state() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model[1](x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    irkit.compile(step, fallback=False)(torch.randn(3, 4))
    assert {id(p) for p in optimizer.state} == {id(p) for p in model[1].parameters()}


@pytest.mark.parametrize("is_leaf", [True, False])
def test_a_step_that_leaves_a_gradient_at_an_argument_runs_in_torch(
    is_leaf: bool, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    compiled, x = irkit.compile(step), torch.randn(2, 3)
    compiled(x)
    source = torch.ones(2, 3, requires_grad=True)
    given = source if is_leaf else source * x
    compiled(given)
    assert source.grad is not None and "leaves a gradient at x" in caplog.text
    before, count = source.grad.clone(), len(caplog.records)
    compiled(x)
    assert torch.equal(source.grad, before) and len(caplog.records) == count


def test_gradients_for_an_argument_are_computed() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)

    def attack(x: torch.Tensor) -> torch.Tensor:
        (slope,) = torch.autograd.grad(model(x).square().mean(), x)
        return x.detach() + slope.sign()

    compiled = irkit.compile(attack, fallback=False)
    for n in (2, 4, 3):
        x = torch.randn(n, 3, requires_grad=True)
        torch.testing.assert_close(compiled(x), attack(x))
        assert x.grad is None and all(p.grad is None for p in model.parameters())


def test_a_first_step_that_hangs_on_gradients_runs_in_torch(caplog: pytest.LogCaptureFixture) -> None:
    def steps(wrapped: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        called = wrapped(step)
        found = [called(torch.randn(2, 3, generator=torch.Generator().manual_seed(n))) for n in range(4)]
        return [*found, *model.parameters(), *(kept["momentum_buffer"] for kept in optimizer.state.values())]

    for one, other in zip(steps(irkit.compile), steps(lambda s: s), strict=True):
        torch.testing.assert_close(one, other)
    assert "it is the first step of SGD" in caplog.text
    assert sum("runs in torch" in each.getMessage() for each in caplog.records) == 1
