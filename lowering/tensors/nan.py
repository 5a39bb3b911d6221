"""NaN in what converters write: flags where it stands, and values with it put in.

In the IR the largest of some elements is NaN where one of them is, and a sort puts it last, as in torch; so most
converters need none of this. What ONNX Runtime makes of it is the matter of `passes.rules.nan`.
"""

from __future__ import annotations

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.tensors.promotion import cast, scalar


def nan_flag(x: Value) -> Value:
    """1 where NaN, else 0, as i32."""
    return cast(op.IsNaN(x), DType.INT32)


def is_set(flag: Value) -> Value:
    """A flag as bool."""
    return cast(flag, DType.BOOL)


def nan_where(missing: Value, x: Value) -> Value:
    """NaN where a bool is true, else x."""
    return op.Where(missing, scalar(float("nan"), x.dtype), x)
