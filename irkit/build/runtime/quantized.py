"""Definitions of ONNX Runtime's quantized operators: integers made numbers, computed with, and made integers again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit import dims
from irkit.build.runtime.application import Application, narrow, number, op, vector
from irkit.core.attributes import AttributeMap
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.nodes.construct import const


def quantize_linear(a: Application, x: Value, scale: Value, zero: Value | None) -> Value:
    """ONNX's QuantizeLinear, along `axis` where scales are a vector"""
    return op.QuantizeLinear(x, scale, zero, axis=a.attr("axis", 1))


def dequantize_linear(a: Application, x: Value, scale: Value, zero: Value | None) -> Value:
    """ONNX's DequantizeLinear, along `axis` where scales are a vector"""
    return op.DequantizeLinear(x, scale, zero, axis=a.attr("axis", 1))


def binary(name: str) -> Callable[..., Value]:
    """The definition of an operator of two quantized operands."""

    def q_linear(
        a: Application,
        x: Value,
        x_scale: Value,
        x_zero: Value | None,
        y: Value,
        y_scale: Value,
        y_zero: Value | None,
        scale: Value,
        zero: Value | None,
    ) -> Value:
        found = getattr(op, name)(numbers(x, x_scale, x_zero), numbers(y, y_scale, y_zero))
        return integers(x, found, scale, zero)

    return q_linear


def unary(name: str, *attributes: str) -> Callable[..., Value]:
    """The definition of an operator of one quantized operand."""

    def q_linear(
        a: Application, x: Value, x_scale: Value, x_zero: Value | None, scale: Value, zero: Value | None
    ) -> Value:
        given: AttributeMap = {each: a.attr(each) for each in attributes}
        return integers(x, getattr(op, name)(numbers(x, x_scale, x_zero), **given), scale, zero)

    return q_linear


def numbers(x: Value, scale: Value, zero: Value | None) -> Value:
    """Quantized numbers as float32."""
    return op.DequantizeLinear(x, scale, zero)


def integers(like: Value, x: Value, scale: Value, zero: Value | None) -> Value:
    """Numbers as integers of another value's type."""
    return op.QuantizeLinear(x, scale, const(np.zeros((), like.dtype.numpy)) if zero is None else zero)


def mat_mul_integer_to_float(
    a: Application,
    x: Value,
    y: Value,
    x_scale: Value,
    y_scale: Value,
    x_zero: Value | None,
    y_zero: Value | None,
    bias: Value | None,
) -> Value:
    """(x - x_zero) @ (y - y_zero) * x_scale * y_scale + bias"""
    product = op.Cast(op.MatMulInteger(x, y, x_zero, y_zero), to=x_scale.dtype)
    found = op.Mul(product, op.Mul(x_scale, y_scale))
    return found if bias is None else op.Add(found, bias)


def dynamic_quantize_mat_mul(
    a: Application, x: Value, y: Value, y_scale: Value, y_zero: Value | None, bias: Value | None
) -> Value:
    """x, quantized by its own range, @ (y - y_zero) * scales + bias"""
    small, scale, zero = op.DynamicQuantizeLinear(x)
    return mat_mul_integer_to_float(a, small, y, scale, y_scale, zero, y_zero, bias)


def mat_mul_n_bits(
    a: Application,
    x: Value,
    packed: Value,
    scales: Value,
    zeros: Value | None,
    order: Value | None,
    bias: Value | None,
) -> Value:
    """x @ w^T + bias, where w, of (N, K), is kept in 4 or 8 bits: (packed - zeros) * scales for each block of a row"""
    a.refuse_operands("g_idx")
    bits, block, rows, columns = (a.attr(name) for name in ("bits", "block_size", "N", "K"))
    if bits not in (4, 8) or a.attr("weight_prepacked", 0):
        raise a.fail("weights of that form are not defined")
    blocks = -(-columns // block)
    weights = op.Reshape(unpacked_bytes(packed, bits), vector(rows, blocks, block))
    if zeros is None:
        middle: Value = const(np.array(2 ** (bits - 1), np.float32))
    elif zeros.dtype is DType.UINT8:
        width = -(-blocks * bits // 8) * 8 // bits
        every = op.Reshape(unpacked_bytes(zeros, bits), vector(rows, width, 1))
        middle = op.Slice(every, vector(0), vector(blocks), vector(1))
    else:
        middle = op.Cast(op.Reshape(zeros, vector(rows, blocks, 1)), to=DType.FLOAT)
    factor = op.Cast(op.Reshape(scales, vector(rows, blocks, 1)), to=DType.FLOAT)
    whole = op.Reshape(op.Mul(op.Sub(weights, middle), factor), vector(rows, blocks * block))
    if blocks * block != columns:
        whole = op.Slice(whole, vector(0), vector(columns), vector(1))
    found = op.MatMul(x, op.Transpose(narrow(whole, x), perm=(1, 0)))
    return found if bias is None else op.Add(found, bias)


def unpacked_bytes(packed: Value, bits: int) -> Value:
    """Each byte as one number of 8 bits, or two of 4, the lower half first, in float32; one row less of structure."""
    if bits == 8:
        return op.Cast(packed, to=DType.FLOAT)
    low = op.Unsqueeze(op.BitwiseAnd(packed, number(packed, 15)), vector(-1))
    high = op.Unsqueeze(op.BitShift(packed, number(packed, 4), direction="RIGHT"), vector(-1))
    return op.Cast(op.Concat(low, high, axis=-1), to=DType.FLOAT)


def trilu(a: Application, x: Value, k: Value | None) -> Value:
    """ONNX's Trilu"""
    return op.Trilu(x, k, upper=a.attr("upper", 1))


def expand_dims(a: Application, x: Value, axis: Value) -> Value:
    """ONNX's Unsqueeze of one axis"""
    if axis.rank > 1 or (axis.rank == 1 and dims.same(axis.shape[0], 1) is not True):
        raise a.fail("the axis must be one number")
    return op.Unsqueeze(x, op.Reshape(op.Cast(axis, to=DType.INT64), vector(1)))
