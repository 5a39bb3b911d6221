"""Writes into tensors whose elements share their memory, at some sizes or at all; either way of capture."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import ContractError, IrkitError
from tests.support.same_results import right_answers


def windows(x: Tensor) -> Any:
    y = x * 1
    y.unfold(0, 2, 1).add_(1)
    return y


def steps_of_one(x: Tensor) -> Any:
    y = x * 1
    y.as_strided((y.shape[0] - 1, 2), (1, 1)).mul_(2)
    return y


def first_windows(x: Tensor) -> Any:
    y = x * 1
    y.unfold(0, 2, 1)[:2].add_(1)
    return y


def repeated(x: Tensor) -> Any:
    y = (x * 1)[:1].expand(x.shape[0])
    return y.add_(1)


def read_beside(x: Tensor) -> Any:
    y = x * 1
    y[1:] = y[:-1]
    return y


MODELS = (windows, steps_of_one, first_windows, repeated, read_beside)
WRITTEN_TWICE = [
    pytest.param(model, size, capture, id=f"{model.__name__}-{size}-{capture}")
    for model, size, capture in itertools.product(MODELS, (2, 4), ("direct", "torch.export"))
    if (model, size, capture) != (first_windows, 2, "direct")  # one window of two numbers, which is written once
]


@pytest.mark.parametrize(("model", "size", "capture"), WRITTEN_TWICE)
def test_elements_that_are_written_twice_at_some_size_are_refused(
    model: Callable[..., Any], size: int, capture: Any
) -> None:
    with pytest.raises(IrkitError, match=r"share|clone\(\)"):
        irkit.to_onnx(model, (torch.rand(size),), dynamic_shapes=({0: "n"},), capture=capture)


def test_one_window_alone_is_written() -> None:
    program = irkit.to_onnx(first_windows, (torch.rand(2),), dynamic_shapes=({0: "n"},), capture="direct")
    x = torch.rand(2)
    assert torch.equal(program(x), first_windows(x))
    for size in (1, 3, 4, 6):
        with pytest.raises(ContractError):
            program(torch.rand(size))


def one_window(x: Tensor) -> Any:
    y = x * 1
    y.unfold(0, 2, 1)[0].add_(1)
    y.unfold(0, 2, 1).fill_(3)
    return y


def halves(x: Tensor) -> Any:
    y = x * 1
    y.unfold(0, 2, 2).mul_(2)
    return y


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("model", [one_window, halves], ids=lambda each: each.__name__)
def test_elements_that_are_written_once_are_written(model: Callable[..., Any], capture: Any) -> None:
    program = irkit.to_onnx(model, (torch.rand(4),), dynamic_shapes=({0: "n"},), capture=capture)
    for size in (2, 3, 5, 8):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), model(x))


def transposed(x: Tensor) -> Any:
    y = x * 1
    z = torch.einsum("ij->ji", y)
    z[0].mul_(2)
    return y, z


def whole_diagonal(x: Tensor) -> Any:
    y = torch.outer(x[0], x[0])
    z = torch.einsum("ii->i", y)
    z.add_(1)
    y.mul_(2)
    return y, z


def rows_summed(x: Tensor) -> Any:
    y = x * 1
    z = torch.einsum("ij->i", y)
    z.add_(1)
    return y, z


def summed_to(x: Tensor) -> Any:
    y = x * 1
    z = y.sum_to_size(1, y.shape[1])
    z.add_(1)
    return y, z


@pytest.mark.parametrize("size", [(3, 4), (2, 3)])
@pytest.mark.parametrize("model", [transposed, whole_diagonal, rows_summed, summed_to], ids=lambda each: each.__name__)
def test_what_is_a_sum_or_a_view_is_written_as_what_it_is(model: Callable[..., Any], size: tuple[int, int]) -> None:
    program = irkit.to_onnx(model, (torch.rand(size),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    sizes = (size, (3, 4), (1, 4), (3, 1), (1, 1), (2, 5), (0, 3), (3, 0))
    assert right_answers(program, model, [(torch.rand(each),) for each in sizes]) >= 2


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_alpha_dropout"])
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_dropout_outside_of_training_gives_the_very_tensor(name: str, capture: Any) -> None:
    def model(x: Tensor) -> Any:
        y = x * 1
        z = getattr(torch.nn.functional, name)(y, 0.5, False)
        z[0].add_(1)
        y.mul_(2)
        return y, z

    program = irkit.to_onnx(model, (torch.rand(3, 2),), dynamic_shapes=({0: "n"},), capture=capture)
    for size in (1, 2, 5):
        x = torch.rand(size, 2)
        torch.testing.assert_close(program(x), model(x))


def test_a_result_that_would_resize_its_out_is_refused_by_torch_export() -> None:
    def model(x: Tensor) -> Any:
        return torch.add(x, 1, out=torch.empty(0))

    with pytest.raises(IrkitError, match="other sizes"):
        irkit.to_onnx(model, (torch.rand(3),), dynamic_shapes=({0: "n"},), capture="torch.export")


@pytest.mark.parametrize("capture", ["auto", "direct", "torch.export"])
def test_a_buffer_that_becomes_longer_is_refused(capture: Any) -> None:
    class Longer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(2, 3))

        def forward(self, x: Tensor) -> Any:
            self.kept = torch.cat([self.kept, x])
            return self.kept * 2

    with pytest.raises(IrkitError, match="becomes another tensor"):
        irkit.to_onnx(Longer(), (torch.rand(4, 3),), dynamic_shapes=({0: "n"},), capture=capture)
