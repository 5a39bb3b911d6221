"""`float(x)` of what data tells is the number of each call, as `x.item()` is, and not that of the example."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import irkit
from irkit.errors import ContractError
from tests.support.same_results import right_answers

ROWS: Any = ({0: "n"},)
SEEN: list[float] = []


def noted(x: torch.Tensor) -> torch.Tensor:
    SEEN.append(float(x.sum()))
    return x + 1


def decided(x: torch.Tensor) -> torch.Tensor:
    length = float(x.norm())
    return x / length if length > 0.5 else x


MODELS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a product": lambda x: x * float(x.sum()),
    "of integers": lambda x: torch.pow(x, float((x > 0.5).sum())),
    "of a truth value": lambda x: x + float((x > 0.5).any()),
    "of a size and data": lambda x: x * float(x.shape[0]) * float(x.sum()),
    "a bound": lambda x: x.clamp(min=float(x.mean())),
    "a tensor filled with it": lambda x: torch.full((x.shape[0],), float(x.mean())),
    "an end": lambda x: torch.linspace(0, float(x.max()), 5),
    "a result beside": lambda x: (x, float(x.sum())),
    "an argument of math": lambda x: x * float(int(float(x.sum()))),
    "a list": noted,
}


@pytest.mark.parametrize("name", MODELS)
def test_floats_of_data_are_those_of_each_call(name: str) -> None:
    model = MODELS[name]
    program = irkit.to_onnx(model, (torch.ones(3),), dynamic_shapes=ROWS, capture="direct")
    for size in (1, 3, 7):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_float_of_data_that_decides_is_a_condition() -> None:
    program = irkit.to_onnx(decided, (torch.ones(3),), dynamic_shapes=ROWS, capture="direct")
    x = torch.rand(5) + 1
    torch.testing.assert_close(program(x), decided(x))
    with pytest.raises(ContractError):
        program(torch.zeros(5))


def test_a_float_of_data_that_an_operator_takes_as_an_attribute_is_right_or_refused() -> None:
    def leaky(x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(x - 0.5, float(x.max()))

    program = irkit.to_onnx(leaky, (torch.tensor([0.25, 0.0]),), dynamic_shapes=ROWS, capture="direct")
    for x in (torch.tensor([0.25, 0.1, 0.2]), torch.tensor([0.5, 0.1])):
        try:
            found = program(x)
        except ContractError:
            continue
        torch.testing.assert_close(found, leaky(x))


TRUTHS: Any = {
    "of data": lambda x: x * 2 if x[0].item() * 0.5 else x,
    "of a float": lambda x: x * 2 if bool(float(x.sum())) else x,
    "of a size": lambda x: x * 2 if x.shape[0] / 2 - 1 else x,
    "not": lambda x: x * 2 if not x.sum().item() / x.shape[0] else x,
    "or": lambda x: x * (x[0].item() / 3 or 5),
    "of a remainder": lambda x: x * 2 if (x.shape[0] / 2) % 1 else x,
}


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_a_float_is_true_where_it_is_not_0(name: str, dtype: torch.dtype) -> None:
    model = TRUTHS[name]
    program = irkit.to_onnx(
        model, (torch.tensor([1, 2, 3], dtype=dtype),), dynamic_shapes=({0: "n"},), capture="direct"
    )
    answered = 0
    for numbers in ([1, 2, 3], [0, 2, 3, 4], [0, 0, 0], [0, 5], [-1, 1], [7]):
        x = torch.tensor(numbers, dtype=dtype)
        try:
            found = program(x)
        except irkit.ContractError:
            continue
        answered += 1
        torch.testing.assert_close(found, model(x))
    assert answered > 1


class Averaging(torch.nn.Module):
    """Batch norm whose statistics are the mean of those of all batches so far."""

    count: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("variance", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return F.batch_norm(x, self.mean, self.variance, training=True, momentum=1.0 / float(self.count)) + self.mean


def test_statistics_are_moved_by_a_number_of_data() -> None:
    program, eager, state = (
        irkit.to_onnx(Averaging(), (torch.randn(5, 4),), dynamic_shapes=({0: "n"},)),
        Averaging(),
        None,
    )
    for n in (4, 7, 2, 5):
        x = torch.randn(n, 4)
        found, state = program.run((x,), {}, state)
        torch.testing.assert_close(found, eager(x))
    torch.testing.assert_close(state["variance"], eager.variance)


COMPARED: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], Any], tuple[str, ...]]] = {
    "a truth beside integers": (lambda x, r: x * 2 + (r.item() > x.shape[0]), ("direct", "torch.export")),
    "two truths": (lambda x, r: x - 1 + ((r.item() > 1) & (x.shape[0] > 3)), ("direct", "torch.export")),
    "a truth beside truths": (lambda x, r: (x > 2) | (r.item() > 1), ("direct",)),
    "a filled tensor": (lambda x, r: torch.full((2,), r.item() > 1), ("direct",)),
    "a choice": (lambda x, r: torch.where(x > 2, x, r.item() > 1), ("direct",)),
    "a tensor of it": (lambda x, r: torch.tensor(r.item()) + x, ("direct", "torch.export")),
}
BOTH = [(name, way) for name, (_, ways) in COMPARED.items() for way in ways]


@pytest.mark.parametrize(("name", "capture"), BOTH)
def test_what_is_told_of_a_float_of_data_is_of_the_kind_of_eager(name: str, capture: Any) -> None:
    model = COMPARED[name][0]
    example = torch.arange(5), torch.tensor(2.5)
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, None), capture=capture)
    for size, number in ((5, 2.5), (2, 0.5), (7, 9.5), (1, -1.0)):
        given = torch.arange(size), torch.tensor(number)
        torch.testing.assert_close(program(*given), model(*given))


def test_a_truth_of_a_float_of_data_is_refused_where_eager_refuses_truths() -> None:
    with pytest.raises(irkit.IrkitError, match="with a bool tensor is not supported"):
        irkit.to_onnx(lambda x, r: x - (r.item() > 1), (torch.arange(5), torch.tensor(2.5)), capture="direct")


def of_amount(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return x * 2 if abs(k.item()) < 3 else x


def of_amount_beside(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return x * 2 if abs(k.item() - x.shape[0]) >= 3 else x


def of_nearness(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return x * 2 if math.isclose(k.item(), 1.0) else x


def of_nearness_to_a_size(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return x * 2 if math.isclose(k.item(), x.shape[0], rel_tol=0.1) else x


def of_nearness_to_bits(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return x * int(math.isclose(x.shape[0] & 6, k.item(), abs_tol=1.0))


NEAR = (1.0, -1.0, 1.0 + 1e-10, 0.99, 2.9, -3.0, 3.0, 3.1, 0.0, -0.0, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize(
    "model", [of_amount, of_amount_beside, of_nearness, of_nearness_to_a_size, of_nearness_to_bits]
)
@pytest.mark.parametrize("example", [1.0, 4.0, 2.9, -3.0])
def test_a_decision_by_an_amount_that_data_tells_is_that_of_each_call(
    model: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], example: float
) -> None:
    """An amount had no text form, so that its condition could not be kept."""
    first = (torch.ones(3), torch.tensor(example, dtype=torch.float64))
    program = irkit.to_onnx(model, first, dynamic_shapes=({0: "n"}, {}), capture="direct")
    torch.testing.assert_close(program(*first), model(*first))
    numbers = (torch.tensor(number, dtype=torch.float64) for number in NEAR)
    answered = right_answers(program, model, ((torch.ones(n), each) for each in numbers for n in (3, 1, 4, 7)))
    assert answered > 3
