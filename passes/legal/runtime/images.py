"""Grids, norms and pools of images by others, where ONNX Runtime has no kernel, or one that errs: where there is one
place, or one number throughout."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit.build import call, const, op
from irkit.core.attributes import Given
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.questions import number, operand, vector


def has_one_place(value: Value) -> bool:
    """True for an AffineGrid from corner to corner along whose axes there may be one place, which is the middle."""
    return bool(attribute_of(value, "align_corners")) and any(type(d) is not int or d == 1 for d in value.shape[1:-1])


def has_gaps(value: Value) -> bool:
    """True for a Col2Im with dilations over one axis, or over three and more."""
    return any(gap != 1 for gap in value.attribute("dilations") or ()) and value.rank != 4


def affine_grid(m: Match, value: Value) -> Value | None:
    """The places of each axis times their columns of the matrices, and the last column"""
    theta, size = value.inputs[:2]
    if theta is None or size is None or not has_one_place(value):
        return None
    count = value.rank - 2
    wide = theta if theta.dtype in (DType.FLOAT, DType.DOUBLE) else op.Cast(theta, to=DType.FLOAT)
    behind = vector(range(1, 1 + count))

    def column(k: int) -> Value:
        return op.Unsqueeze(op.Gather(wide, const(np.array(k)), axis=2), behind)

    found = column(count)
    for axis in range(count):
        places = op.Unsqueeze(
            line(size, axis + 2, wide), vector((0, *(n for n in range(1, count + 2) if n != axis + 1)))
        )
        found = op.Add(op.Mul(places, column(count - 1 - axis)), found)
    return found if wide is theta else op.Cast(found, to=theta.dtype)


def line(size: Value, axis: int, like: Value) -> Value:
    """Even places from -1 to 1, as many as `size` says of the axis; 0 where there is one."""
    one = const(np.array(1))
    places = op.Gather(size, const(np.array(axis)))
    places = places if places.dtype is DType.INT64 else op.Cast(places, to=DType.INT64)
    less = op.Sub(places, one)
    last = op.Cast(op.Where(op.Greater(less, one), less, one), to=like.dtype)
    run = op.Cast(op.Range(const(np.array(0)), places, one), to=like.dtype)
    even = op.Sub(op.Div(op.Mul(run, number(like, 2)), last), number(like, 1))
    return op.Where(op.Equal(places, one), number(like, 0), even)


def mean_variance_normalization(m: Match, value: Value) -> Value | None:
    """(x - mean) / (sqrt(var) + 1e-9) over axes"""
    x = value.inputs[0]
    if x is None:
        return None
    over = vector(a % x.rank for a in attribute_of(value, "axes"))
    centred = op.Sub(x, op.ReduceMean(x, over))
    spread = op.Sqrt(op.ReduceMean(op.Mul(centred, centred), over))
    return op.Div(centred, op.Add(spread, number(x, 1e-9)))


def global_lp_pool(m: Match, value: Value) -> Any:
    """(sum |x| ** p) ** (1 / p) over all but batch and channels"""
    x, power = value.inputs[0], attribute_of(value, "p")
    if x is None:
        return None
    if x.rank == 2:  # a reduction over no axes would be one over all
        return op.Abs(x)
    axes = vector(range(2, x.rank))
    if power in (1, 2):
        return call(f"ReduceL{power}", [x, axes])
    return op.Pow(op.ReduceSum(op.Pow(op.Abs(x), number(x, power)), axes), number(x, 1 / power))


def resized_along_all(value: Value, x: Value, kept: Given) -> Value:
    """A Resize with the operands for the axes that it names, among those that leave the others as they are."""
    axes = [a % x.rank for a in value.attribute("axes")]
    roi, scales, sizes = (operand(value, i) for i in (1, 2, 3))
    count = len(axes)
    if sizes is not None:
        given = op.Concat(sizes, op.Shape(x), axis=0)
        places = [axes.index(a) if a in axes else count + a for a in range(x.rank)]
        sizes = op.Gather(given, vector(places))
    elif scales is not None:
        places = [axes.index(a) if a in axes else count for a in range(x.rank)]
        scales = op.Gather(op.Concat(scales, number(scales, [1]), axis=0), vector(places))
    if roi is not None:
        low = [axes.index(a) if a in axes else 2 * count for a in range(x.rank)]
        high = [count + axes.index(a) if a in axes else 2 * count + 1 for a in range(x.rank)]
        roi = op.Gather(op.Concat(roi, number(roi, [0, 1]), axis=0), vector(low + high))
    return op.Resize(x, roi, scales, sizes, **kept)
