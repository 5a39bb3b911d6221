"""Sampling of images by grids of places."""

from __future__ import annotations

from collections.abc import Sequence

from irkit.build import op, shape_vector
from irkit.dims import Dim
from irkit.ir import Value
from lowering.pieces import widened
from lowering.promotion import cast

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")


def aten_grid_sampler(
    input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """The image at the places of a grid.  input: (n, c, *size); grid: (n, *out, axes), places from -1 to 1."""
    made = op.GridSample(
        widened(input), widened(grid), mode=MODES[interpolation_mode], padding_mode=PADDINGS[padding_mode],
        align_corners=int(align_corners),
    )  # fmt: skip
    return cast(made, input.dtype)


aten_grid_sampler_2d = aten_grid_sampler_3d = aten__grid_sampler_2d_cpu_fallback = aten_grid_sampler


def aten_affine_grid_generator(theta: Value, size: Sequence[Dim], align_corners: bool) -> Value:
    """(n, *out, axes): where an affine map takes the places of an image.  theta: (n, axes, axes + 1)."""
    return op.AffineGrid(theta, shape_vector(size), align_corners=int(align_corners))
