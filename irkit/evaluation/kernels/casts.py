"""Conversion between element types, and quantization, which rounds to one."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.evaluation.kernels.common import Array, attr, axis_of, fail, is_float, is_integer, wide

SATURATING = frozenset((DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ))
"""The types for which the attribute `saturate` says what becomes of numbers out of range."""


def cast(x: Array, to: DType, saturate: bool = True, round_mode: str = "up") -> Array:
    """`x` in the element type `to`, by the rules of ONNX Cast."""
    if to is DType.STRING:
        return strings(x)
    if x.dtype == np.object_:
        return cast(parsed(x, to), to, saturate, round_mode)
    if x.dtype == to.numpy:
        return x
    if to is DType.BOOL:
        return np.asarray(wide(x) != 0)
    if to is DType.FLOAT8E8M0:
        return to_e8m0(wide(x), saturate, round_mode)
    value = wide(x)
    if to in SATURATING and saturate:
        top = np.asarray(finite_max(to.numpy), np.float32)
        value = np.clip(value.astype(np.float32 if value.dtype != np.float64 else np.float64), -top, top)
    if is_float(x.dtype) and to.is_integer and to.bits < 8:
        value = value.astype(np.int32)
    return np.asarray(value).astype(to.numpy)


def finite_max(dtype: np.dtype) -> float:
    """The largest finite number of a float type."""
    return float(ml_dtypes.finfo(dtype).max)


def to_e8m0(x: Array, saturate: bool, round_mode: str) -> Array:
    """Positive numbers as powers of two; `saturate` maps what is out of range to the nearest end, else it is NaN."""
    value = np.asarray(x, dtype=np.float64)
    mantissa, exponent = np.frexp(value)  # value = mantissa * 2 ** exponent, with mantissa in [0.5, 1)
    # The power of two below is exponent - 1, the one above is exponent.
    limit = {"up": 0.5, "down": 1.0, "nearest": 0.75}[round_mode]
    above = mantissa > limit if round_mode == "up" else mantissa >= limit
    power = exponent - 1 + above.astype(exponent.dtype)
    if saturate:
        power = np.where(np.isposinf(value), 127, np.where(value == 0, -127, np.clip(power, -127, 127)))
        bad = np.isnan(value) | (value < 0)
    else:
        bad = ~np.isfinite(value) | (value <= 0) | (power > 127) | (power < -127)
    bits = np.where(bad, 255, power + 127).astype(np.uint8)
    return bits.view(DType.FLOAT8E8M0.numpy)


def strings(x: Array) -> Array:
    """Numbers as text: integers in decimal, floats with the fewest digits that tell them apart, bools as 0 and 1."""
    if x.dtype == np.object_:
        return x
    if x.dtype == np.bool_:
        x = x.astype(np.int64)
    flat = [_text(v) for v in (wide(x) if x.dtype.kind == "V" else x).ravel()]
    return np.array(flat, dtype=object).reshape(x.shape)


_NOT_FINITE = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}


def _text(value: object) -> str:
    text = str(value)
    return _NOT_FINITE.get(text, text) if isinstance(value, np.floating) else text


def parsed(x: Array, to: DType) -> Array:
    """The numbers that strings say, as float64 or int64. Raises ValueError for a string that is not a number."""
    if to.is_integer or to is DType.BOOL:
        numbers: list[int] = [int(s) if s.lstrip("+-").isdigit() else int(float(s)) for s in map(str, x.ravel())]
        return np.array(numbers, dtype=np.uint64 if to is DType.UINT64 else np.int64).reshape(x.shape)
    return np.array([float(s) for s in x.ravel()], dtype=np.float64).reshape(x.shape)


def kernel_Cast(node: Value, x: Array) -> Array:
    """The elements in the type `to`: floats to integers by truncation, integers to narrower ones by their low bits."""
    return cast(x, DType(attr(node, "to")), bool(attr(node, "saturate")), attr(node, "round_mode"))


def kernel_CastLike(node: Value, x: Array, like: Array) -> Array:
    """The elements in the type of `like`."""
    return cast(x, DType.of(like.dtype), bool(attr(node, "saturate")), attr(node, "round_mode"))


def spread_along(node: Value, x: Array, parameter: Array) -> Array:
    """A scale or zero point made broadcastable to x: per tensor, per axis, or repeated over blocks along the axis."""
    if parameter.size == 1 and parameter.ndim <= 1:
        return parameter.reshape(())
    axis = axis_of(node, attr(node, "axis"), x.ndim)
    block = attr(node, "block_size")
    if block:
        if parameter.shape[axis] != -(-x.shape[axis] // block):
            raise fail(node, f"a scale of shape {parameter.shape} has no element for each block of {block}")
        return np.take(np.repeat(parameter, block, axis=axis), np.arange(x.shape[axis]), axis=axis)
    if parameter.ndim != 1:
        raise fail(node, f"a scale of shape {parameter.shape} needs block_size")
    return parameter.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def kernel_QuantizeLinear(node: Value, x: Array, scale: Array, zero_point: Array | None = None) -> Array:
    """saturate(round(x / scale) + zero_point), rounding halves to even; NaN gives the least integer, of which ONNX says
    nothing, as in ONNX Runtime."""
    to = node.dtype
    precision = DType(attr(node, "precision")) if attr(node, "precision") else DType.of(scale.dtype)
    zero = 0 if zero_point is None else spread_along(node, x, wide(zero_point))
    # The quotient is rounded to the precision asked for, whatever it was computed in.
    quotient = wide(x) / spread_along(node, x, wide(scale))
    if precision.is_float and precision is not DType.FLOAT8E8M0:
        quotient = wide(np.asarray(quotient).astype(precision.numpy))
    if to.is_float:
        return cast(np.asarray(quotient + zero), to, bool(attr(node, "saturate")))
    low, high = integer_range(to)
    whole = np.fmax(np.rint(quotient) + np.asarray(zero, np.float64), low)
    return np.minimum(whole, high).astype(np.int32).astype(to.numpy)


def integer_range(kind: DType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    return (0, 2**kind.bits - 1) if kind.is_unsigned else (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1)


def kernel_DequantizeLinear(node: Value, x: Array, scale: Array, zero_point: Array | None = None) -> Array:
    """(x - zero_point) * scale"""
    value = wide(x)
    if is_integer(x.dtype):
        value = value.astype(np.int64)
    if zero_point is not None:
        value = value - spread_along(node, x, wide(zero_point)).astype(value.dtype)
    product = value.astype(np.float32) * spread_along(node, x, wide(scale)).astype(np.float32)
    return np.asarray(product).astype(node.type.dtype.numpy)  # type: ignore[union-attr]


def kernel_DynamicQuantizeLinear(node: Value, x: Array) -> tuple[Array, Array, Array]:
    """(y, scale, zero_point): uint8 numbers over the range of x, widened to hold 0."""
    low, high = min(np.float32(0), x.min(initial=0)), max(np.float32(0), x.max(initial=0))
    scale = np.float32((high - low) / np.float32(255))
    zero = np.float32(0) if scale == 0 else np.rint(np.clip(-low / scale, 0, 255))
    quotient = np.zeros_like(x) if scale == 0 else np.rint(x / scale)
    return np.clip(quotient + zero, 0, 255).astype(np.uint8), np.asarray(scale), np.asarray(zero).astype(np.uint8)


def kernel_BitCast(node: Value, x: Array) -> Array:
    """The same bits under another element type of the same width."""
    target = node.dtype.numpy
    if x.dtype == np.object_:
        raise fail(node, "strings have no bits to reinterpret")
    if is_integer(x.dtype) and target.itemsize == 1 and x.dtype.itemsize == 1:
        # Types of fewer than 8 bits are stored one to a byte: go through their bit pattern, not that byte.
        return from_bits(to_bits(x), target)
    return np.ascontiguousarray(x).view(target).reshape(x.shape)


def to_bits(x: Array) -> Array:
    """The bit pattern of one-byte elements as uint8; two's complement cut to the width of the type."""
    width = DType.of(x.dtype).bits
    return np.ascontiguousarray(x).view(np.uint8).reshape(x.shape) & np.uint8((1 << width) - 1)


def from_bits(bits: Array, target: np.dtype) -> Array:
    """One-byte elements of type `target` from their bit patterns."""
    kind = DType.of(target)
    if kind.is_integer and kind.bits < 8:
        signed = bits.astype(np.int32)
        if not kind.is_unsigned:
            signed = np.where(signed >> (kind.bits - 1), signed - (1 << kind.bits), signed)
        return signed.astype(target)
    return bits.view(target)
