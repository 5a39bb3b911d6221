"""Windows of an image that are padded, shifted and cut as its sizes want it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn.functional import pad

import irkit


def tiles(x: torch.Tensor, size: int) -> torch.Tensor:
    batch, height, width, channels = x.shape
    x = x.view(batch, height // size, size, width // size, size, channels)
    return x.transpose(2, 3).contiguous().view(-1, size, size, channels)


def picture(x: torch.Tensor, size: int, height: int, width: int) -> torch.Tensor:
    x = x.view(-1, height // size, width // size, size, size, x.shape[-1])
    return x.transpose(2, 3).contiguous().view(-1, height, width, x.shape[-1])


class Windows(torch.nn.Module):
    """Sums in windows that are no larger than the image, in a bias for windows of the full size."""

    def __init__(self, size: int, shift: int) -> None:
        super().__init__()
        self.size, self.shift = size, shift
        self.bias = torch.nn.Parameter(torch.randn(size * size, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, channels = x.shape
        if min(height, width) <= self.size:
            self.size, self.shift = min(height, width), 0
        right, bottom = (self.size - width % self.size) % self.size, (self.size - height % self.size) % self.size
        y = pad(x, (0, 0, 0, right, 0, bottom))
        _, high, wide, _ = y.shape
        if self.shift > 0:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = tiles(y, self.size).view(-1, self.size * self.size, channels)
        y = y.cumsum(1) + self.bias
        y = picture(y.view(-1, self.size, self.size, channels), self.size, high, wide)
        if self.shift > 0:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        if right > 0 or bottom > 0:
            y = y[:, :height, :width, :].contiguous()
        return x + y.view(batch, height * width, channels).view(batch, height, width, channels)


class Sixth(torch.nn.Module):
    """Asks for what holds only for lengths that are far apart, and whether a length is odd."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2 if x.shape[1] // 32 % 7 == 6 else x + 1
        return x * 3 if x.shape[1] % 2 == 1 else x


def test_windows_of_an_image_are_right_at_all_sizes() -> None:
    """For the example they are as large as the image, so that what is one window there may be many."""
    torch.manual_seed(0)
    model = Windows(3, 1).eval()
    shapes = ({1: "height", 2: "width"},)
    example = (torch.randn(1, 3, 3, 2),)
    program = irkit.to_onnx(copy.deepcopy(model), example, dynamic_shapes=shapes, rewrite=True, capture="direct")
    answered, refused = 0, 0
    for height, width in (
        (6, 6),
        (7, 8),
        (12, 6),
        (6, 13),
        (12, 12),
        (18, 17),
        (5, 6),
        (24, 30),
        (1, 1),
        (4, 3),
        (0, 6),
    ):
        x = torch.randn(1, height, width, 2)
        try:
            expected = copy.deepcopy(model)(x)
        except (RuntimeError, ZeroDivisionError):  # the bias is for windows of the full size
            with pytest.raises(irkit.ContractError):
                program(x)
            refused += 1
            continue
        torch.testing.assert_close(program(x), expected, rtol=1e-5, atol=1e-5)
        answered += 1
    assert answered >= 8 and refused >= 2


def test_a_way_is_found_that_is_taken_far_from_the_example() -> None:
    model = Sixth().eval()
    shapes = ({1: "n"},)
    program = irkit.to_onnx(model, (torch.randn(1, 32),), dynamic_shapes=shapes, rewrite=True, capture="direct")
    for size in (0, 1, 32, 191, 192, 223, 224, 420):
        x = torch.randn(1, size)
        torch.testing.assert_close(program(x), model(x))


def test_a_transposed_picture_is_contiguous_for_one_window_and_for_many() -> None:
    """Of one window there is nothing to copy; a view of several wants the copy."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return picture(tiles(x, 2) * 2, 2, x.shape[1], x.shape[2])

    shapes = ({0: "batch", 1: "height", 2: "width"},)
    program = irkit.to_onnx(model, (torch.randn(1, 2, 2, 3),), dynamic_shapes=shapes, capture="direct")
    for size in ((1, 2, 2, 3), (1, 4, 6, 3), (3, 2, 4, 3), (2, 6, 2, 3)):
        x = torch.randn(size)
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(irkit.ContractError):
        program(torch.randn(1, 3, 2, 3))


def doubled(x: torch.Tensor, more: Any) -> torch.Tensor:
    if more > 0:
        x = x * 2
        x = x + 1
    return x


class Deciding(torch.nn.Module):
    """Decides by data where it has no unit, else by a size, at the same place."""

    def __init__(self, unit: int) -> None:
        super().__init__()
        self.unit = unit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return doubled(x, x.shape[1] % self.unit if self.unit else x.sum())


def test_a_decision_on_several_lines_that_is_rewritten_is_still_one_of_sizes() -> None:
    """Python says that a call of several lines is made in the last one. There are more ways than a whole model has."""
    model = torch.nn.Sequential(*map(Deciding, (0, 2, 3, 5, 7))).eval()
    shapes = ({1: "n"},)
    program = irkit.to_onnx(model, (torch.randn(1, 8),), dynamic_shapes=shapes, rewrite=True, capture="direct")
    for size in (2, 3, 5, 7, 8, 9, 10, 14, 21, 25, 30, 35, 42, 105, 210, 211):
        for sign in (1, -1):
            x = sign * torch.rand(1, size) / 4
            torch.testing.assert_close(program(x), model(x))
