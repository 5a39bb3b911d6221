"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.reduction.reduce import extreme
from lowering.tensors.promotion import cast, scalar, to_float
from lowering.tensors.shaping import axis, squeeze, unsqueeze


def along(make: Any, x: Value, dim: int) -> Value:
    """`make` along an axis; a tensor without dimensions is given one for it."""
    if x.rank == 0:
        return squeeze(make(unsqueeze(x, 0), axis=0), 0)
    return make(x, axis=axis(dim, x.rank))


def aten_softmax(self: Value, dim: int, dtype: DType | None = None) -> Value:
    """exp(x) / sum(exp(x)) along an axis, computed in `dtype`"""
    return along(op.Softmax, to_float(self) if dtype is None else cast(self, dtype), dim)


def aten__softmax(self: Value, dim: int, half_to_float: bool = False) -> Value:
    """exp(x) / sum(exp(x)) along an axis, in f32 where `half_to_float`"""
    return along(op.Softmax, cast(self, DType.FLOAT) if half_to_float else self, dim)


def aten_log_softmax(self: Value, dim: int, dtype: DType | None = None) -> Value:
    """x - log(sum(exp(x))) along an axis, computed in `dtype`"""
    return along(op.LogSoftmax, to_float(self) if dtype is None else cast(self, dtype), dim)


def aten__log_softmax(self: Value, dim: int, half_to_float: bool = False) -> Value:
    """x - log(sum(exp(x))) along an axis, in f32 where `half_to_float`"""
    return along(op.LogSoftmax, cast(self, DType.FLOAT) if half_to_float else self, dim)


def zero_masked_rows(weights: Value, scores: Value, dim: int) -> Value:
    """Softmax weights with 0 where every score along the axis is -inf, and softmax says NaN."""
    none = op.Equal(extreme("ReduceMax", scores, dim, True), scalar(-np.inf, scores.dtype))
    return op.Where(none, scalar(0, weights.dtype), weights)


def aten__safe_softmax(self: Value, dim: int, dtype: DType | None = None) -> Value:
    """Softmax along an axis, and 0 where all of it is -inf"""
    x = to_float(self) if dtype is None else cast(self, dtype)
    return zero_masked_rows(aten_softmax(x, dim), x, dim) if x.rank else aten_softmax(x, dim)


def aten__masked_softmax(self: Value, mask: Value, dim: int | None = None, mask_type: int | None = None) -> Value:
    """Softmax over the places where `mask` is false, and 0 elsewhere.

    self: (b, h, l, s); mask: (l, s) for type 0, (b, s) for type 1, else as self.
    """
    if mask_type == 1:
        mask = unsqueeze(mask, 1, 2)
    scores = op.Where(cast(mask, DType.BOOL), scalar(-np.inf, self.dtype), self)
    along_axis = self.rank - 1 if dim is None else dim
    return zero_masked_rows(aten_softmax(scores, along_axis), scores, along_axis)
