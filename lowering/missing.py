"""NaN, which ONNX Runtime's reductions and searches drop or keep as the shapes happen to be, and torch always keeps."""

from __future__ import annotations

from irkit.build import op
from irkit.ir import Value
from irkit.types import DType
from lowering.promotion import cast, scalar


def nan_flag(x: Value) -> Value:
    """1 where NaN, else 0, as i32."""
    return cast(op.IsNaN(x), DType.INT32)


def is_set(flag: Value) -> Value:
    """A flag as bool."""
    return cast(flag, DType.BOOL)


def with_nan(x: Value, flag: Value) -> Value:
    """x, and NaN where the flag is 1."""
    return op.Where(is_set(flag), scalar(float("nan"), x.dtype), x)
