"""With rewrite=True, what modules do at other sizes are branches of the graph, module by module."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch.nn.functional import interpolate, pad

import irkit
from lowering.direct import run as runs
from lowering.direct.run import run
from lowering.size_branches import tracing
from lowering.size_branches.decisions import Fruitless

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31)


class Windows(torch.nn.Module):
    """Pads to windows where that is needed, and notes whether it was."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.inner = size, torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length, padded = x.shape[1], False
        if length % self.size != 0:
            x, padded = pad(x, (0, 0, 0, self.size - length % self.size)), True
        x = self.inner(x).unflatten(1, (-1, self.size)).softmax(2).flatten(1, 2)
        if padded:
            x = x[:, :length]
        return x


class Halves(torch.nn.Module):
    """Leaves out every other one, of an even number of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 2 == 1:
            x = pad(x, (0, 0, 0, 1))
        return x[:, ::2] + x[:, 1::2]


class Shrinking(torch.nn.Module):
    """Takes a smaller window where there is less than one, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.window, self.shift = 4, 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] <= self.window:
            self.window, self.shift = x.shape[1], 0
        if self.shift > 0:
            x = x * 2 + self.shift
        return x * self.window


class Positions(torch.nn.Module):
    """Interpolates its positions where there are more or fewer."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = torch.nn.Parameter(torch.randn(1, 4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 24:
            raise ValueError("too long")
        positions = self.positions.transpose(1, 2).transpose(1, 2)
        if x.shape[1] != positions.shape[2]:
            positions = interpolate(positions, size=x.shape[1], mode="linear")
        return x + positions.transpose(1, 2)


class Split(torch.nn.Module):
    """Gives a size, and its own input, on one of two ways."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        if x.shape[1] > 6:
            return x, x.shape[1] // 2
        return x + 1, 3


class Used(torch.nn.Module):
    """Uses what only one way of another module made."""

    def __init__(self) -> None:
        super().__init__()
        self.split = Split()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, size = self.split(x)
        return y[:, :size].sum(1) + size


class Written(Used):
    """Writes what a module gave, which on one way is the input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, size = self.split(x)
        y.add_(1)
        return x.sum(1) + y.sum(1) + size


class Largest(torch.nn.Module):
    """Takes the largest of several quotients of sizes, by a function of Python's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = max([x.shape[1] / 8, 12 / (x.shape[1] + 1)])
        return x + 1 if scale * 10 > 13 else x * 2


class Repeated(torch.nn.Module):
    """Repeats what is short, as often as numbers say."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] < 9:
            twice = x.repeat_interleave(2, 1, output_size=2 * x.shape[1])
            return twice[:, : x.shape[1]] + x.repeat_interleave(x.shape[1], 2)[:, :, :4]
        return x


def stacked(*modules: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(*modules).eval()


MODELS = {
    "windows": lambda: stacked(Windows(4), Halves(), Windows(3), Halves(), Windows(4)),
    "shrinking": lambda: stacked(Shrinking(), Halves(), Shrinking()),
    "positions": lambda: stacked(Halves(), Positions()),
    "used": lambda: stacked(Used()),
    "largest": lambda: stacked(Largest()),
    "repeated": lambda: stacked(Repeated()),
    "two of one class": lambda: stacked(Windows(4), Windows(4), Windows(4)),
}


def taken(program: Any, model: torch.nn.Module, sizes: Sequence[int] = SIZES) -> set[int]:
    """At which sizes a program answers, as eager does. A copy answers: some modules keep what they found."""
    found = set()
    for size in sizes:
        for batch in (1, 3):
            x = torch.randn(batch, size, 4)
            try:
                ours = program(x.clone())
            except irkit.ContractError:
                continue
            torch.testing.assert_close(ours, copy.deepcopy(model)(x.clone()), rtol=1e-5, atol=1e-5)
            found.add(size)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_ways_of_modules_are_branches(name: str) -> None:
    model = MODELS[name]()
    shapes = ({0: "batch", 1: "n"},)
    example = (torch.randn(2, 16, 4),)
    program = irkit.to_onnx(copy.deepcopy(model), example, dynamic_shapes=shapes, rewrite=True, capture="direct")
    assert taken(program, model) >= set(SIZES) - ({1, 2} if name == "shrinking" else set())
    plain = irkit.to_onnx(copy.deepcopy(model), example, dynamic_shapes=shapes, capture="direct")
    assert taken(plain, model) < taken(program, model)


def test_what_is_raised_on_one_way_is_refused() -> None:
    model = stacked(Positions())
    shapes = ({1: "n"},)
    program = irkit.to_onnx(model, (torch.randn(1, 8, 4),), dynamic_shapes=shapes, rewrite=True, capture="direct")
    for size in (1, 5, 8, 24):
        x = torch.randn(1, size, 4)
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(irkit.ContractError, match=re.escape("x.shape[1] > 24")):
        program(torch.randn(1, 25, 4))


def test_a_result_that_may_be_the_input_is_not_written() -> None:
    model = stacked(Written())
    shapes = ({0: "batch", 1: "n"},)
    program = irkit.to_onnx(model, (torch.randn(2, 9, 4),), dynamic_shapes=shapes, rewrite=True, capture="direct")
    assert taken(program, model) >= {7, 8, 12}


def test_joined_sizes_are_told_in_their_shortest_form() -> None:
    model = stacked(Windows(4), Halves(), Halves())
    shapes = ({1: "n"},)
    program = irkit.to_onnx(model, (torch.randn(2, 16, 4),), dynamic_shapes=shapes, rewrite=True, capture="direct")
    assert str(program.graph.results[0].type) == "f32[2, (n + 3) // 4, 4]"


def test_a_run_in_which_ways_are_branches_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(len(args[0].deciding.modules))
        return run(*args, **kwargs)

    monkeypatch.setattr(tracing, "run", counted)
    model = torch.nn.Sequential(Windows(4)).eval()
    program = irkit.to_onnx(model, (torch.rand(2, 8, 4),), dynamic_shapes=({1: "n"},), rewrite=True)
    assert made == [1]
    for size in SIZES:
        x = torch.rand(2, size, 4)
        torch.testing.assert_close(program(x), model(x))


def test_a_model_that_takes_all_sizes_is_not_run_once_more_for_ways_of_its_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(len(args[0].deciding.modules))
        return run(*args, **kwargs)

    class OneOrMore(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.shape[0] > 1 else x.exp()

    monkeypatch.setattr(tracing, "run", counted)
    model = torch.nn.Sequential(OneOrMore(), OneOrMore()).eval()
    program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), rewrite=True)
    assert made == []
    for size in (1, 2, 7):
        x = torch.rand(size, 4)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    ("few", "ends"),
    [(tracing.FEW_POINTS, {RuntimeError}), (0, {Fruitless})],
    ids=["few sizes, at which plain runs raise", "more, and no module has several ways"],
)
def test_a_run_ends_where_no_module_has_several_ways(
    monkeypatch: pytest.MonkeyPatch, few: int, ends: set[type[BaseException]]
) -> None:
    met: list[type[BaseException]] = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        try:
            return run(*args, **kwargs)
        except BaseException as error:
            met.append(type(error))
            raise

    monkeypatch.setattr(tracing, "run", noted)
    monkeypatch.setattr(tracing, "FEW_POINTS", few)
    model = torch.nn.Sequential(Unequal(), torch.nn.Tanh()).eval()
    program = irkit.to_onnx(model, (torch.rand(1, 8, 4),), dynamic_shapes=({1: "n"},), rewrite=True)
    assert set(met) == ends
    for size in (4, 5, 24):
        x = torch.rand(1, size, 4)
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(irkit.ContractError):
        program(torch.rand(1, 3, 4))


class Unequal(torch.nn.Module):
    """Adds what cannot be added where there are few."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] < 4:
            return x + torch.ones(3)
        return x * 2


