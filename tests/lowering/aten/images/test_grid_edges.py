"""Grids that reach far beyond the image, and lie halfway between elements."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional as F

import irkit
from tests.lowering.aten.oracle import check


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_the_nearest_of_two(padding: str, align: bool, dtype: torch.dtype) -> None:
    """Sizes of powers of two, at which halves are exact: torch reflects before it rounds."""
    places = torch.arange(-28, 29, dtype=dtype) / 8
    grid = torch.tensor(list(itertools.product(places[::5].tolist(), places.tolist())), dtype=dtype)
    for height, width in ((4, 8), (1, 4), (5, 5), (1, 1)):
        x = torch.arange(height * width, dtype=dtype).reshape(1, 1, height, width) + 1

        def sampled(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
            return F.grid_sample(x, grid, mode="nearest", padding_mode=padding, align_corners=align)

        check(sampled, x, grid[None, None], tolerance=0.0)


def test_the_nearest_in_a_volume() -> None:
    x, grid = torch.randn(2, 3, 4, 2, 8), torch.randint(-24, 25, (2, 5, 3, 2, 3)) / 8

    def sampled(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode="nearest", padding_mode="reflection", align_corners=False)

    check(sampled, x, grid, tolerance=0.0)


FAR = [7.9, -33.0, 1e6, 1e10, -3e9, 1e20, float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("rank", [4, 5])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_far_away_and_none_at_all(padding: str, mode: str, rank: int) -> None:
    if mode == "bicubic" and (rank == 5 or padding == "reflection"):
        return  # torch has no such volumes, and reflects each tap by itself: far away these are noise
    axes = rank - 2
    rows = [[far if i == at else 0.2 for i in range(axes)] for far in FAR for at in range(axes)]
    x, grid = torch.rand(1, 2, *(2, 3, 4)[-axes:]) + 1, torch.tensor(rows).reshape(1, *[1] * (axes - 1), -1, axes)

    def sampled(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)

    check(sampled, x, grid, tolerance=1e-4)


@pytest.mark.parametrize("align", [False, True])
def test_places_far_from_an_image_that_is_reflected_and_sampled_by_cubes(align: bool) -> None:
    """What torch gives in float64; in float32 its own taps lie between elements that it cannot tell apart."""

    def sampled(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode="bicubic", padding_mode="reflection", align_corners=align)

    shapes = {2: "h", 3: "w"}, {1: "a", 2: "b"}
    program = irkit.to_onnx(sampled, (torch.randn(1, 2, 5, 6), torch.randn(1, 3, 4, 2)), dynamic_shapes=shapes)
    for size in ((5, 6), (1, 1), (17, 9)):
        for far in (7.9, 8.1, 1e4, 1e10):
            x, grid = torch.randn(1, 2, *size), (torch.rand(1, 4, 20, 2) * 2 - 1) * far
            expected = sampled(x.double(), grid.double()).float()
            torch.testing.assert_close(program(x, grid), expected, rtol=1e-3, atol=1e-3)
    x, grid = torch.randn(1, 2, 5, 6), torch.tensor([[[[0.5, float("inf")], [float("nan"), 0.5], [-0.5, 0.5]]]])
    torch.testing.assert_close(program(x, grid), sampled(x, grid), equal_nan=True, rtol=1e-3, atol=1e-4)
