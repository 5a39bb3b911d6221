"""Quantization: rounding to the whole numbers of a scale, and back, as QuantizeLinear and DequantizeLinear.

torch multiplies by the inverse of a scale where ONNX divides by the scale: a number that lies within a rounding error
of the middle between two steps may go to the one in torch and to the other in ONNX. All others go the same way.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.core.vocabulary import CONSTANT
from lowering.aten.casts.layouts import Layout, of_one, one, per_axis
from lowering.errors import LoweringError
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import axis as place

LIMITS = {
    DType.UINT8: (0, 255), DType.INT8: (-128, 127), DType.UINT16: (0, 65535), DType.INT16: (-32768, 32767),
}  # fmt: skip
"""The integers that QuantizeLinear makes, with their ranges, in the order in which they are tried."""

FEW = (DType.INT4, DType.UINT4)
"""Element types of weights that are kept in 4 bits."""

FAR = 24
"""How many values are looked at to see whether a scale is constant."""

HALVES = (DType.FLOAT16, DType.BFLOAT16)


def stored_type(low: int, high: int) -> DType | None:
    """The smallest element type of QuantizeLinear that holds a range; None where none does."""
    return next((t for t, (least, most) in LIMITS.items() if least <= low <= high <= most), None)


def fits(points: Value | None, dtype: DType) -> bool:
    """Whether zero points can be said in an element type: false for those that are no integers or lie outside."""
    if points is None:
        return True
    if points.dtype.is_float:
        return False
    blob = points.blob
    if blob is None or blob.absent or blob.size == 0:
        return True
    (low, high), (least, most) = LIMITS[dtype], blob.extremes
    return low <= least <= most <= high


@attrs.frozen(eq=False)
class Steps:
    """What whole numbers stand for: (q - zero point) * scale, with a scale for each part of a tensor that `layout` has,
    and `low` and `high` as the ends. No zero points are zeros."""

    scale: Value
    points: Value | None
    low: int
    high: int
    layout: Layout

    def factors(self, dtype: DType) -> tuple[Value, Value]:
        """(scale, zero point) in an element type of floats, in shapes that broadcast with the tensor."""
        points = scalar(0, dtype) if self.points is None else self.layout.beside(cast(self.points, dtype))
        return self.layout.beside(cast(self.scale, dtype)), points


def is_constant(value: Value) -> bool:
    """Whether a value is made of constants alone, by a few operators."""
    left, seen = [value], 0
    while left and seen < FAR:
        each, seen = left.pop(), seen + 1
        if each.op != CONSTANT:
            if not each.inputs or each.bodies:
                return False
            left += [v for v in each.inputs if v is not None]
    return not left


def inverse(scale: Value) -> Value:
    """1 / scale, rounded to its element type. It is computed in double precision, which rounds to the same number, so
    that a product with it is not taken for a quotient, which rounds once where torch rounds twice."""
    if is_constant(scale) or scale.dtype is DType.DOUBLE:
        return op.Reciprocal(scale)
    return cast(op.Reciprocal(cast(scale, DType.DOUBLE)), scale.dtype)


def rounded(x: Value, steps: Steps) -> Value:
    """round(x * (1 / scale)) + zero point in floats, ties to even, as torch's kernels have it; in blocks where scales
    are for blocks."""
    scale, points = steps.factors(x.dtype)
    return op.Add(op.Round(op.Mul(steps.layout.parted(x), inverse(scale))), points)


def clipped(x: Value, steps: Steps, dtype: DType) -> Value:
    """x within the ends of steps."""
    return op.Clip(x, scalar(steps.low, dtype), scalar(steps.high, dtype))


def whole_numbers(x: Value, steps: Steps, dtype: DType) -> Value:
    """x in whole numbers of an element type: QuantizeLinear, with a Clip where the ends are not those of the type; what
    it stands for where QuantizeLinear has no such type, or the layout is not one of its."""
    found = steps.layout.attributes
    if found is None or dtype not in LIMITS or x.dtype is DType.DOUBLE or not fits(steps.points, dtype):
        return cast(steps.layout.joined(clipped(rounded(x, steps), steps, x.dtype)), dtype)
    points = const(np.zeros((), dtype.numpy)) if steps.points is None else steps.layout.laid(cast(steps.points, dtype))
    scale, x = steps.layout.laid(cast(steps.scale, DType.FLOAT)), cast(x, DType.FLOAT)
    if not is_constant(steps.scale):
        # A scale that is computed for each call puts the extreme numbers in the middle between two steps: they are
        # divided by it as torch does it.
        x = steps.layout.joined(op.Mul(steps.layout.parted(x), inverse(steps.layout.beside(scale))))
        scale, found = (const(np.float32(1)), {"axis": found["axis"]}) if points.rank == 0 else (ones(scale), found)
    if points.shape != scale.shape:
        points = op.Expand(points, op.Shape(scale))
    made = op.QuantizeLinear(x, scale, points, **found)
    return made if (steps.low, steps.high) == LIMITS[dtype] else clipped(made, steps, dtype)


def ones(scale: Value) -> Value:
    """Scales of 1, as many as there are."""
    return op.Expand(const(np.float32(1)), op.Shape(scale)) if scale.rank else const(np.float32(1))


def floats_of(x: Value, steps: Steps, dtype: DType) -> Value:
    """The floats that whole numbers stand for: DequantizeLinear where it has their element type and layout."""
    found, zeros = steps.layout.attributes, steps.points is None or is_zero(steps.points)
    wide = x.dtype is DType.INT32 and zeros
    narrow = x.dtype in FEW or (x.dtype in LIMITS and fits(steps.points, x.dtype))
    if found is None or dtype is DType.DOUBLE or not (wide or narrow):
        scale, points = steps.factors(dtype)
        parts = op.Sub(cast(steps.layout.parted(x), dtype), points)
        return steps.layout.joined(op.Mul(parts, scale))
    own = dtype if dtype in HALVES and steps.scale.dtype is dtype else DType.FLOAT
    scale = steps.layout.laid(cast(steps.scale, own))
    points = None if steps.points is None or wide else steps.layout.laid(cast(steps.points, x.dtype))
    if points is not None and points.shape != scale.shape:
        points = op.Expand(points, op.Shape(scale))
    return cast(op.DequantizeLinear(x, scale, points, **found), dtype)


def is_zero(points: Value) -> bool:
    """Whether zero points are known to be zeros."""
    blob = points.blob
    return blob is not None and not blob.absent and (blob.size == 0 or blob.extremes == (0, 0))


# ---------------------------------------------------------------------------------------------- faked


def faked(x: Value, steps: Steps) -> Value:
    """x rounded to the numbers that steps stand for, through the integers."""
    dtype = stored_type(steps.low, steps.high)
    if dtype is None or x.dtype is DType.DOUBLE or not fits(steps.points, dtype):
        scale, points = steps.factors(x.dtype)
        return steps.layout.joined(op.Mul(op.Sub(clipped(rounded(x, steps), steps, x.dtype), points), scale))
    return floats_of(whole_numbers(x, steps, dtype), steps, x.dtype)


def unclipped(x: Value, steps: Steps) -> Value:
    """Where x lies between the ends."""
    found = rounded(x, steps)
    low, high = scalar(steps.low, x.dtype), scalar(steps.high, x.dtype)
    return steps.layout.joined(op.And(op.GreaterOrEqual(found, low), op.LessOrEqual(found, high)))


def of_tensor(x: Value, scale: Any, point: Any, low: int, high: int) -> Steps:
    """Steps of a whole tensor, with a scale and a zero point that are numbers or tensors of one element."""
    return Steps(of_one(scale, np.float32), of_one(point, np.int64), low, high, one(x))


def of_channels(x: Value, scale: Value, points: Value | None, axis: int, low: int, high: int) -> Steps:
    """Steps for each place of an axis."""
    return Steps(scale, points, low, high, per_axis(x, place(axis, x.rank)))


def aten_fake_quantize_per_tensor_affine(
    self: Value, scale: float | Value, zero_point: int | Value, quant_min: int, quant_max: int
) -> Value:
    """clip(round(self / scale) + zero_point, quant_min, quant_max), back as floats."""
    return faked(self, of_tensor(self, scale, zero_point, quant_min, quant_max))


def aten_fake_quantize_per_tensor_affine_cachemask(
    self: Value, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """`fake_quantize_per_tensor_affine`, and where nothing was clipped."""
    steps = of_tensor(self, scale, zero_point, quant_min, quant_max)
    return faked(self, steps), unclipped(self, steps)


def aten__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    self: Value, scale: Value, zero_point: Value, fake_quant_enabled: Value, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """The same where `fake_quant_enabled` is 1; else self, and True everywhere."""
    enabled = cast(op.Reshape(fake_quant_enabled, []), DType.BOOL)
    steps = of_tensor(self, scale, zero_point, quant_min, quant_max)
    return op.Where(enabled, faked(self, steps), self), op.Or(unclipped(self, steps), op.Not(enabled))


def aten_fake_quantize_per_channel_affine_cachemask(
    self: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """`fake_quantize_per_channel_affine`, and where nothing was clipped."""
    steps = of_channels(self, scale, zero_point, axis, quant_min, quant_max)
    return faked(self, steps), unclipped(self, steps)


def aten_fake_quantize_per_channel_affine(
    self: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    """clip(round(self / scale) + zero_point, quant_min, quant_max), back as floats, with a scale for each index of an
    axis."""
    return faked(self, of_channels(self, scale, zero_point, axis, quant_min, quant_max))


def aten_fused_moving_avg_obs_fake_quant(
    self: Value,
    observer_on: Value,
    fake_quant_on: Value,
    running_min: Value,
    running_max: Value,
    scale: Value,
    zero_point: Value,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Value:
    """`fake_quantize_per_tensor_affine`, or that of channels, where `fake_quant_on` is 1, else self.

    Raises LoweringError where an observer is on, since it changes its ranges at each call.
    """
    watching, faking = switch(observer_on), switch(fake_quant_on)
    if watching is not False or faking is None:
        raise LoweringError(
            "an observer of fake quantization is on, and would change its ranges at each call",
            hint="switch it off: model.apply(torch.ao.quantization.disable_observer)",
        )
    if not faking:
        return op.Identity(self)
    if per_row_fake_quant:
        return aten_fake_quantize_per_channel_affine(self, scale, zero_point, ch_axis, quant_min, quant_max)
    return aten_fake_quantize_per_tensor_affine(self, scale, zero_point, quant_min, quant_max)


def switch(flag: Value) -> bool | None:
    """What a tensor of one number says, where it is known."""
    return bool(flag.blob.array.any()) if flag.blob is not None and not flag.blob.absent else None


# ---------------------------------------------------------------------------------------------- graphs of torch


def quantized_decomposed_quantize_per_tensor(
    input: Value, scale: float | Value, zero_point: int | Value, quant_min: int, quant_max: int, dtype: DType
) -> Value:
    """clip(round(input / scale) + zero_point, quant_min, quant_max) as `dtype`."""
    return whole_numbers(input, of_tensor(input, scale, zero_point, quant_min, quant_max), dtype)


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
    steps = of_tensor(input, scale, zero_point, quant_min, quant_max)
    return floats_of(input, steps, out_dtype or DType.FLOAT)


def quantized_decomposed_quantize_per_channel(
    input: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int, dtype: DType
) -> Value:
    """`quantize_per_tensor` with a scale and a zero point for each index of an axis."""
    return whole_numbers(input, of_channels(input, scales, zero_points, axis, quant_min, quant_max), dtype)


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
    steps = of_channels(input, scales, zero_points, axis, quant_min, quant_max)
    return floats_of(input, steps, out_dtype or DType.FLOAT)


def quantized_decomposed_fake_quant_per_channel(
    input: Value, scales: Value, zero_points: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    """`quantize_per_channel`, and back."""
    return faked(input, of_channels(input, scales, zero_points, axis, quant_min, quant_max))


def quantized_decomposed_convert_element_type(input: Value, dtype: DType) -> Value:
    """input in another element type."""
    return cast(input, dtype)
