"""Places counted from the front only: eager torch refuses those below 0 where ONNX counts them from the end."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.errors import AbsentError
from lowering.tensors.promotion import cast
from passes.analysis.spans import greatest, span_of


def index64(x: Value) -> Value:
    """An index tensor as i64; i32 stays, which ONNX takes nearly everywhere."""
    return x if x.dtype in (DType.INT64, DType.INT32) else cast(x, DType.INT64)


def from_front(index: Value) -> Value:
    """An index tensor with a place beyond every end, which the runtime refuses, for each below 0; the very tensor where
    none can be."""
    x = index64(index)
    try:
        if span_of(x).low >= 0:
            return x
    except AbsentError:  # of a model without numbers, which cannot be run
        return x
    return op.BitwiseAnd(x, const(np.array(greatest(x.dtype), x.dtype.numpy)))
