"""Modules that are equal but for their weights are made of the first one's values, and of nothing that differs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import ContractError
from lowering import lower
from lowering.capture.inputs.alike import Likes
from lowering.direct import equal_modules
from lowering.direct import run as runs
from passes import optimize

KEPT: list[Any] = []
SCALES: dict[int, float] = {}


class Block(torch.nn.Module):
    """A layer of some operators, with a number of its own."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.inner = torch.nn.Linear(80, 80)
        self.shift = torch.nn.Parameter(torch.randn(80))
        self.gate = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.inner(x) + self.shift).view(x.shape[0], -1) + x


class Reading(Block):
    """Reads its number."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * (self.number + 1)


class ReadingAtTimes(Block):
    """Reads its number where a weight says so."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * (self.number if bool(self.gate > 1) else 1)


class ReadingOtherwise(Block):
    """Reads its number in a way that is not seen."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) + self.__dict__["number"]


class Keeping(Block):
    """Keeps what it computes in a list outside."""

    def forward(self, x: Any) -> Any:
        KEPT.append(x.sum())
        return super().forward(x)


class Counting(Block):
    """Counts its calls and those of others."""

    def forward(self, x: Any) -> Any:
        KEPT.append(1)
        self.number += len(KEPT)
        return super().forward(x) * self.number


class LookingUp(Block):
    """Looks its number up by its identity."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * SCALES[id(self)]


class Branching(Block):
    """Takes a branch on data."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * (2 if x.sum().item() > 0 else 3)


class Writing(Block):
    """Writes what it is given."""

    def forward(self, x: Any) -> Any:
        x += self.shift
        return super().forward(x)


class WritingItsOwn(Block):
    """Writes what it made itself."""

    def forward(self, x: Any) -> Any:
        y = self.inner(x).relu_()
        y[:, 1:] += self.shift[1:]
        y += x
        return y


class Passing(Block):
    """Gives back what it is given, a view of it, and two tensors of one memory."""

    def forward(self, x: Any) -> Any:
        y = super().forward(x)
        found: dict[str, Any] = {"x": x, "view": x[:, :3], "parts": [y[:, :3], y[:, 3:]], "y": y * 2}
        return found["y"] + 0


class Pair(Block):
    """Results in a list and a dict."""

    def forward(self, x: Any) -> Any:
        return [super().forward(x), {"same": x, "number": x.shape[0]}]


class Twice(Block):
    """Two weights and two children, of which some are one in some layers."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.other = self.inner if number == 0 else torch.nn.Linear(80, 80)
        self.third = self.other if number == 2 else torch.nn.Linear(80, 80)
        self.scale = self.shift if number % 2 == 0 else torch.nn.Parameter(torch.randn(80))

    def forward(self, x: Any) -> Any:
        return self.third(self.other(self.inner(x))) * self.scale + self.shift


class Tied(Block):
    """Two weights, which are one in the first layer only."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.scale = self.shift if number == 0 else torch.nn.Parameter(torch.randn(80))

    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.scale + self.shift


class OfTwo(Block):
    """A layer of two arguments, which the first one is given as one."""

    def forward(self, x: Any, y: Any = None) -> Any:
        return self.inner(x) * y if y is not None else super().forward(x)


class ChainOfTwo(torch.nn.Module):
    """Layers of two arguments: of one tensor, then of several."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(OfTwo(i) for i in range(4))

    def forward(self, x: Any) -> Any:
        y = x * 1
        for i, layer in enumerate(self.layers):
            x, y = layer(x, x.detach() if i == 0 else y), x
        return x


