"""Images and volumes at other sizes: nearest, linear, cubic, with and without antialiasing; sampling by a grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.errors import Unsupported
from lowering.tensors import fixed_point, resampling
from lowering.tensors.pieces import swap, widen
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import iota

Scales = Sequence[float | None]


def target_sizes(x: Value, output_size: Sequence[Dim] | None, expected: Any) -> tuple[Dim, ...]:
    """The sizes to reach: as given, or as torch recorded them where only scale factors are."""
    if output_size is not None:
        return tuple(output_size)
    if expected is None:
        raise Unsupported("an upsampling by scale factors needs the recorded size of its result")
    return tuple(expected.shape[2:])


def factors(scales: Any, spatial: int) -> Scales:
    """One scale factor for each axis, None where the sizes say it."""
    return (None,) * spatial if not scales else tuple(s if s is not None and s > 0 else None for s in scales)


def exactly(size: Dim, out: Dim, scale: float | None) -> bool:
    """True where a scale factor is none, or says just what the sizes say."""
    if scale is None:
        return True
    if type(size) is int and type(out) is int:
        return size * scale == out
    return float(scale).is_integer() and dims.same(dims.mul(size, int(scale)), out) is True


SMALL_IMAGE = 128
"""What height and width of an upsampled image may add up to for torch's kernel of small ones."""

SOME_SIZES = (1, 2, 3, 5, 7, 10, 16, 33, 100)


def by_factor(size: Dim, out: Dim, scale: float | None) -> bool:
    """True where the size to reach is what the scale factor makes of any size."""
    names = {s.name for s in dims.symbols_of(size)}
    if scale is None or not names or {s.name for s in dims.symbols_of(out)} - names:
        return False
    for number in SOME_SIZES:
        given = dict.fromkeys(names, number)
        if dims.evaluate(out, given) != math.floor(dims.evaluate(size, given) * scale):
            return False
    return True


# ---------------------------------------------------------------------------------------------- nearest


