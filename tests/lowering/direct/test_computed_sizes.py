"""Dimensions that are computed of sizes, which an operator wants equal: the program takes what eager takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

import irkit
from irkit.errors import IrkitError

Tensors = Sequence[torch.Tensor]


class Pyramid(torch.nn.Module):
    """Features of an image at a quarter of its size, and coarser ones enlarged, in one operator; none has weights."""

    def __init__(self, joined: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], levels: int) -> None:
        super().__init__()
        self.joined, self.levels = joined, levels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = coarse = torch.nn.functional.avg_pool2d(x, 2, ceil_mode=True)
        for _ in range(self.levels):
            coarse = torch.nn.functional.max_pool2d(coarse, 3, 2, 1)
        large = torch.nn.functional.interpolate(coarse, scale_factor=2.0**self.levels, mode="nearest")
        return self.joined(fine, large)


JOINED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cat": lambda a, b: torch.cat([a, b], 1),
    "cat of three": lambda a, b: torch.cat([a, b, a + 1], 1),
    "stack": lambda a, b: torch.stack([b, a]),
    "hstack": lambda a, b: torch.hstack([a, b]),
    "lerp": lambda a, b: torch.lerp(a, b, 0.5),
    "bmm": lambda a, b: a[:, 0] @ b[:, 0].mT,
    "copied": lambda a, b: torch.zeros_like(a).copy_(b),
    "cdist": lambda a, b: torch.cdist(a[:, 0], b[:, 0]),
}


def answer(model: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor | None:
    """What a model gives; None where it refuses."""
    try:
        return model(x)
    except (RuntimeError, IrkitError):
        return None


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("name", JOINED)
def test_a_program_takes_the_sizes_that_eager_takes_and_no_others(name: str, levels: int) -> None:
    model = Pyramid(JOINED[name], levels).eval()
    shapes = ({0: "batch", 2: "height", 3: "width"},)
    program = irkit.to_onnx(model, (torch.randn(2, 2, 64, 64),), dynamic_shapes=shapes)
    taken = 0
    for high, wide in ((h, w) for h in range(9, 100, 7) for w in (31, 48, 64, 66)):
        x = torch.randn(2, 2, high, wide)
        expected, found = answer(model, x), answer(program, x)
        assert (expected is None) == (found is None), (high, wide)
        if expected is not None and found is not None:
            torch.testing.assert_close(found, expected)
            taken += 1
    assert taken > 1


class Windows(torch.nn.Module):
    """A token of its own before the patches of each of four windows, whose last dimension torch computes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, high, wide = x.shape[0], x.shape[2] // 4, x.shape[3] // 4
        patches = torch.nn.functional.avg_pool2d(x, 4).movedim(1, 3)
        parts = patches.reshape(batch, 2, high // 2, 2, wide // 2, -1).transpose(2, 3)
        parts = parts.reshape(batch * 4, (high // 2) * (wide // 2), -1)
        return torch.cat([x.new_zeros(1, 1, 6).repeat(batch * 4, 1, 1), parts], 1)


def test_a_computed_dimension_is_the_number_beside_it() -> None:
    """It was kept as a range around the example: windows of 16 to 19, and of none further."""
    model = Windows().eval()
    shapes = ({0: "batch", 2: "height", 3: "width"},)
    program = irkit.to_onnx(model, (torch.randn(2, 6, 16, 16),), dynamic_shapes=shapes)
    taken = 0
    for high, wide in ((h, w) for h in range(8, 40, 3) for w in (8, 16, 19, 24, 28, 36)):
        x = torch.randn(3, 6, high, wide)
        expected, found = answer(model, x), answer(program, x)
        assert (expected is None) == (found is None), (high, wide)
        if expected is not None and found is not None:
            torch.testing.assert_close(found, expected)
            taken += 1
    assert taken > 5


def test_a_factor_of_as_many_rows_as_are_left_is_captured() -> None:
    """There were max(0, n - 3) places beside n - 3 rows, and a loop over matrices that had no size."""

    def factor(x: torch.Tensor) -> torch.Tensor:
        rest = x.split([3, len(x) - 3])[1]
        return torch.linalg.cholesky(rest @ rest.mT + torch.eye(rest.shape[0]))

    program = irkit.to_onnx(factor, (torch.randn(7, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (3, 4, 5, 9):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), factor(x), rtol=1e-3, atol=1e-4)
