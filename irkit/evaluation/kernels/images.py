"""Resizing, sampling at a grid, and regions of interest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import attrs
import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.common import Array, attr, axes_of, fail, ints, is_float, narrowed_to, real, wide
from irkit.evaluation.kernels.reference import run_reference
from irkit.support.counts import count_text


def resized_sizes(
    node: Value, x: Array, axes: Sequence[int], scales: Array | None, sizes: Array | None
) -> tuple[list[int], list[float]]:
    """(size, scale) of the result along each of the axes."""
    given = [x.shape[a] for a in axes]
    if scales is not None and scales.size:
        factors = [float(s) for s in scales]
        return [int(np.floor(n * s)) for n, s in zip(given, factors, strict=True)], factors
    if sizes is None:
        raise fail(node, "neither scales nor sizes are given")
    wanted = list(ints(sizes))
    policy = attr(node, "keep_aspect_ratio_policy")
    if policy != "stretch":
        ratios = [w / n for w, n in zip(wanted, given, strict=True)]
        scale = min(ratios) if policy == "not_larger" else max(ratios)
        return [int(np.floor(scale * n + 0.5)) for n in given], [scale] * len(axes)
    return wanted, [w / n if n else 1.0 for w, n in zip(wanted, given, strict=True)]


def source_places(node: Value, size: int, out: int, scale: float, start: float, end: float) -> Array:
    """The coordinate in the input of each place of the result."""
    mode = attr(node, "coordinate_transformation_mode")
    place = np.arange(out, dtype=np.float64)
    exact = out / size if size and scale == out / size else None

    def unscaled(p: Array) -> Array:
        return p * size / out if exact is not None and out else p / scale

    width = scale * size if exact is None else out
    if mode == "asymmetric":
        return unscaled(place)
    if mode == "align_corners":
        return place * (size - 1) / (width - 1) if width != 1 else np.zeros(out)
    if mode == "tf_crop_and_resize":
        if out > 1:
            return start * (size - 1) + place * (end - start) * (size - 1) / (out - 1)
        return np.full(out, 0.5 * (start + end) * (size - 1))
    if mode == "pytorch_half_pixel" and out == 1:
        return np.zeros(1)
    found = unscaled(place + 0.5) - 0.5
    if mode == "half_pixel_symmetric":
        found = found + size / 2 * (1 - out / width)
    return found


def nearest_index(node: Value, place: Array, size: int) -> Array:
    """The element nearest to each coordinate, by the rounding that `nearest_mode` names."""
    rounding: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda p: np.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: np.floor(p + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    return np.clip(rounding[attr(node, "nearest_mode")](place), 0, size - 1).astype(np.int64)


def cubic(distance: Array, a: float) -> Array:
    """The cubic convolution kernel with coefficient a."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def weight_matrix(node: Value, place: Array, size: int, scale: float) -> Array:
    """(out, size): the share of each element in each place of the result, for linear and cubic interpolation."""
    stretch = min(scale, 1.0) if attr(node, "antialias") else 1.0
    linear = attr(node, "mode") == "linear"
    reach = int(np.ceil((1 if linear else 2) / stretch)) + 1
    taps = np.floor(place)[:, None] + np.arange(-reach, reach + 1)
    distance = (taps - place[:, None]) * stretch
    share = np.maximum(1 - np.abs(distance), 0) if linear else cubic(distance, attr(node, "cubic_coeff_a"))
    if attr(node, "exclude_outside"):
        share = np.where((taps < 0) | (taps >= size), 0, share)
    if attr(node, "antialias") or attr(node, "exclude_outside"):
        share = share / share.sum(axis=1, keepdims=True)
    found = np.zeros((len(place), size))
    rows = np.broadcast_to(np.arange(len(place))[:, None], taps.shape)
    np.add.at(found, (rows, np.clip(taps, 0, size - 1).astype(np.int64)), share)
    return found


