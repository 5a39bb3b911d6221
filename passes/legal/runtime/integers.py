"""Products and convolutions of integers: forms for which ONNX Runtime has a kernel, in the place of those that it
refuses, or computes in floating point."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import attr, hole, p
from irkit.pattern import const as constant
from irkit.rewriting.face import Made, Match, Rule, Rules, decline

MIDDLE = 128
"""How far the unsigned integers are from the signed ones that stand for the same number."""


def _signed(rng: np.random.Generator) -> Value:
    scale, zero = const(np.float32(0.05)), const(np.int8(rng.integers(-9, 9)))
    small = op.QuantizeLinear(param(tensor("f32", "n", 3)), scale, zero)
    if rng.random() < 0.5:
        small = op.Clip(small, np.int8(-100), np.int8(127))
    return op.DequantizeLinear(small, scale, zero)


def moved_up(x: Value) -> Value:
    """A constant of int8 as the uint8 that stands for the same number."""
    return const((x.blob.array.astype(np.int32) + MIDDLE).astype(np.uint8))  # type: ignore[union-attr]


def _of_signed(m: Match, x: Value, zero: Value) -> Value | None:
    """QuantizeLinear in uint8."""
    if zero.dtype is not DType.INT8 or m.scale.rank or m.inner.rank or zero.blob is None:
        return None
    return op.QuantizeLinear(x, m.inner, moved_up(zero))


def unsigned(m: Match) -> Made:
    """DequantizeLinear(QuantizeLinear(x)) through uint8, whose zero point is 128 more than that of int8"""
    made = _of_signed(m, m.x, m.zero)
    return decline("it is not through int8 with one scale") if made is None else _floats(m, made)


def unsigned_within(m: Match) -> Made:
    """The same with a Clip of the integers"""
    made = _of_signed(m, m.x, m.zero)
    if made is None or m.low.dtype is not DType.INT8:
        return decline("it is not through int8 with one scale")
    return _floats(m, op.Clip(made, moved_up(m.low), moved_up(m.high)))


def _floats(m: Match, small: Value) -> Value:
    """DequantizeLinear of uint8."""
    return op.DequantizeLinear(small, m.scale, moved_up(m.back))


def _scaled_rows(rng: np.random.Generator) -> Value:
    integers = const(rng.integers(-128, 128, (3, 4)).astype(np.int8), name="w")
    scales = const(rng.uniform(0.1, 1, 3).astype(np.float32))
    return op.MatMul(param(tensor("f32", "n", 3)), op.DequantizeLinear(integers, scales, axis=0))


def floats_of_rows(m: Match) -> Made:
    """x @ DequantizeLinear(weight, a scale for each row) with the weight computed, since the runtime takes it for one
    with a scale for each column"""
    if m.w.rank != 2 or m.s.rank != 1 or m.s.blob.size == 1 or m.axis % 2 != 0 or m.root.dtype is not DType.FLOAT:
        return decline("its scales are not those of rows")
    if m.block:
        return decline("its scales are those of blocks")
    weight = op.Cast(m.w, to=DType.FLOAT)
    if m.zero is not None:
        weight = op.Sub(weight, op.Unsqueeze(op.Cast(m.zero, to=DType.FLOAT), [1]))
    return op.MatMul(m.x, op.Mul(weight, op.Unsqueeze(m.s, [1])))


_small = p.QuantizeLinear(hole("x"), constant("inner"), constant("zero"), axis=attr("axis"))
_weight = p.DequantizeLinear(
    constant("w"), constant("s"), constant("zero", optional=True), axis=attr("axis"), block_size=attr("block")
)
INTEGERS: Rules = (
    Rule(
        "unsigned_activations",
        p.DequantizeLinear(_small, constant("scale"), constant("back"), axis=attr("at")),
        unsigned,
        True,
        "DequantizeLinear(QuantizeLinear(x)) of int8 -> the same of uint8",
        sample=_signed,
    ),
    Rule(
        "unsigned_activations_within",
        p.DequantizeLinear(
            p.Clip(_small, constant("low"), constant("high")), constant("scale"), constant("back"), axis=attr("at")
        ),
        unsigned_within,
        True,
        "DequantizeLinear(Clip(QuantizeLinear(x))) of int8 -> the same of uint8",
        sample=_signed,
    ),
    Rule(
        "product_of_scaled_rows",
        p.MatMul(hole("x"), _weight),
        floats_of_rows,
        False,
        "x @ DequantizeLinear(w, scales of rows) -> x @ (Cast(w) * scales)",
        sample=_scaled_rows,
    ),
)
