"""Random numbers where a target has no kernel that draws them: ONNX Runtime has none for opset 22 and later.

What it has for every opset is Dropout, whose mask in training mode is a draw of bits. A number from [0, 1) is 24 of
them, the most that f32 can hold; a normally distributed one comes of two such numbers, as Box and Muller showed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match

BITS = 24


def uniforms(shape: Value, count: int, seed: Any) -> Value:
    """`count` independent numbers from [0, 1) for each place of a tensor of that shape: (*shape, count), f32.

    `seed` is that of the draw that they replace, or None.
    """
    wide = op.Concat(shape, np.array([BITS * count]), axis=0)
    ones = op.Expand(const(np.float32(1)), wide)
    given = {} if seed is None else {"seed": int(seed)}
    _, mask = op.Dropout(ones, const(np.float32(0.5)), const(np.True_), outputs=2, **given)
    weights = np.kron(np.eye(count), 0.5 ** np.arange(1, BITS + 1)[:, None]).astype(np.float32)
    return op.MatMul(op.Cast(mask, to=int(DType.FLOAT)), const(weights))


def uniform(value: Value, shape: Value, dtype: DType) -> Value:
    """low + (high - low) * u"""
    low, high = (float(attribute_of(value, name)) for name in ("low", "high"))
    drawn = op.Cast(op.Squeeze(uniforms(shape, 1, value.attribute("seed")), np.array([-1])), to=int(dtype))
    return op.Add(op.Mul(drawn, high - low), low)


def normal(value: Value, shape: Value, dtype: DType) -> Value:
    """mean + scale * sqrt(-2 log(1 - u)) * cos(2 pi v)"""
    mean, scale = (float(attribute_of(value, name)) for name in ("mean", "scale"))
    pair = op.Cast(uniforms(shape, 2, value.attribute("seed")), to=int(dtype))
    u, v = (op.Gather(pair, const(i), axis=-1) for i in range(2))
    radius = op.Sqrt(op.Mul(op.Log(op.Sub(1.0, u)), -2.0))
    return op.Add(op.Mul(op.Mul(radius, op.Cos(op.Mul(v, 2 * math.pi))), scale), mean)


def like(draw: Callable[[Value, Value, DType], Value]) -> Callable[[Match, Value], Any]:
    """The expansion of a draw in the shape of an operand."""

    def expanded(m: Match, value: Value) -> Any:
        (x,) = value.inputs
        return None if x is None else draw(value, op.Shape(x), value.dtype)

    return expanded


def shaped(draw: Callable[[Value, Value, DType], Value]) -> Callable[[Match, Value], Any]:
    """The expansion of a draw in the shape that an attribute tells."""

    def expanded(m: Match, value: Value) -> Any:
        shape = np.array(value.attribute("shape"), dtype=np.int64)
        return draw(value, const(shape), value.dtype)

    return expanded


EXPANSIONS: Mapping[str, Callable[[Match, Value], Any]] = MappingProxyType({
    "RandomUniformLike": like(uniform), "RandomNormalLike": like(normal),
    "RandomUniform": shaped(uniform), "RandomNormal": shaped(normal),
})  # fmt: skip
"""Expansions by operator."""
