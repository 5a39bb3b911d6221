"""Numbers of the data that a program of torch.export's strict mode says something of and computes no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import irkit


def is_length(x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
    torch._check(ints[0].item() == x.shape[0])
    return x * 2


def is_length_beside(x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
    torch._check(ints[0].item() == x.shape[0])
    return x * 2 + mask.nonzero().sum()


def is_length_twice(x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
    torch._check(ints[0].item() == x.shape[0])
    torch._check(ints[1].item() == x.shape[0])
    return x * 2


def is_length_of_one(x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
    torch._check(ints[0].item() == x.shape[0])
    return x * ints[1].item()


def is_used(x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
    number: Any = ints[0].item()
    torch._check(number == x.shape[0])
    return x * number


def is_unused(x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
    ints[0].item()
    return x * 2


def are_equal(x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
    torch._check(ints[0].item() == ints[1].item())
    return x * 2


def are_sizes(x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
    return x[mask].sum() + mask.nonzero().sum() + torch.unique(ints).sum(), torch.bincount(ints)


def are_of_branches(x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
    def first(x: torch.Tensor, ints: torch.Tensor) -> torch.Tensor:
        number: Any = ints.max().item()
        torch._check(number >= 0)
        torch._check(number <= 9)
        return x + torch.ones(number).sum()

    return torch.cond(mask.any(), first, lambda x, ints: x + ints[1].item(), (x, ints))


LOST = {is_length: 1, is_length_beside: 1, is_length_twice: 2, is_length_of_one: 1}
KEPT = (is_used, is_unused, are_equal, are_sizes, are_of_branches)


@pytest.mark.parametrize("function", [*LOST, *KEPT])
@pytest.mark.filterwarnings("ignore")
def test_a_number_that_the_program_does_not_compute_is_told_of(function: Callable[..., Any], tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor, ints: torch.Tensor) -> Any:
            return function(x, mask, ints)

    auto = {0: torch.export.Dim.AUTO}
    example = torch.randn(3, 2), torch.tensor([True] * 3), torch.tensor([3, 3, 3])
    sizes = {"x": auto, "mask": auto, "ints": None}
    made = torch.export.export(Model(), example, dynamic_shapes=sizes, strict=True)
    torch.export.save(made, tmp_path / "model.pt2")
    for given in (made, tmp_path / "model.pt2"):
        notes = irkit.to_onnx(given).report.notes
        assert sum(each.endswith("it is not checked") for each in notes) == LOST.get(function, 0)
