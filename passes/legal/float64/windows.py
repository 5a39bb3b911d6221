"""Windows over float64, where ONNX Runtime convolves and averages only float32: rows taken by indices, and products.

Along each axis a matrix of indices (windows, places in a window) says which element stands where; one Gather for an
axis lays all windows out, whatever the size of the kernel. Places outside are a row of zeros behind the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.expansions import Expansion
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import axes_of, is_known, number, operand, vector
from passes.legal.runtime.expansions import ordinals


@attrs.frozen
class Axis:
    """How windows lie along one axis: `size` elements, `count` windows of `kernel` places, `before` and `after` of
    padding."""

    size: Dim
    count: Dim
    kernel: Dim
    stride: int
    dilation: int
    before: int
    after: int


def axes_of_windows(value: Value, kernel: tuple[Dim, ...]) -> list[Axis] | None:
    """How the windows of a Conv, ConvTranspose or AveragePool lie; None where no numbers say it."""
    x = value.inputs[0]
    if x is None or attribute_of(value, "auto_pad") not in ("NOTSET", None):
        return None
    count = len(kernel)
    strides, dilations, pads = (
        value.attribute(name) or default
        for name, default in (("strides", (1,) * count), ("dilations", (1,) * count), ("pads", (0,) * (2 * count)))
    )
    rows = zip(x.shape[2:], value.shape[2:], kernel, strides, dilations, pads[:count], pads[count:], strict=True)
    return [Axis(*row) for row in rows]


LONGEST = 1 << 16
"""A progression of more numbers is left to the runtime: a file may state any size."""


def progression(m: Match, count: Dim, step: int, *binders: Value) -> Value | None:
    """0, step, 2 * step, ...: so many numbers; None where the count is not bound."""
    if type(count) is int and count <= LONGEST:
        return const(np.arange(count, dtype=np.int64) * step)
    sources = bound_by(*binders)
    if not is_known((count,)) or not is_bound(m, (count,), sources):
        return None
    numbers = op.Range(0, count if type(count) is int else sizes_value(m, (count,), 0, sources), 1)
    return numbers if step == 1 else op.Mul(numbers, np.int64(step))


def positions(m: Match, axis: Axis, *binders: Value) -> Value | None:
    """(count, kernel) places of the windows along an axis, below 0 and from `size` on where they lie outside."""
    starts, places = (
        progression(m, axis.count, axis.stride, *binders),
        progression(m, axis.kernel, axis.dilation, *binders),
    )
    if starts is None or places is None:
        return None
    return op.Add(op.Unsqueeze(op.Sub(starts, np.int64(axis.before)), vector([1])), places)


def origins(m: Match, axis: Axis, *binders: Value) -> Value | None:
    """(count, kernel) places of the elements that a transposed window adds up; -1 where there is none."""
    results, places = progression(m, axis.count, 1, *binders), progression(m, axis.kernel, axis.dilation, *binders)
    if results is None or places is None:
        return None
    spread = op.Sub(op.Unsqueeze(op.Add(results, np.int64(axis.before)), vector([1])), places)
    stride = np.int64(axis.stride)
    hit = op.And(op.GreaterOrEqual(spread, np.int64(0)), op.Equal(op.Mod(spread, stride), np.int64(0)))
    return op.Where(hit, op.Div(spread, stride), np.int64(-1))


def extent(m: Match, size: Dim, *binders: Value) -> Value | None:
    """A size as a scalar; None where it is not bound."""
    if type(size) is int:
        return const(np.array(size, dtype=np.int64))
    sources = bound_by(*binders)
    return sizes_value(m, (size,), 0, sources) if is_known((size,)) and is_bound(m, (size,), sources) else None


def within(places: Value, low: Value, high: Value) -> Value:
    """Which of the places lie in [low, high)."""
    return op.And(op.GreaterOrEqual(places, low), op.Less(places, high))


def laid_out(
    m: Match, axes: list[Axis], placed: Callable[..., Value | None], x: Value, *binders: Value
) -> Value | None:
    """(n, c, *sizes) -> (n, c, *counts, *kernels), zero where a window reaches beyond the image"""
    rank = len(axes)
    indices: list[Value] = []
    for axis in axes:
        places, size = placed(m, axis, x, *binders), extent(m, axis.size, x)
        if places is None or size is None:
            return None
        indices.append(op.Where(within(places, const(np.array(0)), size), places, size))
    found = op.Pad(x, vector([*(0,) * (rank + 4), *(1,) * rank]))
    for i, index in enumerate(indices):
        found = op.Gather(found, index, axis=2 + 2 * i)
    return op.Transpose(found, perm=(0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)))


def shaped(m: Match, x: Value, shape: tuple[Dim, ...], *binders: Value) -> Value | None:
    """x under other dimensions, of which any may be 0; None where one of them is not bound."""
    sources = bound_by(x, *binders)
    if not is_known(shape) or not is_bound(m, shape, sources):
        return None
    return op.Reshape(x, sizes_value(m, shape, 1, sources), allowzero=1)


def multiplied(m: Match, value: Value, laid: Value, kernels: Value, shape: tuple[Dim, ...]) -> Value | None:
    """(n, c, *counts, *sizes) times kernels of shape (groups, outputs, inputs, *sizes): (n, m, *counts), plus bias"""
    sources = [v for v in value.inputs[:2] if v is not None]
    rank = value.rank - 2
    spatial = range(2, 2 + rank)
    batch, counts = value.shape[0], value.shape[2:]
    matrices = shaped(m, kernels, (*shape[:2], dims.product(shape[2:])), *sources)
    # What is summed over stands before the batch, so that no operand is repeated: ONNX Runtime cannot repeat one for
    # an empty batch.
    turned = op.Transpose(laid, perm=(1, *range(2 + rank, 2 + 2 * rank), 0, *spatial))
    columns = (shape[0], dims.product(shape[2:]), dims.product((batch, *counts)))
    columns = shaped(m, turned, columns, *sources)
    if columns is None or matrices is None:
        return None
    made = shaped(m, op.MatMul(matrices, columns), (value.shape[1], batch, *counts), *sources)
    made = None if made is None else op.Transpose(made, perm=(1, 0, *spatial))
    bias = operand(value, 2)
    if made is None or bias is None:
        return made
    return op.Add(made, op.Unsqueeze(bias, vector(range(1, 1 + rank))))


def conv(m: Match, value: Value) -> Value | None:
    """Windows laid out, times the kernels as matrices"""
    x, weight = value.inputs[:2]
    if x is None or weight is None:
        return None
    axes = axes_of_windows(value, weight.shape[2:])
    groups = attribute_of(value, "group")
    laid = None if axes is None else laid_out(m, axes, positions, x, weight)
    if laid is None:
        return None
    return multiplied(m, value, laid, weight, (groups, dims.floordiv(weight.shape[0], groups), *weight.shape[1:]))


def conv_transpose(m: Match, value: Value) -> Value | None:
    """The elements that reach each result laid out, times the kernels as matrices"""
    x, weight = value.inputs[:2]
    if x is None or weight is None or value.attribute("output_shape"):
        return None
    axes = axes_of_windows(value, weight.shape[2:])
    groups = attribute_of(value, "group")
    laid = None if axes is None else laid_out(m, axes, origins, x, weight)
    if laid is None:
        return None
    inputs, outputs, *kernel = weight.shape
    each = dims.floordiv(inputs, groups)
    split = shaped(m, weight, (groups, each, outputs, *kernel))
    if split is None:
        return None
    turned = op.Transpose(split, perm=(0, 2, 1, *range(3, split.rank)))
    return multiplied(m, value, laid, turned, (groups, outputs, each, *kernel))


def average_pool(m: Match, value: Value) -> Value | None:
    """The sum of each window, divided by how many of its places count"""
    x = value.inputs[0]
    axes = axes_of_windows(value, value.attribute("kernel_shape"))
    laid = None if axes is None or x is None else laid_out(m, axes, positions, x)
    if laid is None or axes is None or x is None:
        return None
    total = op.ReduceSum(laid, vector(range(2 + len(axes), laid.rank)), keepdims=0)
    for i, axis in enumerate(axes):
        places, size = positions(m, axis, x), extent(m, axis.size, x)
        if places is None or size is None:
            return None
        low = 0
        if attribute_of(value, "count_include_pad"):
            low, size = -axis.before, op.Add(size, np.int64(axis.after))
        counted = op.Cast(within(places, const(np.array(low)), size), to=x.dtype)
        count = op.ReduceSum(counted, vector([1]), keepdims=0)
        total = op.Div(total, op.Unsqueeze(count, vector(range(1, len(axes) - i))))
    return total


def power_pool(m: Match, value: Value) -> Value | None:
    """(the sum of abs(x) ** p over a window) ** (1 / p)"""
    x, power = value.inputs[0], attribute_of(value, "p")
    axes = axes_of_windows(value, value.attribute("kernel_shape"))
    laid = None if axes is None or x is None else laid_out(m, axes, positions, x)
    if laid is None or axes is None or power < 1:
        return None
    total = op.ReduceSum(op.Pow(op.Abs(laid), number(laid, power)), vector(range(2 + len(axes), laid.rank)), keepdims=0)
    return op.Pow(total, number(total, 1 / power))


SUMMED = frozenset((
    DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16, DType.INT32, DType.INT64, DType.UINT32, DType.UINT64,
))  # fmt: skip
"""Element types that ReduceSum takes."""


def col2im(m: Match, value: Value) -> Value | None:
    """Each result the sum of the columns' elements that lie on it, one axis after the other"""
    x, block = value.inputs[0], axes_of(operand(value, 2))
    if x is None or block is None or x.dtype not in SUMMED:
        return None
    rank = len(block)
    strides, dilations, pads = (
        value.attribute(name) or default
        for name, default in (("strides", (1,) * rank), ("dilations", (1,) * rank), ("pads", (0,) * (2 * rank)))
    )
    axes: list[Axis] = []
    for i, (size, kernel) in enumerate(zip(value.shape[2:], block, strict=True)):
        reach = dims.sub(dims.add(size, pads[i] + pads[rank + i]), dilations[i] * (kernel - 1) + 1)
        windows = dims.add(dims.floordiv(reach, strides[i]), 1)
        axes.append(Axis(windows, size, kernel, strides[i], dilations[i], pads[i], pads[rank + i]))
    # (n, c, *kernels, *windows) -> (n, c, kernel * windows of each axis), with a row of zeros behind the last one.
    apart = shaped(m, x, (*value.shape[:2], *block, *(a.size for a in axes)), x)
    beside = [i for k in range(rank) for i in (2 + k, 2 + rank + k)]
    joined = [dims.mul(a.kernel, a.size) for a in axes]
    if apart is None:
        return None
    found = shaped(m, op.Transpose(apart, perm=(0, 1, *beside)), (*value.shape[:2], *joined), x)
    if found is None:
        return None
    found = op.Pad(found, vector([*(0,) * (rank + 4), *(1,) * rank]))
    for i, axis in enumerate(axes):
        window, size, end = origins(m, axis, x), extent(m, axis.size, x), extent(m, joined[i], x)
        if window is None or size is None or end is None:
            return None
        place = op.Add(op.Mul(const(np.arange(block[i], dtype=np.int64)), size), window)
        found = op.Gather(found, op.Where(within(window, const(np.array(0)), size), place, end), axis=2 + 2 * i)
    return op.ReduceSum(found, vector(range(3, 3 + 2 * rank, 2)), keepdims=0)


