"""Sampling of images by grids of places."""

from __future__ import annotations

from collections.abc import Sequence

from irkit.build import op, shape_vector
from irkit.dims import Dim
from irkit.ir import Value
from lowering.pieces import widened
from lowering.promotion import cast, scalar

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")


def aten_grid_sampler(
    input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """The image at the places of a grid.  input: (n, c, *size); grid: (n, *out, axes), places from -1 to 1."""
    mode, padding, places = MODES[interpolation_mode], PADDINGS[padding_mode], widened(grid)
    if (mode, padding) == ("nearest", "reflection"):
        places, padding, align_corners = reflected(places, input.shape[2:], align_corners), "border", True
    made = op.GridSample(widened(input), places, mode=mode, padding_mode=padding, align_corners=int(align_corners))
    return cast(made, input.dtype)


def reflected(grid: Value, size: Sequence[Dim], align_corners: bool) -> Value:
    """The nearest elements to the places of a grid that is reflected at the edges of the image, as places from -1 to 1.

    ONNX rounds a place before it is reflected, torch afterwards: halfway between two elements, which is the nearer one
    hangs on that.
    """
    kind = grid.dtype
    sizes = cast(shape_vector(tuple(reversed(size))), kind)  # the last axis of a grid begins with the last of an image
    one, two, last = scalar(1, kind), scalar(2, kind), op.Sub(sizes, scalar(1, kind))
    if align_corners:
        edge, span = scalar(0, kind), op.Max(last, one)
        place = op.Mul(op.Div(op.Add(grid, one), two), last)
    else:
        edge, span = scalar(-0.5, kind), sizes
        place = op.Div(op.Sub(op.Mul(op.Add(grid, one), sizes), one), two)
    beyond = op.Abs(op.Sub(place, edge))
    turns, rest = op.Floor(op.Div(beyond, span)), op.Mod(beyond, span, fmod=1)
    back = op.Equal(op.Mod(turns, two, fmod=1), one)
    place = op.Add(op.Where(back, op.Sub(span, rest), rest), edge)
    nearest = op.Round(op.Min(op.Max(place, scalar(0, kind)), last))
    return op.Sub(op.Div(op.Mul(nearest, two), op.Max(last, one)), one)


aten_grid_sampler_2d = aten_grid_sampler_3d = aten__grid_sampler_2d_cpu_fallback = aten_grid_sampler


def aten_affine_grid_generator(theta: Value, size: Sequence[Dim], align_corners: bool) -> Value:
    """(n, *out, axes): where an affine map takes the places of an image.  theta: (n, axes, axes + 1)."""
    return op.AffineGrid(theta, shape_vector(size), align_corners=int(align_corners))
