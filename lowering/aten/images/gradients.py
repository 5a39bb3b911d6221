"""Gradients of images: of those resized, and of those sampled by a grid."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.images.grids import MODES, PADDINGS
from lowering.aten.images.upsample import factors, is_unchanged, matrices, nearest_places
from lowering.tensors.pieces import full, swap, widen
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.resampling import cubic, cubic_slope
from lowering.tensors.shaping import add_rows, concat, expand, iota, reshape, unsqueeze

Sizes = Sequence[Dim]


# ---------------------------------------------------------------------------------------------- resized


def nearest_backward(spatial: int, exact: bool) -> Callable[..., Value]:
    """The converter of each gradient added to the element that its place was filled from."""

    def convert(grad_output: Value, output_size: Sizes, input_size: Sizes, *scales: float | None) -> Value:
        kind, found = grad_output.dtype, widen(grad_output)
        given = factors(scales, spatial) if scales else (None,) * spatial
        rows = zip(range(2, 2 + spatial), input_size[2:], output_size, given, strict=True)
        for axis, size, out, scale in rows:
            if not is_unchanged(size, out, scale):
                found = add_rows(found, nearest_places(size, out, scale, exact, kind, None if exact else 0), size, axis)
        return cast(found, kind)

    return convert


aten_upsample_nearest1d_backward, aten_upsample_nearest2d_backward, aten_upsample_nearest3d_backward = (
    nearest_backward(spatial, False) for spatial in (1, 2, 3)
)
(
    aten__upsample_nearest_exact1d_backward,
    aten__upsample_nearest_exact2d_backward,
    aten__upsample_nearest_exact3d_backward,
) = (nearest_backward(spatial, True) for spatial in (1, 2, 3))


def smooth_backward(spatial: int, mode: str, antialias: bool = False) -> Callable[..., Value]:
    """The converter of gradients times the matrix of weights by which every axis was resized.

    torch's kernels differ in images whose sizes a scale factor leaves as they are: the gradients of cubic weights are
    then copied, those of filters weighed, where the images themselves are weighed and copied.
    """

    def convert(
        grad_output: Value, output_size: Sizes, input_size: Sizes, align_corners: bool, *scales: float | None
    ) -> Value:
        given = factors(scales, spatial) if scales else (None,) * spatial
        found = widen(grad_output)
        axes, last = range(2, 2 + spatial), found.rank - 1
        made = matrices(input_size[2:], output_size, given, align_corners, mode, antialias, kept=False)
        if mode == "cubic" and not antialias:
            made = kept_together(made, input_size[2:], output_size)
        for axis, matrix in zip(axes, made, strict=True):
            by = cast(matrix, found.dtype) if isinstance(matrix, Value) else const(matrix.astype(found.dtype.numpy))
            found = op.MatMul(found, by) if axis == last else swap(op.MatMul(swap(found, axis, last), by), axis, last)
        return cast(found, grad_output.dtype)

    return convert


def kept_together(made: Sequence[np.ndarray | Value], before: Sizes, after: Sizes) -> Sequence[np.ndarray | Value]:
    """The weights along every axis, or those that keep each element where all axes stay as long as they are."""
    pairs = list(zip(before, after, strict=True))
    if all(type(each) is int for pair in pairs for each in pair):
        return [np.eye(int(size)) for size in before] if tuple(before) == tuple(after) else made
    stays = reduce(op.And, (op.Equal(dim_scalar(size), dim_scalar(out)) for size, out in pairs))
    found: list[np.ndarray | Value] = []
    for matrix, (size, out) in zip(made, pairs, strict=True):
        weights = matrix if isinstance(matrix, Value) else const(matrix)
        same = cast(op.Equal(unsqueeze(iota(out), 1), iota(size)), weights.dtype)
        found.append(op.Where(stays, same, weights))
    return found


aten_upsample_linear1d_backward = smooth_backward(1, "linear")
aten_upsample_bilinear2d_backward = smooth_backward(2, "linear")
aten_upsample_trilinear3d_backward = smooth_backward(3, "linear")
aten_upsample_bicubic2d_backward = smooth_backward(2, "cubic")
aten__upsample_bilinear2d_aa_backward = smooth_backward(2, "linear", True)
aten__upsample_bicubic2d_aa_backward = smooth_backward(2, "cubic", True)
aten__upsample_lanczos2d_aa_backward = smooth_backward(2, "lanczos", True)


# ---------------------------------------------------------------------------------------------- sampled by a grid


@attrs.frozen
class Tap:
    """What one element along an axis adds to a sample: where it stands, its weight, and by how much the weight grows
    with the place, both 0 outside of the image.  Each (n, places)."""

    index: Value
    weight: Value
    slope: Value


def aten_grid_sampler_2d_backward(
    grad_output: Value,
    input: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value]:
    """The gradients of the image and of the grid.

    A sample is the sum over elements near its place of the element times a weight for each axis: its gradient times the
    weights is added to each, and the element times the slopes of the weights is the gradient of the place.
    input: (n, c, *size); grid: (n, *out, axes); grad_output: (n, c, *out).
    """
    mode, padding = MODES[interpolation_mode], PADDINGS[padding_mode]
    image, gradient, places = widen(input), widen(grad_output), cast(grid, widen(input).dtype)
    n, c, *size = image.shape
    out = grid.shape[1:-1]
    spatial, count, area = len(size), dims.product(out), dims.product(size)
    gradient = reshape(gradient, (n, c, count))
    along: list[list[Tap]] = []
    for axis in range(spatial):
        at = op.Gather(places, scalar(spatial - 1 - axis, DType.INT64), axis=grid.rank - 1)
        along.append(taps(reshape(at, (n, count)), size[axis], mode, padding, align_corners))
    near = list(itertools.product(*along))
    where = concat([flat_index([tap.index for tap in group], size) for group in near], 1)
    spread = expand(unsqueeze(where, 1), (n, c, dims.mul(count, len(near))))
    of_image = None
    if output_mask[0]:
        parts = [op.Mul(gradient, unsqueeze(product([tap.weight for tap in group]), 1)) for group in near]
        ground = full(0, (n, c, area), image.dtype)
        found = op.ScatterElements(ground, spread, concat(parts, 2), axis=2, reduction="add")
        of_image = cast(reshape(found, input.shape), input.dtype)
    elements = reshape(op.GatherElements(reshape(image, (n, c, area)), spread, axis=2), (n, c, len(near), count))
    shared = op.ReduceSum(op.Mul(elements, unsqueeze(gradient, 2)), [1], keepdims=0)
    slopes = []
    for axis in reversed(range(spatial)):
        each = [product([t.slope if i == axis else t.weight for i, t in enumerate(group)]) for group in near]
        sums = op.ReduceSum(op.Mul(shared, concat([unsqueeze(v, 1) for v in each], 1)), [1], keepdims=0)
        slopes.append(unsqueeze(sums, 2))
    return of_image, cast(reshape(concat(slopes, 2), grid.shape), grid.dtype)


def aten__grid_sampler_2d_cpu_fallback_backward(
    grad_output: Value, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> tuple[Value | None, Value]:
    """As grid_sampler_2d_backward."""
    return aten_grid_sampler_2d_backward(
        grad_output, input, grid, interpolation_mode, padding_mode, align_corners, (True, True)
    )


def product(parts: Sequence[Value]) -> Value:
    """The parts multiplied."""
    made = parts[0]
    for each in parts[1:]:
        made = op.Mul(made, each)
    return made


def flat_index(indices: Sequence[Value], size: Sizes) -> Value:
    """The number of an element among all of an image, counted along the last axis first."""
    made = indices[0]
    for index, width in zip(indices[1:], size[1:], strict=True):
        made = op.Add(op.Mul(made, dim_scalar(width)), index)
    return made


def taps(places: Value, size: Dim, mode: str, padding: str, align_corners: bool) -> list[Tap]:
    """The elements near places from -1 to 1 along an axis of `size` elements.  places: (n, places)"""
    kind = places.dtype
    sizes, one, two = cast(dim_scalar(size), kind), scalar(1, kind), scalar(2, kind)
    if align_corners:
        scale = op.Div(op.Sub(sizes, one), two)
        at = op.Mul(op.Add(places, one), scale)
    else:
        scale = op.Div(sizes, two)
        at = op.Div(op.Sub(op.Mul(op.Add(places, one), sizes), one), two)
    zero = expand(scalar(0, kind), places.shape, places)
    if mode == "cubic":
        first = op.Floor(at)
        t = op.Sub(at, first)
        found = []
        for k in (-1, 0, 1, 2):
            gap = op.Sub(t, scalar(k, kind))
            element, _ = within(op.Add(first, scalar(k, kind)), sizes, padding, align_corners)
            found.append(tap(element, sizes, cubic(gap, -0.75), op.Mul(cubic_slope(gap, -0.75), scale)))
        return found
    at, turn = within(at, sizes, padding, align_corners)
    if mode == "nearest":
        return [tap(op.Round(at), sizes, op.Add(zero, one), zero)]
    first = op.Floor(at)
    grows = expand(scale, places.shape, places) if turn is None else op.Mul(turn, scale)
    low, high = op.Sub(op.Add(first, one), at), op.Sub(at, first)
    return [tap(first, sizes, low, op.Neg(grows)), tap(op.Add(first, one), sizes, high, grows)]


def tap(element: Value, sizes: Value, weight: Value, slope: Value) -> Tap:
    """An element that may lie outside of the image, of which nothing is taken there."""
    zero = scalar(0, weight.dtype)
    inside = op.And(op.GreaterOrEqual(element, zero), op.Less(element, sizes))
    index = cast(op.Where(inside, element, zero), DType.INT64)
    return Tap(index, op.Where(inside, weight, zero), op.Where(inside, slope, zero))


def within(at: Value, sizes: Value, padding: str, align_corners: bool) -> tuple[Value, Value | None]:
    """(places brought into the image as the padding says, by how much they grow with what is given: 1, -1 or 0)."""
    if padding == "zeros":
        return at, None
    kind = at.dtype
    zero, one, last = scalar(0, kind), scalar(1, kind), op.Sub(sizes, scalar(1, kind))
    turn: Value | None = None
    if padding == "reflection":
        edge, span = (zero, last) if align_corners else (scalar(-0.5, kind), sizes)
        from_edge = op.Sub(at, edge)
        beyond = op.Abs(from_edge)
        safe = op.Where(op.Equal(span, zero), one, span)
        rest = op.Mod(beyond, safe, fmod=1)
        back = op.Equal(op.Mod(op.Floor(op.Div(beyond, safe)), scalar(2, kind), fmod=1), one)
        sign = op.Where(op.Less(from_edge, zero), scalar(-1, kind), one)
        turn = op.Where(back, op.Neg(sign), sign)
        at = op.Add(op.Where(back, op.Sub(span, rest), rest), edge)
        if align_corners:  # one element is reflected to itself
            lone = op.Equal(span, zero)
            at, turn = op.Where(lone, zero, at), op.Where(lone, zero, turn)
    inside = op.And(op.Greater(at, zero), op.Less(at, last))
    moves = op.Where(inside, one if turn is None else turn, zero)
    return op.Min(op.Max(at, zero), last), moves