def nearest(x: Value, sizes: Sequence[Dim], scales: Scales, exact: bool) -> Value:
    """The element that lies nearest (`exact`), or the one at or before the place.

    Where every axis grows by a whole factor this is one Resize. Elsewhere ONNX Runtime rounds places as torch does
    not, so that rows are taken by indices computed as torch computes them.
    """
    spatial = len(sizes)
    axes = range(x.rank - spatial, x.rank)
    rows = [r for r in zip(axes, x.shape[-spatial:], sizes, scales, strict=True) if not is_unchanged(*r[1:])]
    whole = [whole_factor(size, out, scale) for _, size, out, scale in rows]
    if all(w is not None for w in whole):
        if not rows:
            return x
        return op.Resize(
            x,
            None,
            np.array(whole, np.float32),
            axes=[r[0] for r in rows],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    extent = None if exact or spatial != 2 else dims.add(*sizes)
    for axis, size, out, scale in rows:
        x = op.Gather(x, nearest_places(size, out, scale, exact, x.dtype, extent), axis=axis)
    return x


def is_unchanged(size: Dim, out: Dim, scale: float | None) -> bool:
    """True where an axis stays as it is."""
    return dims.same(size, out) is True and scale in (None, 1.0)


def whole_factor(size: Dim, out: Dim, scale: float | None) -> int | None:
    """By how many an axis grows, where that is a whole number for every size"""
    if type(size) is int and type(out) is int:
        found = out // size if size and out % size == 0 else None
    else:
        ratio = dims.floordiv(out, size)
        found = ratio if type(ratio) is int and dims.same(dims.mul(size, ratio), out) is True else None
    return found if found and scale in (None, float(found)) else None


def may_meet(size: Dim, out: Dim, scale: float | None, times: int) -> bool:
    """True where a scale factor that is a little more than `times` makes just `times` as many of some size above 1."""
    if scale is None or not times < scale < times + 0.5:
        return False
    return out == times * size if type(size) is int and type(out) is int else True


def nearest_places(
    size: Dim, out: Dim, scale: float | None, exact: bool, dtype: DType, extent: Dim | None = None
) -> Value:
    """(out,) indices: min(floor((i + 0.5 if exact) * ratio), size - 1), in the precision that torch computes it in

    For images whose height and width add up to no more than SMALL_IMAGE (`extent`) torch has a kernel of its own, which
    looks whether the size is as it was, or twice that, before it looks at the scale factor.
    """
    if extent is not None and (type(extent) is not int or extent <= SMALL_IMAGE):
        for times in (1, 2):
            if may_meet(size, out, scale, times):
                met = op.Equal(dim_scalar(out), dim_scalar(dims.mul(size, times)))
                small = op.LessOrEqual(dim_scalar(extent), const(np.array(SMALL_IMAGE)))
                even = op.Div(iota(out), const(np.array(times)))
                return op.Where(op.And(met, small), even, nearest_places(size, out, scale, exact, dtype))
    kind = DType.DOUBLE if dtype is DType.DOUBLE else DType.FLOAT
    shift = 0.5 if exact else 0.0
    if type(size) is int and type(out) is int:
        ratio = kind.numpy.type(1.0 / scale if scale else kind.numpy.type(size) / kind.numpy.type(out))
        place = np.floor((np.arange(out).astype(kind.numpy) + kind.numpy.type(shift)) * ratio)
        return const(np.minimum(place.astype(np.int64), size - 1))
    by_size = op.Div(cast(dim_scalar(size), kind), cast(dim_scalar(out), kind))
    ratio = scalar(1.0 / scale, kind) if scale else by_size
    place = op.Floor(op.Mul(op.Add(cast(iota(out), kind), scalar(shift, kind)), ratio))
    return op.Min(cast(place, DType.INT64), dim_scalar(dims.sub(size, 1)))


def aten_upsample_nearest1d(self: Value, output_size: Sequence[Dim], scales: float | None = None) -> Value:
    """(n, c, l) -> (n, c, *output_size)"""
    return nearest(self, output_size, factors([scales], 1), False)


def aten_upsample_nearest2d(
    self: Value, output_size: Sequence[Dim], scales_h: float | None = None, scales_w: float | None = None
) -> Value:
    """(n, c, h, w) -> (n, c, *output_size)"""
    return nearest(self, output_size, factors([scales_h, scales_w], 2), False)


def aten_upsample_nearest3d(
    self: Value,
    output_size: Sequence[Dim],
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    """(n, c, d, h, w) -> (n, c, *output_size)"""
    return nearest(self, output_size, factors([scales_d, scales_h, scales_w], 3), False)


def aten__upsample_nearest_exact1d(self: Value, output_size: Sequence[Dim], scales: float | None = None) -> Value:
    """(n, c, l) -> (n, c, *output_size), places rounded to the middle of elements"""
    return nearest(self, output_size, factors([scales], 1), True)


def aten__upsample_nearest_exact2d(
    self: Value, output_size: Sequence[Dim], scales_h: float | None = None, scales_w: float | None = None
) -> Value:
    """(n, c, h, w) -> (n, c, *output_size), places rounded to the middle of elements"""
    return nearest(self, output_size, factors([scales_h, scales_w], 2), True)


def aten__upsample_nearest_exact3d(
    self: Value,
    output_size: Sequence[Dim],
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    """(n, c, d, h, w) -> (n, c, *output_size), places rounded to the middle of elements"""
    return nearest(self, output_size, factors([scales_d, scales_h, scales_w], 3), True)


def aten_upsample_nearest2d_vec(
    input: Value, output_size: Sequence[Dim] | None, scale_factors: Any, *, expected: Any = None
) -> Value:
    """(n, c, *) -> (n, c, *output_size), or by scale factors"""
    sizes = target_sizes(input, output_size, expected)
    return nearest(input, sizes, factors(scale_factors, len(sizes)), False)


def aten__upsample_nearest_exact2d_vec(
    input: Value, output_size: Sequence[Dim] | None, scale_factors: Any, *, expected: Any = None
) -> Value:
    """(n, c, *) -> (n, c, *output_size), or by scale factors; places rounded to the middle of elements"""
    sizes = target_sizes(input, output_size, expected)
    return nearest(input, sizes, factors(scale_factors, len(sizes)), True)


# ---------------------------------------------------------------------------------------------- linear and cubic


def smooth(
    x: Value, sizes: Sequence[Dim], scales: Scales, align_corners: bool, mode: str, antialias: bool = False
) -> Value:
    """Weighted means of neighbours: one Resize, or a matrix for each axis where ONNX's Resize weighs otherwise."""
    spatial = len(sizes)
    axes = tuple(range(x.rank - spatial, x.rank))
    before = x.shape[-spatial:]
    if not antialias and all(is_unchanged(*r) for r in zip(before, sizes, scales, strict=True)):
        return x
    static = all(type(d) is int for d in (*before, *sizes))
    if x.dtype is DType.UINT8 and spatial == 2:
        made = matrices(before, sizes, scales, align_corners, mode, antialias)
        return fixed_point.resample(x, axes, made)
    says_all = align_corners or all(exactly(*r) for r in zip(before, sizes, scales, strict=True))
    attributes: dict[str, Any] = {
        "mode": mode, "axes": axes,
        "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel",
    }  # fmt: skip
    if mode == "cubic":
        attributes["cubic_coeff_a"] = -0.5 if antialias else -0.75
    if antialias:
        attributes |= {"antialias": 1, "exclude_outside": 1}
    if mode == "lanczos" or (antialias and align_corners) or (static and not says_all):
        return by_matrices(x, axes, sizes, scales, align_corners, mode, antialias)
    if x.dtype.is_integer:
        return cast(op.Round(smooth(cast(x, DType.FLOAT), sizes, scales, align_corners, mode, antialias)), x.dtype)
    stays = [may_meet(*r, 1) for r in zip(before, sizes, scales, strict=True)]
    if any(stays) and not align_corners and (mode == "cubic" or antialias):
        return by_matrices(x, axes, sizes, scales, align_corners, mode, antialias)
    # ONNX holds scales as float32.
    held = x.dtype is not DType.DOUBLE or all(s is None or s == float(np.float32(s)) for s in scales)
    if held and not align_corners and all(by_factor(*r) for r in zip(before, sizes, scales, strict=True)):
        if not any(stays):
            return resized(x, np.array(scales, np.float32), None, attributes)
        found = resized(x, scales_where_changed(before, sizes, scales), None, attributes)
        return op.Reshape(found, shape_vector((*x.shape[:-spatial], *sizes)))
    if not says_all:
        return by_matrices(x, axes, sizes, scales, align_corners, mode, antialias)
    return resized(x, None, shape_vector(sizes), attributes)


def resized(x: Value, scales: Any, sizes: Value | None, attributes: Mapping[str, Any]) -> Value:
    """Resize, of rows of signals as of images of one row: of three dimensions ONNX Runtime takes means along all, by
    which an infinity makes NaN of its neighbour's row, and takes two to seven times as long."""
    if x.rank != 3 or attributes["axes"] != (2,):
        return op.Resize(x, None, scales, sizes, **attributes)
    return op.Squeeze(op.Resize(op.Unsqueeze(x, [2]), None, scales, sizes, **{**attributes, "axes": (3,)}), [2])


def scales_where_changed(before: Sequence[Dim], sizes: Sequence[Dim], scales: Scales) -> Value:
    """(axes,) scale factors, and 1 for an axis that stays as long as it is, whose elements torch leaves as they are"""
    given = [const(np.array([s], np.float32)) for s in scales]
    one = const(np.array([1], np.float32))
    return op.Concat(
        *(
            op.Where(op.Equal(dim_scalar(size), dim_scalar(out)), one, factor)
            if may_meet(size, out, scale, 1)
            else factor
            for size, out, scale, factor in zip(before, sizes, scales, given, strict=True)
        ),
        axis=0,
    )


def by_matrices(
    x: Value, axes: Sequence[int], sizes: Sequence[Any], scales: Scales, align_corners: bool, mode: str, antialias: bool
) -> Value:
    """x times a matrix of weights along every axis"""
    kind = x.dtype
    wide = widen(x) if kind.is_float else cast(x, DType.FLOAT)
    last = wide.rank - 1
    by_axis = matrices([x.shape[a] for a in axes], sizes, scales, align_corners, mode, antialias)
    for axis, made in zip(axes, by_axis, strict=True):
        matrix = cast(swap(made), wide.dtype) if isinstance(made, Value) else const(made.T.astype(wide.dtype.numpy))
        wide = op.MatMul(wide, matrix) if axis == last else swap(op.MatMul(swap(wide, axis, last), matrix), axis, last)
    return cast(wide if kind.is_float else op.Round(wide), kind)


def matrices(
    before: Sequence[Any],
    sizes: Sequence[Any],
    scales: Scales,
    align_corners: bool,
    mode: str,
    antialias: bool,
    kept: bool = True,
) -> list[np.ndarray | Value]:
    """The weights along every axis, each (out, size): arrays, or values where a size is a symbol; with `kept` a filter
    leaves an axis that stays as long as it is"""
    found: list[np.ndarray | Value] = []
    for size, out, scale in zip(before, sizes, scales, strict=True):
        if type(size) is not int or type(out) is not int:
            found.append(resampling.matrix(size, out, scale, align_corners, mode, antialias, kept))
            continue
        between_corners = (size - 1) / (out - 1) if out > 1 else 0.0
        step = between_corners if align_corners else 1.0 / scale if scale else size / out
        if antialias:
            found.append(antialiased_weights(size, out, step, align_corners, mode, kept))
        else:
            found.append(weights(size, out, step, align_corners, mode))
    return found


def weights(size: int, out: int, step: float, align_corners: bool, mode: str) -> np.ndarray:
    """(out, size): how much of each element is in each result"""
    if mode == "linear" and size == out:
        return np.eye(size)
    matrix = np.zeros((out, size))
    for i in range(out):
        place = i * step if align_corners else (i + 0.5) * step - 0.5
        if mode == "linear":
            place = max(place, 0.0)
        first = math.floor(place)
        t = place - first
        taps = ((0, 1 - t), (1, t)) if mode == "linear" else [(k, cubic(t - k, -0.75)) for k in (-1, 0, 1, 2)]
        for k, weight in taps:
            matrix[i, min(max(first + k, 0), size - 1)] += weight
    return matrix


def antialiased_weights(
    size: int, out: int, step: float, align_corners: bool, mode: str, kept: bool = True
) -> np.ndarray:
    """(out, size): as `weights`, with a filter as wide as the step where elements are skipped; with `kept` what stays
    as long as it is stays as it is"""
    if kept and size == out:
        return np.eye(size)
    radius, kernel = FILTERS[mode]
    wide = max(step, 1.0)
    matrix = np.zeros((out, size))
    for i in range(out):
        centre = step * (i + 0.5)
        low = max(int(centre - radius * wide + 0.5), 0)
        high = min(int(centre + radius * wide + 0.5), size)
        row = np.array([kernel((j - centre + 0.5) / wide) for j in range(low, high)])
        matrix[i, low:high] = row / row.sum() if row.sum() else row
    return matrix


def cubic(t: float, a: float) -> float:
    """Keys' cubic at a distance of t"""
    t = abs(t)
    if t < 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return (((t - 5) * t + 8) * t - 4) * a if t < 2 else 0.0


def triangle(t: float) -> float:
    """1 at 0, falling to 0 at a distance of 1"""
    return max(1.0 - abs(t), 0.0)


def lanczos(t: float) -> float:
    """sinc(t) * sinc(t / 3) within a distance of 3"""
    return float(np.sinc(t) * np.sinc(t / 3)) if abs(t) < 3 else 0.0


FILTERS: dict[str, tuple[float, Callable[[float], float]]] = {
    "linear": (1.0, triangle),
    "cubic": (2.0, lambda t: cubic(t, -0.5)),
    "lanczos": (3.0, lanczos),
}
"""(radius, weight at a distance) of the filters of antialiasing"""


def to_size(mode: str, antialias: bool = False) -> Callable[..., Value]:
    """The converter of images (n, c, h, w) resized to (n, c, *output_size)"""

    def convert(
        self: Value,
        output_size: Sequence[Dim],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Value:
        return smooth(self, output_size, factors([scales_h, scales_w], 2), align_corners, mode, antialias)

    return convert


def to_size_or_by_factors(mode: str, antialias: bool = False) -> Callable[..., Value]:
    """The converter of (n, c, *) resized to (n, c, *output_size), or by scale factors"""

    def convert(
        input: Value,
        output_size: Sequence[Dim] | None,
        align_corners: bool,
        scale_factors: Any,
        *,
        expected: Any = None,
    ) -> Value:
        sizes = target_sizes(input, output_size, expected)
        return smooth(input, sizes, factors(scale_factors, len(sizes)), align_corners, mode, antialias)

    return convert


def aten_upsample_linear1d(
    self: Value, output_size: Sequence[Dim], align_corners: bool, scales: float | None = None
) -> Value:
    """(n, c, l) -> (n, c, *output_size)"""
    return smooth(self, output_size, factors([scales], 1), align_corners, "linear")


def aten_upsample_trilinear3d(
    self: Value,
    output_size: Sequence[Dim],
    align_corners: bool,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    """(n, c, d, h, w) -> (n, c, *output_size)"""
    return smooth(self, output_size, factors([scales_d, scales_h, scales_w], 3), align_corners, "linear")


aten_upsample_bilinear2d, aten_upsample_bicubic2d = map(to_size, ("linear", "cubic"))
aten__upsample_bilinear2d_aa, aten__upsample_bicubic2d_aa = (to_size(mode, True) for mode in ("linear", "cubic"))
aten__upsample_lanczos2d_aa = to_size("lanczos", True)

aten_upsample_bilinear2d_vec = to_size_or_by_factors("linear")
aten_upsample_bicubic2d_vec = to_size_or_by_factors("cubic")
aten__upsample_bilinear2d_aa_vec = to_size_or_by_factors("linear", True)
aten__upsample_bicubic2d_aa_vec = to_size_or_by_factors("cubic", True)
aten__upsample_lanczos2d_aa_vec = to_size_or_by_factors("lanczos", True)
