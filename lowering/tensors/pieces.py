"""Small pieces of graph that converters of several families are made of: sums, norms, constants of a shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.blobs import computed_blob
from irkit.core.ir import Value
from irkit.core.types import HALVES, DType, same_types
from irkit.dims import Dim
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import expand, ints, may_be_empty, permute

MEAN = 1
"""torch's number for a loss that is a mean; 0 is none, 2 a sum."""

NARROW = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)
"""Integers of which ONNX has no sums."""


def widen(x: Value) -> Value:
    """x in the type that torch computes in: f32 for the half types."""
    return cast(x, DType.FLOAT) if x.dtype in HALVES else x


def compress_rows(x: Value, kept: Value) -> Value:
    """The rows of x that a vector of bools keeps; bf16, of which ONNX drops none, passes through f32."""
    return cast(op.Compress(cast(x, DType.FLOAT) if x.dtype is DType.BFLOAT16 else x, kept, axis=0), x.dtype)


def full(number: Any, shape: Sequence[Dim], dtype: DType) -> Value:
    """A tensor of one number."""
    return expand(scalar(number, dtype), shape)


def as_recorded(value: Value, wanted: Any) -> Value:
    """The value, or zeros of the shape that torch recorded where that is another one"""
    if wanted is None:
        return value
    known = same_types(value.type, wanted)
    if known is True or (known is None and not wanted.is_static):
        return value
    return full(0, wanted.shape, wanted.dtype)


def swap(x: Value, a: int = -1, b: int = -2) -> Value:
    """x with two axes exchanged."""
    order = list(range(x.rank))
    order[a], order[b] = order[b], order[a]
    return permute(x, order)


def total(x: Value, axes: Sequence[int] | None = None, keepdims: bool = False) -> Value:
    """Sum over axes (all of them where `axes` is None). Narrow integers, which ONNX does not add up, wrap around."""
    wide = cast(x, DType.INT64) if x.dtype in NARROW else x
    return cast(op.ReduceSum(wide, None if axes is None else ints(*axes), keepdims=int(keepdims)), x.dtype)


def mean(x: Value, axes: Sequence[int] | None = None, keepdims: bool = False) -> Value:
    """Mean over axes (all of them where `axes` is None); NaN of nothing.

    What ReduceMean gives for nothing ONNX leaves open, so that it serves only sizes that are known to be above 0.
    """
    over = None if axes is None else ints(*axes)
    count = dims.product(x.shape[a] for a in (range(x.rank) if axes is None else axes))
    if not may_be_empty(count):
        return op.ReduceMean(x, over, keepdims=int(keepdims))
    wide = widen(x)  # a sum of half numbers overflows where their mean does not
    return cast(op.Div(op.ReduceSum(wide, over, keepdims=int(keepdims)), scalar(count, wide.dtype)), x.dtype)


def largest(x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """The largest element over axes."""
    return op.ReduceMax(x, ints(*axes), keepdims=int(keepdims))


def p_norm(x: Value, p: float, axes: Sequence[int], keepdims: bool = False) -> Value:
    """sum(|x|^p)^(1/p) over axes; the number of nonzeros for p = 0, the largest or smallest |x| for p = +-inf."""
    over, keep = ints(*axes), int(keepdims)
    if p == 1:
        return op.ReduceL1(x, over, keepdims=keep)
    if p == 2:
        return op.ReduceL2(x, over, keepdims=keep)
    if p == 0:
        return total(cast(op.Not(op.Equal(x, scalar(0, x.dtype))), x.dtype), axes, keepdims)
    size = op.Abs(x)
    if np.isinf(p):
        return op.ReduceMax(size, over, keepdims=keep) if p > 0 else op.ReduceMin(size, over, keepdims=keep)
    return op.Pow(total(op.Pow(size, scalar(p, x.dtype)), axes, keepdims), scalar(1.0 / p, x.dtype))


def computed_weight(
    parts: Sequence[Value], shape: Sequence[int], function: Callable[..., np.ndarray], name: str
) -> Value | None:
    """The constant that `function` makes of the contents of weights when it is asked for; None where a part is none.

    Rules leave weights alone, so that what ONNX wants in another order is put in that order here.
    """
    blobs = [part.blob for part in parts]
    held = [blob for blob in blobs if blob is not None]
    if len(held) < len(blobs):
        return None
    return const(computed_blob(held[0].dtype, tuple(shape), function, held, name))


def per_axis(values: Any, rank: int) -> tuple[Any, ...]:
    """One number per axis, from a number, a list of one, or a list of `rank`."""
    listed = tuple(values) if isinstance(values, list | tuple) else (values,)
    return listed * rank if len(listed) == 1 else listed


def reduce_loss(loss: Value, reduction: int) -> Value:
    """Elementwise losses as they are (0), their mean (1) or their sum (2)."""
    if reduction == 0:
        return loss
    return mean(loss) if reduction == MEAN else total(loss)
