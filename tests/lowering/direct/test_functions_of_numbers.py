"""`math` and `divmod` of sizes and of numbers out of data: the numbers vary, and the answers are Python's."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import isqrt, sqrt

import numpy as np
import pytest
import torch

import irkit

Function = Callable[[torch.Tensor], torch.Tensor]


def squared(x: torch.Tensor) -> torch.Tensor:
    side = int(math.sqrt(x.shape[1]))
    return x.reshape(x.shape[0], side, side).mT


def begun(x: torch.Tensor, side: int) -> torch.Tensor:
    return x[:, : side * side].reshape(x.shape[0], side, side)


def looked_at(x: torch.Tensor) -> torch.Tensor:
    side = sqrt(x.shape[1])
    if not side.is_integer():
        raise ValueError("no square")
    return begun(x, int(side)) / side


OF_SIZES: dict[str, Function] = {
    "a square": squared,
    "a square that is looked at": looked_at,
    "int of sqrt": lambda x: begun(x, int(math.sqrt(x.shape[1]))),
    "sqrt by its own name": lambda x: begun(x, int(sqrt(x.shape[1]))),
    "isqrt": lambda x: begun(x, math.isqrt(x.shape[1])),
    "isqrt by its own name": lambda x: begun(x, isqrt(x.shape[1])),
    "numpy.sqrt": lambda x: begun(x, int(np.sqrt(x.shape[1]))),
    "a scale": lambda x: x / math.sqrt(x.shape[1]),
    "pow": lambda x: x * math.pow(x.shape[1] + 1, 0.5),
    "fabs": lambda x: x * math.fabs(x.shape[1] - 6),
    "abs of a real number": lambda x: x[:, : int(abs(x.shape[1] / 3 - 3.3))] * abs(x.shape[1] / 2 - 3.3),
    "log": lambda x: x * math.log(x.shape[1]),
    "log to a base": lambda x: x * math.log(x.shape[1] + 1, 3),
    "log2": lambda x: x * (math.log2(x.shape[1] + 1) / 2),
    "log10": lambda x: x * math.log10(x.shape[1] + 1),
    "exp": lambda x: x * math.exp(-x.shape[1]),
    "divmod": lambda x: x * divmod(x.shape[1], 3)[0] + divmod(x.shape[1], 3)[1],
    "divmod by a size": lambda x: x * divmod(17, x.shape[1] + 1)[0] + divmod(17, x.shape[1] + 1)[1],
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_a_function_of_a_size_varies_with_it(name: str) -> None:
    function = OF_SIZES[name]
    program = irkit.to_onnx(function, (torch.rand(2, 9),), dynamic_shapes=({1: "n"},), capture="direct")
    for size in (0, 1, 2, 3, 4, 8, 9, 15, 16, 25, 49):
        x = torch.rand(2, size)
        try:
            want = function(x)
        except (ValueError, RuntimeError):  # no square, or nothing that has a logarithm
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        torch.testing.assert_close(program(x), want)


def test_a_condition_by_a_root_holds_for_all_sizes_for_which_it_holds() -> None:
    def grown(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if math.sqrt(x.shape[0]) > 2.5 else x

    program = irkit.to_onnx(grown, (torch.rand(9),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (7, 8, 40):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), grown(x))
    with pytest.raises(irkit.ContractError):
        program(torch.rand(6))


def test_a_choice_beside_a_logarithm_leaves_its_condition_alone() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * max(math.log10(x.shape[0] + 1), 0.5)

    program = irkit.to_onnx(scaled, (torch.rand(9),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (3, 8, 40):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), scaled(x))
    with pytest.raises(irkit.ContractError):
        program(torch.rand(1))


def test_torch_export_keeps_a_root_as_well() -> None:
    shapes = ({0: "rows", 1: "n"},)
    program = irkit.to_onnx(squared, (torch.rand(2, 9),), dynamic_shapes=shapes, capture="torch.export")
    for size in (4, 16, 49):
        x = torch.rand(3, size)
        torch.testing.assert_close(program(x), squared(x))


def test_a_rounded_power_of_e_is_refused() -> None:
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x[: int(math.exp(x.shape[0]) / 1000)]

    with pytest.raises(irkit.CaptureError, match="works for 8 only"):
        irkit.to_onnx(halved, (torch.rand(8),), dynamic_shapes=({0: "n"},), capture="direct")


OF_DATA: dict[str, Function] = {
    "divmod": lambda x: x * divmod(int(x.sum()), 3)[0] + divmod(int(x.sum()), 3)[1],
    "sqrt": lambda x: x * math.sqrt(x.abs().sum().item()),
    "int of sqrt": lambda x: torch.arange(int(math.sqrt(x.abs().sum().item()))),
    "sqrt of a tensor": lambda x: x * math.sqrt(x.abs().sum()),
    "log": lambda x: x * math.log(x.abs().max().item() + 1),
}


@pytest.mark.parametrize("name", OF_DATA)
def test_a_function_of_a_number_out_of_data_varies_with_it(name: str) -> None:
    function = OF_DATA[name]
    program = irkit.to_onnx(function, (torch.tensor([3, 1, 4]),), capture="direct")
    for numbers in ([3, 1, 4], [0, 0, 0], [-5, 2, -4], [16, 9, 0], [100, 1000, 7]):
        x = torch.tensor(numbers)
        torch.testing.assert_close(program(x), function(x))
