"""Each class of torch.optim, over six steps from the first one on: results, weights, and what the optimizer keeps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

import irkit
from lowering.errors import CaptureError

DAMPED = {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "SGD": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True, "weight_decay": 0.1}),
    "SGD, dampening": (optim.SGD, DAMPED), "SGD, dampening, lists": (optim.SGD, {**DAMPED, "foreach": True}),
    "SGD, dampening, fused": (optim.SGD, {**DAMPED, "fused": True}),
    "ASGD": (optim.ASGD, {"lr": 0.05, "t0": 3, "lambd": 0.01, "weight_decay": 0.1}),
    "ASGD, lists": (optim.ASGD, {"lr": 0.05, "t0": 2, "foreach": True, "maximize": True}),
    "Adadelta": (optim.Adadelta, {}), "Adafactor": (optim.Adafactor, {"lr": 0.05}),
    "Adafactor, lists": (optim.Adafactor, {"lr": 0.3, "foreach": True, "weight_decay": 0.1}),
    "Adagrad": (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    "Adam": (optim.Adam, {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1}), "Adamax": (optim.Adamax, {"lr": 0.05}),
    "AdamW": (optim.AdamW, {"lr": 0.05, "fused": True}), "Muon": (optim.Muon, {"lr": 0.05}),
    "NAdam": (optim.NAdam, {"lr": 0.05, "decoupled_weight_decay": True, "weight_decay": 0.1}),
    "RAdam": (optim.RAdam, {"lr": 0.05, "weight_decay": 0.1}),
    "RAdam, lists": (optim.RAdam, {"lr": 0.05, "betas": (0.5, 0.99999), "maximize": True, "foreach": True}),
    "RMSprop": (optim.RMSprop, {"lr": 0.05, "centered": True, "momentum": 0.5}), "Rprop": (optim.Rprop, {"lr": 0.05}),
}  # fmt: skip
REFUSED = {"LBFGS", "SparseAdam", "Optimizer"}


class Training:
    """A net with an optimizer, that is called for a step, and says how all of it stands."""

    def __init__(self, kind: Any, options: dict[str, Any], warm: int = 0) -> None:
        torch.manual_seed(0)
        has_bias = kind is not optim.Muon  # which takes matrices alone
        self.net = nn.Sequential(nn.Linear(4, 6, bias=has_bias), nn.Tanh(), nn.Linear(6, 2, bias=has_bias))
        self.optimizer = kind(self.net.parameters(), **options)
        for _ in range(warm):
            self(torch.ones(3, 4), torch.ones(3, 2))

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def stands(self) -> dict[str, torch.Tensor]:
        """The weights, and the tensors that the optimizer keeps, by the names that they have in a program."""
        found: dict[str, torch.Tensor] = {}
        for name, p in self.net.named_parameters():
            found[f"net.{name}"] = p.detach().clone()
            kept = {key: value for key, value in self.optimizer.state[p].items() if isinstance(value, torch.Tensor)}
            found |= {f"net.{name}.{key}": value.clone() for key, value in kept.items()}
        return found


def inputs(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, 4, generator=generator), torch.randn(n, 2, generator=generator)


def test_each_class_of_torch_is_here() -> None:
    every = {name for name, kind in vars(optim).items() if isinstance(kind, type) and issubclass(kind, optim.Optimizer)}
    assert every == {kind.__name__ for kind, _ in KINDS.values()} | REFUSED


@pytest.mark.parametrize("warm", [0, 1])
@pytest.mark.parametrize("name", KINDS)
def test_steps_of_an_optimizer_are_those_of_eager(name: str, warm: int) -> None:
    kind, options = KINDS[name]
    step, eager = Training(kind, options, warm), Training(kind, options, warm)
    program = irkit.to_onnx(step, inputs(4), dynamic_shapes=({0: "n"}, {0: "n"}), capture="direct")
    assert not any("first step" in note for note in program.report.notes)
    state: Any = None
    for n in (4, 5, 3, 4, 6, 5, 4):  # from the sixth step on RAdam rectifies
        given = inputs(n)
        loss, state = program.run(copy.deepcopy(given), {}, state)
        torch.testing.assert_close(loss, eager(*given), atol=1e-4, rtol=1e-3)
        now = eager.stands()
        assert now.keys() <= state.keys()
        for key, value in now.items():
            torch.testing.assert_close(torch.as_tensor(state[key]), value, atol=1e-4, rtol=1e-3, msg=key)


def test_two_steps_in_one_call_are_two() -> None:
    class Twice(Training):
        def __call__(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            return super().__call__(x, y), super().__call__(x, y)

    step, eager = Twice(optim.SGD, DAMPED), Twice(optim.SGD, DAMPED)
    program, state = irkit.to_onnx(step, inputs(4), capture="direct"), {}
    for _ in range(2):
        found, state = program.run(inputs(4), {}, state or None)
        torch.testing.assert_close(found, eager(*inputs(4)))
    for key, value in eager.stands().items():
        torch.testing.assert_close(torch.as_tensor(state[key]), value)


@pytest.mark.parametrize("warm", [0, 1])
@pytest.mark.parametrize("scheduled", [False, True])
def test_a_step_of_lbfgs_is_refused_in_a_sentence(warm: int, scheduled: bool) -> None:
    torch.manual_seed(0)
    net = nn.Linear(4, 2)
    optimizer = optim.LBFGS(net.parameters(), max_iter=3)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9) if scheduled else None

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        def loss() -> Any:
            optimizer.zero_grad()
            found = F.mse_loss(net(x), y)
            found.backward()
            return found

        found = optimizer.step(loss)
        if schedule is not None:
            schedule.step()
        return found.detach()

    for _ in range(warm):
        step(*inputs(3))
    with pytest.raises(CaptureError, match="a step of LBFGS cannot be part of a program"):
        irkit.to_onnx(step, inputs(4))


@pytest.mark.parametrize("stale", [False, True])
def test_gradients_that_a_step_drops_in_the_end_are_none_for_the_next(stale: bool) -> None:
    def training() -> tuple[nn.Linear, Callable[..., Any]]:
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        if stale:
            net(torch.ones(2, 4)).sum().backward()

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return net, step

    (_, step), (net, eager) = training(), training()
    program, state = irkit.to_onnx(step, inputs(4), capture="direct"), None
    for n in (1, 2, 3):
        given = torch.full((4, 4), float(n)), torch.zeros(4, 2)
        found, state = program.run(given, {}, state)
        torch.testing.assert_close(found, eager(*given))
    torch.testing.assert_close(torch.as_tensor(state["net.weight"]), net.weight.detach())
