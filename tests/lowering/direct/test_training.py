"""A training step, captured directly, is a program with state; what it was captured from stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import irkit
from lowering.errors import LoweringError


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


class First(Step):
    """The same, without a step before."""

    def __init__(self, kind: Any, **options: Any) -> None:
        torch.nn.Module.__init__(self)
        self.net = torch.nn.Linear(4, 2)
        self.optimizer = kind(self.net.parameters(), **options)


def test_a_first_step_of_an_optimizer_that_keeps_something_is_said() -> None:
    given = torch.randn(5, 4), torch.randn(5, 2)
    first = irkit.to_onnx(First(torch.optim.Adam), given, capture="direct").report.notes
    assert [note.partition(":")[0] for note in first if "step" in note] == [
        "each call of the program is the first step of Adam"
    ]
    assert not First(torch.optim.Adam).optimizer.state
    plain = irkit.to_onnx(First(torch.optim.SGD), given, capture="direct").report.notes
    assert not any("step" in note for note in plain)


class Remembering(torch.nn.Module):
    """A model whose buffers become other tensors, and that keeps tensors and numbers in its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(3))
        self.register_buffer("count", torch.tensor(0))
        self.last, self.calls, self.scale, self.seen = torch.zeros(3), 0, 0.5, [1]

    def forward(self, x: torch.Tensor) -> Any:
        before = self.sum
        self.sum = self.sum + x
        times = self.count.item()  # type: ignore[operator]
        self.count = self.count + 1
        self.scale = 1 / 2
        return before, self.sum * times


class Noting(Remembering):
    """The same, which also notes what it sees."""

    def forward(self, x: torch.Tensor) -> Any:
        self.last, self.calls = x, self.calls + 1
        self.seen.append(x.shape[0])
        return super().forward(x)


def test_a_buffer_that_becomes_another_tensor_is_state() -> None:
    model, eager = Remembering(), Remembering()
    program = irkit.to_onnx(model, (torch.ones(3),), capture="direct")
    state: Any = None
    for _ in range(3):
        x = torch.randn(3)
        found, state = program.run((x,), {}, state)
        torch.testing.assert_close(found, eager(x))
    assert not any("sets" in note for note in program.report.notes)
    assert model.count == 0 and model.sum.abs().sum() == 0


def test_what_a_model_keeps_in_other_attributes_is_said_and_put_back() -> None:
    model = Noting()
    program = irkit.to_onnx(model, (torch.ones(3),), capture="direct")
    assert [note for note in program.report.notes if "sets" in note] == [
        "the model, when it is called, sets last, calls, seen, and the program does not: each of its calls finds what "
        "was there at first"
    ]
    assert (model.calls, model.seen) == (0, [1]) and model.last.abs().sum() == 0


def test_a_buffer_that_becomes_a_tensor_of_other_sizes_is_refused() -> None:
    class Growing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("all", torch.zeros(1, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.all = torch.cat([self.all, x])
            return self.all

    with pytest.raises(LoweringError, match="becomes another tensor"):
        irkit.to_onnx(Growing(), (torch.ones(2, 3),), capture="direct")


MADE: Any = {
    "tensor": lambda x: torch.tensor(0.0).add_(x.sum()),
    "item": lambda x: x * torch.tensor(2.0).add_(1).item(),
    "of numpy": lambda x: torch.from_numpy(np.zeros(3, "f4")).add_(x),
    "as_tensor": lambda x: torch.as_tensor([1.0, 2.0, 3.0]).mul_(x),
}


@pytest.mark.parametrize("name", MADE)
def test_a_tensor_that_each_call_makes_anew_is_no_state(name: str) -> None:
    program = irkit.to_onnx(MADE[name], (torch.ones(3),), capture="direct")
    assert not program.state
    state: Any = None
    for _ in range(2):
        x = torch.randn(3)
        found, state = program.run((x,), {}, state)
        torch.testing.assert_close(found, MADE[name](x))
