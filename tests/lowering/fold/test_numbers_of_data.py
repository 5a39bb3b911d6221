"""Python numbers that come out of tensors, and that loops carry: arithmetic on them, and what takes them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop

import irkit
from irkit.errors import ContractError

FOUR = torch.ones(4)


def numbers(x: Any, y: Any) -> Any:
    v = x.max().item()
    halves, longs = y.to(torch.float16), y.to(torch.int64)
    several = (
        y + v,
        halves * v,
        longs * v,
        halves * (v * 3),
        longs * (v * 3),
        y.to(torch.bool) + v,
        y.double() * (v / 3),
    )
    return *several, v, v * 2 + 1, math.floor(v), math.ceil(v * 2), round(v), torch.sym_int(v), y * math.floor(v)


@pytest.mark.parametrize("value", [1.25, -1.25, 2.5, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_arithmetic_on_a_number_out_of_a_tensor(value: float, dtype: torch.dtype) -> None:
    program = irkit.to_onnx(numbers, (torch.ones(4, dtype=dtype), FOUR))
    given = (torch.full((4,), value, dtype=dtype), FOUR * 3)
    expected, found = numbers(*given), program(*given)
    assert [type(each) for each in found] == [type(each) for each in expected]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_a_quotient_of_sizes_is_no_integer() -> None:
    program = irkit.to_onnx(lambda y: (y.shape[0] / 3, y.shape[0] * 2), (FOUR,), dynamic_shapes=({0: "n"},))
    assert program(torch.ones(7)) == (7 / 3, 14) and program.check()


def counted(x: Any) -> Any:
    def step(i: Any, f: Any, x: Any) -> Any:
        return i + 1, f * 2, x * 2 + i + f

    i, f, y = while_loop(lambda i, f, x: i < 3, step, (0, torch.tensor(1.5), x))
    return y * i, i + 1, f


def from_a_size(x: Any) -> Any:
    def step(i: Any, j: Any, x: Any) -> Any:
        return i + 1, j * 2, x + i * j

    i, j, y = while_loop(lambda i, j, x: i + j < 7, step, (x.shape[0], 1, x))
    return y, i, j, torch.zeros(1) + i


@pytest.mark.parametrize("function", [counted, from_a_size])
def test_numbers_that_a_loop_carries(function: Any) -> None:
    program = irkit.to_onnx(function, (FOUR,), dynamic_shapes={"x": {0: "n"}})
    irkit.verify(program.graph)
    for size in (4, 2, 7, 1):
        expected, found = function(torch.ones(size)), program(torch.ones(size))
        assert [type(each) for each in found] == [type(each) for each in expected]
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "whole", [lambda f, n: int(f), lambda f, n: round(f), lambda f, n: math.floor(f), lambda f, n: int(f / 2) + n]
)
def test_a_number_that_is_no_integer_of_64_bits_is_refused(whole: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor(whole(x.sum().item(), x.shape[0]))

    program = irkit.to_onnx(model, (torch.rand(3) * 9,), dynamic_shapes=({0: "n"},), capture="direct")
    for content in ([], [2.5, 4.0], [-1e18], [9.2e18], [3.5, -8.0, 0.0]):
        x = torch.tensor(content)
        assert torch.equal(program(x), model(x))
    for number in ("nan", "inf", "-inf", "1e30", "-4e19"):
        with pytest.raises(ContractError, match="64 bits at most"):
            program(torch.tensor([float(number)]))


def test_a_comparison_that_is_returned_is_a_truth() -> None:
    def model(x: torch.Tensor) -> tuple[object, ...]:
        return x.shape[0] > 2, x.sum().item() > 1, (x.sum() > 1).item(), x.shape[0]

    program = irkit.to_onnx(model, (torch.rand(3),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (0, 1, 2, 3, 7):
        found, expected = program(torch.ones(size)), model(torch.ones(size))
        assert found == expected and [type(each) for each in found] == [type(each) for each in expected]
