"""torchvision's operators for detection, by its published schemas, computed by plain loops.

torchvision itself is no dependency of the tests. Where it is installed, its own operators are tested instead.
"""

from __future__ import annotations

import importlib.util
import math

import torch
from torch import Tensor

SCHEMAS = """
nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width,
    int sampling_ratio, bool aligned) -> Tensor
roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)
deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w,
    SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups,
    bool use_mask) -> Tensor
"""


def overlap(a: list[float], b: list[float]) -> float:
    """The intersection of two boxes over their union."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = width * height
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
    return both / union if union else 0.0


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    boxes, kept = dets.tolist(), list[int]()
    for i in scores.argsort(descending=True, stable=True).tolist():
        if all(overlap(boxes[i], boxes[k]) <= iou_threshold for k in kept):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def between(image: Tensor, y: float, x: float) -> Tensor:
    """(c,): an image (c, h, w) between its pixels; 0 further than one pixel away from it."""
    h, w = image.shape[1:]
    if y < -1 or y > h or x < -1 or x > w:
        return image.new_zeros(image.shape[0])
    y, x = min(max(y, 0.0), h - 1.0), min(max(x, 0.0), w - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    low, high = y - top, x - left
    upper = (1 - high) * image[:, top, left] + high * image[:, top, right]
    return (1 - low) * upper + low * ((1 - high) * image[:, bottom, left] + high * image[:, bottom, right])


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    made = input.new_zeros(rois.shape[0], input.shape[1], pooled_height, pooled_width)
    for k, (batch, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (c * spatial_scale - (0.5 if aligned else 0.0) for c in corners)
        width, height = right - left, bottom - top
        if not aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        bins = height / pooled_height, width / pooled_width
        counts = [sampling_ratio if sampling_ratio > 0 else math.ceil(b) for b in bins]
        for p in range(pooled_height):
            for q in range(pooled_width):
                for i in range(counts[0]):
                    for j in range(counts[1]):
                        y = top + p * bins[0] + (i + 0.5) * bins[0] / counts[0]
                        x = left + q * bins[1] + (j + 0.5) * bins[1] / counts[1]
                        made[k, :, p, q] += between(input[int(batch)], y, x)
        made[k] /= max(counts[0] * counts[1], 1)
    return made


def away(x: float) -> int:
    """x rounded, halves away from zero."""
    return int(math.copysign(math.floor(abs(x) + 0.5), x))


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    shape, (h, w) = (rois.shape[0], input.shape[1], pooled_height, pooled_width), input.shape[2:]
    made, place = input.new_zeros(shape), torch.full(shape, -1, dtype=torch.int32)
    for k, (batch, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (away(c * spatial_scale) for c in corners)
        bins = max(bottom - top + 1, 1) / pooled_height, max(right - left + 1, 1) / pooled_width
        for p in range(pooled_height):
            for q in range(pooled_width):
                rows = [min(max(f(n * bins[0]) + top, 0), h) for f, n in ((math.floor, p), (math.ceil, p + 1))]
                columns = [min(max(f(n * bins[1]) + left, 0), w) for f, n in ((math.floor, q), (math.ceil, q + 1))]
                part = input[int(batch), :, rows[0] : rows[1], columns[0] : columns[1]]
                if part.numel():
                    made[k, :, p, q], at = part.flatten(1).max(1)
                    width = part.shape[2]
                    place[k, :, p, q] = ((rows[0] + at // width) * w + columns[0] + at % width).int()
    return made, place


def tap(image: Tensor, y: float, x: float) -> Tensor:
    """(c,): an image (c, h, w) between its pixels, with zeros around it."""
    h, w = image.shape[1:]
    top, left = math.floor(y), math.floor(x)
    made = image.new_zeros(image.shape[0])
    for i, j in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
        if 0 <= i < h and 0 <= j < w:
            made += (1 - abs(y - i)) * (1 - abs(x - j)) * image[:, i, j]
    return made


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    (n, channels), (count, per_group, kh, kw) = input.shape[:2], weight.shape
    oh, ow = offset.shape[2:]
    made = bias[None, :, None, None].expand(n, count, oh, ow).clone()
    moved = offset.reshape(n, offset_groups, kh * kw, 2, oh, ow)
    each = channels // offset_groups
    for b in range(n):
        for r in range(oh):
            for s in range(ow):
                taps = input.new_zeros(channels, kh, kw)
                for g in range(offset_groups):
                    for t in range(kh * kw):
                        i, j = divmod(t, kw)
                        y = r * stride_h - pad_h + i * dilation_h + float(moved[b, g, t, 0, r, s])
                        x = s * stride_w - pad_w + j * dilation_w + float(moved[b, g, t, 1, r, s])
                        weigh = mask.reshape(n, offset_groups, kh * kw, oh, ow)[b, g, t, r, s] if use_mask else 1.0
                        taps[g * each : (g + 1) * each, i, j] = weigh * tap(input[b, g * each : (g + 1) * each], y, x)
                for o in range(count):
                    first = o // (count // groups) * per_group
                    made[b, o, r, s] += (weight[o] * taps[first : first + per_group]).sum()
    return made


def fake_pool(input: Tensor, rois: Tensor, spatial_scale: float, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    shape = (rois.shape[0], input.shape[1], rows, columns)
    return input.new_empty(shape), input.new_empty(shape, dtype=torch.int32)


def defined() -> torch.library.Library | None:
    """The library that holds the operators while it is held; None where torchvision has them."""
    if importlib.util.find_spec("torchvision") is not None:
        importlib.import_module("torchvision")
        return None
    library = torch.library.Library("torchvision", "DEF")
    for schema in statements():
        library.define(schema)
    for function in (nms, roi_align, roi_pool, deform_conv2d):
        library.impl(function.__name__, function, "CPU")
    fake = torch.library.register_fake
    fake(
        "torchvision::nms",
        lambda d, s, t: d.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64),
        lib=library,
    )
    fake(
        "torchvision::roi_align", lambda x, r, scale, h, w, ratio, aligned: fake_pool(x, r, scale, h, w)[0], lib=library
    )
    fake("torchvision::roi_pool", fake_pool, lib=library)
    fake(
        "torchvision::deform_conv2d",
        lambda x, w, o, *rest: x.new_empty((x.shape[0], w.shape[0], *o.shape[2:])),
        lib=library,
    )
    return library


def statements() -> list[str]:
    """Each schema on a line of its own; what is indented goes on with the line before."""
    return [" ".join(s.split()) for s in SCHEMAS.replace("\n    ", " ").strip().splitlines()]


LIBRARY = defined()
