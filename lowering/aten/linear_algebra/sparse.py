"""Sparse tensors, which a graph takes as dense ones: those of their operators that ask for nothing but the numbers."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.core.vocabulary import LEAVES
from lowering.aten.linear_algebra.products import product
from lowering.aten.reduction.reduce import extreme
from lowering.errors import Unsupported
from lowering.tensors.promotion import cast
from lowering.tensors.shaping import ints, unsqueeze


def aten__to_dense(self: Value, dtype: DType | None = None) -> Value:
    """The tensor itself, of the element type that is asked for."""
    return self if dtype is None else cast(self, dtype)


def aten__sparse_mm_reduce_impl(self: Value, other: Value, reduce: str) -> tuple[Value, Value]:
    """(self @ other, no places); the mean, largest or smallest of the stored products in place of their sum, 0 where a
    row stores none.  self: sparse, (n, k); other: (k, m).

    Stored is what is not 0, as `lowering.capture.guards.sparse` sees to.
    """
    nowhere = const(np.zeros(0, np.int64))
    if reduce == "sum":
        return product(self, other), nowhere
    if self.op not in LEAVES:
        raise Unsupported(f"which elements a computed sparse matrix stores is not known, and their {reduce} needs it")
    wide = DType.FLOAT if self.dtype in (DType.FLOAT16, DType.BFLOAT16) else self.dtype
    x, y = cast(self, wide), cast(other, wide)
    stored = op.Not(op.Equal(x, 0.0))
    count = op.ReduceSum(cast(stored, wide), ints(1), keepdims=1)
    if reduce == "mean":
        found = op.Div(product(x, y), op.Max(count, const(1.0, wide)))
    else:
        largest = reduce == "amax"
        products = op.Mul(unsqueeze(x, 2), unsqueeze(y, 0))
        kept = op.Where(unsqueeze(stored, 2), products, -np.inf if largest else np.inf)
        found = extreme("ReduceMax" if largest else "ReduceMin", kept, 1, keepdim=False)
    return cast(op.Where(op.Equal(count, 0.0), 0.0, found), self.dtype), nowhere
