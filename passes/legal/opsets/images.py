"""Images at other sizes and at grids of places, for opsets that lack a way of doing it."""

from __future__ import annotations

from itertools import product
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from irkit import dims
from irkit.build import call, const, op
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType
from irkit.evaluation.kernels.images import nearest_index, resized_sizes, source_places, weight_matrix
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.questions import number, operand, small, vector
from passes.legal.float64.windows import cubic_far, cubic_near, extent
from passes.legal.runtime.expansions import ordinals, reshape_if_bound
from passes.legal.runtime.images import resized_along_all

CUBIC = -0.75
"""The coefficient of GridSample's cubic."""
NEWER = ("axes", "antialias", "keep_aspect_ratio_policy")
"""Attributes of Resize that opset 18 brought."""


# ---------------------------------------------------------------------------------------------- Resize


def resize(m: Match, value: Value) -> Value | None:
    """With an operand for every axis where only `axes` is new; else the elements chosen, or a matrix of shares along
    each axis, of which the sizes must be numbers"""
    x = value.inputs[0]
    symmetric = attribute_of(value, "coordinate_transformation_mode") == "half_pixel_symmetric"
    if x is None or not (symmetric or any(value.attribute(name) is not None for name in NEWER)):
        return None
    kept = {name: attribute for name, attribute in value.attributes if name != "axes"}
    if not symmetric and set(kept).isdisjoint(NEWER):
        return resized_along_all(value, x, kept)
    return by_matrices(value, x)


def by_matrices(value: Value, x: Value) -> Value | None:
    """One axis after the other."""
    if attribute_of(value, "coordinate_transformation_mode") == "tf_crop_and_resize":
        return None
    axes = [a % x.rank for a in value.attribute("axes") or range(x.rank)]
    given = [None if (v := operand(value, i)) is None else small(v) for i in (2, 3)]
    sizes = [x.shape[a] for a in axes]
    if all(g is None for g in given) or any(type(n) is not int for n in sizes):
        return None
    blank = np.broadcast_to(np.float32(0), [x.shape[a] if a in axes else 1 for a in range(x.rank)])
    scales, wanted = given
    out, factors = resized_sizes(value, blank, axes, scales, wanted)
    nearest = attribute_of(value, "mode") == "nearest"
    found = x if nearest or x.dtype.is_float else op.Cast(x, to=DType.FLOAT)
    for axis, size, count, factor in zip(axes, sizes, out, factors, strict=True):
        if count == size and factor == 1:
            continue
        place = source_places(value, size, count, factor, 0.0, 1.0)
        if nearest:
            found = op.Gather(found, const(nearest_index(value, place, size).astype(np.int64)), axis=axis)
        else:
            found = along(found, axis, number(found, weight_matrix(value, place, size, factor)))
    if found.dtype is x.dtype:
        return op.Identity(found) if found is x else found
    limits = np.iinfo(x.dtype.numpy)
    return op.Cast(op.Clip(op.Round(found), np.float32(limits.min), np.float32(limits.max)), to=x.dtype)


