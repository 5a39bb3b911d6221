"""Training steps as people write them: objects that hold models and optimizers, which are state wherever they are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from lowering.errors import CaptureError

POINTS = (4, 5, 3, 7)


class Trainer:
    """An object with a net, an optimizer and a schedule, whose call is a step of training."""

    def __init__(self, kind: Any = torch.optim.Adam, net: torch.nn.Module | None = None, **options: Any) -> None:
        torch.manual_seed(0)
        self.net = net or torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
        self.optimizer = kind(self.net.parameters(), **{"lr": 0.05, **options})
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.8)

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        return loss.detach(), [p.detach().clone() for p in self.net.parameters()]


class Around:
    """An object that holds another, which holds the trainers in a list."""

    def __init__(self) -> None:
        self.inner: Any = type("Engine", (), {})()
        self.inner.trainers = [Trainer(torch.optim.SGD, momentum=0.9)]

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return [each(x, y) for each in self.inner.trainers]


def by_default() -> Callable[..., Any]:
    def step(x: torch.Tensor, y: torch.Tensor, trainer: Trainer = Trainer()) -> Any:  # noqa: B008
        return trainer(x, y)

    return step


class Two:
    """A step of two optimizers over parts of one net, in a dict."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
        self.by = {
            "first": torch.optim.AdamW(self.net[0].parameters(), amsgrad=True),
            "last": torch.optim.RMSprop(self.net[2].parameters(), momentum=0.5),
        }

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        for each in self.by.values():
            each.zero_grad()
        loss.backward()
        for each in self.by.values():
            each.step()
        return loss.detach(), [p.detach().clone() for p in self.net.parameters()]


class Recurrent(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, batch_first=True, **options)
        self.out = torch.nn.Linear(10 if options.get("bidirectional") else 5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, (h, c) = self.lstm(x)
        return self.out(y[:, -1]) + h.sum() + c.mean()


def steps_agree(make: Callable[[], Any], inputs: Callable[[int], tuple[torch.Tensor, torch.Tensor]]) -> irkit.Program:
    """The program of a step, which goes on from its own state as eager's does from step to step."""
    step, eager = make(), make()
    program = irkit.to_onnx(step, inputs(4), dynamic_shapes=({0: "n"}, {0: "n"}), capture="direct")
    state: Any = None
    for n in POINTS:
        given = inputs(n)
        found, state = program.run(copy.deepcopy(given), {}, state)
        torch.testing.assert_close(found, eager(*given), atol=1e-4, rtol=1e-3)
    return program


HELD: dict[str, Callable[[], Any]] = {
    "an object": Trainer, "objects in objects": Around, "a default argument": by_default, "a dict": Two,
    "a method": lambda: Trainer().__call__,
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_an_optimizer_is_found_wherever_it_is_held(name: str) -> None:
    program = steps_agree(HELD[name], lambda n: (torch.randn(n, 4), torch.randn(n, 2)))
    assert not any("first step" in note for note in program.report.notes)


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}])
def test_an_lstm_is_trained(options: dict[str, Any]) -> None:
    def make() -> Trainer:
        torch.manual_seed(1)
        return Trainer(torch.optim.SGD, Recurrent(**options))

    steps_agree(make, lambda n: (torch.randn(n, 3, 4), torch.randn(n, 2)))


# ---------------------------------------------------------------------------------------------- numbers set by hand


class Counting(torch.optim.Optimizer):
    """An optimizer that divides its rate by a count, which it keeps where `where` says."""

    def __init__(self, parameters: Any, where: str, lr: float = 0.05) -> None:
        super().__init__(parameters, {"lr": lr, "count": 1})
        self.where, self.count = where, 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        self.count += self.where == "itself"
        for group in self.param_groups:
            for p in group["params"]:
                if self.where == "the state":
                    self.state[p]["count"] = self.state[p].get("count", 0) + 1
                held = {"itself": self.count, "a group": group["count"], **self.state[p]}
                p.sub_(p.grad * group["lr"] / held.get("count", held.get(self.where)))
            group["count"] += self.where == "a group"