class Chain(torch.nn.Module):
    """Layers of one class, one after the other."""

    def __init__(self, cls: Callable[[int], Any], count: int = 4) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(cls(i) for i in range(count))
        SCALES.update({id(layer): float(i // 2) for i, layer in enumerate(self.layers)})

    def forward(self, x: Any) -> Any:
        KEPT.clear()
        x = x * 1
        for layer in self.layers:
            x = layer(x)
            x = x[0] + x[1]["same"] * x[1]["number"] if isinstance(x, list) else x
        return (x, *(each for each in KEPT if isinstance(each, torch.Tensor)))


class Activated(Block):
    """Has a function with an argument, made for each layer."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.act = functools.partial(torch.nn.functional.gelu, approximate="none" if number == 9 else "tanh")

    def forward(self, x: Any) -> Any:
        return self.act(super().forward(x))


class SmallWeights(Block):
    """Weights of few numbers, others in each layer."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.sinks = torch.nn.Parameter(torch.randn(4))

    def forward(self, x: Any) -> Any:
        return super().forward(x) * self.sinks.softmax(0)[:2].sum()


class Listed(Block):
    """Computes with a number of a small weight, which only the layers between the first and the last have otherwise."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.sinks = torch.nn.Parameter(torch.tensor([2.0, 3.0 if number in (0, 3) else 5.0]))

    def forward(self, x: Any) -> Any:
        return super().forward(x) * self.sinks.tolist()[1]


class Places(Block):
    """Takes places that a small buffer tells, the same ones in each layer but for one that a number asks for."""

    def __init__(self, number: int, other: int = 9) -> None:
        super().__init__(number)
        self.register_buffer("places", torch.tensor([0, 5 if number == other else 3]))

    def forward(self, x: Any) -> Any:
        return super().forward(x) + x[:, self.places].sum() + x[:, [-1]]


class Constants(Block):
    """Makes constants as it runs."""

    def forward(self, x: Any) -> Any:
        y = super().forward(x) * torch.tensor([2.0, 3.0]).sum()
        return torch.where(y > torch.tensor(0.5), y, torch.tensor(-1.0)) + x


class Shared(Block):
    """Hands a weight of all to a child."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.child = Shifted()

    def forward(self, x: Any) -> Any:
        return self.child(super().forward(x), SHARED)


class Shifted(torch.nn.Module):
    """Adds what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(80, 80)

    def forward(self, x: Any, shift: Any) -> Any:
        return self.inner(x) + shift


def tied(number: int) -> Block:
    """A layer whose shift is a row of a table that all share."""
    made = Block(number)
    made.shift = torch.nn.Parameter(TABLE[number])
    return made


def hooked(number: int) -> Block:
    """A layer whose child is hooked, one of them to another end."""
    made = Block(number)
    if number == 2:
        made.inner.register_forward_hook(lambda *given: given[-1] * 2)
    return made


def gated(number: int) -> Block:
    """A layer whose small weight is its own."""
    made = ReadingAtTimes(number)
    made.gate = torch.nn.Parameter(torch.tensor([float(number)]))
    return made


TABLE = torch.randn(4, 80)
SHARED = torch.randn(80)
CHAINS: dict[str, tuple[Callable[[int], Any], bool]] = {
    "unread": (Block, True), "read": (Reading, False), "read at times": (ReadingAtTimes, False),
    "read otherwise": (ReadingOtherwise, False), "kept": (Keeping, False), "counted": (Counting, False),
    "looked up": (LookingUp, False), "branching": (Branching, False), "written": (Writing, False),
    "written inside": (WritingItsOwn, True),
    "passed": (Passing, True), "pair": (Pair, True), "tied": (tied, False), "hooked": (hooked, True),
    "twice": (Twice, False), "tied weights": (Tied, True),
    "activated": (Activated, True), "small weights": (SmallWeights, True), "constants": (Constants, True),
    "listed": (Listed, False),
    "places": (Places, True), "other places": (lambda i: Places(i, 1), True), "shared": (Shared, True),
    "gated": (gated, False), "dropout": (lambda i: torch.nn.Sequential(Block(i), torch.nn.Dropout()), True),
    "batch norm": (lambda i: torch.nn.Sequential(Block(i), torch.nn.BatchNorm1d(80)), True),
    "transformer": (lambda i: torch.nn.TransformerEncoderLayer(80, 2, 80, batch_first=True), True),
}  # fmt: skip
"""Layers, and whether some of them are expected to be taken over."""


@pytest.mark.parametrize("name", CHAINS)
def test_equal_modules_are_taken_over_and_others_are_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cls, taken = CHAINS[name]
    torch.manual_seed(0)
    model, example = Chain(cls).eval(), torch.randn(3, 80)
    found: list[Any] = []
    again = equal_modules.Calls.taken

    def noted(*args: Any) -> Any:
        found.append(args)
        return again(*args)

    monkeypatch.setattr(equal_modules.Calls, "taken", noted)
    program = irkit.to_onnx(model, (example,), dynamic_shapes=({0: "n"},), capture="direct")
    ours = lower(model, (example,), dynamic_shapes=({0: "n"},), capture="direct")
    assert bool(found) is taken
    monkeypatch.setattr(runs, "likes_of", lambda *_: Likes())
    plain = lower(model, (example,), dynamic_shapes=({0: "n"},), capture="direct")
    if name != "constants":  # which have names of their own
        assert str(optimize(ours, 0)) == str(optimize(plain, 0))  # what hangs on no weight and no input is made once
    for size in (3, 1, 5) if name != "counted" else ():  # eager goes on counting
        x = example[:1].expand(size, 80) if name == "branching" else torch.randn(size, 80)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)


def test_modules_in_training_draw_numbers_of_their_own() -> None:
    model = Chain(lambda i: torch.nn.Sequential(Block(i), torch.nn.Dropout(0.5)), 3).train()
    text = str(lower(model, (torch.randn(3, 80),), capture="direct"))
    assert text.count("RandomUniform") + text.count("Dropout(") + text.count("Bernoulli") >= 3


def test_a_model_is_as_before_after_its_equal_layers_were_traced() -> None:
    model = Chain(Reading)
    before = [dict(layer.__dict__) for layer in model.layers]
    irkit.to_onnx(model, (torch.randn(3, 80),), capture="direct")
    assert [layer.__dict__ for layer in model.layers] == before
    assert not any("number" in vars(cls) for cls in (Block, Reading))


def test_sixty_four_layers_are_traced_in_little_more_than_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[int] = []
    for count in (8, 64):
        kept: list[Any] = []
        once = runs.run_once
        monkeypatch.setattr(runs, "run_once", lambda *args, once=once, kept=kept: kept.append(once(*args)) or kept[-1])
        irkit.to_onnx(Chain(Block, count), (torch.randn(3, 80),), capture="direct")
        met.append(len(kept[0].tracer.record.outcomes))
        monkeypatch.setattr(runs, "run_once", once)
    assert met[0] == met[1]


class Asking(torch.nn.Module):
    """Layers of which one is told something by a question about the batch, which a trial at 1 answers otherwise."""

    def __init__(self, at: int, other: float) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Block(i) for i in range(5))
        self.at, self.other = at, other

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x * (2.0 if i == self.at and x.shape[0] > 1 else self.other))
        return x


@pytest.mark.parametrize("at", [0, 1, 3, 4, 5])
@pytest.mark.parametrize("other", [2.0, 3.0])
def test_a_trial_takes_over_what_the_run_before_did_where_it_is_the_same(
    at: int, other: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the layers of the trial are given other values, they are made of those, and size 1 is right or refused."""
    torch.manual_seed(0)
    model, example, again = Asking(at, other).eval(), torch.randn(3, 80), []
    once = equal_modules.Calls.as_before

    def noted(*args: Any) -> Any:
        found = once(*args)
        again.append(found.before)
        return found

    monkeypatch.setattr(equal_modules.Calls, "as_before", noted)
    program = irkit.to_onnx(model, (example,), dynamic_shapes=({0: "n"},), capture="direct")
    ours = str(lower(model, (example,), dynamic_shapes=({0: "n"},), capture="direct"))
    assert any(again) is (at < 5 and (other == 2.0 or at > 1))
    monkeypatch.setattr(runs, "likes_of", lambda *_: Likes())
    assert ours == str(lower(model, (example,), dynamic_shapes=({0: "n"},), capture="direct"))
    for x in (example, torch.randn(4, 80), torch.randn(1, 80)):
        if other == 2.0 or at == 5 or len(x) > 1:
            torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
        else:
            with pytest.raises(ContractError, match="dimension n is 1"):
                program(x)


def test_arguments_that_are_one_tensor_are_told_from_several(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, x = ChainOfTwo().eval(), torch.randn(3, 80)
    ours = lower(model, (x,), capture="direct")
    program = irkit.to_onnx(model, (x,), capture="direct")
    torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(runs, "likes_of", lambda *_: Likes())
    assert str(ours) == str(lower(model, (x,), capture="direct"))