class Twice(torch.nn.Module):
    """Calls a module twice, which has one way the first time, and two the second."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Halves()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(self.part(torch.cat([x, x], 1)))


def test_a_module_that_is_called_again_may_have_ways_then() -> None:
    model = Twice().eval()
    shapes = ({1: "n"},)
    program = irkit.to_onnx(model, (torch.randn(2, 16, 4),), dynamic_shapes=shapes, rewrite=True, capture="direct")
    assert any(note.startswith("each way that part may take") for note in program.report.notes)
    for size in (3, 4, 9, 16):
        x = torch.randn(2, size, 4)
        torch.testing.assert_close(program(x), model(x))


class Several(torch.nn.Module):
    """Asks for one or several, and raises for one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[1] > 1 else torch.stack([])


def test_sizes_at_which_a_model_raises_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    once = runs.run_once

    def noted(request: Any, sizes: Any, *args: Any) -> Any:
        try:
            return once(request, sizes, *args)
        except BaseException:
            raised.append(sizes["n"])
            raise

    monkeypatch.setattr(runs, "run_once", noted)
    model = torch.nn.Sequential(Several(), torch.nn.Tanh()).eval()
    shapes = ({1: torch.export.Dim("n", min=1)},)
    program = irkit.to_onnx(model, (torch.rand(1, 8, 4),), dynamic_shapes=shapes, rewrite=True)
    assert raised == [1]
    assert "n = 1 is refused: stack expects a non-empty TensorList" in program.report.notes
    for size in (2, 5):
        x = torch.rand(1, size, 4)
        torch.testing.assert_close(program(x), model(x))


def test_that_a_model_raises_at_other_sizes_is_told_by_a_plain_run(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    once = runs.run_once

    def noted(request: Any, sizes: Any, *args: Any) -> Any:
        try:
            return once(request, sizes, *args)
        except Exception:
            raised.append(len(request.deciding.modules))
            raise

    monkeypatch.setattr(runs, "run_once", noted)
    model = torch.nn.Sequential(Windows(4), Unequal()).eval()
    shapes = ({1: torch.export.Dim("n", min=2)},)
    program = irkit.to_onnx(model, (torch.rand(2, 9, 4),), dynamic_shapes=shapes, rewrite=True)
    assert any("what the model does at n = 2 is refused" in note for note in program.report.notes)
    assert raised and not any(raised)
    for size in (4, 5, 24):
        x = torch.rand(2, size, 4)
        torch.testing.assert_close(program(x), model(x))
