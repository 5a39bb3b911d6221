"""Floats of 8 bits that ONNX Runtime rounds wrongly: numbers near the largest that float8_e5m2 holds."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import hole, one_of
from irkit.rewriting.face import Made, Match, Rule, Rules, decline

LARGEST, INFINITE = 57344, 61440
"""The largest number of float8_e5m2, and the least that is rounded to infinity."""


def rounded_before(m: Match) -> Made:
    """The Cast of what has the largest number, or infinity, where it is above the largest one"""
    x = m.x
    if m.root.dtype is not DType.FLOAT8E5M2 or m.root.attribute("saturate", 1) or not x.dtype.is_float:
        return decline("no float becomes one of float8_e5m2 that may be infinite")
    if is_rounded(x):
        return decline("it is rounded already")
    largest, infinite, endless = (const(np.array(n, x.dtype.numpy)) for n in (LARGEST, INFINITE, np.inf))
    size = op.Abs(x)
    end = op.Mul(op.Sign(x), op.Where(op.Less(size, infinite), largest, endless))
    return op.Cast(op.Where(op.Greater(size, largest), end, x), to=DType.FLOAT8E5M2, saturate=0)


def is_rounded(x: Value) -> bool:
    """Whether a value is what `rounded_before` makes, also where legalization has cast it to another type and back."""
    while x.op == "Cast" and x.inputs[0] is not None and x.inputs[0].dtype.is_float:
        x = x.inputs[0]
    above = x.inputs[0] if x.op == "Where" else None
    bound = above.inputs[1] if above is not None and above.op == "Greater" else None
    while bound is not None and bound.op == "Cast":
        bound = bound.inputs[0]
    return bound is not None and bound.blob is not None and bool((bound.blob.array == LARGEST).all())


def _near_the_end(rng: np.random.Generator) -> Value:
    data = param(tensor(str(rng.choice(["f32", "f16", "f64"])), "n", 3))
    factor = np.array(rng.choice([1, 1e4, 3e4, 6e4]), data.dtype.numpy)
    return op.Cast(op.Mul(data, const(factor)), to=DType.FLOAT8E5M2, saturate=0)


EIGHTHS: Rules = (
    Rule("cast_near_the_end", one_of("Cast")(hole("x")), rounded_before, True,
         "Cast(x) to float8_e5m2 -> the same of x rounded where it is above 57344", sample=_near_the_end),
)  # fmt: skip