@pytest.mark.parametrize(
    ("where", "note"),
    [
        ("itself", "sets count of Counting, and the program does not"),
        ("a group", "sets count of Counting, and the program does not"),
        ("the state", "each call of the program is the first step of Counting"),
    ],
)
def test_a_count_that_a_step_keeps_is_told_and_the_first_step_is_right(where: str, note: str) -> None:
    def make() -> Callable[..., Any]:
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2)
        optimizer = Counting(net.parameters(), where)

        def step(x: torch.Tensor) -> Any:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach(), net.weight.detach().clone()

        return step

    x = torch.randn(3, 4)
    program = irkit.to_onnx(make(), (x,), capture="direct")
    assert any(note in each for each in program.report.notes)
    torch.testing.assert_close(program(x), make()(x))


def test_a_rate_that_a_step_sets_by_hand_is_told() -> None:
    trainer = Trainer(torch.optim.SGD)

    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        for group in trainer.optimizer.param_groups:
            group["lr"] *= 0.5
        trainer.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(trainer.net(x), y)
        loss.backward()
        trainer.optimizer.step()
        return loss.detach()

    program = irkit.to_onnx(step, (torch.randn(3, 4), torch.randn(3, 2)), capture="direct")
    assert any("sets lr of SGD, and the program does not" in note for note in program.report.notes)
    assert trainer.optimizer.param_groups[0]["lr"] == 0.05


def after_each_gradient(net: torch.nn.Module, kept: list[Any]) -> Callable[[], None]:
    """Optimizers, one for each weight, that make their steps while gradients are computed."""
    optimizers = {p: torch.optim.SGD([p], lr=0.1, momentum=0.9) for p in net.parameters()}

    def stepping(parameter: Any) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(stepping)
    return lambda: None


def counting_gradients(net: torch.nn.Module, kept: list[Any]) -> Callable[[], None]:
    """An optimizer behind hooks that keep what they see."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    for parameter in net.parameters():
        parameter.register_hook(lambda gradient: kept.append(gradient) or gradient * 0.5)

    def finish() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return finish


def of_steps(net: torch.nn.Module, kept: list[Any]) -> Callable[[], None]:
    """An optimizer whose own hook makes a step of another one."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    inner = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    optimizer.register_step_post_hook(lambda *_: inner.step())
    optimizer.register_step_post_hook(lambda held, *_: kept.append(held.param_groups[0]["params"][0].sum()))

    def finish() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return finish


@pytest.mark.parametrize("make", [after_each_gradient, counting_gradients, of_steps])
def test_an_optimizer_that_only_hooks_lead_to_is_found(make: Any) -> None:
    """The step names none of them; what they keep is state, and theirs is as before."""

    def stepping() -> tuple[Any, list[Any]]:
        torch.manual_seed(0)
        net, kept = torch.nn.Linear(4, 2), list[Any]()
        finish = make(net, kept)

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward()
            finish()
            return loss.detach(), net.weight.detach().clone()

        return step, kept

    (mine, kept), (eager, _) = stepping(), stepping()
    x, y = torch.randn(3, 4), torch.randn(3, 2)
    program = irkit.to_onnx(mine, (x, y), dynamic_shapes=({0: "n"}, {0: "n"}), capture="direct")
    assert not kept
    state: Any = None
    for size in (3, 2, 5):
        x, y = torch.randn(size, 4), torch.randn(size, 2)
        found, state = program.run((x, y), {}, state)
        torch.testing.assert_close(found, eager(x, y), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine(x, y)[0], stepping()[0](x, y)[0])


RATES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "an input": lambda x, rate: rate,
    "computed": lambda x, rate: x.abs().mean() * rate,
    "a number of data": lambda x, rate: x.abs().mean().item(),
    "a number of sizes": lambda x, rate: 0.3 / (x.shape[0] + 1),
}


