"""Functions on images that take sizes: pixels that go into channels and back, and grids of an affine map."""

from __future__ import annotations

from typing import Any

import torch

from lowering.direct.functions.numbers import hangs_on_data, has_symbols


def shuffled_pixels(input: torch.Tensor, upscale_factor: Any) -> torch.Tensor | None:
    """F.pixel_shuffle(input, factor): `[..., c * f * f, h, w] -> [..., c, h * f, w * f]`; None where the factor does
    not vary, or data tells it: torch then takes the number of the example."""
    if not is_factor(input, upscale_factor):
        return None
    *batch, channels, height, width = input.shape
    if channels % (upscale_factor * upscale_factor) != 0:  # torch refuses it; and a condition, where sizes decide
        return None
    planes = channels // (upscale_factor * upscale_factor)
    x = input.reshape(*batch, planes, upscale_factor, upscale_factor, height, width)
    x = x.movedim((-4, -3), (-3, -1))
    return x.reshape(*batch, planes, height * upscale_factor, width * upscale_factor)


def unshuffled_pixels(input: torch.Tensor, downscale_factor: Any) -> torch.Tensor | None:
    """F.pixel_unshuffle(input, factor): `[..., c, h * f, w * f] -> [..., c * f * f, h, w]`; None as in
    `shuffled_pixels`."""
    if not is_factor(input, downscale_factor):
        return None
    *batch, channels, height, width = input.shape
    if height % downscale_factor != 0 or width % downscale_factor != 0:
        return None
    rows, columns = height // downscale_factor, width // downscale_factor
    x = input.reshape(*batch, channels, rows, downscale_factor, columns, downscale_factor)
    x = x.movedim((-3, -1), (-4, -3))
    return x.reshape(*batch, channels * downscale_factor * downscale_factor, rows, columns)


def is_factor(x: Any, factor: Any) -> bool:
    """Whether a factor of pixels is a size that varies, and is one that torch takes."""
    return has_symbols(factor) and not hangs_on_data(factor) and x.dim() >= 3 and factor > 0


def affine_grid(theta: torch.Tensor, size: Any, align_corners: bool | None = None) -> torch.Tensor | None:
    """F.affine_grid(theta, size): whether a size is 0 is asked of each, where torch asks for the smallest of them, and
    with it which one that is; None where no size varies, or torch refuses or warns."""
    size = list(size)
    rows = len(size) - 2
    if not has_symbols(size) or align_corners is None or rows not in (2, 3) or not theta.is_floating_point():
        return None
    if theta.dim() != 3 or theta.shape[1] != rows or theta.shape[2] != rows + 1:
        return None
    if not all(each > 0 for each in size) or (align_corners and any(each == 1 for each in size[2:])):
        return None
    return torch.affine_grid_generator(theta, size, align_corners)
