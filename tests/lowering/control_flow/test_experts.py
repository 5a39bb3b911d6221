"""Experts that data chooses: each round of a loop works with the weights that its number names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import irkit

WEIGHT = torch.randn(4, 3, 5)


def same_as_eager(model: Callable[..., Any], chosen: list[list[int]], refused: Sequence[list[int]] = ()) -> None:
    """Exports for the first of some lists of experts, and compares for all."""

    def given(experts: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(len(experts), 3), torch.tensor(experts, dtype=torch.int64)

    shapes = ({0: "n"}, {0: "n"})
    program = irkit.to_onnx(model, given(chosen[0]), dynamic_shapes=shapes, capture="direct", rewrite=True)
    for experts in chosen:
        args = given(experts)
        torch.testing.assert_close(program(*args), model(*args))
    for experts in refused:
        with pytest.raises(irkit.errors.IrkitError):
            program(*given(experts))


def test_a_place_beyond_the_weights_is_in_a_branch_that_the_example_does_not_take() -> None:
    def kept_or_weighed(x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        number = int(experts.max().item())
        if number >= 4:
            y = x * 2
        else:
            y = x * WEIGHT[number, :, 0]
        return y

    same_as_eager(kept_or_weighed, [[9, 0], [3], [1, 0, 2], [-1], [4]], refused=[[-5]])


def test_a_loop_works_with_the_weights_of_the_experts_that_are_hit() -> None:
    def mixed(x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        out = x.new_zeros(x.shape[0], 5)
        mask = torch.nn.functional.one_hot(experts, num_classes=5).permute(1, 0)
        for number in torch.greater(mask.sum(-1), 0).nonzero():
            number = number[0]
            if number == 4:
                continue
            (rows,) = torch.where(mask[number])
            out.index_add_(0, rows, x[rows] @ WEIGHT[number])
        return out

    same_as_eager(mixed, [[0, 4, 1, 4], [3], [1, 1, 0, 2, 3]])
