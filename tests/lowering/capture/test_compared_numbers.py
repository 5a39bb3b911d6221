"""Two ways of a model that differ beyond a number with which one of them compares are not the same, though they agree
on all numbers that are likely: small floats, and the integers of an example."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import ContractError

Model = Callable[[torch.Tensor], torch.Tensor]
OF_FLOATS: dict[str, Model] = {
    "a mask": lambda x: x.masked_fill(x > 3, 1.0 if x.shape[0] > 2 else 7.0),
    "far below": lambda x: torch.where(x < -50, x * 2, x) if x.shape[0] > 2 else x,
    "clamped": lambda x: x.clamp(max=10.0) if x.shape[0] > 2 else x,
    "clamped by another number": lambda x: x.clamp(min=-1000.0 if x.shape[0] > 2 else -2000.0),
    "equal": lambda x: torch.where(x == 7, 1.0, x) if x.shape[0] > 2 else x,
    "hardtanh": lambda x: torch.nn.functional.hardtanh(x, -6, 6) if x.shape[0] > 2 else x,
    "a sum": lambda x: torch.where(x.sum() > 100, x * 2, x) if x.shape[0] > 2 else x,
    "of a product": lambda x: torch.where(x * 5 > 30.0, 1.0, x) if x.shape[0] > 2 else x,
    "as an integer": lambda x: x.masked_fill(x.long() == 12, 0.0) if x.shape[0] > 2 else x,
    "infinities": lambda x: x.masked_fill(torch.isinf(x), 0.0) if x.shape[0] > 2 else x,
    "NaN": lambda x: torch.nan_to_num(x) if x.shape[0] > 2 else x,
    "near 0": lambda x: x.masked_fill((x > 0) & (x < 0.01), 0.0) if x.shape[0] > 2 else x,
}
OF_INTEGERS: dict[str, Model] = {
    "equal": lambda i: torch.where(i == 500, 1, i) if i.shape[0] > 2 else i,
    "clamped": lambda i: i.clamp(max=1000) if i.shape[0] > 2 else i,
    "below 0": lambda i: torch.where(i < 0, 1, i) if i.shape[0] > 2 else i,
    "a label that is left out": lambda i: i.masked_fill(i == -100, 0) if i.shape[0] > 2 else i,
    "a remainder": lambda i: i.fmod(50) if i.shape[0] > 2 else i,
    "a quotient": lambda i: i // 50 if i.shape[0] > 2 else i * 0,
    "bytes": lambda i: i.to(torch.int8).long() if i.shape[0] > 2 else i,
    "bits": lambda i: i & 0xFF if i.shape[0] > 2 else i,
    "an amount": lambda i: i.abs() if i.shape[0] > 2 else i,
}
CONSTANTS: dict[str, Model] = {
    "a constant": lambda x: x + torch.tensor([1.0, 2.0, 3.0] if x.shape[0] > 2 else [3.0, 4.0, 5.0]),
    "in a branch": lambda x: torch.cond(x.sum() > 0, lambda y: y * (2 if y.shape[0] > 2 else 5), lambda y: y - 1, (x,)),
}
FLOATS = (1.0, -10.0, 100.0, -1e4, 7.0, 12.0, 0.005, float("inf"), float("nan"))
INTEGERS = (1, 500, -100, 2000, -3, 300, 60)


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", OF_FLOATS)
def test_ways_are_compared_beyond_the_floats_that_they_compare_with(name: str, capture: Any) -> None:
    calls = (filled(torch.arange(3.0 * n).reshape(n, 3), number) for n in (5, 1, 0, 3) for number in FLOATS)
    assert answers(OF_FLOATS[name], torch.arange(15.0).reshape(5, 3), calls, capture) >= 9


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_ways_are_compared_beyond_the_integers_of_the_example(name: str, capture: Any) -> None:
    calls = (filled(torch.arange(n), number) for n in (5, 1, 0, 3) for number in INTEGERS)
    assert answers(OF_INTEGERS[name], torch.tensor([1, 3, 0, 2, 2]), calls, capture) >= 7


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_of_two_ways_are_compared(name: str, capture: Any) -> None:
    calls = (torch.arange(3.0 * n).reshape(n, 3) for n in (5, 1, 0, 3))
    assert answers(CONSTANTS[name], torch.arange(15.0).reshape(5, 3), calls, capture) >= 2


def test_ways_that_are_the_same_stay_so() -> None:
    """Two ways that are one are not parted by what large numbers lose of their digits."""

    def model(x: torch.Tensor) -> torch.Tensor:
        y = x.clamp(-100.0, 100.0)
        return (y - y.mean(0)).abs().sum(1) if x.shape[0] > 2 else (y - y.sum(0) / x.shape[0]).norm(p=1, dim=1)

    program = irkit.to_onnx(model, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},))
    assert any("n = 1 is allowed" in note for note in program.report.notes)


def filled(x: torch.Tensor, number: float) -> torch.Tensor:
    """A tensor with every other number replaced."""
    return torch.where(x % 2 == 0, torch.tensor(number, dtype=x.dtype), x)


def answers(model: Model, example: torch.Tensor, calls: Iterator[torch.Tensor], capture: Any) -> int:
    """How many calls a program answers, each as eager does."""
    program = irkit.to_onnx(model, (example,), dynamic_shapes=({0: "n"},), capture=capture)
    answered = 0
    for each in calls:
        try:
            found = program(each)
        except ContractError:
            continue
        torch.testing.assert_close(found, model(each), equal_nan=True)
        answered += 1
    return answered


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.complex64])
def test_ways_are_compared_where_two_inputs_are_equal(kind: torch.dtype, capture: Any) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.is_complex():
            return torch.where(x.abs() > 50, x * 2, x) if x.shape[0] > 2 else x
        return torch.where(x == y, 0, x) if x.shape[0] > 2 else x

    x, y = torch.tensor([1, 2, 3, 4, 5]).to(kind), torch.tensor([9, 8, 7, 6, 0]).to(kind)
    program = irkit.to_onnx(model, (x, y), dynamic_shapes=({0: "n"}, {0: "n"}), capture=capture)
    torch.testing.assert_close(program(x * 99, x * 99), model(x * 99, x * 99))
    with pytest.raises(ContractError):
        program(x[:1] * 99, x[:1] * 99)
