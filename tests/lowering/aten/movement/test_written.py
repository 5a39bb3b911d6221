"""Operators that torch's own kernels fix the sizes of, written out over symbols: gradient, trapezoid."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import irkit
from irkit.checking.comparison import compare
from irkit.errors import ContractError
from tests.lowering.aten.oracle import array, tensors_of

VECTOR = torch.tensor([0.0, 1.0, 3.0, 4.5, 6.0])
GRADIENTS: dict[str, Any] = {
    "of all": lambda x: torch.gradient(x), "second order": lambda x: torch.gradient(x, edge_order=2),
    "one step": lambda x: torch.gradient(x, spacing=2.0, dim=1), "whole step": lambda x: torch.gradient(x, spacing=2),
    "steps": lambda x: torch.gradient(x, spacing=[2.0, 0.5]),
    "steps of axes": lambda x: torch.gradient(x, spacing=[2.0, 0.5], dim=(-1, 0), edge_order=2),
    "axes": lambda x: torch.gradient(x, dim=(1, 0)),
}  # fmt: skip
OTHERS = ((3, 3), (4, 7), (9, 3))


def agrees(program: Any, function: Any, *args: torch.Tensor) -> None:
    """Fails where the program differs from eager."""
    expected, actual = ([array(t) for t in tensors_of(f(*args))] for f in (function, program))
    difference = compare(expected, actual)
    assert difference is None, f"at {[tuple(a.shape) for a in args]}: {difference}"


def any_size(*args: torch.Tensor) -> tuple[dict[int, Any], ...]:
    """Every dimension dynamic."""
    return tuple(dict.fromkeys(range(a.dim()), Dim.DYNAMIC) for a in args)


def exported(function: Any, *args: torch.Tensor) -> Any:
    return irkit.to_onnx(function, args, dynamic_shapes=any_size(*args))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient_at_any_size(name: str, dtype: torch.dtype) -> None:
    function = GRADIENTS[name]
    if dtype is torch.complex64 and "second" not in name and "axes" not in name:
        return
    made = (lambda n: torch.randint(-9, 9, n)) if dtype is torch.int64 else (lambda n: torch.randn(n, dtype=dtype))
    program = exported(function, made((5, 6)))
    for sizes in ((5, 6), *OTHERS):
        agrees(program, function, made(sizes))


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_at_coordinates(order: int) -> None:
    """As many coordinates as elements: other numbers are refused by the contract, not by ONNX Runtime."""

    def function(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.gradient(x, spacing=(a, b), dim=(0, -1), edge_order=order)

    def given(rows: int, columns: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(rows, columns), torch.rand(rows).cumsum(0) + 1, torch.rand(columns).cumsum(0) + 1

    program = exported(function, *given(5, 6))
    for sizes in ((5, 6), *OTHERS):
        agrees(program, function, *given(*sizes))
    for wrong in (
        (torch.randn(5, 6), torch.rand(4), torch.rand(6)),
        (torch.randn(3, 3), torch.rand(7), torch.rand(16)),
    ):
        with pytest.raises(ContractError):
            program(*wrong)
    with pytest.raises(ContractError):
        program(*given(order, 4))


@pytest.mark.parametrize("traced", [2, 5])
@pytest.mark.parametrize("function", [
    lambda y: torch.trapezoid(y), lambda y: torch.trapezoid(y, dx=3.0, dim=0), lambda y: torch.trapz(y, dx=2.0),
    lambda y: torch.cumulative_trapezoid(y), lambda y: torch.cumulative_trapezoid(y, dx=3.0, dim=0),
    lambda y: torch.cumulative_trapezoid(y, y * y, dim=0), lambda y: torch.trapezoid(y, y[0], dim=1),
])  # fmt: skip
def test_trapezoids_at_any_size(function: Any, traced: int) -> None:
    """Down to one element and none, wherever the traced size lies."""
    y = torch.randn(traced, traced + 1)
    program = exported(function, y)
    for sizes in ((2, 2), (3, 5), (1, 4), (2, 1), (1, 1), (7, 3)):
        agrees(program, function, torch.randn(sizes))


def test_trapezoids_of_many_axes() -> None:
    def function(y: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.trapezoid(y, x, dim=-1), torch.cumulative_trapezoid(y, x, dim=1)

    program = exported(function, torch.randn(2, 3, 4), torch.randn(3, 4))
    agrees(program, function, torch.randn(2, 3, 4), torch.randn(3, 4))
    agrees(program, function, torch.randn(4, 2, 1), torch.randn(2, 1))


def test_a_vector_of_places() -> None:
    def function(y: torch.Tensor, x: torch.Tensor) -> Any:
        return torch.trapezoid(y, x, dim=0)

    program = exported(function, torch.randn(5, 2), VECTOR)
    agrees(program, function, torch.randn(3, 4), VECTOR[:3])
    with pytest.raises(ContractError):
        program(torch.randn(3, 4), VECTOR)
