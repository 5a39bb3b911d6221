"""What stands for a layer once its weight is integers: one function for each form."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from irkit.build import call, const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from passes.legal.runtime.biases import whole_numbers
from passes.quantization.integers import Scaled, ends_of, gptq, packed_bytes, scaled_rows
from passes.quantization.layers import Layer, dequantized_weight
from passes.quantization.request import Quantization

CONTRIB = "com.microsoft"
N_BITS = "com.microsoft::MatMulNBits"


def scaled_weight(layer: Layer, request: Quantization, moments: np.ndarray | None = None) -> Scaled:
    """The integers of a layer's weight, by the request's way of rounding."""
    rows = np.asarray(layer.rows(), np.float32)
    block = request.block if layer.is_product else None
    symmetric, search = request.is_symmetric, request.ranges == "mse"
    if not request.per_channel and block is None:
        whole = scaled_rows(
            rows.reshape(1, -1), request.dtype, symmetric=symmetric, block=None, reduced=request.reduced, search=search
        )
        shaped = whole.integers.reshape(len(rows), 1, -1)
        if moments is None:
            return Scaled(shaped, whole.scales, whole.zeros)
        each = Scaled(shaped, np.repeat(whole.scales, len(rows), 0), np.repeat(whole.zeros, len(rows), 0))
        ends = ends_of(request.dtype, symmetric=symmetric, reduced=request.reduced)
        return Scaled(gptq(rows, moments, each, ends).integers, whole.scales, whole.zeros)
    found = scaled_rows(rows, request.dtype, symmetric=symmetric, block=block, reduced=request.reduced, search=search)
    if moments is None:
        return found
    return gptq(rows, moments, found, ends_of(request.dtype, symmetric=symmetric, reduced=request.reduced))


def weight_only(layer: Layer, scaled: Scaled, request: Quantization, domains: tuple[str, ...]) -> Value:
    """The layer with a weight of integers, computed in floating point: MatMulNBits where the target has it and scales
    are by blocks, else the operator over DequantizeLinear."""
    if CONTRIB in domains and request.block is not None and layer.is_product:
        return few_bits(layer, scaled, request)
    return layer.with_operands(layer.x, dequantized_weight(layer, scaled, request), layer.bias)


def few_bits(layer: Layer, scaled: Scaled, request: Quantization) -> Value:
    """com.microsoft::MatMulNBits, which unpacks a weight as it multiplies."""
    rows, _, block = scaled.integers.shape
    bits = request.bits
    middle = 2 ** (bits - 1) if request.is_symmetric else 0  # unsigned, and the operator's own zero point without one
    name = layer.weight.blob.name if layer.weight.blob is not None else ""
    operands: list[Value | None] = [
        layer.x,
        const(packed_bytes(scaled.integers + middle, bits), name=name and f"{name}.quantized"),
        const(scaled.scales, name=name and f"{name}.scale"),
    ]
    if not request.is_symmetric:
        operands.append(const(packed_bytes(scaled.zeros, bits), name=name and f"{name}.zero_point"))
    attributes = {
        "K": layer.weight.shape[0 if layer.turned else 1], "N": rows, "bits": bits, "block_size": block,
        "accuracy_level": 4 if request.accuracy == "int8" else 1,
    }  # fmt: skip
    found = call(N_BITS, operands, attributes)
    return found if layer.bias is None else op.Add(found, layer.bias)


def dynamic(layer: Layer, scaled: Scaled, request: Quantization) -> Value:
    """The product of integers: the activation by its own range at each call, the weight by constants."""
    columns = layer.laid(scaled, request.dtype)
    name = layer.weight.blob.name if layer.weight.blob is not None else ""
    weight = const(columns if layer.turned else np.ascontiguousarray(columns.T), name=name and f"{name}.quantized")
    scales, zeros = scaled.scales[:, 0], scaled.zeros[:, 0].astype(request.dtype.numpy)
    if len(scales) == 1:
        scales, zeros = scales[0], zeros[0]
    small, scale, zero = op.DynamicQuantizeLinear(layer.x)
    product = op.Cast(op.MatMulInteger(small, weight, zero, const(zeros)), to=DType.FLOAT)
    found = op.Mul(product, op.Mul(scale, const(scales, name=name and f"{name}.scale")))
    return found if layer.bias is None else op.Add(found, layer.bias)


def static(layer: Layer, scaled: Scaled, request: Quantization, scales: Mapping[Value, float]) -> Value:
    """The operator between DequantizeLinear: of its weight, and of its bias where that is a constant and the scale of
    the activation is known. ONNX Runtime makes one operator of integers of it."""
    weight = dequantized_weight(layer, scaled, request)
    bias = layer.bias
    if bias is None or bias.blob is None or layer.x not in scales or bias.rank != 1:
        return layer.with_operands(layer.x, weight, bias)
    steps = (scales[layer.x] * scaled.scales[:, 0].astype(np.float64)).astype(np.float32)
    steps = np.broadcast_to(steps, bias.shape) if len(steps) == 1 else steps
    whole = whole_numbers(bias.blob.read(), steps)
    if whole is None:
        return layer.with_operands(layer.x, weight, bias)
    integers = op.DequantizeLinear(const(whole), const(np.ascontiguousarray(steps)), axis=0)
    return layer.with_operands(layer.x, weight, integers)