@pytest.mark.parametrize("key", ["lr", "own"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", RATES)
def test_a_rate_of_tensors_is_told_where_the_next_call_would_use_it(name: str, first: bool, key: str) -> None:
    """Set before the step of an optimizer, each call sets it anew."""
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(x: torch.Tensor, y: torch.Tensor, rate: torch.Tensor) -> Any:
        group = optimizer.param_groups[0]
        if first:
            group[key] = RATES[name](x, rate)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        if not first:
            group[key] = RATES[name](x, rate)
        return loss.detach()

    example = torch.randn(3, 4), torch.randn(3, 2), torch.tensor(0.1)
    program = irkit.to_onnx(step, example, dynamic_shapes=({0: "n"}, {0: "n"}, None), capture="direct")
    told = f"sets {key} of SGD, and the program does not"
    assert any(told in note for note in program.report.notes) is not first
    assert optimizer.param_groups[0].get(key) in (0.05, None)


@pytest.mark.parametrize("rate", [0.3, "computed"])
def test_a_rate_that_a_step_sets_beside_its_schedule_is_told(rate: Any) -> None:
    """Most schedules go on from the rate that they find."""
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step(x: torch.Tensor) -> Any:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] = x.abs().mean() if rate == "computed" else rate
        schedule.step()
        return net.weight.detach().clone()

    program = irkit.to_onnx(step, (torch.randn(3, 4),), capture="direct")
    assert any("sets lr of SGD, and the program does not" in note for note in program.report.notes)


def test_a_rate_that_a_schedule_sets_is_no_note() -> None:
    program = irkit.to_onnx(Trainer(), (torch.randn(3, 4), torch.randn(3, 2)), capture="direct")
    assert not any("lr of" in note for note in program.report.notes)


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize("kind", [torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM, torch.nn.TransformerEncoderLayer])
def test_a_batch_of_one_is_trained_on_like_others(kind: Any, first: int) -> None:
    """Torch asks whether the batch is 1 where it sums gradients of what was broadcast: it does not matter."""

    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            is_layer = kind is torch.nn.TransformerEncoderLayer
            self.inner = kind(4, 2, 8, 0.0, batch_first=True) if is_layer else kind(4, 5, batch_first=True)
            self.out = torch.nn.Linear(4 if is_layer else 5, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = self.inner(x)
            return self.out((found[0] if isinstance(found, tuple) else found)[:, -1])

    def inputs(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(n)
        return torch.randn(n, 3, 4, generator=generator), torch.randn(n, 2, generator=generator)

    step, eager = (Trainer(torch.optim.SGD, Last(), momentum=0.9) for _ in range(2))
    program = irkit.to_onnx(step, inputs(first), dynamic_shapes=({0: "n"}, {0: "n"}), capture="direct")
    state: Any = None
    for n in (1, 4, 1, 2):
        found, state = program.run(inputs(n), {}, state)
        torch.testing.assert_close(found, eager(*inputs(n)), atol=1e-4, rtol=1e-3)


def test_another_way_at_a_batch_of_one_stays_refused() -> None:
    """What it leaves in the state is something else then, though the results are the same."""

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mean: Any = self.mean
            mean.add_(x.mean(0) if x.shape[0] != 1 else 2 * x[0])
            return x * 2

    program = irkit.to_onnx(Counting(), (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    with pytest.raises(irkit.ContractError, match=r"n = 1|n is 1"):
        program(torch.randn(1, 4))


@pytest.mark.parametrize("clips", [True, False])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_a_scaler_of_gradients_leaves_out_steps_as_in_eager(kind: Any, clips: bool) -> None:
    """Its scale grows after two steps; one with an infinite gradient makes it half as large, and changes nothing."""

    def stepping() -> Any:
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2)
        optimizer = kind(net.parameters(), lr=0.1, **({"momentum": 0.9} if kind is torch.optim.SGD else {}))
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        scaler.scale(torch.ones(()))

        def step(x: torch.Tensor, y: torch.Tensor) -> Any:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(net(x), y)
            scaler.scale(loss).backward()
            if clips:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss.detach(), net.weight.detach().clone(), torch.tensor(scaler.get_scale())

        return step, scaler

    (mine, scaler), (eager, _) = stepping(), stepping()
    given = torch.randn(3, 4), torch.randn(3, 2)
    program = irkit.to_onnx(mine, given, dynamic_shapes=({0: "n"}, {0: "n"}), capture="direct")
    assert scaler.get_scale() == 4.0
    state: Any = None
    for number, size in enumerate((3, 2, 5, 4, 3, 2)):
        x, y = torch.randn(size, 4), torch.randn(size, 2)
        x[0, 0] = float("inf") if number == 2 else 1.0
        found, state = program.run((x, y), {}, state)
        torch.testing.assert_close(found, eager(x, y), rtol=1e-4, atol=1e-5, equal_nan=True)


def test_a_scaler_that_has_not_begun_is_refused() -> None:
    net, scaler = torch.nn.Linear(4, 2), torch.amp.GradScaler("cpu")
    with pytest.raises(CaptureError, match="begins with the first loss"):
        irkit.to_onnx(lambda x: scaler.scale(net(x).sum()), (torch.randn(3, 4),), capture="direct")
