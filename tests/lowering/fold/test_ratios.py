"""Ratios of sizes: floats to torch, even where they are whole numbers, and in conditions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit


class Coordinates(torch.nn.Module):
    """Positions scaled by ratios of sizes, as decomposed relative positions have them."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
        n, m = x.shape[0], i.shape[0]
        size: Any = torch.sym_float(n)
        scaled = torch.arange(m) * max(n / m, 1.0)
        return scaled, i * (n / n), i * size, i + 2.0 * n, torch.arange(size), i > size, torch.where(i > 2, size, 1)


def test_a_ratio_is_a_float_even_where_it_is_whole():
    program = irkit.to_onnx(Coordinates(), (torch.randn(4), torch.arange(6)), dynamic_shapes=({0: "n"}, {0: "m"}))
    assert program.check()
    assert dict(program.report.outputs)["arange_1"] == "f32[n]"


def test_a_condition_of_a_ratio_is_asked_of_calls():
    program = irkit.to_onnx(Coordinates(), (torch.randn(4), torch.arange(6)), dynamic_shapes=({0: "n"}, {0: "m"}))
    assert program(torch.randn(5), torch.arange(7))[0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    with pytest.raises(irkit.ContractError, match=r"n/m < 1\.0"):
        program(torch.randn(8), torch.arange(6))