# ---------------------------------------------------------------------------------------------- other sizes


def resize(m: Match, value: Value) -> Value | None:
    """Weighted neighbours along one axis after the other: those of linear and cubic interpolation, or the nearest; in a
    region, `extrapolation_value` where it reaches beyond the image"""
    x, crop = value.inputs[0], attribute_of(value, "coordinate_transformation_mode") == "tf_crop_and_resize"
    if x is None or any(type(d) is int and d == 0 for d in value.shape):  # no axis of an image of nothing can be read
        return None
    axes = [axis % x.rank for axis in value.attribute("axes") or range(x.rank)]
    factors = factors_of(value, axes)
    if factors is None or (crop and attribute_of(value, "antialias")):
        return None
    corners = corners_of(value, len(axes)) if crop else [None] * len(axes)
    found, outside = x, None
    for axis, factor, ends in zip(axes, factors, corners, strict=True):
        same = factor is None and dims.same(x.shape[axis], value.shape[axis]) is True
        if not crop and (factor == 1 or same):
            continue
        grid = grid_of(m, value, axis, factor, ends)
        made = None if grid is None else resized(m, value, found, axis, grid)
        if grid is None or made is None:
            return None
        found = made
        if crop:
            last = op.Sub(op.Cast(grid.size, to=DType.DOUBLE), 1.0)
            beyond = op.Or(op.Less(grid.place, 0.0), op.Greater(grid.place, last))
            beyond = op.Unsqueeze(beyond, vector(range(1, x.rank - axis)))
            outside = beyond if outside is None else op.Or(outside, beyond)
    return found if outside is None else op.Where(outside, attribute_of(value, "extrapolation_value"), found)


