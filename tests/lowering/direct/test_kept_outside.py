"""What a model changes beside its own buffers: variables, global ones, other objects, gradients, flags and hooks. A
capture leaves all of it as it was, and what a program does not go on from is told."""

from __future__ import annotations

import copy
import functools
import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch

import irkit
from irkit.errors import IrkitError

ROWS: Any = ({0: "n"},)
COUNTS: dict[str, Any] = {"calls": 0, "sum": torch.zeros(4)}
TOTAL = torch.zeros(4)


@attrs.define
class Held:
    """An object of slots that a function writes to."""

    total: Any = attrs.field(factory=lambda: torch.zeros(4))
    calls: int = 0


class Place:
    """An object with attributes that a function writes to."""

    calls = 0

    def __init__(self) -> None:
        self.total, self.seen = torch.zeros(4), deque([torch.zeros(4)], maxlen=2)


def of_a_variable() -> tuple[Callable[..., Any], Callable[[], Any]]:
    total, calls = torch.zeros(4), 0

    def function(x: torch.Tensor) -> Any:
        nonlocal total, calls
        total, calls = total + x.sum(0), calls + 1
        return total / calls

    return function, lambda: (total, calls)


def of_a_list() -> tuple[Callable[..., Any], Callable[[], Any]]:
    calls, seen, last = [0], {"last": torch.zeros(4)}, deque([torch.zeros(4)], maxlen=1)

    def function(x: torch.Tensor, sums: list[Any] = []) -> Any:  # noqa: B006 - what is asked
        calls[0] += 1
        seen["last"] = x.sum(0)
        last.append(x.sum(0))
        sums.append(x.sum(0))
        return seen["last"] * calls[0] + last[0]

    return function, lambda: (list(calls), dict(seen), list(last), function.__defaults__)


def of_objects() -> tuple[Callable[..., Any], Callable[[], Any]]:
    held, place = Held(), Place()

    def function(held: Held, x: torch.Tensor) -> Any:
        held.total, held.calls = held.total + x.sum(0), held.calls + 1
        place.total = x.mean(0)
        place.seen.append(x.sum(0))
        Place.calls += 1
        return held.total / held.calls + place.seen[0] * Place.calls

    def now() -> Any:
        return held.total, held.calls, place.total, list(place.seen), Place.calls

    return functools.partial(function, held), now


def of_globals() -> tuple[Callable[..., Any], Callable[[], Any]]:
    def function(x: torch.Tensor) -> Any:
        global TOTAL  # noqa: PLW0603 - what is asked
        TOTAL = TOTAL + x.sum(0)
        COUNTS["calls"] += 1
        COUNTS["sum"] = TOTAL
        return TOTAL / COUNTS["calls"]

    return function, lambda: (TOTAL, dict(COUNTS))


def of_a_method() -> tuple[Callable[..., Any], Callable[[], Any]]:
    class Trainer:
        def __init__(self) -> None:
            self.average, self.losses = torch.zeros(()), list[Any]()

        def step(self, x: torch.Tensor) -> Any:
            self.average = 0.9 * self.average + 0.1 * x.mean()
            self.losses.append(x.mean())
            return self.average

    trainer = Trainer()
    return trainer.step, lambda: (trainer.average, list(trainer.losses))


def of_flags() -> tuple[Callable[..., Any], Callable[[], Any]]:
    class Norm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.initialized, self.mode, self.hidden = False, "first", torch.ones(4)
            self.register_buffer("mask", None)

        def forward(self, x: torch.Tensor) -> Any:
            y = x * 2 if self.initialized or self.mode == "second" or self.hidden is None else x
            self.initialized, self.mode, self.hidden, self.mask = True, "second", None, x[0] > 0
            return y

    model = Norm()
    return model, lambda: (model.initialized, model.mode, model.hidden, model.mask)


KEEPING: Any = {
    "variables": (of_a_variable, "total, calls"),
    "lists and dicts": (of_a_list, "calls, seen, last, sums"),
    "objects": (of_objects, "total, calls, place.total, place.seen, 1 more"),
    "globals": (of_globals, "TOTAL, COUNTS"),
    "a method": (of_a_method, "average, losses"),
    "flags": (of_flags, "mask, initialized, mode, hidden"),
}


