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
