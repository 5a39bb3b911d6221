"""How much of each element is in each result of a resampled axis, where the sizes are known as the program runs only.

The same weights as `lowering.aten.images.upsample` makes of numbers, as a matrix (out, size) of float64.
"""

from __future__ import annotations

import math

from irkit.build import dim_scalar, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import iota, unsqueeze


def double(number: float) -> Value:
    """A number in float64."""
    return scalar(number, DType.DOUBLE)


def matrix(
    size: Dim, out: Dim, scale: float | None, align_corners: bool, mode: str, antialias: bool, kept: bool = True
) -> Value:
    """The weights of linear or cubic interpolation, or of a filter as wide as the step where that is above 1; with
    `kept` a filter leaves an axis that stays as long as it is."""
    count, outs = cast(dim_scalar(size), DType.DOUBLE), cast(dim_scalar(out), DType.DOUBLE)
    gaps = op.Div(op.Sub(count, 1), op.Max(op.Sub(outs, 1), double(1)))
    apart = op.Where(op.Greater(outs, 1), gaps, double(0))
    step = apart if align_corners else double(1 / scale) if scale else op.Div(count, outs)
    steps = cast(iota(out), DType.DOUBLE)
    if antialias:
        centre = op.Mul(step, op.Add(steps, 0.5))
        gap = op.Add(op.Sub(cast(iota(size), DType.DOUBLE), unsqueeze(centre, 1)), 0.5)
        raw = filtered(op.Div(gap, op.Max(step, double(1))), mode)
        total = op.ReduceSum(raw, [1])
        even = op.Div(raw, op.Where(op.Equal(total, 0), double(1), total))
        if not scale or not kept:
            return even
        # Where a scale factor leaves as many elements as there were, torch leaves them as they are.
        same = op.Equal(unsqueeze(iota(out), 1), iota(size))
        return op.Where(op.Equal(count, outs), cast(same, DType.DOUBLE), even)
    place = op.Mul(steps, step) if align_corners else op.Sub(op.Mul(op.Add(steps, 0.5), step), 0.5)
    if mode == "linear":
        # So it does here, but for cubic weights.
        stays = op.Equal(count, outs)
        place = op.Max(op.Where(stays, steps, place) if scale else place, double(0))
    first = op.Floor(place)
    t = op.Sub(place, first)
    taps = ((0, op.Sub(1, t)), (1, t)) if mode == "linear" else [(k, cubic(op.Sub(t, k), -0.75)) for k in (-1, 0, 1, 2)]
    found: Value | None = None
    for k, weight in taps:
        at = op.Min(op.Max(op.Add(cast(first, DType.INT64), k), 0), op.Sub(dim_scalar(size), 1))
        here = op.Equal(unsqueeze(at, 1), iota(size))
        part = op.Where(here, unsqueeze(weight, 1), double(0))
        found = part if found is None else op.Add(found, part)
    return found  # type: ignore[return-value]


def filtered(d: Value, mode: str) -> Value:
    """The filter of antialiasing at a distance"""
    if mode == "linear":
        return op.Max(op.Sub(1, op.Abs(d)), double(0))
    if mode == "cubic":
        return cubic(d, -0.5)
    wave = op.Mul(sinc(d), sinc(op.Div(d, 3)))
    return op.Where(op.Less(op.Abs(d), 3), wave, double(0))


def sinc(x: Value) -> Value:
    """sin(pi x) / (pi x), and 1 at 0"""
    angle = op.Mul(x, math.pi)
    return op.Where(op.Equal(x, 0), double(1), op.Div(op.Sin(angle), angle))


def cubic(d: Value, a: float) -> Value:
    """Keys' cubic at a distance"""
    size = op.Abs(d)
    near = op.Add(op.Mul(op.Mul(op.Sub(op.Mul(size, a + 2), a + 3), size), size), 1)
    far = op.Mul(op.Sub(op.Mul(op.Add(op.Mul(op.Sub(size, 5), size), 8), size), 4), a)
    return op.Where(op.Less(size, 1), near, op.Where(op.Less(size, 2), far, scalar(0, d.dtype)))


def cubic_slope(d: Value, a: float) -> Value:
    """By how much Keys' cubic grows with its argument, which may be negative"""
    size = op.Abs(d)
    near = op.Mul(op.Sub(op.Mul(size, 3 * (a + 2)), 2 * (a + 3)), size)
    far = op.Mul(op.Add(op.Mul(op.Sub(op.Mul(size, 3), 10), size), 8), a)
    steep = op.Where(op.Less(size, 1), near, op.Where(op.Less(size, 2), far, scalar(0, d.dtype)))
    return op.Mul(steep, op.Sign(d))
