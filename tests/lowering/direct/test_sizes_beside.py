"""Two ways that give the same at the example's sizes, and not at others: what is allowed at one size is looked at with
other sizes beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import ContractError


def remainder(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Another shift for few columns, which is that of seven columns by chance."""
    n, m = x.shape[1], y.shape[1]
    return x + (n % 3 if n + m > 9 else 1), y * 2


def halves(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Another number for few columns, which is that of seven columns by chance."""
    n, m = x.shape[1], y.shape[1]
    return x * (n // 2 if n > m else 3), y + (n if m > 1 else 7)


@pytest.mark.parametrize("rewrite", [None, True])
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("function", [remainder, halves])
def test_what_agrees_at_the_example_by_chance_is_no_other_way(
    function: Callable[..., Any], capture: str, rewrite: bool | None
) -> None:
    example, shapes = (torch.rand(2, 7), torch.rand(2, 3)), {"x": {1: "n"}, "y": {1: "m"}}
    program = irkit.to_onnx(function, example, dynamic_shapes=shapes, capture=capture, rewrite=rewrite)
    answered = 0
    for n in (0, 1, 2, 3, 5, 6, 7, 8, 9, 11):
        for m in (0, 1, 2, 3, 6, 8):
            given = torch.rand(2, n), torch.rand(2, m)
            try:
                found = program(*given)
            except ContractError:
                continue
            answered += 1
            for ours, theirs in zip(found, function(*given), strict=True):
                torch.testing.assert_close(ours, theirs)
    assert answered >= 12