def same(one: Any, other: Any) -> bool:
    """Whether two structures hold equal plain tensors and numbers."""
    if isinstance(one, torch.Tensor):
        return type(other) is torch.Tensor and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("name", KEEPING)
def test_what_a_model_keeps_elsewhere_is_told_and_put_back(name: str) -> None:
    make, told = KEEPING[name]
    model, now = make()
    before = copy.deepcopy(now())
    program = irkit.to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=ROWS, capture="direct")
    assert same(before, now())
    (note,) = [note for note in program.report.notes if "sets" in note]
    said = note.partition("sets ")[2].partition(", and the program")[0].split(", ")
    assert sorted(said) == sorted(told.split(", "))
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), program(x))  # each call is the first one
    assert program.check(2) and same(before, now())


@pytest.mark.parametrize("make", [of_a_variable, of_globals])
def test_the_same_is_told_where_torch_export_captures(make: Any) -> None:
    model, now = make()
    before = copy.deepcopy(now())
    program = irkit.to_onnx(model, (torch.randn(3, 4),), capture="torch.export")
    assert same(before, now()) and any("sets" in note for note in program.report.notes)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_model_keeps_elsewhere_is_put_back_where_it_raises(error: type[BaseException]) -> None:
    seen, total, held = [], torch.zeros(4), Held()

    def model(x: torch.Tensor) -> Any:
        seen.append(x)
        held.total, held.calls = x, 3
        total.add_(1)
        raise error("stopped")

    with pytest.raises(IrkitError if error is ValueError else error):
        irkit.to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=ROWS, capture="direct")
    assert seen == [] and held.calls == 0 and torch.equal(held.total, total) and not total.any()


@functools.lru_cache
def lower(n: int) -> torch.Tensor:
    """A table that is made once."""
    return torch.ones(n, n).tril()


def test_what_a_function_remembers_of_a_capture_is_forgotten() -> None:
    program = irkit.to_onnx(lambda x: x @ lower(4), (torch.randn(3, 4),), dynamic_shapes=ROWS, capture="direct")
    x = torch.randn(2, 4)
    torch.testing.assert_close(program(x), x @ lower(4))  # a tensor of the capture would be refused here
    assert type(lower(4)) is torch.Tensor


# ---------------------------------------------------------------------------------------------- gradients


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))


def never_reset() -> Any:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> Any:
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def of_a_tensor() -> Any:
    torch.manual_seed(1)
    weight = torch.randn(4, requires_grad=True)

    def step(x: torch.Tensor) -> Any:
        (x * weight).sum().backward()
        return weight.grad * 1  # type: ignore[operator]

    return step


def by_data() -> Any:
    torch.manual_seed(1)
    weights = [torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)]

    def step(x: torch.Tensor) -> Any:
        loss = ((x * weights[0]).tanh() * weights[1]).sum()
        loss.backward()
        for each in weights:
            each.data -= 0.1 * each.grad  # type: ignore[operator]
            each.grad.zero_()  # type: ignore[union-attr]
        return loss.detach()

    return step