def along(x: Value, axis: int, matrix: Value) -> Value:
    """x times a matrix (out, size) along one axis."""
    order = [i for i in range(x.rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(x.rank)]
    turned = const(np.ascontiguousarray(matrix.blob.array.T))  # type: ignore[union-attr]
    if axis == x.rank - 1:
        return op.MatMul(x, turned)
    return op.Transpose(op.MatMul(op.Transpose(x, perm=order), turned), perm=back)


# ---------------------------------------------------------------------------------------------- grids


@attrs.frozen(eq=False)
class Side:
    """How one axis of an image is read: its size as a number, and what stands outside."""

    size: Value
    padding: str
    aligned: bool
    cubic: bool

    @property
    def last(self) -> Value:
        """The coordinate of the last element."""
        return op.Sub(self.size, number(self.size, 1))

    def coordinate(self, place: Value) -> Value:
        """Places in -1 to 1 as places among the elements."""
        one, two = number(place, 1), number(place, 2)
        moved = op.Add(place, one)
        if self.aligned:
            return op.Mul(op.Div(moved, two), self.last)
        return op.Div(op.Sub(op.Mul(moved, self.size), one), two)

    def inside(self, place: Value) -> Value:
        """Coordinates brought into the image, unless the outside is zeros; the taps of a cubic are brought in later."""
        if self.padding == "border" and not self.cubic:
            return self.clipped(place)
        return self.reflected(place) if self.padding == "reflection" else place

    def clipped(self, place: Value) -> Value:
        """The nearest coordinate of an element."""
        return op.Max(op.Min(place, self.last), number(place, 0))

    def reflected(self, place: Value) -> Value:
        """Coordinates thrown back and forth between the two edges until they lie within."""
        edge = 0.0 if self.aligned else 0.5
        low, high = number(place, -edge), op.Add(self.last, number(place, edge))
        span = op.Max(op.Sub(high, low), number(place, 1e-30))
        twice = op.Add(span, span)
        moved = op.Mod(op.Abs(op.Sub(place, low)), twice, fmod=1)
        thrown = op.Add(low, op.Where(op.Greater(moved, span), op.Sub(twice, moved), moved))
        return op.Where(op.Or(op.Less(place, low), op.Greater(place, high)), thrown, place)

    def element(self, index: Value) -> tuple[Value, Value | None]:
        """(index of an element, whether it counts; None where all do) for whole-numbered coordinates."""
        valid = op.And(op.GreaterOrEqual(index, number(index, 0)), op.LessOrEqual(index, self.last))
        if self.padding == "reflection":
            index = op.Where(valid, index, self.reflected(index))
        return op.Cast(self.clipped(index), to=DType.INT64), valid if self.padding == "zeros" else None


def taps_of(mode: str, place: Value) -> list[tuple[Value, Value | None]]:
    """(whole-numbered coordinate, share) of each element that a coordinate reads along one axis."""
    if mode == "nearest":
        return [(op.Round(place), None)]
    base, one = op.Floor(place), number(place, 1)
    after, above = op.Sub(place, base), op.Add(base, one)
    before = op.Sub(one, after)
    if mode == "linear":
        return [(base, before), (above, after)]
    outer = cubic_far(op.Add(after, one), CUBIC), cubic_far(op.Add(before, one), CUBIC)
    inner = cubic_near(after, CUBIC), cubic_near(before, CUBIC)
    ends = op.Sub(base, one), op.Add(base, number(place, 2))
    return [(ends[0], outer[0]), (base, inner[0]), (above, inner[1]), (ends[1], outer[1])]


def grid_sample(m: Match, value: Value) -> Value | None:
    """Each place the sum of the elements around it, times their shares"""
    x, grid = value.inputs
    if x is None or grid is None or not x.dtype.is_float:
        return None
    kind = DType.DOUBLE if DType.DOUBLE in (x.dtype, grid.dtype) else DType.FLOAT
    wide = x if x.dtype is kind else op.Cast(x, to=kind)
    places = grid if grid.dtype is kind else op.Cast(grid, to=kind)
    mode, rank = str(attribute_of(value, "mode")), x.rank - 2
    counts = [extent(m, size, x) for size in x.shape[2:]]
    last = op.Transpose(wide, perm=(0, *range(2, x.rank), 1))
    if any(c is None for c in counts):
        return None
    sides = [
        Side(
            op.Cast(c, to=kind),
            str(attribute_of(value, "padding_mode")),
            bool(attribute_of(value, "align_corners")),
            mode == "cubic",
        )
        for c in counts
        if c is not None
    ]
    read = [s.inside(s.coordinate(op.Gather(places, const(rank - 1 - i), axis=-1))) for i, s in enumerate(sides)]
    total: Value | None = None
    for combination in product(*(taps_of(mode, place) for place in read)):
        index, share = picked(sides, combination)
        part = op.GatherND(last, index, batch_dims=1)
        part = part if share is None else op.Mul(part, op.Unsqueeze(share, vector([-1])))
        total = part if total is None else op.Add(total, part)
    if total is None:
        return None
    found = op.Transpose(total, perm=(0, rank + 1, *range(1, rank + 1)))
    return found if found.dtype is value.dtype else op.Cast(found, to=value.dtype)


def picked(sides: list[Side], taps: Any) -> tuple[Value, Value | None]:
    """(index of an element in all axes: (n, *out, rank), its share) for one tap of each axis."""
    columns: list[Value] = []
    share: Value | None = None
    for side, (tap, weight) in zip(sides, taps, strict=True):
        element, valid = side.element(tap)
        columns.append(op.Unsqueeze(element, vector([-1])))
        counted = None if valid is None else op.Cast(valid, to=tap.dtype)
        for factor in (weight, counted):
            share = factor if share is None else share if factor is None else op.Mul(share, factor)
    return op.Concat(*columns, axis=-1), share


def affine_grid(m: Match, value: Value) -> Value | None:
    """An even grid over -1 to 1, a constant, times the matrices"""
    theta, spatial = value.inputs[0], [d for d in value.shape[1:-1] if type(d) is int]
    if theta is None or len(spatial) != value.rank - 2:
        return None
    lines: list[NDArray[np.float64]] = []
    for count in spatial:
        if attribute_of(value, "align_corners"):
            lines.append(np.linspace(-1, 1, count) if count > 1 else np.zeros(count))
        else:
            lines.append((2 * np.arange(count) + 1) / max(count, 1) - 1)
    axes = np.meshgrid(*lines, indexing="ij")
    places = np.stack([*reversed(axes), np.ones(spatial)], axis=-1).reshape(-1, len(spatial) + 1)
    moved = op.MatMul(number(theta, places), op.Transpose(theta, perm=(0, 2, 1)))
    return reshape_if_bound(m, moved, value.shape, theta)


def deform_conv(m: Match, value: Value) -> Value | None:
    """Each place of each kernel read where its offset says, between four elements; then a product with the kernels"""
    x, weight, offset = value.inputs[:3]
    bias, mask = operand(value, 3), operand(value, 4)
    if x is None or weight is None or offset is None or x.rank != 4:
        return None
    if x.dtype in HALVES:
        wide = [None if v is None else op.Cast(v, to=DType.FLOAT) for v in value.inputs]
        return op.Cast(call("DeformConv", wide, dict(value.attributes)), to=x.dtype)
    outputs, each, *kernel = weight.shape
    groups, shared = attribute_of(value, "group"), attribute_of(value, "offset_group")
    sizes = (x.shape[1], outputs, each, *kernel)
    if any(type(n) is not int for n in sizes):
        return None
    strides, dilations, pads = (
        value.attribute(name) or default
        for name, default in (("strides", (1, 1)), ("dilations", (1, 1)), ("pads", (0, 0, 0, 0)))
    )
    channels, taps = x.shape[1], kernel[0] * kernel[1]
    batch, out = x.shape[0], value.shape[2:]
    moved = reshape_if_bound(m, offset, (batch, shared, taps, 2, *out), x, weight)
    image = reshape_if_bound(m, x, (batch, shared, channels // shared, *x.shape[2:]), offset)
    counts = [extent(m, size, x) for size in x.shape[2:]]
    if moved is None or image is None or any(c is None for c in counts):
        return None
    read, sides = list[Value](), list[Side]()
    places = np.stack(np.meshgrid(*(np.arange(int(k)) for k in kernel), indexing="ij"), axis=-1).reshape(taps, 2)
    for i in range(2):
        steps = ordinals(m, out[i], offset)
        if steps is None:
            return None
        start = op.Add(op.Mul(steps, const(np.array(strides[i]))), const(np.array(-pads[i])))
        start = op.Cast(op.Unsqueeze(start, vector([1])) if i == 0 else start, to=x.dtype)
        reach = number(x, (places[:, i] * dilations[i]).reshape(taps, 1, 1))
        read.append(op.Add(op.Gather(moved, const(i), axis=3), op.Add(start, reach)))
        sides.append(Side(op.Cast(counts[i], to=x.dtype), "zeros", True, False))
    last = op.Transpose(image, perm=(0, 1, 3, 4, 2))
    total: Value | None = None
    for combination in product(*(taps_of("linear", place) for place in read)):
        index, share = picked(sides, combination)
        part = op.GatherND(last, index, batch_dims=2)
        part = part if share is None else op.Mul(part, op.Unsqueeze(share, vector([-1])))
        total = part if total is None else op.Add(total, part)
    weights = None if mask is None else reshape_if_bound(m, mask, (batch, shared, taps, *out, 1), x)
    if total is None or (mask is not None and weights is None):
        return None
    sampled = total if weights is None else op.Mul(total, weights)
    # (n, shared, taps, h, w, c) -> (n, groups, each * taps, h * w), times (groups, outputs / groups, each * taps)
    turned = op.Transpose(sampled, perm=(0, 1, 5, 2, 3, 4))
    rows = reshape_if_bound(m, turned, (batch, groups, each * taps, dims.product(out)), x, offset)
    kernels = op.Reshape(weight, vector([groups, outputs // groups, each * taps]))
    found = None if rows is None else reshape_if_bound(m, op.MatMul(kernels, rows), value.shape, x, offset)
    if found is None or bias is None:
        return found
    return op.Add(found, op.Unsqueeze(bias, vector([1, 2])))
