"""Scales that are chosen for each call, and quantization by tokens, groups and blocks, as torch and torchao have it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.blobs import Blob
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.casts.layouts import in_blocks
from lowering.aten.casts.quantized import LIMITS, Steps, floats_of, is_zero, whole_numbers
from lowering.aten.linear_algebra.products import aten_linear
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import reshape

LAST = const(np.array([-1]))
LEAST = float(np.finfo(np.float32).eps)
"""The smallest scale of a token."""

# ---------------------------------------------------------------------------------------------- chosen scales


def extremes(x: Value) -> tuple[Value, Value]:
    """(least, greatest) of all numbers and 0, of rank 0."""
    zero = scalar(0, x.dtype)
    return op.Min(op.ReduceMin(x, keepdims=0), zero), op.Max(op.ReduceMax(x, keepdims=0), zero)


def at_least(scale: Value, eps: float) -> Value:
    """A scale in float32, as a vector of one element, of at least `eps`."""
    return op.Max(op.Reshape(cast(scale, DType.FLOAT), [1]), scalar(eps, DType.FLOAT))


def quantized_decomposed_choose_qparams(
    input: Value, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> tuple[Value, Value]:
    """(scale f64[1], zero point i64[1]) that bring the range of all numbers onto quant_min to quant_max."""
    low, high = extremes(input)
    scale = at_least(op.Div(op.Sub(high, low), scalar(quant_max - quant_min, input.dtype)), eps)
    steps = op.Round(op.Div(op.Reshape(cast(low, DType.FLOAT), [1]), scale))
    point = op.Sub(scalar(quant_min, DType.FLOAT), steps)
    point = op.Clip(point, scalar(quant_min, DType.FLOAT), scalar(quant_max, DType.FLOAT))
    return cast(scale, DType.DOUBLE), cast(point, DType.INT64)


def quantized_decomposed_choose_qparams_symmetric(
    input: Value, quant_min: int, quant_max: int, eps: float, dtype: DType
) -> tuple[Value, Value]:
    """The same around 0, which is 128 in uint8 and 0 otherwise."""
    low, high = extremes(input)
    reach = op.Max(op.Neg(low), high)
    scale = at_least(op.Div(reach, scalar((quant_max - quant_min) / 2, input.dtype)), eps)
    point = const(np.array([128 if dtype is DType.UINT8 else 0]))
    return cast(scale, DType.DOUBLE), point


def quantized_decomposed_choose_qparams_per_token(input: Value, dtype: DType) -> tuple[Value, Value]:
    """(scales f64[..., 1], zeros i64[..., 1]) around 0, for each row of the last axis."""
    reach = op.ReduceMax(op.Abs(input), LAST, keepdims=1)
    reach = cast(reach, DType.FLOAT) if input.dtype is DType.FLOAT16 else reach
    scale = op.Div(op.Max(reach, scalar(1e-5, reach.dtype)), scalar(127, reach.dtype))
    scale = cast(scale, DType.DOUBLE)
    return scale, cast(op.Mul(scale, scalar(0, DType.DOUBLE)), DType.INT64)


def quantized_decomposed_choose_qparams_per_token_asymmetric(input: Value, dtype: DType) -> tuple[Value, Value]:
    """(scales f64[..., 1], zero points i64[..., 1]) of int8, for each row of the last axis."""
    kind = input.dtype
    zero, bottom, top = (scalar(number, kind) for number in (0, -128, 127))
    low = op.Min(op.ReduceMin(input, LAST, keepdims=1), zero)
    high = op.Max(op.ReduceMax(input, LAST, keepdims=1), zero)
    scale = op.Max(op.Div(op.Sub(high, low), scalar(255, kind)), scalar(LEAST, kind))
    below, above = op.Div(low, scale), op.Div(high, scale)
    nearer = op.Greater(op.Add(op.Add(bottom, below), op.Add(top, above)), zero)
    point = op.Where(nearer, op.Sub(bottom, below), op.Sub(top, above))
    point = op.Round(op.Clip(point, bottom, top))
    return cast(scale, DType.DOUBLE), cast(point, DType.INT64)


# ---------------------------------------------------------------------------------------------- tokens


def of_tokens(x: Value, scales: Value, points: Value, low: int, high: int) -> Steps:
    """Steps for each row of the last axis."""
    return Steps(scales, points, low, high, in_blocks(x, (*(1,) * (x.rank - 1), x.shape[-1])))


def quantized_decomposed_quantize_per_token(
    input: Value, scales: Value, zero_points: Value, quant_min: int, quant_max: int, dtype: DType
) -> Value:
    """clip(round(input / scale + zero point), quant_min, quant_max) as `dtype`, with a scale for each row."""
    return whole_numbers(input, of_tokens(input, scales, zero_points, quant_min, quant_max), dtype)


def quantized_decomposed_dequantize_per_token(
    input: Value,
    scales: Value,
    zero_points: Value,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    output_dtype: DType = DType.FLOAT,
) -> Value:
    """(input - zero point) * scale, with a scale for each row."""
    return floats_of(input, of_tokens(input, scales, zero_points, quant_min, quant_max), output_dtype)


# ---------------------------------------------------------------------------------------------- groups and blocks


def of_groups(x: Value, scales: Value, points: Value | None, low: int, high: int, size: int) -> Steps:
    """Steps for groups of `size` numbers of each row; for the row where that is shorter and has one scale."""
    row = x.shape[-1]
    whole = isinstance(row, int) and size > row and dims.same(scales.shape[-1], 1) is True
    return Steps(scales, points, low, high, in_blocks(x, (1, row if whole else size)))


def quantized_decomposed_quantize_per_channel_group(
    input: Value, scales: Value, zero_points: Value, quant_min: int, quant_max: int, dtype: DType, group_size: int
) -> Value:
    """`quantize_per_token` with a scale for each `group_size` numbers of a row."""
    return whole_numbers(input, of_groups(input, scales, zero_points, quant_min, quant_max, group_size), dtype)


def quantized_decomposed_dequantize_per_channel_group(
    input: Value,
    scales: Value,
    zero_points: Value | None,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    group_size: int = 128,
    output_dtype: DType = DType.FLOAT,
) -> Value:
    """`dequantize_per_token` with a scale for each `group_size` numbers of a row."""
    steps = of_groups(input, scales, zero_points, quant_min, quant_max, group_size)
    return floats_of(*of_few_bits(input, steps), output_dtype)


def of_few_bits(x: Value, steps: Steps) -> tuple[Value, Steps]:
    """The same in an element type of 4 bits, where the ends are those of one, and integers and zero points constants: a
    weight of half the bytes."""
    dtype = {(-8, 7): DType.INT4, (0, 15): DType.UINT4}.get((steps.low, steps.high))
    points = steps.points
    known = x.blob is not None and (points is None or (points.blob is not None and points.dtype.is_integer))
    if dtype is None or not known or steps.layout.attributes is None or x.dtype not in LIMITS:
        return x, steps
    points = None if points is None or is_zero(points) else narrowed(points, dtype)
    return narrowed(x, dtype), Steps(steps.scale, points, steps.low, steps.high, steps.layout)


def narrowed(x: Value, dtype: DType) -> Value:
    """A constant of integers in a narrower element type, cast when it is loaded."""
    blob = x.blob
    if blob is None:
        return x
    return const(Blob(dtype, blob.shape, lambda: blob.read().astype(dtype.numpy), blob.name, of=(blob,)))


def of_blocks(
    x: Value, blocks: Sequence[Dim], scale: Value, points: Value | None, dtype: DType, low: int | None, high: int | None
) -> Steps:
    """Steps for blocks of a tensor, whose ends are those of an element type where they are not said."""
    least, most = LIMITS.get(dtype, (-(2**31), 2**31 - 1))
    ends = least if low is None else int(low), most if high is None else int(high)
    return Steps(scale, points, *ends, in_blocks(x, blocks))


def torchao_quantize_affine(
    input: Value,
    block_size: Sequence[Dim],
    scale: Value,
    zero_point: Value | None,
    output_dtype: DType,
    quant_min: int | None = None,
    quant_max: int | None = None,
) -> Value:
    """clip(round(input / scale) + zero point, quant_min, quant_max) as `output_dtype`, with a scale for each block."""
    steps = of_blocks(input, block_size, scale, zero_point, output_dtype, quant_min, quant_max)
    return whole_numbers(input, steps, output_dtype)


def torchao_dequantize_affine(
    input: Value,
    block_size: Sequence[Dim],
    scale: Value,
    zero_point: Value | None,
    input_dtype: DType,
    quant_min: int | None = None,
    quant_max: int | None = None,
    output_dtype: DType = DType.FLOAT,
) -> Value:
    """(input - zero point) * scale as `output_dtype`, with a scale for each block."""
    steps = of_blocks(input, block_size, scale, zero_point, input.dtype, quant_min, quant_max)
    return floats_of(*of_few_bits(input, steps), output_dtype)


def aten__weight_int8pack_mm(self: Value, mat2: Value, scales: Value) -> Value:
    """(n, k) @ (m, k)^T of int8 with a scale for each row -> (n, m)"""
    weight = op.DequantizeLinear(mat2, cast(reshape(scales, (mat2.shape[0],)), DType.FLOAT), axis=0)
    return aten_linear(self, cast(weight, self.dtype))