def kernel_Resize(
    node: Value, x: Array, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None
) -> Array:
    """x at another size along `axes`: the nearest element, or a weighted sum of neighbours axis by axis."""
    given = attr(node, "axes")
    axes = axes_of(node, range(x.ndim) if given is None else given, x.ndim)
    region = [float(r) for r in roi.ravel()] if roi is not None and roi.size else [0.0] * len(axes) + [1.0] * len(axes)
    out, factors = resized_sizes(node, x, axes, scales, sizes)
    nearest = attr(node, "mode") == "nearest"
    found = x if nearest else real(x)
    beyond = np.zeros((1,) * x.ndim, dtype=np.bool_)
    crop = attr(node, "coordinate_transformation_mode") == "tf_crop_and_resize"
    for i, axis in enumerate(axes):
        size = x.shape[axis]
        if out[i] == size and factors[i] == 1.0 and not crop:
            continue
        place = source_places(node, size, out[i], factors[i], region[i], region[len(axes) + i])
        shape = [-1 if a == axis else 1 for a in range(x.ndim)]
        beyond = beyond | ((place < 0) | (place > size - 1)).reshape(shape)
        if nearest:
            found = np.take(found, nearest_index(node, place, size), axis=axis)
        else:
            matrix = weight_matrix(node, place, size, factors[i]).astype(found.dtype)
            found = weighted_sum(matrix, found, axis)
    if crop:
        found = np.where(beyond, np.asarray(attr(node, "extrapolation_value")).astype(found.dtype), found)
    if not is_float(x.dtype) and not nearest:
        found = np.clip(np.rint(found), np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    return narrowed_to(found, x.dtype)


def weighted_sum(matrix: Array, x: Array, axis: int) -> Array:
    """x times a matrix along an axis; what has no weight adds nothing, be it no number."""
    rows = np.moveaxis(x, axis, 0)
    if np.isfinite(x).all():
        return np.moveaxis(np.tensordot(matrix, rows, axes=(1, 0)), 0, axis)
    found = np.zeros((len(matrix), *rows.shape[1:]), x.dtype)
    for weights, row in zip(matrix.T, rows, strict=True):
        places = np.flatnonzero(weights)
        found[places] += weights[places].reshape(-1, *[1] * row.ndim) * row
    return np.moveaxis(found, 0, axis)


def reflected(place: Array, low: float, high: float) -> Array:
    """Coordinates thrown back and forth between two bounds until they lie within."""
    span = high - low
    if span <= 0:
        return np.zeros_like(place)
    moved = np.abs(place - low) % (2 * span)
    return low + np.where(moved > span, 2 * span - moved, moved)


@attrs.frozen
class Sampler:
    """How one dimension of the image is read: its size, and what stands outside."""

    size: int
    padding: str
    aligned: bool
    cubic: bool

    @property
    def borders(self) -> tuple[float, float]:
        """The coordinates of the image's two edges."""
        return (0.0, self.size - 1.0) if self.aligned else (-0.5, self.size - 0.5)

    def coordinate(self, place: Array) -> Array:
        """Places in -1 to 1 as places among the elements."""
        return (place + 1) / 2 * (self.size - 1) if self.aligned else ((place + 1) * self.size - 1) / 2

    def inside(self, place: Array) -> Array:
        """Coordinates brought into the image, unless the outside is zeros.

        The taps of a cubic that reach over a border are brought in one by one, as PyTorch and ONNX Runtime do it; the
        ONNX reference moves the coordinate first.
        """
        if self.padding == "border" and not self.cubic:
            return np.clip(place, 0, self.size - 1)
        if self.padding == "reflection":
            low, high = self.borders
            return np.where((place < low) | (place > high), reflected(place, low, high), place)
        return place

    def element(self, index: Array) -> tuple[Array, Array]:
        """(index of an element, whether it counts) for whole-numbered coordinates."""
        valid = (index >= 0) & (index <= self.size - 1)
        counts = valid if self.padding == "zeros" else np.ones_like(valid)
        if self.padding == "reflection":
            index = np.where(valid, index, reflected(index, *self.borders))
        return np.clip(index, 0, self.size - 1).astype(np.int64), counts


def taps_of(node: Value, place: Array) -> list[tuple[Array, Array]]:
    """(whole-numbered coordinate, share) of each element that a coordinate reads along one dimension."""
    mode = attr(node, "mode")
    if mode == "nearest":
        return [(np.rint(place), np.ones_like(place))]
    base = np.floor(place)
    if mode == "linear":
        return [(base, base + 1 - place), (base + 1, place - base)]
    return [(base + i, cubic(base + i - place, -0.75)) for i in range(-1, 3)]


def kernel_GridSample(node: Value, x: Array, grid: Array) -> Array:
    """x (N, C, ...) read at the places of grid (N, *out, rank), which lists the coordinates innermost axis first."""
    value, rank = real(x), x.ndim - 2
    n, c = x.shape[:2]
    out = grid.shape[1:-1]
    if 0 in x.shape[2:] and grid.size:
        raise fail(node, f"an image of the shape {x.shape} has no places to read")
    aligned, cubic_taps = bool(attr(node, "align_corners")), attr(node, "mode") == "cubic"
    samplers = [Sampler(size, attr(node, "padding_mode"), aligned, cubic_taps) for size in x.shape[2:]]
    places = [samplers[i].inside(samplers[i].coordinate(real(grid)[..., rank - 1 - i])) for i in range(rank)]
    flat = value.reshape(n, c, math.prod(x.shape[2:]))
    found = np.zeros((n, c, *out), dtype=value.dtype)
    for combination in product(*(taps_of(node, p) for p in places)):
        index = np.zeros((n, *out), dtype=np.int64)
        share = np.ones((n, *out), dtype=value.dtype)
        for sampler, (tap, weight) in zip(samplers, combination, strict=True):
            element, counts = sampler.element(tap)
            index = index * sampler.size + element
            share = share * np.where(counts, weight, 0)
        picked = np.take_along_axis(flat, index.reshape(n, 1, math.prod(out)), axis=2).reshape(n, c, *out)
        found = found + picked * share[:, None]
    return narrowed_to(found, x.dtype)


def kernel_AffineGrid(node: Value, theta: Array, size: Array) -> Array:
    """(N, *spatial, rank): the places of an even grid over -1 to 1, moved by each matrix theta (N, rank, rank + 1)."""
    spatial = ints(size)[2:]
    if theta.shape[1:] != (len(spatial), len(spatial) + 1):
        raise fail(node, f"theta has the shape {theta.shape}, for {count_text(len(spatial), 'axis', 'axes')}")
    lines: list[Array] = []
    for count in spatial:
        if attr(node, "align_corners"):
            lines.append(np.linspace(-1, 1, count) if count > 1 else np.zeros(count))
        else:
            lines.append((2 * np.arange(count) + 1) / count - 1)
    axes = np.meshgrid(*lines, indexing="ij")
    places = np.stack([*reversed(axes), np.ones(spatial)], axis=-1)
    return narrowed_to(np.einsum("...j,nij->n...i", places, real(theta).astype(np.float64)), theta.dtype)


def kernel_RoiAlign(node: Value, x: Array, rois: Array, batch: Array) -> Array:
    """(regions, C, output_height, output_width): the mean, or the maximum, of the points sampled in each bin."""
    half = 0.5 if attr(node, "coordinate_transformation_mode") == "half_pixel" else 0.0
    out: tuple[int, int] = (attr(node, "output_height"), attr(node, "output_width"))
    value, boxes = wide(x), wide(rois) * attr(node, "spatial_scale") - half
    found = np.zeros((len(rois), x.shape[1], *out), dtype=value.dtype)
    for r, (x1, y1, x2, y2) in enumerate(boxes):
        extent = [y2 - y1, x2 - x1] if half else [max(y2 - y1, 1.0), max(x2 - x1, 1.0)]
        bins = [extent[i] / out[i] for i in range(2)]
        counts: list[int] = [attr(node, "sampling_ratio") or max(int(np.ceil(bins[i])), 1) for i in range(2)]
        rows, columns = (
            first + bins[i] * (np.arange(out[i])[:, None] + (np.arange(counts[i]) + 0.5)[None, :] / counts[i])
            for i, first in enumerate((y1, x1))
        )
        taps = corner_taps(value[int(batch[r])], rows.ravel(), columns.ravel())
        if attr(node, "mode") == "avg":
            sampled = taps.sum(axis=0).reshape(-1, out[0], counts[0], out[1], counts[1])
            found[r] = sampled.mean(axis=(2, 4))
        else:
            # The maximum goes over the weighted corners, not over their sums: so does the ONNX reference.
            found[r] = taps.reshape(4, -1, out[0], counts[0], out[1], counts[1]).max(axis=(0, 3, 5))
    return narrowed_to(found, x.dtype)


def corner_taps(image: Array, rows: Array, columns: Array) -> Array:
    """(4, C, rows, columns): the weighted corners of bilinear samples; 0 for points more than one beyond the image."""
    height, width = image.shape[1:]
    valid = ((rows >= -1) & (rows <= height))[:, None] & ((columns >= -1) & (columns <= width))[None, :]
    row, column = np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)
    top, left = np.floor(row).astype(np.int64), np.floor(column).astype(np.int64)
    found: list[Array] = []
    for down, right in product((0, 1), (0, 1)):
        i, j = np.minimum(top + down, height - 1), np.minimum(left + right, width - 1)
        weight = (row - top if down else 1 - (row - top))[:, None] * (column - left if right else 1 - (column - left))
        found.append(image[:, i[:, None], j[None, :]] * (weight * valid).astype(image.dtype))
    return np.stack(found)


