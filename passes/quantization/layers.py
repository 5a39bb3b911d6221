"""The layers of a graph that quantization knows: operators of an activation and of a constant weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
import numpy as np

from irkit.build import call, const, op
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor
from passes.precision.mixed import pattern_of
from passes.quantization.integers import Scaled
from passes.quantization.request import Quantization

PRODUCTS = ("MatMul", "Gemm")


@attrs.frozen(eq=False)
class Layer:
    """A product or a convolution with a constant weight.

    `rows` gives the weight as a matrix whose rows are the output channels, in float32, with the factor of a Gemm in it;
    `turned` says that the weight lies transposed to that, with an output channel in each column; `bias` is what is
    added, with its own factor in it, where the operator adds something.
    """

    value: Value
    turned: bool
    rows: Callable[[], np.ndarray]
    bias: Value | None = None

    @property
    def x(self) -> Value:
        """The activation."""
        return operand(self.value, 0)

    @property
    def weight(self) -> Value:
        """The weight."""
        return operand(self.value, 1)

    @property
    def is_product(self) -> bool:
        """False for a convolution."""
        return self.value.op in PRODUCTS

    @property
    def name(self) -> str:
        """What a report calls it: the weight's name, else the operator."""
        blob = self.weight.blob
        return (blob.name if blob is not None else "") or str(self.value.origin) or self.value.op

    def laid(self, scaled: Scaled, dtype: DType) -> np.ndarray:
        """Integers as the weight lies, in their element type."""
        shape = self.weight.shape
        flat = scaled.integers.reshape(scaled.integers.shape[0], -1)
        if self.is_product:
            flat = flat[:, : shape[0] if self.turned else shape[1]]
            return np.ascontiguousarray(flat.T if self.turned else flat).astype(dtype.numpy)
        return flat.reshape(shape).astype(dtype.numpy)

    def with_operands(self, x: Value, weight: Value, bias: Value | None) -> Value:
        """The operator over other operands, which have the factors of a Gemm in them."""
        inputs = (x, weight) if bias is None else (x, weight, bias)
        if factors_of(self.value) == (1.0, 1.0):
            return self.value.with_inputs(inputs)
        given = {name: each for name, each in self.value.attributes if name not in FACTORS}
        return call("Gemm", inputs, given).with_origin(self.value.origin)


FACTORS = ("alpha", "beta")


def factors_of(value: Value) -> tuple[float, float]:
    """The factors of a Gemm's product and of what it adds; 1 for all else."""
    first, second = (value.attribute(name, 1.0) if value.op == "Gemm" else 1.0 for name in FACTORS)
    return first, second


def operand(value: Value, index: int) -> Value:
    """An operand that is always there. Raises IndexError where it is not."""
    found = value.inputs[index]
    if found is None:
        raise IndexError(f"{value!r} has no operand {index}")
    return found


def layer_of(value: Value) -> Layer | None:
    """The value as a layer; None for all else."""
    if value.op not in (*PRODUCTS, "Conv") or len(value.inputs) < 2:
        return None
    weight = value.inputs[1]
    if weight is None or weight.blob is None or weight.blob.dtype is not DType.FLOAT or not is_float(value.inputs[0]):
        return None
    blob, bias = weight.blob, value.inputs[2] if len(value.inputs) > 2 else None
    if value.op == "MatMul":
        return Layer(value, True, lambda: blob.read().T) if weight.rank == 2 else None
    if value.op == "Gemm":
        if value.attribute("transA", 0):
            return None
        factor, of_bias = (np.float32(each) for each in factors_of(value))
        read = blob.read if factor == 1 else lambda: blob.read() * factor
        turned = not value.attribute("transB", 0)
        return Layer(value, turned, (lambda: read().T) if turned else read, scaled_bias(bias, of_bias))
    return Layer(value, False, lambda: blob.read().reshape(blob.shape[0], -1), bias)


def scaled_bias(bias: Value | None, factor: np.float32) -> Value | None:
    """bias * factor; None where nothing is left of it."""
    if bias is None or factor == 0:
        return None
    if factor == 1:
        return bias
    if bias.blob is None:
        return op.Mul(bias, const(factor))
    return const(bias.blob.read() * factor, name=bias.blob.name).with_origin(bias.origin)


def is_float(value: Value | None) -> bool:
    """True for a tensor of float32."""
    return value is not None and isinstance(value.type, Tensor) and value.dtype is DType.FLOAT


def layers_of(graph: Graph, request: Quantization) -> tuple[tuple[Layer, ...], Mapping[Value, str]]:
    """The layers that become integers, in order, and why others stay as they are."""
    names = {v: port.name for port, v in zip(graph.signature.results, graph.results, strict=False)}
    taken: list[Layer] = []
    left: dict[Value, str] = {}
    for value in graph.order:
        layer = layer_of(value)
        if layer is None:
            if value.op in (*PRODUCTS, "Conv", "ConvTranspose"):
                left[value] = "its weight is no constant matrix in float32"
            continue
        why = reason(layer, request, names.get(value, ""))
        if why:
            left[value] = why
        else:
            taken.append(layer)
    return tuple(taken), left


def reason(layer: Layer, request: Quantization, name: str) -> str:
    """Why a layer stays as it is; empty where nothing speaks for it."""
    pattern = pattern_of(request.keep, layer.value, name) or pattern_of(request.keep, layer.weight, layer.name)
    if pattern:
        return f"{pattern!r} is on the keep-list"
    blob = layer.weight.blob
    if blob is None or blob.size < request.least:
        return f"its weight has fewer than {request.least} numbers"
    with np.errstate(over="ignore"):
        finite = np.isfinite(layer.rows()).all()
    if not finite:
        return "its weight, with its factor, holds NaN or infinity"
    return ""


def scale_operands(layer: Layer, scaled: Scaled, request: Quantization) -> tuple[Value, Value, dict[str, int]]:
    """(scales, zero points, attributes) of the DequantizeLinear that gives a layer's weight."""
    name = layer.name if layer.weight.blob is not None and layer.weight.blob.name else ""
    scales, zeros = scaled.scales, scaled.zeros
    across = 0 if layer.turned else 1  # the axis along which a row of the weight runs
    attributes: dict[str, int] = {}
    if scales.shape[1] > 1 or (request.block is not None and layer.is_product):
        attributes = {"axis": across, "block_size": scaled.integers.shape[-1]}
        scales, zeros = (scales.T, zeros.T) if layer.turned else (scales, zeros)
    elif scales.shape[0] > 1:
        attributes = {"axis": 1 - across if layer.is_product else 0}
        scales, zeros = scales[:, 0], zeros[:, 0]
    else:
        scales, zeros = scales[0, 0], zeros[0, 0]
    points = const(np.asarray(zeros).astype(request.dtype.numpy), name=name and f"{name}.zero_point")
    return const(np.asarray(scales, np.float32), name=name and f"{name}.scale"), points, attributes


def dequantized_weight(layer: Layer, scaled: Scaled, request: Quantization) -> Value:
    """The weight as DequantizeLinear of integers, in its own shape."""
    scales, zeros, attributes = scale_operands(layer, scaled, request)
    name = layer.weight.blob.name if layer.weight.blob is not None else ""
    integers = const(layer.laid(scaled, request.dtype), name=name and f"{name}.quantized")
    return op.DequantizeLinear(integers, scales, zeros, **attributes).with_origin(layer.weight.origin)
