"""Images of bytes at other sizes, with the arithmetic that torch has for them: weights of 16 bits, axis after axis.

The weights of an axis are rounded to multiples of 2**-p, with the largest p for which they stay below 2**15. Sums of
them are rounded to whole numbers, and cut to a byte, after every axis; the last axis comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.tensors.pieces import swap
from lowering.tensors.promotion import cast, scalar

LIMIT = 1 << 15
FINEST = 22


def precision(largest: float) -> int:
    """The power of two that weights are multiples of, for the largest of them."""
    return next((p for p in range(FINEST) if int(0.5 + largest * (1 << (p + 1))) >= LIMIT), FINEST)


def rounded(weights: np.ndarray) -> tuple[np.ndarray, int]:
    """(the weights in units of 2**-p, p)"""
    bits = precision(float(weights.max(initial=0.0)))
    return np.trunc(weights * (1 << bits) + np.where(weights < 0, -0.5, 0.5)), bits


def rounded_later(weights: Value) -> tuple[Value, Value]:
    """The same of weights that are known as the program runs: (the weights in units of 2**-p, 2**-p)"""
    largest = op.ReduceMax(weights, keepdims=0)
    finer = op.Ceil(op.Div(op.Log(op.Div(scalar(LIMIT - 0.5, DType.DOUBLE), largest)), math.log(2)))
    bits = op.Min(op.Max(op.Sub(finer, 1), scalar(0, DType.DOUBLE)), scalar(FINEST, DType.DOUBLE))
    half = op.Where(op.Less(weights, 0), scalar(-0.5, DType.DOUBLE), scalar(0.5, DType.DOUBLE))
    units = op.Add(op.Mul(weights, op.Pow(scalar(2, DType.DOUBLE), bits)), half)
    whole = op.Where(op.Less(units, 0), op.Ceil(units), op.Floor(units))
    return whole, op.Pow(scalar(2, DType.DOUBLE), op.Neg(bits))


def resample(x: Value, axes: Sequence[int], matrices: Sequence[np.ndarray | Value]) -> Value:
    """x, of uint8, times a matrix (out, size) of weights along every axis.

    The sums are taken in float64, which holds all of them exactly.
    """
    last = x.rank - 1
    for axis, matrix in sorted(zip(axes, matrices, strict=True), key=lambda pair: -pair[0]):
        if isinstance(matrix, Value):
            whole, unit = rounded_later(matrix)
            units = op.Transpose(whole, perm=(1, 0))
        else:
            numbers, bits = rounded(matrix)
            units, unit = const(numbers.T.copy()), 2.0**-bits
        wide = cast(x if axis == last else swap(x, axis, last), DType.DOUBLE)
        made = op.Floor(op.Add(op.Mul(op.MatMul(wide, units), unit), 0.5))
        made = cast(op.Clip(made, 0, 255), DType.UINT8)
        x = made if axis == last else swap(made, axis, last)
    return x