def kernel_MaxRoiPool(node: Value, x: Array, rois: Array) -> Array:
    """(regions, C, *pooled_shape): the maximum of each bin of each region, whose corners are rounded; 0 for none."""
    out = tuple(attr(node, "pooled_shape"))
    value = wide(x)
    found = np.zeros((len(rois), x.shape[1], *out), dtype=value.dtype)
    for r, roi in enumerate(wide(rois)):
        corners = np.floor(roi[1:] * attr(node, "spatial_scale") + 0.5).astype(np.int64)
        first, last = (corners[1], corners[0]), (corners[3], corners[2])
        for bin_ in product(range(out[0]), range(out[1])):
            cut: list[slice] = []
            for i in range(2):
                size = max(last[i] - first[i] + 1, 1) / out[i]
                low, high = int(np.floor(bin_[i] * size)) + first[i], int(np.ceil((bin_[i] + 1) * size)) + first[i]
                cut.append(slice(int(np.clip(low, 0, x.shape[2 + i])), int(np.clip(high, 0, x.shape[2 + i]))))
            taken = value[int(roi[0]), :, cut[0], cut[1]]
            if taken.size:
                found[(r, slice(None), *bin_)] = taken.max(axis=(1, 2))
    return narrowed_to(found, x.dtype)


def overlap(box: Array, others: Array) -> Array:
    """Intersection over union of one box with others; boxes are (low, low, high, high)."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    area = np.prod(others[:, 2:] - others[:, :2], axis=1)
    union = np.prod(box[2:] - box[:2]) + area - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1), 0)


def kernel_NonMaxSuppression(
    node: Value,
    boxes: Array,
    scores: Array,
    limit: Array | None = None,
    iou: Array | None = None,
    least: Array | None = None,
) -> Array:
    """(count, 3): batch, class and box number of the best boxes that overlap no better one by more than `iou`."""
    most = 0 if limit is None else ints(limit)[0]
    threshold = 0.0 if iou is None else float(iou.reshape(()))
    found: list[tuple[int, int, int]] = []
    for n, image in enumerate(boxes):
        if attr(node, "center_point_box"):
            corners = np.concatenate([image[:, :2] - image[:, 2:] / 2, image[:, :2] + image[:, 2:] / 2], axis=1)
        else:
            corners = np.concatenate(
                [np.minimum(image[:, :2], image[:, 2:]), np.maximum(image[:, :2], image[:, 2:])], axis=1
            )
        for kind, score in enumerate(scores[n]):
            order = np.argsort(-score, kind="stable")
            if least is not None:
                order = order[score[order] > float(least.reshape(()))]
            kept: list[int] = []
            while len(order) and len(kept) < most:
                best, order = int(order[0]), order[1:]
                kept.append(best)
                order = order[overlap(corners[best], corners[order]) <= threshold]
            found += [(n, kind, box) for box in kept]
    return np.array(found, dtype=np.int64).reshape(-1, 3)


kernel_ImageDecoder = run_reference
