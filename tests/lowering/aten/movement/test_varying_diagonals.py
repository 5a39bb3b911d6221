"""Diagonals at a place that sizes tell, which may lie above the main one or below it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

import irkit

MODELS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "taken": lambda x, y: x.diagonal(y.shape[0] - 2),
    "below": lambda x, y: x.diagonal(-y.shape[0]),
    "summed": lambda x, y: x.diagonal(y.shape[0] - 2).sum(),
    "laid in": lambda x, y: torch.diag_embed(y, x.shape[0] - 2),
    "written": lambda x, y: (z := x.clone(), z.diagonal(y.shape[0] - 2).mul_(2))[0],
}


@pytest.mark.parametrize("name", MODELS)
def test_a_diagonal_whose_place_varies_is_that_of_eager(name: str) -> None:
    model = MODELS[name]
    example = torch.randn(4, 5), torch.randn(4)
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n", 1: "k"}, {0: "m"}), capture="direct")
    for n, k, m in itertools.product(range(5), repeat=3):
        given = torch.randn(n, k), torch.randn(m)
        torch.testing.assert_close(program(*given), model(*given))