def factors_of(value: Value, axes: Sequence[int]) -> Sequence[float | None] | None:
    """The scale of each axis, None where it is that of the sizes; None in all where no constants tell."""
    scales, given = operand(value, 2), [value.inputs[0].shape[axis] for axis in axes]  # type: ignore[union-attr]
    if scales is not None:
        known = scales.blob is not None and bool((scales.blob.array > 0).all())
        return [float(s) for s in scales.blob.array] if known else None  # type: ignore[union-attr]
    policy, sizes = attribute_of(value, "keep_aspect_ratio_policy"), operand(value, 3)
    if policy == "stretch":
        return [None] * len(axes)
    if sizes is None or sizes.blob is None or any(type(d) is not int for d in given):
        return None
    ratios = [int(wanted) / d for wanted, d in zip(sizes.blob.array, given, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    made = [value.shape[axis] for axis in axes]
    return [None if scale == new / old else scale for new, old in zip(made, given, strict=True)]


def corners_of(value: Value, count: int) -> list[tuple[Value, Value] | None]:
    """Where the region begins and ends along each axis, as shares of its size."""
    region = operand(value, 1)
    if region is None or region.shape == (0,):
        return [(const(np.array(0.0)), const(np.array(1.0)))] * count
    wide = region if region.dtype is DType.DOUBLE else op.Cast(region, to=DType.DOUBLE)
    parts = [op.Gather(wide, const(np.array(i)), axis=0) for i in range(2 * count)]
    return [*zip(parts[:count], parts[count:], strict=True)]


@attrs.frozen
class Grid:
    """Where the results along an axis lie among its `size` elements, `step` of them apart."""

    place: Value
    size: Value
    step: Value


def grid_of(m: Match, value: Value, axis: int, factor: float | None, ends: tuple[Value, Value] | None) -> Grid | None:
    """The places along one axis; None in a mode that is not known here, or for sizes that nothing binds."""
    x: Any = value.inputs[0]
    count, out, size = ordinals(m, value.shape[axis], x), extent(m, value.shape[axis], x), extent(m, x.shape[axis], x)
    if count is None or out is None or size is None:
        return None
    index, whole, before = (op.Cast(v, to=DType.DOUBLE) for v in (count, out, size))
    place = coordinate(value, index, whole, before, factor) if ends is None else cropped(index, whole, before, *ends)
    if place is None:
        return None
    return Grid(place, size, op.Div(before, whole) if factor is None else number(place, 1 / factor))


def resized(m: Match, value: Value, x: Value, axis: int, grid: Grid) -> Value | None:
    """x with one axis at the size that it has in `value`."""
    place, size = grid.place, grid.size
    if attribute_of(value, "antialias"):
        return filtered(m, value, x, axis, place, grid.step)
    first = nearest(value, place) if attribute_of(value, "mode") == "nearest" else op.Floor(place)
    taps = neighbours(value, op.Sub(place, first), op.Cast(first, to=DType.INT64), size)
    behind = vector(range(1, x.rank - axis))
    found = None
    for index, weight in taps:
        inside = op.Max(op.Min(index, op.Sub(size, np.int64(1))), np.int64(0))
        part = op.Gather(x, inside, axis=axis)
        part = part if weight is None else op.Mul(part, op.Unsqueeze(weight, behind))
        found = part if found is None else op.Add(found, part)
    return found


def cropped(index: Value, out: Value, size: Value, start: Value, end: Value) -> Value:
    """Where each result lies that is spread over a region; in the middle of it where it is one."""
    last, gaps = op.Sub(size, 1.0), op.Sub(out, 1.0)
    alone = op.Equal(gaps, 0.0)
    spread = op.Div(op.Mul(op.Mul(index, op.Sub(end, start)), last), op.Where(alone, 1.0, gaps))
    middle = op.Mul(op.Mul(op.Add(start, end), 0.5), last)
    return op.Where(alone, middle, op.Add(op.Mul(start, last), spread))


def filtered(m: Match, value: Value, x: Value, axis: int, place: Value, step: Value) -> Value | None:
    """x times a matrix of weights along an axis: those of a filter as wide as the step where elements are skipped."""
    mode, sources = attribute_of(value, "mode"), ordinals(m, x.shape[axis], x)
    if sources is None or mode not in ("linear", "cubic") or not attribute_of(value, "exclude_outside"):
        return None
    gaps = op.Sub(op.Cast(sources, to=DType.DOUBLE), op.Unsqueeze(place, vector([1])))
    d = op.Div(op.Abs(gaps), op.Max(step, number(step, 1)))
    one, two = number(d, 1), number(d, 2)
    if mode == "linear":
        weights = op.Max(op.Sub(one, d), number(d, 0))
    else:
        a = attribute_of(value, "cubic_coeff_a")
        outer = op.Where(op.Less(d, two), cubic_far(d, a), number(d, 0))
        weights = op.Where(op.Less(d, one), cubic_near(d, a), outer)
    shares = op.Div(weights, op.ReduceSum(weights, vector([1])))
    last = x.rank - 1
    order = [i for i in range(x.rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(x.rank)]
    turned = x if axis == last else op.Transpose(x, perm=order)
    made = op.MatMul(turned, op.Transpose(shares, perm=(1, 0)))
    return made if axis == last else op.Transpose(made, perm=back)


def coordinate(value: Value, index: Value, out: Value, size: Value, factor: float | None) -> Value | None:
    """Where each result lies among the elements; None in a mode that is not known here."""
    mode = attribute_of(value, "coordinate_transformation_mode")
    one, half = number(index, 1), number(index, 0.5)
    if mode == "align_corners":
        width = out if factor is None else op.Mul(size, number(size, factor))  # it need not be whole
        gaps = op.Sub(width, one)
        return op.Div(op.Mul(index, op.Sub(size, one)), op.Where(op.Equal(gaps, number(gaps, 0)), one, gaps))
    step = op.Div(size, out) if factor is None else number(index, 1 / factor)
    if mode == "asymmetric":
        return op.Mul(index, step)
    place = op.Sub(op.Mul(op.Add(index, half), step), half)
    if mode == "half_pixel_symmetric":
        if factor is None:
            return place
        share = op.Div(out, op.Mul(size, number(size, factor)))
        return op.Add(place, op.Mul(op.Mul(size, half), op.Sub(one, share)))
    if mode not in ("half_pixel", "pytorch_half_pixel"):
        return None
    return place if mode == "half_pixel" else op.Where(op.Greater(out, one), place, number(index, 0))


def neighbours(value: Value, t: Value, first: Value, size: Value) -> list[tuple[Value, Value | None]]:
    """The elements that a result is made of, with their weights, for a place `t` behind element `first`."""
    mode = attribute_of(value, "mode")
    if mode == "nearest":
        return [(first, None)]
    one = number(t, 1)
    if mode == "linear":
        return shared(value, [(first, op.Sub(one, t)), (op.Add(first, np.int64(1)), t)], size)
    a = attribute_of(value, "cubic_coeff_a")
    s = op.Sub(one, t)
    weights = (cubic_far(op.Add(t, one), a), cubic_near(t, a), cubic_near(s, a), cubic_far(op.Add(s, one), a))
    return shared(value, [(op.Add(first, np.int64(k)), w) for k, w in zip((-1, 0, 1, 2), weights, strict=True)], size)


def nearest(value: Value, place: Value) -> Value:
    """A place rounded to that of an element."""
    mode, half = attribute_of(value, "nearest_mode"), number(place, 0.5)
    if mode == "round_prefer_floor":
        return op.Ceil(op.Sub(place, half))
    if mode == "round_prefer_ceil":
        return op.Floor(op.Add(place, half))
    return op.Floor(place) if mode == "floor" else op.Ceil(place)


def shared(value: Value, taps: list[tuple[Value, Value]], size: Value) -> list[tuple[Value, Value | None]]:
    """The taps; where those outside are left out, the weights of the others make up for them."""
    if not attribute_of(value, "exclude_outside"):
        return [*taps]
    weights = [op.Where(within(index, const(np.array(0)), size), w, number(w, 0)) for index, w in taps]
    total = op.Sum(*weights)
    return [(index, op.Div(w, total)) for (index, _), w in zip(taps, weights, strict=True)]


def cubic_near(d: Value, a: float) -> Value:
    """Keys' cubic at a distance of at most 1"""
    bent = op.Sub(op.Mul(d, number(d, a + 2)), number(d, a + 3))
    return op.Add(op.Mul(bent, op.Mul(d, d)), number(d, 1))


def cubic_far(d: Value, a: float) -> Value:
    """Keys' cubic at a distance between 1 and 2"""
    bent = op.Sub(d, number(d, 5))
    bent = op.Add(op.Mul(bent, d), number(d, 8))
    return op.Mul(op.Sub(op.Mul(bent, d), number(d, 4)), number(d, a))


WINDOWS: Mapping[str, Expansion] = MappingProxyType(
    {
        "Conv": conv,
        "ConvTranspose": conv_transpose,
        "AveragePool": average_pool,
        "LpPool": power_pool,
        "Resize": resize,
        "Col2Im": col2im,
    }
)
"""The expansion of each operator on windows, for float64."""
