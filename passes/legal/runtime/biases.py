"""Biases that ONNX Runtime makes integers by itself, of the steps in which products of integers come: those that 32
bits do not hold stand behind the product, where it leaves them alone."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import attr, hole, one_of, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, Rules, decline

LARGEST = 2**30
"""Biases are integers up to this: the other half of 32 bits is for the products that they are added to."""


def whole_numbers(bias: np.ndarray, steps: np.ndarray) -> np.ndarray | None:
    """bias / steps rounded, in int32; None where they are too large for that, or no numbers."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        whole = np.rint(bias.astype(np.float64) / steps.astype(np.float64))
    return whole.astype(np.int32) if bool((np.abs(whole) <= LARGEST).all()) else None


def steps_of_sums(x_scale: Value, scale: Value, size: int) -> np.ndarray | None:
    """The steps in which products of quantized tensors come, for each channel; None where they are not constants."""
    if x_scale.blob is None or scale.blob is None or x_scale.blob.size != 1 or scale.blob.size not in (1, size):
        return None
    found = (x_scale.blob.array.astype(np.float64).reshape(()) * scale.blob.array).astype(np.float32)
    return np.ascontiguousarray(np.broadcast_to(found.reshape(-1), (size,)))


def numbers_of(bias: Value) -> np.ndarray | None:
    """A vector of constants in float32, or of integers that stand for such; None for what is none."""
    if bias.rank != 1 or bias.dtype is not DType.FLOAT:
        return None
    if bias.blob is not None:
        return bias.blob.read()
    parts = list(bias.inputs) if bias.op == "DequantizeLinear" else []
    held, scale, zero = (v.blob if v is not None else None for v in (*parts, None, None, None)[:3])
    if held is None or scale is None or zero is not None:
        return None
    return held.read().astype(np.float32) * scale.array


def bias_behind(m: Match) -> Made:
    """The convolution or product without its bias, less the negative bias"""
    made, numbers = m.root, numbers_of(m.bias)
    if numbers is None:
        return decline("the runtime makes integers of vectors in float32")
    steps = steps_of_sums(m.s, m.t, numbers.size)
    if steps is not None and whole_numbers(numbers, steps) is not None:
        return decline("its integers fit into 32 bits")
    operands = [v for v in made.inputs if v is not None]
    alone = made.with_inputs(tuple(operands[:2]))
    product = alone if made.op != "Add" else next(v for v in operands if v is not m.bias)
    factor = np.float32(made.attribute("beta", 1.0) if made.op == "Gemm" else 1.0)
    shape = [-1, *[1] * (made.rank - 2)] if made.op.startswith("Conv") else [-1]
    return op.Sub(product, const((-factor * numbers).reshape(shape)))


def _operands(rng: np.random.Generator, x: Value, weight: np.ndarray, axis: int) -> tuple[Value, Value, Value]:
    """What is multiplied, and a bias beyond the steps of some channels."""
    scale, zero = const(np.float32(0.05)), const(np.uint8(7))
    rows = op.DequantizeLinear(op.QuantizeLinear(x, scale, zero), scale, zero)
    scales = (rng.uniform(0.01, 0.02, 4) * rng.choice([1, 1e-12], 4)).astype(np.float32)
    held = op.DequantizeLinear(const(weight.astype(np.int8), name="w"), const(scales), axis=axis)
    return rows, held, const(rng.normal(size=4).astype(np.float32), name="b")


def _biased(rng: np.random.Generator) -> Value:
    if rng.random() < 0.5:
        return op.Conv(*_operands(rng, param(tensor("f32", "n", 3, 4, 4)), rng.integers(-127, 128, (4, 3, 2, 2)), 0))
    factor = float(rng.choice([1.0, -2.0]))
    return op.Gemm(*_operands(rng, param(tensor("f32", "n", 3)), rng.integers(-127, 128, (3, 4)), 1), beta=factor)


def _summed(rng: np.random.Generator) -> Value:
    x, weight, bias = _operands(rng, param(tensor("f32", "n", 3)), rng.integers(-127, 128, (3, 4)), 1)
    return op.Add(op.MatMul(x, weight), bias)


_rows = p.DequantizeLinear(hole("x"), constant("s"), hole("zx", optional=True), axis=attr("at"))
_weight = p.DequantizeLinear(constant("w"), constant("t"), hole("zw", optional=True), axis=attr("axis"))
LARGE_BIASES: Rules = (
    Rule("large_bias", one_of("Conv", "ConvTranspose", "Gemm")(_rows, _weight, hole("bias")), bias_behind, False,
         "Conv(DequantizeLinear(x), DequantizeLinear(w), bias) -> Sub(Conv(...), -bias), a bias beyond 32 bits",
         sample=_biased),
    Rule("large_sum", p.Add(p.MatMul(_rows, _weight), hole("bias")), bias_behind, False,
         "Add(MatMul(DequantizeLinear(x), DequantizeLinear(w)), bias) -> Sub(MatMul(...), -bias), the same",
         sample=_summed),
)  # fmt: skip
"""The rules for ONNX Runtime."""
