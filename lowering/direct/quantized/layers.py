"""The operators of `torch.ops.quantized`: layers over packed weights, and arithmetic whose result has steps of its own.

Each is a function of the tracer and of the operator's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F

from lowering.capture.inputs.packed import Layer, Steps
from lowering.direct.quantized.aten import integers_of
from lowering.direct.quantized.dynamic import DYNAMIC, convolution_of, product
from lowering.direct.quantized.tensors import (
    INTEGERS,
    Quantized,
    Tracer,
    alike,
    always_same,
    floats_of,
    floats_of_held,
    in_steps,
)
from lowering.errors import CaptureError

ATEN = torch.ops.aten
Handler = Callable[..., Any]


def result_like(tracer: Tracer, x: Any, made: Any, scale: Any, point: Any) -> Quantized:
    """Floats in the steps of a result, of the element type of an operand."""
    return in_steps(tracer, made, Steps(x.steps.kind, scale, point))


# ---------------------------------------------------------------------------------------------- layers


def linear(activation: Callable[[Any], Any]) -> Handler:
    """quantized.linear with an activation behind it."""

    def handler(tracer: Tracer, x: Any, layer: Layer, scale: Any, point: Any, *more: Any) -> Quantized:
        return result_like(tracer, x, activation(product(floats_of(x), layer), *more), scale, point)

    return handler


def linear_between(activation: Callable[[Any], Any]) -> Handler:
    """quantized.linear_with_input_q_dq_qweight_dq_output_fp32: floats in steps, and floats of the result."""

    def handler(tracer: Tracer, x: Any, scale: Any, point: Any, layer: Layer) -> Any:
        return activation(product(floats_of(in_steps(tracer, x, Steps(torch.quint8, scale, point))), layer))

    return handler


def convolution(activation: Callable[[Any], Any]) -> Handler:
    """quantized.conv2d with an activation behind it."""

    def handler(tracer: Tracer, x: Any, layer: Layer, *rest: Any) -> Quantized:
        scale, point = rest[-2:]  # an older form says strides, too, which the packed weight knows
        return result_like(tracer, x, activation(convolution_of(floats_of(x), layer)), scale, point)

    return handler


def convolution_added(activation: Callable[[Any], Any]) -> Handler:
    """quantized.conv2d_add: a convolution, and a tensor that is added to it."""

    def handler(tracer: Tracer, x: Any, other: Any, layer: Layer, scale: Any, point: Any) -> Quantized:
        made = convolution_of(floats_of(x), layer) + floats_of(other)
        return result_like(tracer, x, activation(made), scale, point)

    return handler


def embedding(tracer: Tracer, layer: Layer, indices: Any, pruned_weights: bool = False) -> Any:
    """Rows of a packed table, in floats."""
    if pruned_weights:
        raise CaptureError("the model looks up a quantized table whose rows were pruned", hint="keep all its rows")
    return ATEN.embedding(floats_of_held(layer.weight), indices)


def embedding_bag(
    tracer: Tracer, layer: Layer, indices: Any, offsets: Any = None, scale_grad_by_freq: bool = False, mode: int = 0,
    pruned_weights: bool = False, per_sample_weights: Any = None, compressed_indices_mapping: Any = None,
    include_last_offset: bool = False,
) -> Any:  # fmt: skip
    """Sums of rows of a packed table, in floats. The mode is not asked for: the kernel always sums."""
    if pruned_weights or compressed_indices_mapping is not None:
        raise CaptureError("the model looks up a quantized table whose rows were pruned", hint="keep all its rows")
    more = {"per_sample_weights": per_sample_weights, "include_last_offset": include_last_offset}
    return F.embedding_bag(indices, floats_of_held(layer.weight), offsets, mode="sum", **more)


# ---------------------------------------------------------------------------------------------- arithmetic


def pairwise(operator: Any, activation: Callable[[Any], Any]) -> Handler:
    """quantized.add and its like: of two quantized tensors, or of one and a number."""

    def handler(tracer: Tracer, a: Any, b: Any, scale: Any = None, point: Any = None) -> Quantized:
        if type(a) is Quantized and type(b) is Quantized and scale is not None:
            return result_like(tracer, a, activation(operator(floats_of(a), floats_of(b))), scale, point)
        x, number = (a, b) if type(a) is Quantized else (b, a)
        if type(x) is not Quantized or type(number) is Quantized or scale is not None:
            raise CaptureError("the model adds or multiplies a quantized tensor and a plain one", hint=DEQUANTIZE)
        if isinstance(number, torch.Tensor) and not always_same(tracer, number):
            raise CaptureError("the model adds or multiplies a quantized tensor and a number out of data",
                               hint=DEQUANTIZE)  # fmt: skip
        value = float(number.item() if isinstance(number, torch.Tensor) else number)
        made = (shifted if operator is torch.add else stretched)(tracer, x, value)
        if activation is not torch.relu:
            return made
        return in_steps(tracer, torch.relu(floats_of(made)), made.steps)

    return handler


DEQUANTIZE = "call dequantize() before it"


def plain_steps(x: Quantized) -> tuple[float, int, int, int]:
    """(scale, zero point, least and greatest integer) of a tensor whose steps are numbers."""
    scale, point = x.steps.scale, x.steps.point
    if x.steps.axis is not None or not isinstance(scale, float) or not isinstance(point, int):
        raise CaptureError("the model adds a number to a quantized tensor whose scale data tells", hint=DEQUANTIZE)
    _, low, high = INTEGERS[x.steps.kind]
    return scale, point, low, high


def shifted(tracer: Tracer, x: Quantized, number: float) -> Quantized:
    """x + number: the same integers about another zero point; where that is no integer of the element type, in wider
    steps, as torch chooses them."""
    scale, point, low, high = plain_steps(x)
    moved = point - round(number / scale)
    if low <= moved <= high:
        return Quantized(tracer, x.integers.clone(), Steps(x.steps.kind, scale, moved))
    reach = high - moved if moved < low else moved - low
    wider, end = reach / (high - low) * scale, low if moved < low else high
    floats = (x.integers.to(torch.float32) - float(moved)) * scale
    return in_steps(tracer, floats, Steps(x.steps.kind, wider, end))


def stretched(tracer: Tracer, x: Quantized, number: float) -> Quantized:
    """x * number: the same integers in other steps, counted from the other end where the number is below 0."""
    scale, point, low, high = plain_steps(x)
    if number == 0:
        return Quantized(tracer, x.integers * 0, Steps(x.steps.kind, 1.0, 0))
    if number > 0:
        return Quantized(tracer, x.integers.clone(), Steps(x.steps.kind, scale * number, point))
    turned = (high + low - x.integers.to(torch.int64)).to(x.integers.dtype)
    return Quantized(tracer, turned, Steps(x.steps.kind, scale * -number, high + low - point))


def joined(activation: Callable[[Any], Any]) -> Handler:
    """quantized.cat: tensors as one, in steps of its own, or those of the first."""

    def handler(tracer: Tracer, tensors: Sequence[Any], dim: Any, scale: Any = None, point: Any = None) -> Quantized:
        first = tensors[0].steps
        steps = Steps(first.kind, first.scale if scale is None else scale, first.point if point is None else point)
        if activation is same and alike(list(tensors), steps):
            return Quantized(tracer, ATEN.cat(integers_of(list(tensors)), dim), steps)
        return in_steps(tracer, activation(ATEN.cat(floats_of(list(tensors)), dim)), steps)

    return handler


def matmul(tracer: Tracer, a: Any, b: Any, scale: Any, point: Any) -> Quantized:
    """a @ b"""
    return result_like(tracer, a, torch.matmul(floats_of(a), floats_of(b)), scale, point)


# ---------------------------------------------------------------------------------------------- one operand


def normalized(activation: Callable[[Any], Any]) -> Handler:
    """quantized.batch_norm with an activation behind it."""

    def handler(
        tracer: Tracer, x: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, scale: Any, point: Any
    ) -> Quantized:
        made = ATEN.batch_norm(floats_of(x), weight, bias, mean, var, False, 0.0, eps, False)
        return result_like(tracer, x, activation(made), scale, point)

    return handler


def layer_norm(tracer: Tracer, x: Any, shape: Any, weight: Any, bias: Any, eps: float, scale: Any, point: Any) -> Any:
    """quantized.layer_norm"""
    return result_like(tracer, x, ATEN.layer_norm(floats_of(x), shape, weight, bias, eps), scale, point)


def group_norm(tracer: Tracer, x: Any, groups: int, weight: Any, bias: Any, eps: float, scale: Any, point: Any) -> Any:
    """quantized.group_norm"""
    return result_like(tracer, x, ATEN.group_norm(floats_of(x), groups, weight, bias, eps), scale, point)


def instance_norm(tracer: Tracer, x: Any, weight: Any, bias: Any, eps: float, scale: Any, point: Any) -> Any:
    """quantized.instance_norm"""
    made = ATEN.instance_norm(floats_of(x), weight, bias, None, None, True, 0.0, eps, False)
    return result_like(tracer, x, made, scale, point)


def stepped(function: Callable[..., Any]) -> Handler:
    """quantized.hardswish and its like: a function, in the steps of its result."""

    def handler(tracer: Tracer, x: Any, scale: Any, point: Any, *more: Any) -> Quantized:
        return result_like(tracer, x, function(floats_of(x), *more), scale, point)

    return handler


def kept(function: Callable[..., Any]) -> Handler:
    """quantized.clamp and its like: a function, in the steps of its operand."""

    def handler(tracer: Tracer, x: Any, *more: Any) -> Quantized:
        return in_steps(tracer, function(floats_of(x), *more), x.steps)

    return handler


def leaky_relu(tracer: Tracer, x: Any, slope: Any, inplace: bool, scale: Any, point: Any) -> Quantized:
    """quantized.leaky_relu, which never writes its operand"""
    return result_like(tracer, x, ATEN.leaky_relu(floats_of(x), slope), scale, point)


def softmax(tracer: Tracer, x: Any, dim: int, scale: Any, point: Any) -> Quantized:
    """quantized.softmax"""
    return result_like(tracer, x, torch.softmax(floats_of(x), dim), scale, point)


def prelu(tracer: Tracer, x: Any, weight: Any, scale: Any, point: Any) -> Quantized:
    """quantized.prelu"""
    return result_like(tracer, x, ATEN.prelu(floats_of(x), floats_of(weight)), scale, point)


def relu6(tracer: Tracer, x: Any, inplace: bool = False) -> Quantized:
    """quantized.relu6"""
    made = in_steps(tracer, ATEN.hardtanh(floats_of(x), 0, 6), x.steps)
    if not inplace:
        return made
    x.integers.copy_(made.integers)
    return x


def elu(tracer: Tracer, x: Any, scale: Any, point: Any, *more: Any) -> Quantized:
    """quantized.elu"""
    return result_like(tracer, x, ATEN.elu(floats_of(x), *more), scale, point)


def dropout(tracer: Tracer, x: Any, scale: Any, point: Any, p: Any = 0.5, training: bool = False) -> Any:
    """quantized.dropout. Raises CaptureError in training, which torch has not."""
    if training:
        raise CaptureError("the model drops elements of a quantized tensor at random", hint="call eval() on it")
    return x


def same(x: Any) -> Any:
    """x: no activation."""
    return x


def with_relu(name: str, make: Callable[[Callable[[Any], Any]], Handler]) -> dict[str, Handler]:
    """An operator by its name, and the one with a ReLU behind it."""
    return {name: make(same), f"{name}_relu": make(torch.relu)}


ADD, MUL = (lambda act, function=function: pairwise(function, act) for function in (torch.add, torch.mul))
NORMS = ("batch_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d")

LAYERS: Mapping[str, Handler] = MappingProxyType({
    **DYNAMIC, **with_relu("linear", linear), "linear_leaky_relu": linear(ATEN.leaky_relu),
    "linear_tanh": linear(torch.tanh),
    "linear_with_input_q_dq_qweight_dq_output_fp32": linear_between(same),
    "linear_with_input_q_dq_qweight_dq_relu_output_fp32": linear_between(torch.relu),
    **with_relu("conv1d", convolution), **with_relu("conv2d", convolution), **with_relu("conv3d", convolution),
    **with_relu("conv2d_add", convolution_added),
    **{f"conv_transpose{n}d": convolution(same) for n in (1, 2, 3)},
    "embedding_byte": embedding, "embedding_bag_byte": embedding_bag,
    **with_relu("add", ADD), **with_relu("mul", MUL), **with_relu("add_scalar", ADD), **with_relu("mul_scalar", MUL),
    **with_relu("cat", joined), "matmul": matmul,
    **{end: each for name in NORMS for end, each in with_relu(name, normalized).items()},
    "layer_norm": layer_norm, "group_norm": group_norm, "instance_norm": instance_norm, "softmax": softmax,
    "hardswish": stepped(ATEN.hardswish), "sigmoid": stepped(torch.sigmoid), "celu": stepped(ATEN.celu), "elu": elu,
    "leaky_relu": leaky_relu, "prelu": prelu, "relu6": relu6, "dropout": dropout, "clamp": kept(ATEN.clamp),
    "threshold": kept(ATEN.threshold), "max_pool1d": kept(ATEN.max_pool1d), "max_pool2d": kept(ATEN.max_pool2d),
})  # fmt: skip
"""Operators of `torch.ops.quantized` by their name."""
