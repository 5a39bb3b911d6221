"""What is a view at some sizes and a copy at others, and is written; either way of capture, at many sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import irkit
from irkit.errors import ContractError, IrkitError
from tests.fuzz.copied_views import WAYS, outcomes
from tests.support.same_results import right_answers


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_random_programs_are_right_or_refused(seed: int) -> None:
    assert outcomes(seed)


@pytest.mark.parametrize("seed", [34, 43, 64, 112, 115, 129, 199, 1040, 9119, 9296])
def test_programs_that_were_wrong_are_right_or_refused(seed: int) -> None:
    assert outcomes(seed)


def part(x: Tensor) -> Any:
    u = (x * 1).t()
    u[:-1][1:].reshape(-1).mul_(2)
    return u


def inner_part(x: Tensor) -> Any:
    u = (x * 1).t()
    u[:, :-1][:, 1:].flatten().mul_(2)
    return u


def turned(x: Tensor) -> Any:
    u = (x * 1).t()
    v = u.reshape(u.shape[::-1])
    v.add_(1)
    return u, v * 1


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("model", [part, inner_part, turned])
def test_every_size_is_right_or_refused_and_most_are_right(model: Callable[..., Any], way: Any) -> None:
    example = torch.arange(30.0).reshape(5, 6)
    try:
        program = irkit.to_onnx(model, (example,), dynamic_shapes=({0: "n", 1: "m"},), capture=way)
    except IrkitError:
        assert way == "direct" and model is not turned  # which says what to clone
        return
    calls = [(torch.arange(float(n * m)).reshape(n, m),) for n, m in product(range(7), range(7))]
    assert right_answers(program, model, calls) >= 12


def rows_chosen(x: Tensor) -> Any:
    k = x[x.sum(1) > 0]
    k.t().contiguous().mul_(0)
    return k


def columns_told(x: Tensor) -> Any:
    count = int(x[0, 0])
    torch._check(count >= 0)
    x = x * 1
    x[:, :count].reshape(-1).mul_(0)
    return x


@pytest.mark.parametrize("model", [rows_chosen, columns_told])
def test_sizes_that_data_tells_are_conditions_too(model: Callable[..., Any]) -> None:
    example = torch.tensor([[2.0, 1.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], [-3.0, -2.0, 1.0, 1.0]])
    program = irkit.to_onnx(model, (example,), dynamic_shapes=({0: "n"},), capture="torch.export")
    torch.testing.assert_close(program(example), model(example.clone()))
    one = torch.tensor([[-2.0, -1.0, -3.0, -4.0], [4.0, 2.0, 3.0, 4.0]]) * (1 if model is rows_chosen else -2)
    with pytest.raises(ContractError):
        program(one)


EMPTY: dict[str, Callable[[Tensor], Any]] = {
    "reshape": lambda x: x.reshape(-1, x.shape[-1]),
    "unfold": lambda x: x.unfold(-1, 1, 1),
    "least": lambda x: x[:, :1][:, : x.shape[0]],
    "diagonal": lambda x: x.diagonal().unfold(0, 2, 1),
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 0] * 0, 1, 0),
    "diagonal_scatter": lambda x: torch.diagonal_scatter(x, x[0, :1], 5),
}


@pytest.mark.parametrize("widen", [False, True])
@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("name", EMPTY)
def test_no_size_is_answered_that_eager_refuses(name: str, way: Any, widen: bool) -> None:
    model = EMPTY[name]
    program = irkit.to_onnx(model, (torch.randn(4, 6),), dynamic_shapes=({0: "n", 1: "m"},), capture=way, widen=widen)
    calls = [(torch.arange(float(n * m)).reshape(n, m),) for n, m in product(range(7), range(7))]
    assert right_answers(program, model, calls) >= 3


@pytest.mark.parametrize("way", WAYS[:2])
def test_a_part_of_other_sizes_is_refused_where_all_sizes_are_fixed(way: Any) -> None:
    for model in (torch.slice_scatter, torch.diagonal_scatter):
        with pytest.raises(IrkitError):
            irkit.to_onnx(model, (torch.randn(4, 6), torch.randn(4, 1)), capture=way)


@pytest.mark.parametrize("way", WAYS[:2])
def test_a_vector_of_nothing_times_a_batch_of_matrices_is_zeros(way: Any) -> None:
    example = (torch.randn(4), torch.randn(2, 3, 4, 5))
    program = irkit.to_onnx(torch.matmul, example, dynamic_shapes=({0: "n"}, {2: "n"}), capture=way)
    for n in (0, 1, 7):
        x, y = torch.randn(n), torch.randn(2, 3, n, 5)
        torch.testing.assert_close(program(x, y), x @ y)
