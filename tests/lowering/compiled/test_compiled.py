"""`irkit.compile` against eager: sizes, weights that change, state, training steps, gradients, what runs in torch."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from lowering.compiled.sizes import Seen


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 128), torch.nn.GELU(), torch.nn.Linear(128, 2)).eval()


def test_sizes_vary_once_a_second_one_was_seen() -> None:
    model = net()
    compiled = irkit.compile(model, fallback=False)
    counts = []
    with torch.no_grad():
        for rows in (3, 3, 5, 7, 1, 9, 3, 0):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x), model(x))
            counts.append(len(compiled.captures))
    assert counts == [1, 1, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(("dynamic", "count"), [(True, 1), (False, 3)])
def test_sizes_vary_as_they_are_told_to(dynamic: bool, count: int) -> None:
    compiled = irkit.compile(lambda x, y: torch.cat([x, y * 2]), dynamic=dynamic, fallback=False)
    for rows in (4, 5, 7):
        x, y = torch.randn(rows, 3), torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x, y=y), torch.cat([x, y * 2]))
    assert len(compiled.captures) == count


def test_dimensions_that_were_always_equal_share_a_name() -> None:
    seen = Seen().with_shapes(((3, 2), (3,), None)).with_shapes(((5, 2), (5,), None))
    assert seen.varying() == {(0, 0): "size_0", (1, 0): "size_0"}
    assert seen.with_shapes(((3, 2), (4,), None)).varying() == {(0, 0): "size_0", (1, 0): "size_1"}
    assert Seen().varying() == {} and seen.with_shapes(((5, 2), (5,), None)) is seen


def test_branches_on_data_and_numbers_have_a_capture_each() -> None:
    def function(x: torch.Tensor, factor: int) -> torch.Tensor:
        return x * factor if x.sum() > 0 else -x

    compiled = irkit.compile(function, fallback=False)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3), -torch.ones(3)):
        for factor in (2, 3):
            torch.testing.assert_close(compiled(x, factor), function(x, factor))
    assert len(compiled.captures) == 4
    few = irkit.compile(function, captures=2)
    for factor in range(5):
        torch.testing.assert_close(few(torch.ones(3), factor), function(torch.ones(3), factor))
    assert len(few.captures) == 2


def test_weights_that_are_written_become_inputs() -> None:
    model, x = net(), torch.randn(3, 4)
    compiled = irkit.compile(model, fallback=False)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))
            for parameter in model.parameters():
                parameter.mul_(1.5)
        assert compiled.count == 2 and len(compiled.captures) == 1
        (capture,) = compiled.captures
        assert capture.live["0.weight"].data_ptr() == model[0].weight.data_ptr()  # type: ignore[index]
        model[0].weight.fill_(0.5)  # type: ignore[index]
        torch.testing.assert_close(compiled(x), model(x))
        model[0] = torch.nn.Linear(4, 128)  # type: ignore[index]
        torch.testing.assert_close(compiled(x), model(x))
        assert compiled.count == 3


def test_attributes_that_change_are_seen() -> None:
    class Scaled(torch.nn.Module):
        scale: Any = 2.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(x * self.scale, 0.5, self.training)

    model, x = Scaled().eval(), torch.ones(4)
    model.scale = 3.0
    compiled = irkit.compile(model, fallback=False)
    assert compiled(x).tolist() == [3] * 4
    model.scale = 5.0
    assert compiled(x).tolist() == [5] * 4
    model.train()
    assert set(compiled(torch.ones(64)).tolist()) == {0.0, 10.0}


def test_what_a_model_writes_is_written_where_it_is() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += x.sum(0)
            x.mul_(2)
            return x + self.seen

    ours, theirs = Counting(), Counting()
    compiled = irkit.compile(ours, fallback=False)
    for _ in range(3):
        x = torch.ones(3, 2)
        y = x.clone()
        torch.testing.assert_close(compiled(x), theirs(y))
        torch.testing.assert_close(x, y)
    torch.testing.assert_close(ours.seen, theirs.seen)


def stepping(model: torch.nn.Module) -> tuple[Any, Any, Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    return step, optimizer, schedule


def test_a_training_step_writes_weights_and_what_the_optimizer_keeps() -> None:
    ours, theirs = net(), net()
    (step, optimizer, schedule), (eager, known, eager_schedule) = stepping(ours), stepping(theirs)
    compiled = irkit.compile(step, fallback=False)
    for rows in (4, 4, 6, 4, 5, 6):
        x, y = torch.randn(rows, 4), torch.randn(rows, 2)
        torch.testing.assert_close(compiled(x, y), eager(x, y), rtol=1e-4, atol=1e-5)
    assert len(compiled.captures) == 2
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(optimizer.state[a], known.state[b], rtol=1e-3, atol=1e-5)
    assert schedule.last_epoch == eager_schedule.last_epoch == 6
    assert schedule.get_last_lr() == eager_schedule.get_last_lr()


def test_gradients_are_those_of_eager() -> None:
    model = net()
    compiled, found = irkit.compile(model, fallback=False), []
    given = torch.randn(5, 4)
    for each in (compiled, model):
        model.zero_grad()
        x = given.clone().requires_grad_()
        each(x).square().sum().backward()
        found.append([x.grad, *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    assert len(found[0]) == 5
    torch.testing.assert_close(*found)


def test_gradients_of_what_writes_or_draws_run_in_torch(caplog: pytest.LogCaptureFixture) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    compiled, eager = irkit.compile(model), copy.deepcopy(model)
    x = torch.randn(5, 4)
    with caplog.at_level(logging.WARNING, "irkit.compile"):
        torch.testing.assert_close(compiled(x), eager(x))
    assert "writes state" in caplog.text and model[1].num_batches_tracked == 1


@torch.library.custom_op("irkit_tests::thrice", mutates_args=())
def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@thrice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_what_irkit_does_not_know_runs_in_torch_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    compiled = irkit.compile(lambda x: thrice(x) + 1)
    with caplog.at_level(logging.WARNING, "irkit.compile"):
        for _ in range(2):
            assert compiled(torch.ones(2)).tolist() == [4, 4]
    assert caplog.text.count("runs in torch") == 1 and "no converter" in caplog.text
    with pytest.raises(IrkitError, match="no converter"):
        irkit.compile(lambda x: thrice(x) + 1, fallback=False)(torch.ones(2))


def test_what_the_model_raises_is_raised() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        irkit.compile(net())(torch.ones(2, 5))


def test_what_a_capture_assumes_of_its_data_is_told(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.ones(1, 1, 2, 2)
    with caplog.at_level(logging.WARNING, "irkit.compile"):
        irkit.compile(torch.nn.MaxPool2d(2), fallback=False)(x)
        assert "finite numbers in MaxPool" in caplog.text
        caplog.clear()
        irkit.compile(torch.nn.MaxPool2d(2), rules="default+nan", fallback=False)(x)
    assert not caplog.text


def test_options_and_precision() -> None:
    model, x = net(), torch.randn(3, 4)
    compiled = irkit.compile(model, precision="float16", threads=1, fallback=False)
    with torch.no_grad():
        found = compiled(x)
        assert found.dtype is torch.float32
        torch.testing.assert_close(found, model(x), rtol=2e-2, atol=2e-2)
    assert compiled.captures[0].program.precision is not None
    compiled.reset()
    assert not compiled.captures and "0 captures" in repr(compiled)
