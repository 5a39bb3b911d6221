"""NaN, which ONNX Runtime's reductions, searches and sorts drop, keep or misplace as the shapes happen to be.

torch's keep it, and hold it greater than every number. What is added for that is left out where no NaN can be.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit.build import op
from irkit.ir import Value
from irkit.types import DType
from lowering.promotion import cast, scalar

_KEPT = frozenset((
    "Cast", "Identity", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Expand", "Slice", "Gather", "GatherElements",
    "Abs", "Neg", "Relu", "Sign", "Flatten", "Floor", "Ceil", "Round", "Tile",
))  # fmt: skip
"""Operators whose results hold NaN only where their first operand does."""

_NEVER = frozenset(("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Range", "OneHot"))
"""Operators whose results are numbers."""

_AT_LEAST_0 = frozenset(("Relu", "Abs", "Sigmoid", "Softmax", "Exp", "HardSigmoid", "Softplus", "Sqrt"))
"""Operators whose results are not negative, or NaN."""

SEEN = 1 << 12
"""Constants of more elements are not looked into, nor are weights, which may be changed later."""


def may_be_nan(x: Value) -> bool:
    """Whether some element may be NaN, as far as the operators tell that made x."""
    while x.dtype.is_float:
        blob = x.blob
        if blob is not None:
            return blob.is_weight or blob.size > SEEN or bool(np.isnan(blob.array.astype(np.float64)).any())
        if x.op in _NEVER:
            return False
        source = x.inputs[0] if x.op in _KEPT else None
        if source is None:
            return True
        x = source
    return False


def is_normalized(x: Value, axis: int) -> bool:
    """Whether x is a softmax along that axis, so that NaN stands in all elements of a row, or in none."""
    while x.op == "Cast" and x.inputs[0] is not None:
        x = x.inputs[0]
    return x.op in ("Softmax", "LogSoftmax") and (x.attribute("axis", -1) - axis) % x.rank == 0


def is_not_negative(x: Value) -> bool:
    """Whether all elements of x are at or above 0, or NaN, as far as the operator tells that made it."""
    return x.op in _AT_LEAST_0


def nan_flag(x: Value) -> Value:
    """1 where NaN, else 0, as i32."""
    return cast(op.IsNaN(x), DType.INT32)


def is_set(flag: Value) -> Value:
    """A flag as bool."""
    return cast(flag, DType.BOOL)


def with_nan(x: Value, flag: Value) -> Value:
    """x, and NaN where the flag is 1."""
    return op.Where(is_set(flag), scalar(float("nan"), x.dtype), x)


def above_all(x: Value) -> Value:
    """Numbers, none of them NaN, in the order of x with NaN above all: inf for NaN, and for inf what lies between.

    x: f32, f16 or bf16, of which the next wider type has room for that.
    """
    wide = cast(x, DType.DOUBLE if x.dtype is DType.FLOAT else DType.FLOAT)
    below = op.Min(wide, scalar(np.finfo(wide.dtype.numpy).max, wide.dtype))
    return op.Where(op.IsNaN(x), scalar(float("inf"), wide.dtype), below)


def places_by(x: Value, axis: int, order: Callable[[Value], Value]) -> Value:
    """Where the elements of f64 stand in order, NaN above inf, equal ones in their order.

    `order` says where the elements of what is not NaN stand. By it NaN stands among the infinities first, and is then
    parted from them.
    """
    missing = op.IsNaN(x)
    places = order(op.Where(missing, scalar(float("inf"), x.dtype), x))
    apart = order(op.GatherElements(cast(missing, DType.INT32), places, axis=axis))
    return op.GatherElements(places, apart, axis=axis)
