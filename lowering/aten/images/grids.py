"""Sampling of images by grids of places."""

from __future__ import annotations

from collections.abc import Sequence

from irkit.build import op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.tensors.pieces import widen
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import unsqueeze

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")


def aten_grid_sampler(
    input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """The image at the places of a grid.  input: (n, c, *size); grid: (n, *out, axes), places from -1 to 1."""
    mode, padding, places = MODES[interpolation_mode], PADDINGS[padding_mode], widen(grid)
    given = places
    if padding != "reflection":
        places = within_reach(places, mode, padding)
    if padding == "reflection" and mode != "cubic":
        at = reflected(places, input.shape[2:], align_corners, mode == "nearest")
        places, padding, align_corners = at, "border", True
    if padding == "reflection":
        places = brought_near(places, input.shape[2:], align_corners)
    made = op.GridSample(widen(input), places, mode=mode, padding_mode=padding, align_corners=int(align_corners))
    if input.rank == 4 and (mode == "cubic" or (mode, padding) == ("linear", "zeros")):
        made = op.Add(made, unsqueeze(nan_where_infinite(given), 1))
    return cast(made, input.dtype)


FAR = 8.0
"""A place that lies outside of every image, by more than what an interpolation reaches for."""


def within_reach(places: Value, mode: str, padding: str) -> Value:
    """Places beyond which nothing changes, in their stead: ONNX Runtime takes indices of what is larger than an
    integer holds. What is not a number torch takes for a place outside, or for the last one."""
    if places.rank == 5 or (mode, padding) == ("nearest", "zeros"):  # of volumes, torch takes the last one
        places = op.Where(op.IsNaN(places), scalar(FAR, places.dtype), places)
    return op.Clip(places, scalar(-FAR, places.dtype), scalar(FAR, places.dtype))


def brought_near(places: Value, size: Sequence[Dim], align_corners: bool) -> Value:
    """Places far outside of an image that is reflected at its edges, again and again, as those near it that show the
    same, four elements around them too: what is seen repeats itself. In float32, in which ONNX Runtime looks for them,
    and torch does, elements far away cannot be told apart.
    """
    one, two = scalar(1.0, DType.DOUBLE), scalar(2.0, DType.DOUBLE)
    sizes = cast(shape_vector(tuple(reversed(size))), DType.DOUBLE)
    edges = op.Max(op.Sub(sizes, one), one) if align_corners else sizes  # from -1 to 1 there are so many elements
    from_first = op.Mul(op.Div(op.Add(cast(places, DType.DOUBLE), one), two), edges)
    near = op.Mod(from_first, op.Mul(edges, two), fmod=1)
    near = cast(op.Sub(op.Mul(op.Div(near, edges), two), one), places.dtype)
    far = op.Greater(op.Abs(places), scalar(FAR, places.dtype))
    found = op.Where(far, near, places)
    return op.Where(op.IsNaN(found), scalar(0, places.dtype), found)


def nan_where_infinite(places: Value) -> Value:
    """NaN for each place of which some coordinate is infinite or no number, else 0: what torch's weights become there.
    places: (n, *out, axes) -> (n, *out)"""
    return op.ReduceSum(op.Mul(places, scalar(0, places.dtype)), [places.rank - 1], keepdims=0)


def reflected(grid: Value, size: Sequence[Dim], align_corners: bool, nearest: bool) -> Value:
    """The places of a grid that is reflected at the edges of the image, or the nearest elements to them, as places from
    -1 to 1.

    ONNX rounds a place before it is reflected, torch afterwards: halfway between two elements, which is the nearer one
    hangs on that. Of what is larger than an integer holds, ONNX Runtime reflects nothing.
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
    turns = op.Floor(op.Div(beyond, span))
    # torch's loop over images rounds what its loop over volumes does not
    rest = op.Mod(beyond, span, fmod=1) if grid.rank == 5 else op.Sub(beyond, op.Mul(turns, span))
    back = op.Equal(op.Mod(turns, two, fmod=1), one)
    place = op.Add(op.Where(back, op.Sub(span, rest), rest), edge)
    place = op.Min(op.Max(place, scalar(0, kind)), last)
    place = op.Where(op.IsNaN(place), last if grid.rank == 5 else scalar(0, kind), place)
    place = op.Round(place) if nearest else place
    return op.Sub(op.Div(op.Mul(place, two), op.Max(last, one)), one)


def aten_affine_grid_generator(theta: Value, size: Sequence[Dim], align_corners: bool) -> Value:
    """(n, *out, axes): where an affine map takes the places of an image.  theta: (n, axes, axes + 1)."""
    return op.AffineGrid(theta, shape_vector(size), align_corners=int(align_corners))
