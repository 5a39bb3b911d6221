"""A training step, captured directly, is a program with state; what it was captured from stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import irkit
from lowering.errors import CaptureError, LoweringError


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
    "momentum, lists": lambda: Step(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "adamw, lists": lambda: Step(torch.optim.AdamW, lr=0.05, amsgrad=True, foreach=True),
    "rmsprop, lists": lambda: Step(torch.optim.RMSprop, lr=0.05, centered=True, foreach=True),
    "nadam, lists": lambda: Step(torch.optim.NAdam, lr=0.05, foreach=True),
    "adagrad, lists": lambda: Step(torch.optim.Adagrad, lr=0.05, foreach=True),
    "adadelta, lists": lambda: Step(torch.optim.Adadelta, foreach=True),
    "adam, fused": lambda: Step(torch.optim.Adam, lr=0.05, amsgrad=True, fused=True),
    "sgd, fused": lambda: Step(torch.optim.SGD, lr=0.1, momentum=0.9, fused=True),
    "adagrad, fused": lambda: Step(torch.optim.Adagrad, lr=0.05, fused=True),
    "rprop, lists": lambda: Step(torch.optim.Rprop, foreach=True),
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
    assert all(group.get("fused") is (True if "fused" in name else None) for group in step.optimizer.param_groups)
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


class Model(torch.nn.Module):
    """A net with an optimizer that has made no step yet, and a schedule where one is given; its step is a method."""

    def __init__(self, kind: Any, schedule: Any = None, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
        self.optimizer = kind(self.net.parameters(), **options)
        self.schedule: Any = None if schedule is None else schedule(self.optimizer)


def stepping(model: Model) -> Any:
    """A step as one writes it, of an optimizer and a schedule around it."""
    optimizer, schedule, net = model.optimizer, model.schedule, model.net

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.7)
        optimizer.step()
        if schedule is not None:
            schedule.step()
        return loss.detach(), norm

    return step


SCHEDULES: Any = {
    "none": None,
    "steps": lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.5),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 6),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=12),
    "warm up": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=2), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)],
        [2],
    ),
}
KINDS: Any = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "adam": (torch.optim.Adam, {"lr": 0.05, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"lr": 0.05}),
    "nadam": (torch.optim.NAdam, {"lr": 0.05}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.05}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5}),
}
PAIRS = [("sgd", "none"), ("nesterov", "one cycle"), ("adam", "none"), ("adamw", "warm up"), ("nadam", "cosine")]
PAIRS += [("adagrad", "steps"), ("rmsprop", "none")]


@pytest.mark.parametrize(("kind", "schedule"), PAIRS)
def test_the_first_step_begins_with_what_the_optimizer_begins_with(kind: str, schedule: str) -> None:
    """One program makes the first step, too: nothing was called before, and nothing is left behind."""
    made, options = KINDS[kind]
    step, eager = Model(made, SCHEDULES[schedule], **options), stepping(Model(made, SCHEDULES[schedule], **options))
    weights = copy.deepcopy(step.state_dict())
    held = {} if step.schedule is None else dict(step.schedule.__dict__)
    free: dict[str, Any] = {"dynamic_shapes": ({0: "n"}, {0: "n"})} if kind == "adamw" else {}
    program = irkit.to_onnx(stepping(step), (torch.randn(5, 4), torch.randn(5, 2)), **free)
    assert program.report.capture == "traced directly" and not any("step" in note for note in program.report.notes)
    assert not step.optimizer.state or kind == "adagrad"  # which keeps its sums from the beginning on
    assert all(p.grad is None for p in step.parameters()) and (step.schedule is None or step.schedule.__dict__ == held)
    assert all(torch.equal(weights[name], now) for name, now in step.state_dict().items())
    state: Any = None
    for size in (3, 5, 4, 1, 6) if free else (5,) * 5:
        x, y = torch.randn(size, 4), torch.randn(size, 2)
        found, state = program.run((x, y), {}, state)
        torch.testing.assert_close(found, eager(x, y), rtol=1e-4, atol=1e-5)


def test_a_step_is_checked_with_what_it_writes() -> None:
    step = Model(torch.optim.AdamW, SCHEDULES["steps"], lr=0.1)
    weights = copy.deepcopy(step.state_dict())
    program = irkit.to_onnx(stepping(step), (torch.randn(5, 4), torch.randn(5, 2)), dynamic_shapes=({0: "n"}, {0: "n"}))
    assert program.check(n=1)
    assert {"net.0.weight", "net.0.weight.exp_avg", "net.0.weight.step", "schedule"} <= program.state.keys()
    assert all(torch.equal(weights[name], now) for name, now in step.state_dict().items())
    assert not step.optimizer.state and step.schedule.last_epoch == 0


def test_a_start_that_hangs_on_the_gradients_is_said() -> None:
    given = torch.randn(5, 4), torch.randn(5, 2)
    step = Model(torch.optim.SGD, lr=0.1, momentum=0.9, dampening=0.5)
    last: Any = step.net[2]
    last.weight.grad = torch.zeros_like(last.weight)
    step.optimizer.step()  # of one weight: the others of its group begin later than it
    begun = dict(step.optimizer.state)
    notes = irkit.to_onnx(stepping(step), given).report.notes
    assert [note.partition(":")[0] for note in notes if "step" in note] == [
        "each call of the program is the first step of SGD"
    ]
    assert dict(step.optimizer.state) == begun


def test_a_schedule_that_hangs_on_the_loss_is_refused() -> None:
    step = Model(torch.optim.SGD, torch.optim.lr_scheduler.ReduceLROnPlateau, lr=0.1)
    with pytest.raises(CaptureError, match="a step of ReduceLROnPlateau cannot be part of a program"):
        irkit.to_onnx(stepping(step), (torch.randn(5, 4), torch.randn(5, 2)), capture="direct")


def test_a_step_without_gradients_says_what_torch_says() -> None:
    step = stepping(Model(torch.optim.SGD, lr=0.1))
    with torch.no_grad(), pytest.raises(CaptureError, match="does not require grad"):
        irkit.to_onnx(step, (torch.randn(5, 4), torch.randn(5, 2)), capture="direct")


def test_gradients_are_results() -> None:
    def slopes(x: torch.Tensor) -> Any:
        y = x.detach().requires_grad_()
        return torch.autograd.grad((y**3).sum(), y)

    program = irkit.to_onnx(slopes, (torch.randn(3),), dynamic_shapes=({0: "n"},), capture="direct")
    x = torch.randn(7)
    torch.testing.assert_close(program(x)[0], 3 * x**2)


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


def test_a_buffer_that_becomes_another_tensor_need_not_be_read() -> None:
    class Scaling(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.scale = x.sum(0)
            return x * self.scale

    program = irkit.to_onnx(Scaling(), (torch.ones(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    state: Any = None
    for n in (1, 0, 5):
        x = torch.randn(n, 4)
        found, state = program.run((x,), {}, state)
        torch.testing.assert_close(found, x * x.sum(0))
        torch.testing.assert_close(torch.as_tensor(state["scale"]), x.sum(0))


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


@pytest.mark.parametrize("compiled", [False, True])
def test_parameters_that_become_others_are_state(compiled: bool) -> None:
    """A step by hand, which makes parameters anew instead of writing them."""

    def training() -> tuple[torch.nn.Linear, Any]:
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2)

        def step(x: torch.Tensor) -> torch.Tensor:
            loss = net(x).square().mean()
            slopes = torch.autograd.grad(loss, list(net.parameters()))
            with torch.no_grad():
                for (name, p), slope in zip(list(net.named_parameters()), slopes, strict=True):
                    setattr(net, name, torch.nn.Parameter(p - 0.1 * slope))
            return loss.detach()

        return net, step

    (made, step), (net, eager) = training(), training()
    state: Any = None
    called = irkit.compile(step, fallback=False)
    program = irkit.to_onnx(step, (torch.ones(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for n in (3, 1, 2):
        x = torch.full((n, 4), float(n))
        if compiled:
            found = called(x)
        else:
            found, state = program.run((x,), {}, state)
        torch.testing.assert_close(found, eager(x))
    weight = made.weight.detach() if compiled else torch.as_tensor(state["net.weight"])
    torch.testing.assert_close(weight, net.weight.detach())


@pytest.mark.parametrize("kind", [torch.float64, torch.float16])
def test_a_model_that_converts_itself_writes_nothing(kind: torch.dtype) -> None:
    class Converting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.to(kind)
            return self.inner(x.to(kind)).float()

    model = Converting().eval()
    program = irkit.to_onnx(model, (torch.ones(3, 4),), capture="direct")
    assert not program.state and model.inner.weight.dtype == torch.float32


OTHERWISE: dict[str, tuple[str, Any]] = {
    "a child more": ("layers.1", lambda model: model.layers.append(torch.nn.Identity())),
    "a child less": ("layers.0", lambda model: model.layers.__delitem__(0)),
    "another child": ("layers.0", lambda model: model.layers.__setitem__(0, torch.nn.Tanh())),
    "a weight less": ("inner.bias", lambda model: setattr(model.inner, "bias", None)),
    "a weight more": ("inner.more", lambda model: model.inner.register_parameter("more", model.inner.bias)),
    "a buffer less": ("state", lambda model: setattr(model, "state", None)),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_children_and_weights_that_a_call_adds_or_removes_are_said_and_put_back(name: str) -> None:
    said, change = OTHERWISE[name]

    class Changing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)
            self.layers = torch.nn.ModuleList([torch.nn.ReLU()])
            self.register_buffer("state", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = self.inner(x)
            for each in self.layers:
                found = each(found)
            change(self)
            return found

    model = Changing().eval()
    before = dict(model.named_modules()), dict(model.named_parameters()), dict(model.named_buffers())
    program = irkit.to_onnx(model, (torch.ones(3, 4),), capture="direct")
    assert any(f"sets {said}, and the program does not" in note for note in program.report.notes)
    now = dict(model.named_modules()), dict(model.named_parameters()), dict(model.named_buffers())
    assert all(a.keys() == b.keys() and all(a[k] is b[k] for k in a) for a, b in zip(before, now, strict=True))
