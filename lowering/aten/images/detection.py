"""torchvision's operators for detection: suppression of boxes, pooling over regions, deformable convolution."""

from __future__ import annotations

import numpy as np

from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.tensors.pieces import largest, widen
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import iota, unsqueeze

Pair = tuple[Value, Value]


def torchvision_nms(dets: Value, scores: Value, iou_threshold: float) -> Value:
    """The numbers of the boxes that are kept, best first.  dets: (n, 4), two corners each; scores: (n,)."""
    most = op.Reshape(dim_scalar(dets.shape[0]), [1])
    kept = op.NonMaxSuppression(
        op.Unsqueeze(cast(dets, DType.FLOAT), [0]),
        op.Unsqueeze(cast(scores, DType.FLOAT), [0, 1]),
        most,
        const(np.array([iou_threshold], dtype=np.float32)),
    )
    return op.Gather(kept, scalar(2, DType.INT64), axis=1)


# ---------------------------------------------------------------------------------------------- pooling over regions


def torchvision_roi_align(
    input: Value,
    rois: Value,
    spatial_scale: float,
    pooled_height: Dim,
    pooled_width: Dim,
    sampling_ratio: int,
    aligned: bool,
) -> Value:
    """(k, c, rows, columns): means of places between the pixels, evenly spread in each bin of each region.

    input: (n, c, h, w); rois: (k, 5), image and two corners. Interpolation is linear along each axis, so that a bin is
    the product of a row of weights, the image, and a column of weights.
    """
    x, r = widen(input), cast(rois, widen(input).dtype)
    down, across = (
        weights_between(r, axis, spatial_scale, count, size, sampling_ratio, aligned)
        for axis, count, size in ((1, pooled_height, x.shape[2]), (0, pooled_width, x.shape[3]))
    )
    rows = op.MatMul(of_regions(x, r), op.Transpose(unsqueeze(across, 1), perm=[0, 1, 3, 2]))
    return cast(op.MatMul(unsqueeze(down, 1), rows), input.dtype)


def of_regions(x: Value, rois: Value) -> Value:
    """(k, c, h, w): the image of each region; (1, c, h, w) where there is one image only"""
    return x if x.shape[0] == 1 else op.Gather(x, cast(column(rois, 0), DType.INT64), axis=0)


def column(rois: Value, index: int) -> Value:
    """(k,)"""
    return op.Gather(rois, scalar(index, DType.INT64), axis=1)


def weights_between(rois: Value, axis: int, scale: float, count: Dim, size: Dim, ratio: int, aligned: bool) -> Value:
    """(k, bins, pixels): what each pixel along an axis weighs in each bin"""
    kind = rois.dtype
    half = scalar(0.5 if aligned else 0.0, kind)
    start, end = (op.Sub(op.Mul(column(rois, i), scalar(scale, kind)), half) for i in (1 + axis, 3 + axis))
    length = op.Sub(end, start)
    length = length if aligned else op.Max(length, scalar(1, kind))
    bin_ = op.Div(length, cast(dim_scalar(count), kind))
    if ratio > 0:
        samples, places = scalar(ratio, kind), const(np.arange(ratio))
    else:  # as many as the bin is long, rounded up
        samples = unsqueeze(op.Ceil(bin_), 1, 2)
        every = op.Concat(op.Reshape(samples, [-1]), op.Reshape(scalar(1, kind), [1]), axis=0)
        most = cast(op.ReduceMax(every, [0], keepdims=0), DType.INT64)
        places = op.Range(scalar(0, DType.INT64), most, scalar(1, DType.INT64))
    number = cast(places, kind)
    begin, bin_ = unsqueeze(start, 1, 2), unsqueeze(bin_, 1, 2)
    inner = op.Div(op.Mul(op.Add(number, scalar(0.5, kind)), bin_), op.Max(samples, scalar(1, kind)))
    at = op.Add(op.Add(begin, op.Mul(unsqueeze(cast(iota(count), kind), 1), bin_)), inner)  # (k, bins, samples)
    last = cast(dim_scalar(size), kind)
    inside = op.And(op.GreaterOrEqual(at, scalar(-1, kind)), op.LessOrEqual(at, last))
    inside = op.And(inside, op.Less(number, samples))
    nearest = op.Max(scalar(0, kind), op.Min(at, op.Sub(last, scalar(1, kind))))
    gap = op.Abs(op.Sub(unsqueeze(nearest, 3), cast(iota(size), kind)))
    weight = op.Where(unsqueeze(inside, 3), op.Relu(op.Sub(scalar(1, kind), gap)), scalar(0, kind))
    total = op.ReduceSum(weight, [2], keepdims=0)
    return op.Div(total, op.Max(samples, scalar(1, kind)))


