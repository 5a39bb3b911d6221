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


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam])
@pytest.mark.parametrize("stale", [False, True])
def test_a_step_of_the_gradients_of_the_last_call(kind: Any, stale: bool) -> None:
    """The first call may have none: a plain step of zeros changes nothing, another one is refused."""

    def training() -> tuple[nn.Linear, Callable[..., Any]]:
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        optimizer = kind(net.parameters(), lr=0.1)
        if stale:
            net(torch.ones(2, 4)).sum().backward()

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            optimizer.step()
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            return loss.detach()

        return net, step

    (_, step), (net, eager) = training(), training()
    if kind is optim.Adam and not stale:
        with pytest.raises(CaptureError, match="makes a step of Adam before there are gradients"):
            irkit.to_onnx(step, inputs(4), capture="direct")
        return
    program, state = irkit.to_onnx(step, inputs(4), capture="direct"), {}
    for n in (1, 2, 3):
        given = torch.full((4, 4), float(n)), torch.zeros(4, 2)
        found, state = program.run(given, {}, state or None)
        torch.testing.assert_close(found, eager(*given), atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(torch.as_tensor(state["net.weight"]), net.weight.detach(), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("kind", [optim.ASGD, optim.Rprop])
@pytest.mark.parametrize("warm", [0, 1])
def test_a_rate_by_hand_is_no_other_than_what_an_optimizer_began_with(kind: Any, warm: int) -> None:
    def training() -> Callable[..., Any]:
        made = Training(kind, {"lr": 0.1}, warm)

        def step(x: torch.Tensor, y: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
            made.optimizer.param_groups[0]["lr"] = rate
            return made(x, y)

        return step

    step, eager = training(), training()
    given = (*inputs(4), torch.tensor(0.02))
    if not warm:
        with pytest.raises(CaptureError, match="begins with its learning rate, which the model sets"):
            irkit.to_onnx(step, given, capture="direct")
        return
    program, state = irkit.to_onnx(step, given, capture="direct"), {}
    for n in (1, 2, 3):
        given = (*inputs(4), torch.tensor(0.02 / n))
        found, state = program.run(given, {}, state or None)
        torch.testing.assert_close(found, eager(*given))


def test_a_schedule_says_where_it_stands() -> None:
    def training() -> Callable[..., Any]:
        made = Training(optim.SGD, {"lr": 0.1})
        schedule = optim.lr_scheduler.ExponentialLR(made.optimizer, 0.5)

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            before = schedule.last_epoch, schedule.get_last_lr()[0]
            loss = made(x, y)
            schedule.step()
            return loss, *before, schedule.last_epoch, schedule.get_last_lr()[0]

        return step

    step, eager = training(), training()
    program, state = irkit.to_onnx(step, inputs(4), capture="direct"), {}
    for _ in range(3):
        found, state = program.run(inputs(4), {}, state or None)
        torch.testing.assert_close(found, eager(*inputs(4)))


def test_two_schedules_of_one_optimizer_are_refused() -> None:
    made = Training(optim.SGD, {"lr": 0.1})
    schedules = [optim.lr_scheduler.ExponentialLR(made.optimizer, 0.5) for _ in range(2)]

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = made(x, y)
        for each in schedules:
            each.step()
        return loss

    with pytest.raises(CaptureError, match="another one sets numbers of the same optimizer"):
        irkit.to_onnx(step, inputs(4), capture="direct")


def test_two_schedules_of_two_optimizers_are_counted_apart() -> None:
    def training() -> Callable[..., Any]:
        both = [Training(optim.SGD, {"lr": 0.1}), Training(optim.Adam, {"lr": 0.1})]
        schedules = [optim.lr_scheduler.ExponentialLR(each.optimizer, 0.5) for each in both]

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            losses = [each(x, y) for each in both]
            for each in schedules:
                each.step()
            return losses

        return step

    step, eager = training(), training()
    program, state = irkit.to_onnx(step, inputs(4), capture="direct"), {}
    for _ in range(3):
        found, state = program.run(inputs(4), {}, state or None)
        torch.testing.assert_close(found, eager(*inputs(4)), atol=1e-4, rtol=1e-3)


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
