"""Quantization: rounding to the whole numbers of a scale, and back. ONNX's own operators where these say the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import axis as place

RANGES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255)}
"""The element types of QuantizeLinear at any opset, with their ranges."""


def along(vector: Value, axis: int, rank: int) -> Value:
    """A vector as a tensor that broadcasts along one axis."""
    return op.Unsqueeze(vector, [i for i in range(rank) if i != axis])


def of_one(number: float | Value, dtype: type[np.generic]) -> Value:
    """A number, or a tensor of one element, as a tensor of rank 0."""
    if not isinstance(number, Value):
        return const(dtype(number))
    return op.Reshape(number, []) if number.rank else number


def rounded(x: Value, scale: Value, zero_point: Value) -> Value:
    """round(x * (1 / scale)) + zero_point as floats, ties to even, as torch's kernels have it."""
    return op.Add(op.Round(op.Mul(x, op.Reciprocal(scale))), cast(zero_point, x.dtype))


def faked(x: Value, scale: Value, zero_point: Value, low: int, high: int) -> tuple[Value, Value]:
    """(x rounded to the numbers that `low` to `high` stand for, whether it was between them)."""
    found = rounded(x, scale, zero_point)
    kept = op.Clip(found, scalar(low, x.dtype), scalar(high, x.dtype))
    inside = op.And(op.GreaterOrEqual(found, scalar(low, x.dtype)), op.LessOrEqual(found, scalar(high, x.dtype)))
    return op.Mul(op.Sub(kept, cast(zero_point, x.dtype)), scale), inside


def faked_like(x: Value, scale: Any, zero_point: Any, low: int, high: int) -> tuple[Value, Value]:
    """The same, with a scale and a zero point that are numbers or tensors of one element."""
    return faked(x, cast(of_one(scale, np.float32), x.dtype), of_one(zero_point, np.int64), low, high)


def aten_fake_quantize_per_tensor_affine(
    self: Value, scale: float | Value, zero_point: int | Value, quant_min: int, quant_max: int
) -> Value:
    """clip(round(self / scale) + zero_point, quant_min, quant_max), back as floats."""
    return faked_like(self, scale, zero_point, quant_min, quant_max)[0]


def aten_fake_quantize_per_tensor_affine_cachemask(
    self: Value, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """`fake_quantize_per_tensor_affine`, and where nothing was clipped."""
    return faked_like(self, scale, zero_point, quant_min, quant_max)


def aten__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    self: Value, scale: Value, zero_point: Value, fake_quant_enabled: Value, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """The same where `fake_quant_enabled` is 1; else self, and True everywhere."""
    enabled = cast(op.Reshape(fake_quant_enabled, []), DType.BOOL)
    found, inside = faked_like(self, scale, zero_point, quant_min, quant_max)
    return op.Where(enabled, found, self), op.Or(inside, op.Not(enabled))


def aten_fake_quantize_per_channel_affine_cachemask(
    self: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """`fake_quantize_per_channel_affine`, and where nothing was clipped."""
    held, point = (along(each, place(axis, self.rank), self.rank) for each in (cast(scale, self.dtype), zero_point))
    return faked(self, held, point, quant_min, quant_max)


def aten_fake_quantize_per_channel_affine(
    self: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    """clip(round(self / scale) + zero_point, quant_min, quant_max), back as floats, with a scale for each index of an
    axis."""
    return aten_fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max)[0]


# -------------------------------------------------------------------------------------------- quantized graphs of torch


def quantized(x: Value, scale: Value, point: Value, low: int, high: int, dtype: DType, axis: int) -> Value:
    """x in whole numbers of an element type: QuantizeLinear where it has that range, else what it stands for."""
    if RANGES.get(dtype) == (low, high) and x.dtype is DType.FLOAT:
        return op.QuantizeLinear(x, cast(scale, x.dtype), cast(point, dtype), axis=axis)
    held, at = (along(each, axis, x.rank) if each.rank else each for each in (cast(scale, x.dtype), point))
    return cast(op.Clip(rounded(x, held, at), scalar(low, x.dtype), scalar(high, x.dtype)), dtype)


def dequantized(x: Value, scale: Value, point: Value, wanted: DType | None, axis: int) -> Value:
    """The floats that whole numbers stand for: DequantizeLinear where it has their element type."""
    dtype = wanted or DType.FLOAT
    if x.dtype in RANGES and dtype is DType.FLOAT:
        return op.DequantizeLinear(x, cast(scale, dtype), cast(point, x.dtype), axis=axis)
    held, at = (along(each, axis, x.rank) if each.rank else each for each in (cast(scale, dtype), cast(point, dtype)))
    return op.Mul(op.Sub(cast(x, dtype), at), held)


def quantized_decomposed_quantize_per_tensor(
    input: Value, scale: float | Value, zero_point: int | Value, quant_min: int, quant_max: int, dtype: DType
) -> Value:
    """clip(round(input / scale) + zero_point, quant_min, quant_max) as `dtype`."""
    held, point = of_one(scale, np.float32), of_one(zero_point, np.int64)
    return quantized(input, held, point, quant_min, quant_max, dtype, 1)


def quantized_decomposed_dequantize_per_tensor(
    input: Value,
    scale: float | Value,
    zero_point: int | Value,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Value:
    """(input - zero_point) * scale."""
    return dequantized(input, of_one(scale, np.float32), of_one(zero_point, np.int64), out_dtype, 1)


def quantized_decomposed_quantize_per_channel(
    input: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int, dtype: DType
) -> Value:
    """`quantize_per_tensor` with a scale and a zero point for each index of an axis."""
    return quantized(input, scales, zero_points, quant_min, quant_max, dtype, place(axis, input.rank))


def quantized_decomposed_dequantize_per_channel(
    input: Value,
    scales: Value,
    zero_points: Value | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Value:
    """`dequantize_per_tensor` with a scale and a zero point for each index of an axis."""
    points = const(np.zeros(scales.shape, np.int64)) if zero_points is None else zero_points
    return dequantized(input, scales, points, out_dtype, place(axis, input.rank))
