"""MelWeightMatrix by other operators: where a target's opset is older than the operator, and for half types."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.questions import vector


def mel_in_float(m: Match, value: Value) -> Value | None:
    """The matrix in f32, then of the element type that is asked for"""
    if value.dtype not in (DType.FLOAT16, DType.BFLOAT16):
        return None
    return op.Cast(op.MelWeightMatrix(*value.inputs, output_datatype=int(DType.FLOAT)), to=value.dtype)


def mel_weights(m: Match, value: Value) -> Value | None:
    """Triangles over the bins of a spectrum, whose corners lie at equal distances on the mel scale"""
    if all(v is None or v.blob is not None for v in value.inputs):  # computed, then
        return None
    count, length, rate = (op.Cast(v, to=DType.INT64) for v in value.inputs[:3] if v is not None)
    low, high = (op.Cast(v, to=DType.DOUBLE) for v in value.inputs[3:] if v is not None)
    start, end = (op.Mul(op.Log(op.Add(op.Div(edge, 700.0), 1.0)), 2595 / np.log(10)) for edge in (low, high))
    corners = op.Cast(op.Add(count, np.int64(2)), to=DType.DOUBLE)
    size, wide_size = value.shape[1], dims.add(value.shape[1], 2)
    places = op.Cast(numbers(0, wide_size, op.Add(count, np.int64(2))), to=DType.DOUBLE)
    mels = op.Add(op.Mul(places, op.Div(op.Sub(end, start), corners)), start)
    hertz = op.Mul(op.Sub(op.Exp(op.Mul(mels, np.log(10) / 2595)), 1.0), 700.0)
    wide = op.Mul(hertz, op.Cast(op.Add(length, np.int64(1)), to=DType.DOUBLE))
    bins = op.Floor(op.Div(wide, op.Cast(rate, to=DType.DOUBLE)))
    lower, center, upper = (op.Gather(bins, numbers(i, size, op.Add(count, np.int64(i))), axis=0) for i in range(3))
    rows = numbers(0, value.shape[0], op.Add(op.Div(length, np.int64(2)), np.int64(1)))
    j = op.Unsqueeze(op.Cast(rows, to=DType.DOUBLE), vector([1]))
    left, right = op.Sub(center, lower), op.Sub(upper, center)
    rising = op.Div(op.Sub(j, lower), op.Where(op.Equal(left, 0.0), 1.0, left))
    rising = op.Where(op.And(op.GreaterOrEqual(j, lower), op.Less(j, center)), rising, 0.0)
    rising = op.Where(op.And(op.Equal(j, center), op.GreaterOrEqual(left, 0.0)), 1.0, rising)
    falling = op.Div(op.Sub(upper, j), op.Where(op.Equal(right, 0.0), 1.0, right))
    found = op.Where(op.And(op.GreaterOrEqual(j, center), op.Less(j, upper)), falling, rising)
    return op.Cast(found, to=attribute_of(value, "output_datatype"))


def numbers(start: int, size: Dim, end: Value) -> Value:
    """`size` numbers from `start` on, up to `end`."""
    return const(np.arange(start, start + size)) if type(size) is int else op.Range(np.int64(start), end, np.int64(1))
