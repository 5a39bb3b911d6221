"""A model that makes a number of a size that was to vary: the run ends there, since the rest would not help."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.build import op
from lowering.direct import run as runs
from lowering.direct.tensors import Traced
from lowering.errors import CaptureError


def test_a_loop_over_a_size_is_told_before_its_first_round() -> None:
    rounds: list[type] = []

    def looped(x: Tensor) -> Tensor:
        total = x.new_zeros(x.shape[0])
        for i in range(x.shape[1]):
            rounds.append(type(x))
            total = total * 0.5 + x[:, i]
        return total

    with pytest.raises(CaptureError, match="dimension 1 of 'x' was to vary as 'n', and the model works for 7") as told:
        irkit.to_onnx(looped, (torch.rand(2, 7),), dynamic_shapes=({0: "b", 1: "n"},))
    assert "for i in range(x.shape[1]):" in told.value.source
    assert Traced not in rounds


def test_a_number_is_taken_where_keeping_the_size_helps() -> None:
    def kept(x: Tensor) -> Tensor:
        return x.reshape(int(x.shape[0]) * len(x[0])) + x.new_ones(int(x.shape[1])).sum()

    program = irkit.to_onnx(kept, (torch.rand(2, 7),), dynamic_shapes=({0: "b", 1: "n"},))
    for x in (torch.rand(3, 4), torch.rand(1, 1), torch.rand(4, 9)):
        torch.testing.assert_close(program(x), kept(x))


def test_a_way_that_takes_no_number_stays() -> None:
    def few(x: Tensor) -> Tensor:
        if x.shape[0] <= 1:
            return x.sum(0)
        return torch.stack([x[i] for i in range(x.shape[0])]).sum(0)

    program = irkit.to_onnx(few, (torch.rand(1, 3),), dynamic_shapes=({0: "n"},))
    for x in (torch.rand(1, 3), torch.rand(0, 3)):
        torch.testing.assert_close(program(x), few(x))
    with pytest.raises(irkit.ContractError):
        program(torch.rand(2, 3))


def test_all_that_is_fixed_is_listed_where_that_is_asked_for() -> None:
    def looped(x: Tensor) -> Tensor:
        return sum((x[i, j] for i in range(x.shape[0]) for j in range(x.shape[1])), torch.zeros(()))

    with pytest.raises(CaptureError, match="2 dimensions or numbers"):
        irkit.to_onnx(looped, (torch.rand(2, 3),), dynamic_shapes=({0: "n", 1: "m"},), specialization="error")
    program = irkit.to_onnx(looped, (torch.rand(2, 3),), dynamic_shapes=({0: "n", 1: "m"},), specialization="report")
    x = torch.rand(2, 3)
    torch.testing.assert_close(program(x), looped(x))


def test_what_a_model_raises_is_told_first() -> None:
    def wrong(x: Tensor) -> Tensor:
        for i in range(x.shape[0]):
            x = x @ x[i]
        return x

    with pytest.raises(CaptureError, match="wrong raises"):
        irkit.to_onnx(wrong, (torch.rand(3, 3),), dynamic_shapes=({0: "n"},))


def captured(model: Callable[[Tensor], Tensor]) -> tuple[irkit.Program, int]:
    """(a program, in how many runs its `exp` was met): it comes after what the model asks of sizes."""
    met: list[Any] = []

    def exp(self: Any) -> Any:
        met.append(self)
        return op.Exp(self)

    program = irkit.to_onnx(
        model, (torch.rand(2, 8),), dynamic_shapes=({0: "b", 1: "n"},), converters={torch.ops.aten.exp.default: exp}
    )
    return program, len(met)


def least_of(x: Tensor) -> Tensor:
    return x[:, : min(x.shape[1] // 2, 100 - x.shape[0])].exp()


def half_of(x: Tensor) -> Tensor:
    return x[:, : int(x.shape[1] // 2)].exp()


@pytest.mark.parametrize("model", [least_of, half_of])
def test_a_run_ends_at_the_first_choice_of_sizes_and_the_next_keeps_them(model: Callable[[Tensor], Tensor]) -> None:
    program, runs = captured(model)
    assert runs == 1
    for x in (torch.rand(3, 4), torch.rand(1, 2), torch.rand(4, 9)):
        torch.testing.assert_close(program(x), model(x))


def test_where_another_number_is_taken_all_the_same_no_run_is_made_twice() -> None:
    """By a loop, as often as for the example: the sizes that are kept do not spare that."""

    def looped(x: Tensor) -> Tensor:
        y = half_of(x)
        for _ in range(x.shape[1] // 2):
            y = y * 0.5
        return y

    program, runs = captured(looped)
    assert runs == 3  # with the sizes kept, without, and where n is 0 or 1
    for x in (torch.rand(3, 8), torch.rand(1, 9)):
        torch.testing.assert_close(program(x), looped(x))
    with pytest.raises(irkit.ContractError):
        program(torch.rand(3, 10))


class Summing(torch.nn.Module):
    """Writes a tensor that a list of it holds, which is found out in a first run, and asks for a size."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [torch.zeros(4)]

    def forward(self, x: Tensor) -> Tensor:
        late = self.held[0] * 2
        self.held[0].add_(x.sum(0))
        return late + (x * 2 if x.shape[0] > 4 else x * 3)


def test_what_took_one_run_more_than_one_is_known_to_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    once = runs.run_once

    def counted(*args: Any) -> Any:
        found = once(*args)
        made.append(found.tracer.outside.lasting is not None)
        return found

    monkeypatch.setattr(runs, "run_once", counted)
    program = irkit.to_onnx(Summing(), (torch.rand(6, 4),), dynamic_shapes=({0: "n"},), rewrite=True)
    assert len(made) > 3 and made == [False] + [True] * (len(made) - 1)
    for size in (6, 9, 5):
        x = torch.rand(size, 4)
        torch.testing.assert_close(program(x), Summing()(x))


@pytest.mark.parametrize("swallows", [BaseException, None])
def test_code_that_catches_everything_does_not_go_on_without_the_number(swallows: type[BaseException] | None) -> None:
    def caught(x: Tensor) -> Tensor:
        count = 7
        try:
            count = operator.index(x.shape[1])
        except BaseException:
            if swallows is None:
                raise RuntimeError("no number") from None
        return x.sum(1) * count

    with pytest.raises(CaptureError, match="was to vary as 'n', and the model works for 5 only"):
        irkit.to_onnx(caught, (torch.rand(2, 5),), dynamic_shapes=({1: "n"},), capture="direct")