def torchvision_roi_pool(
    input: Value, rois: Value, spatial_scale: float, pooled_height: Dim, pooled_width: Dim
) -> Pair:
    """(largest pixels, their places in the flattened image) of each bin of each region; (0, -1) for an empty bin.

    input: (n, c, h, w); rois: (k, 5), image and two corners, rounded to pixels; results: (k, c, rows, columns).
    """
    x, r = widen(input), cast(rois, widen(input).dtype)
    low = scalar(-np.inf, x.dtype)
    images = of_regions(x, r)
    across = unsqueeze(pixels_of_bins(r, 0, spatial_scale, pooled_width, x.shape[3]), 1, 3)  # (k, 1, columns, 1, w)
    down = unsqueeze(pixels_of_bins(r, 1, spatial_scale, pooled_height, x.shape[2]), 1, 3)  # (k, 1, rows, 1, h)
    by_column = op.Where(across, unsqueeze(images, 2), low)  # (k, c, columns, h, w)
    where_across = op.ArgMax(by_column, axis=4, keepdims=0)
    by_both = op.Where(down, unsqueeze(largest(by_column, [4]), 2), low)  # (k, c, rows, columns, h)
    found = largest(by_both, [4])
    row = op.ArgMax(by_both, axis=4, keepdims=1)
    spread = op.Expand(unsqueeze(where_across, 2), shape_vector(by_both.shape))
    col = op.GatherElements(spread, row, axis=4)
    place = op.Squeeze(op.Add(op.Mul(row, dim_scalar(x.shape[3])), col), [4])
    empty = op.Equal(found, low)
    values = cast(op.Where(empty, scalar(0, x.dtype), found), input.dtype)
    return values, cast(op.Where(empty, scalar(-1, DType.INT64), place), DType.INT32)


def pixels_of_bins(rois: Value, axis: int, scale: float, count: Dim, size: Dim) -> Value:
    """(k, bins, pixels): whether a pixel along an axis lies in a bin"""
    kind = rois.dtype
    start, end = (rounded(op.Mul(column(rois, i), scalar(scale, kind))) for i in (1 + axis, 3 + axis))
    length = op.Max(op.Add(op.Sub(end, start), scalar(1, kind)), scalar(1, kind))
    bin_ = unsqueeze(op.Div(length, cast(dim_scalar(count), kind)), 1)
    number, begin = cast(iota(count), kind), unsqueeze(start, 1)
    first = op.Add(op.Floor(op.Mul(number, bin_)), begin)
    after = op.Add(op.Ceil(op.Mul(op.Add(number, scalar(1, kind)), bin_)), begin)
    pixel = cast(iota(size), kind)
    return op.And(op.GreaterOrEqual(pixel, unsqueeze(first, 2)), op.Less(pixel, unsqueeze(after, 2)))


def rounded(x: Value) -> Value:
    """x rounded, halves away from zero"""
    return op.Mul(op.Sign(x), op.Floor(op.Add(op.Abs(x), scalar(0.5, x.dtype))))


# ---------------------------------------------------------------------------------------------- convolution


def torchvision_deform_conv2d(
    input: Value,
    weight: Value,
    offset: Value,
    mask: Value,
    bias: Value,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Value:
    """A convolution whose every tap is moved by an offset, and weighed by a mask.

    input: (n, c, h, w); offset: (n, offset_groups * taps * 2, *out); mask: (n, offset_groups * taps, *out).
    """
    return op.DeformConv(
        input,
        weight,
        offset,
        bias,
        mask if use_mask else None,
        strides=[stride_h, stride_w],
        pads=[pad_h, pad_w, pad_h, pad_w],
        dilations=[dilation_h, dilation_w],
        group=groups,
        offset_group=offset_groups,
        kernel_shape=list(weight.shape[2:]),
    )
