"""Sparse tensors, which a graph takes as dense ones: those of their operators that ask for nothing but the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit.build import const
from irkit.ir import Value
from irkit.types import DType
from lowering.aten.linalg import aten_addmm, product
from lowering.errors import Unsupported
from lowering.promotion import cast


def aten__to_dense(self: Value, dtype: DType | None = None) -> Value:
    """The tensor itself, of the element type that is asked for."""
    return self if dtype is None else cast(self, dtype)


def aten__sparse_addmm(self: Value, mat1: Value, mat2: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * self + alpha * (mat1 @ mat2).  mat1: sparse, (n, k); mat2: (k, m)."""
    return aten_addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def aten__sparse_mm_reduce_impl(self: Value, other: Value, reduce: str) -> tuple[Value, Value]:
    """(self @ other, no places).  self: sparse, (n, k); other: (k, m)."""
    if reduce != "sum":
        raise Unsupported(
            f"the {reduce} of a row is that of its stored elements, and ONNX Runtime takes a sparse tensor as a dense "
            "one, which does not say where an element is stored"
        )
    return product(self, other), const(np.zeros(0, np.int64))
