"""Type rules of operators on images and boxes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from irkit import dims
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context
from irkit.ops.types.creation import shape_of
from irkit.support.counts import count_text

SMALLEST_STEP = 1 << 10
"""The largest denominator for which the product of a size and a scale is exact in the f32 that runtimes use."""


def infer_Resize(c: Context) -> Type:
    """x[...], roi?, scales f32[k]?, sizes i64[k]? -> x with the sizes of `axes` scaled, or those given"""
    x = c.tensor(0)
    given = c.attr("axes")
    axes = c.axes(range(len(x.shape)) if given is None else given, len(x.shape))
    has_scales, has_sizes = c.has(2) and c.shape(2) != (0,), c.has(3)
    if has_scales == has_sizes:
        raise c.fail("one of scales and sizes must be given", hint="leave the other None")
    new = resized(c, tuple(x.shape[a] for a in axes)) if has_sizes else scaled(c, tuple(x.shape[a] for a in axes))
    by_axis = dict(zip(axes, new, strict=True))
    return Tensor(x.dtype, tuple(by_axis.get(i, d) for i, d in enumerate(x.shape)))


def resized(c: Context, old: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The sizes that operand `sizes` asks for, under attribute `keep_aspect_ratio_policy`."""
    sizes = shape_of(c, 3)
    if len(sizes) != len(old):
        raise c.fail(f"{count_text(len(sizes), 'size')} given for {count_text(len(old), 'axis', 'axes')}")
    policy = c.attr("keep_aspect_ratio_policy")
    if policy == "stretch":
        return sizes
    if any(type(d) is not int or d == 0 for d in (*sizes, *old)):
        return tuple(dims.fresh() for _ in old)
    ratios = [Fraction(int(new), int(d)) for new, d in zip(sizes, old, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return tuple(math.floor(scale * int(d) + Fraction(1, 2)) for d in old)


def scaled(c: Context, old: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """floor(size * scale) for each axis; fresh where the scales are unknown.

    ONNX's text multiplies by the extent of a region too. Its shape inference, its reference and ONNX Runtime do not.
    """
    blob = c.blob(2)
    if blob is None:
        return tuple(dims.fresh() for _ in old)
    if blob.shape != (len(old),):
        raise c.fail(f"{count_text(blob.size, 'scale')} given for {count_text(len(old), 'axis', 'axes')}")
    return tuple(times(size, scale) for size, scale in zip(old, blob.array, strict=True))


def times(size: Dim, scale: np.float32) -> Dim:
    """floor(size * scale) in f32, as runtimes compute it; fresh for a symbolic size where rounding could tell."""
    if type(size) is int:
        return math.floor(np.float32(size) * scale)
    exact = Fraction(float(scale))
    if exact.denominator > SMALLEST_STEP:
        return dims.fresh()
    return dims.floordiv(dims.mul(size, exact.numerator), exact.denominator)


def infer_GridSample(c: Context) -> Type:
    """x[n, c, d1..dr], grid[n, o1..or, r] -> [n, c, o1..or]"""
    x = c.tensor(0)
    if len(x.shape) < 3:
        raise c.fail(f"the operand must have a batch, a channel and a spatial axis, and has rank {len(x.shape)}")
    grid = c.ranked(1, len(x.shape)).shape
    c.unify(grid[-1], len(x.shape) - 2, "the last size of the grid and the number of spatial axes")
    return Tensor(x.dtype, (c.unify(x.shape[0], grid[0], "the batch sizes"), x.shape[1], *grid[1:-1]))


def infer_AffineGrid(c: Context) -> Type:
    """theta[n, r, r + 1], size i64[n, c, d1..dr] -> [n, d1..dr, r]"""
    theta = c.ranked(0, 3)
    size = shape_of(c, 1)
    if len(size) not in (4, 5):
        raise c.fail(f"size must hold 4 or 5 numbers, and holds {len(size)}")
    space = len(size) - 2
    c.unify(theta.shape[1], space, "the rows of theta and the spatial axes")
    c.unify(theta.shape[2], space + 1, "the columns of theta and the spatial axes, with one more")
    return Tensor(theta.dtype, (c.unify(theta.shape[0], size[0], "the batch sizes"), *size[2:], space))


def infer_MaxRoiPool(c: Context) -> Type:
    """x[n, c, h, w], rois[r, 5] -> [r, c, pooled_shape...]"""
    x, rois = c.ranked(0, 4), c.ranked(1, 2).shape
    c.unify(rois[1], 5, "the last size of the regions")
    return Tensor(x.dtype, (rois[0], x.shape[1], *c.attr("pooled_shape")))


def infer_RoiAlign(c: Context) -> Type:
    """x[n, c, h, w], rois[r, 4], batch_indices[r] -> [r, c, output_height, output_width]"""
    x, rois = c.ranked(0, 4), c.ranked(1, 2).shape
    c.unify(rois[1], 4, "the last size of the regions")
    count = c.unify(rois[0], c.ranked(2, 1).shape[0], "the numbers of regions")
    return Tensor(x.dtype, (count, x.shape[1], c.attr("output_height"), c.attr("output_width")))


def infer_ImageDecoder(c: Context) -> Type:
    """encoded u8[bytes] -> u8[height, width, channels]"""
    c.ranked(0, 1)
    channels = 1 if c.attr("pixel_format") == "Grayscale" else 3
    return Tensor(DType.UINT8, (dims.fresh(), dims.fresh(), channels))


def infer_NonMaxSuppression(c: Context) -> Type:
    """boxes[batch, n, 4], scores[batch, classes, n], ... -> i64[chosen, 3]"""
    boxes, scores = c.ranked(0, 3).shape, c.ranked(1, 3).shape
    c.unify(boxes[0], scores[0], "the batch sizes")
    c.unify(boxes[1], scores[2], "the numbers of boxes")
    c.unify(boxes[2], 4, "the last size of the boxes")
    return Tensor(DType.INT64, (dims.fresh(), 3))