def kept_with_hooks() -> Any:
    def step(x: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        y = x * 2
        y.retain_grad()
        y.register_hook(lambda gradient: gradient.clamp(max=1.0))
        (y**2).sum().backward()
        return x.grad

    return step


STEPS: Any = {"never reset": never_reset, "a tensor": of_a_tensor, "data": by_data, "hooks": kept_with_hooks}


@pytest.mark.parametrize("name", STEPS)
def test_gradients_that_a_call_leaves_are_added_to_by_the_next(name: str) -> None:
    step, eager = STEPS[name](), STEPS[name]()
    program = irkit.to_onnx(step, (torch.randn(5, 4),), dynamic_shapes=ROWS, capture="direct")
    assert not any("first" in note for note in program.report.notes)
    state: Any = None
    for size in (3, 5, 1, 4):
        x = torch.randn(size, 4)
        found, state = program.run((x,), {}, state)
        torch.testing.assert_close(found, eager(x), rtol=1e-4, atol=1e-5)


def test_states_of_gradients_have_the_names_of_their_tensors() -> None:
    program = irkit.to_onnx(never_reset(), (torch.randn(5, 4),), dynamic_shapes=ROWS, capture="direct")
    assert {"model.0.weight", "model.0.weight.grad"} <= program.state.keys() and program.check(2)
    program = irkit.to_onnx(of_a_tensor(), (torch.randn(5, 4),), dynamic_shapes=ROWS, capture="direct")
    assert "weight.grad" in program.state


def test_flags_hooks_and_gradients_are_put_back() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = torch.ones(3, 4)
    model(given).sum().backward()
    gradients = [(each.grad, each.grad.clone()) for each in model.parameters() if each.grad is not None]

    def step(x: torch.Tensor) -> Any:
        model[0].requires_grad_(False)  # type: ignore[index]
        model[2].weight.register_hook(lambda gradient: gradient / 2)  # type: ignore[index]
        model(x).pow(2).mean().backward()
        optimizer.step()
        return model(x).detach()

    program = irkit.to_onnx(step, (torch.randn(5, 4),), dynamic_shapes=ROWS, capture="direct")
    assert any("which parameters get gradients" in note for note in program.report.notes)
    assert program.check(2)
    assert all(each.requires_grad and not each._backward_hooks for each in model.parameters())
    for parameter, (gradient, content) in zip(model.parameters(), gradients, strict=True):
        assert parameter.grad is gradient and torch.equal(gradient, content)


# ---------------------------------------------------------------------------------------------- settings of all


def drawing(x: torch.Tensor) -> Any:
    torch.set_default_dtype(torch.float64)
    return x * random.random() * float(np.random.rand())


def test_numbers_of_python_and_numpy_are_told_and_their_generators_put_back() -> None:
    before = random.getstate(), str(np.random.get_state()), torch.get_default_dtype()
    program = irkit.to_onnx(drawing, (torch.ones(3, 4),), dynamic_shapes=ROWS, capture="direct")
    assert (random.getstate(), str(np.random.get_state()), torch.get_default_dtype()) == before
    told = [note for note in program.report.notes if "drawn at the export" in note]
    assert [note.split()[2] for note in told] == ["random", "numpy.random"]
    expected = random.random() * float(np.random.rand())  # the numbers that come next, which the capture drew
    torch.testing.assert_close(program(torch.ones(2, 4)), torch.full((2, 4), expected))


def test_a_model_that_leaves_training_mode_is_told() -> None:
    class Once(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.norm(x)
            self.eval()
            return y

    model = Once()
    program = irkit.to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=ROWS, capture="direct")
    assert any("sets training, norm.training" in note for note in program.report.notes)
    assert model.training and model.norm.training


OWN = np.random.default_rng(0)


class Drawing(torch.nn.Module):
    """Draws and counts by objects of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.python, self.old, self.new = random.Random(1), np.random.RandomState(2), np.random.default_rng(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.python.random() + self.old.rand() + self.new.random() + OWN.random()


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_generators_of_the_models_own_are_told_and_put_back(capture: Any) -> None:
    model, begun = Drawing(), copy.deepcopy(OWN)
    apart = copy.deepcopy(model)
    program = irkit.to_onnx(model, (torch.ones(3, 4),), dynamic_shapes=ROWS, capture=capture)
    told = "\n".join(program.report.notes)
    assert all(f"the state of {name}" in told for name in ("python", "old", "new", "OWN"))
    assert [model.python.random(), model.old.rand(), model.new.random(), OWN.random()] == [
        apart.python.random(), apart.old.rand(), apart.new.random(), begun.random(),
    ]  # fmt: skip


def test_a_counter_that_a_model_counts_with_is_told() -> None:
    counter = itertools.count(5)
    program = irkit.to_onnx(lambda x: x + next(counter), (torch.ones(3, 4),), dynamic_shapes=ROWS)
    assert "the state of counter" in "\n".join(program.report.notes)
