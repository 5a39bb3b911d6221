"""Max pooling where windows hold nothing, -inf alone, NaN, or integers that no float holds; sizes down to 1."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

import irkit
from tests.lowering.aten.oracle import check

POOLS = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
VOID = [(1, 2, 1, 1, 2, False), (1, 3, 3, 1, 2, True), (3, 2, 3, 1, 4, True), (2, 2, 2, 1, 3, True)]
"""Size, kernel, stride, padding, dilation and ceil_mode of windows that lie wholly in padding."""


def image(size: int, axes: int, dtype: torch.dtype) -> torch.Tensor:
    """One channel of -inf (or the smallest integer), one that ends in NaN, and numbers that f64 does not hold."""
    x = torch.randint(0, 9, (2, 2, *(size,) * axes)).to(dtype)
    if dtype.is_floating_point:
        x[0, 0], x[1, 0].view(-1)[-1], x[1, 1].view(-1)[0] = -torch.inf, torch.nan, torch.inf
        return x
    x[0, 0] = torch.iinfo(dtype).min
    return x + 2**60 if dtype is torch.int64 else x


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("window", [*VOID, (5, 3, 2, 1, 1, False), (4, 2, 1, 1, 2, False)], ids=str)
def test_of_windows_that_hold_nothing(window: tuple, dtype: torch.dtype) -> None:
    """Static sizes: -inf or the smallest integer, and the first place that the window reaches, as torch has it."""
    size, *rest = window
    pool = POOLS[size % 3]
    check(lambda x: pool(x, *rest, return_indices=True), image(size, size % 3 + 1, dtype), tolerance=0.0)
    if dtype.is_floating_point:
        check(lambda x: pool(x, *rest), image(size, size % 3 + 1, dtype), tolerance=0.0)


@pytest.mark.parametrize("indices", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_of_a_size_of_one_at_run_time(axes: int, indices: bool) -> None:
    """The file was traced where every window holds something."""
    pool: Any = POOLS[axes - 1]
    shapes = [dict.fromkeys(range(axes + 2), Dim.DYNAMIC)]
    others = [(image(1, axes, torch.float32),), (image(7, axes, torch.float32),)]
    for rest in ((2, 1, 1, 2, False), (3, 3, 1, 2, True)):
        check(
            lambda x: pool(x, *rest, return_indices=indices),  # noqa: B023
            image(6, axes, torch.float32),
            dynamic_shapes=shapes,
            others=others,
            tolerance=0.0,
        )


def test_the_way_back_from_nothing() -> None:
    """What a window of nothing gives back goes nowhere; torch's kernel writes it behind the image."""

    def back(x: torch.Tensor) -> torch.Tensor:
        made, places = F.max_pool2d(x, 2, 1, 1, 2, return_indices=True)
        gradient = torch.where(torch.isinf(made), 0.0, 1.0)
        places = torch.where(torch.isinf(made), places * 0, places)
        return torch.ops.aten.max_pool2d_with_indices_backward(gradient, x, 2, 1, 1, 2, False, places)

    def given(x: torch.Tensor) -> torch.Tensor:
        made, places = F.max_pool2d(x, 2, 1, 1, 2, return_indices=True)
        return torch.ops.aten.max_pool2d_with_indices_backward(torch.ones_like(made), x, 2, 1, 1, 2, False, places)

    program = irkit.to_onnx(given, (torch.randn(2, 3, 6, 5),), dynamic_shapes=(dict.fromkeys(range(4), Dim.DYNAMIC),))
    for x in (torch.randn(2, 3, 7, 6), torch.randn(1, 2, 2, 9), torch.randn(1, 1, 1, 4), torch.randn(2, 2, 1, 1)):
        assert torch.equal(program(x), back(x))


@pytest.mark.parametrize("windows", [(1, 1), (1, 3), (6, 1), (6, 6), (4, 2)], ids=str)
@pytest.mark.parametrize("axes", [(), (0, 1, 3), (0, 1, 2, 3)], ids=str)
def test_windows_that_are_one_place_or_all(windows: tuple, axes: tuple) -> None:
    """The size of the axis is 6, or varies."""
    others = [(image(6, 2, torch.float32).flip(3),), (image(9, 2, torch.float32)[:, :1, : 9 if 2 in axes else 6],)]
    check(
        lambda x: F.adaptive_max_pool2d(x, windows, return_indices=True),
        image(6, 2, torch.float32),
        dynamic_shapes=[dict.fromkeys(axes, Dim.DYNAMIC)] if axes else None,
        others=others if axes else [],
        tolerance=0.0,
    )


@pytest.mark.parametrize("sizes", [(5, 7), (4, 6), (1, 1), (3, 2)])
def test_means_of_adaptive_windows_keep_what_is_infinite_to_their_own(sizes: tuple[int, int]) -> None:
    def model(x: torch.Tensor) -> Any:
        return F.adaptive_avg_pool2d(x, (2, 3)), F.interpolate(x, scale_factor=(0.6, 1.3), mode="area")

    example = (torch.randn(1, 2, 4, 6),)
    program = irkit.to_onnx(model, example, dynamic_shapes=({2: "n", 3: "m"},), capture="direct")
    x = torch.randn(1, 2, *sizes)
    x[0, 0, 0, 0], x[0, 1, -1, -1] = torch.inf, torch.nan
    torch.testing.assert_close(program(x), model(x), equal_nan=True)
