"""Biases of convolutions between integers, as integers: runtimes add them to what they multiply, and have integer
kernels for no other form. A bias is rounded by this to a whole number of the steps in which the products come."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import attr, hole, one_of, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, decline, rewrite_where, rule
from irkit.support.counts import count_text
from passes.legal.runtime.biases import steps_of_sums, whole_numbers

BYTES = (DType.INT8, DType.UINT8)
"""The element types of weights."""


def _biased(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", "n", 3, 5, 5))
    step, zero = np.float32(0.05), np.uint8(7)
    rows = op.DequantizeLinear(op.QuantizeLinear(x, step, zero), step, zero)
    integers = const(rng.integers(-127, 128, (4, 3, 2, 2)).astype(np.int8), name="w")
    scales = const(rng.uniform(0.01, 0.02, 4 if rng.random() < 0.7 else ()).astype(np.float32))
    weight = op.DequantizeLinear(integers, scales, axis=0)
    return op.Conv(rows, weight, const(rng.normal(size=4).astype(np.float32), name="b"))


@rule(
    one_of("Conv", "ConvTranspose")(
        p.DequantizeLinear(hole("x"), constant("s"), hole("zx", optional=True)),
        p.DequantizeLinear(constant("w"), constant("t"), hole("zw", optional=True), axis=attr("axis")),
        constant("bias"),
    ),
    exact=False,
    sample=_biased,
)
def bias_of_integers(m: Match) -> Made:
    """Conv(DequantizeLinear(x, s), DequantizeLinear(weight, t), bias) -> the same with the bias in steps of s * t"""
    bias, made = m.bias, m.root
    steps = steps_of_sums(m.s, m.t, bias.blob.size)
    channels = 0 if made.op == "Conv" else 1
    if steps is None or bias.dtype is not DType.FLOAT or bias.blob.absent or m.w.dtype not in BYTES:
        return decline("its scales are no constants, or it is no weight of bytes")
    if m.t.blob.size > 1 and m.axis % m.w.rank != channels:
        return decline("its scales are not those of channels")
    if whole_numbers(bias.blob.read(), steps) is None:
        return decline("the bias is too large for integers of its steps")

    def load() -> np.ndarray:
        return np.rint(bias.blob.read() / steps.astype(np.float64)).astype(np.int32)

    name = f"{bias.blob.name}.quantized" if bias.blob.name else ""
    integers = const(Blob(DType.INT32, bias.blob.shape, load, name, of=(bias.blob,)))
    held = op.DequantizeLinear(integers, const(steps), axis=0)
    return made.with_inputs((made.inputs[0], made.inputs[1], held))


def integer_biases(graph: Graph) -> Graph:
    """The graph with biases of convolutions as integers where what they convolve and their weights are such; the graph
    itself where there are none. A bias moves by half a step of the sums at most."""
    return rewrite_where(graph, bias_of_integers)


def said_of_biases(graph: Graph) -> str:
    """What a report says of biases that are integers; empty where there are none."""
    held = [v for v in graph.order if v.op == "DequantizeLinear" and v.inputs[0].dtype is DType.INT32]  # type: ignore[union-attr]
    moved = [v.inputs[1].blob.array.max(initial=0) for v in held if v.inputs[1].blob is not None]  # type: ignore[union-attr]
    if not moved:
        return ""
    return f"{count_text(len(moved), 'bias', 'biases')} as int32, each off by {float(max(moved)) / 2:.2g} at most"
