"""Type rules of operators that make a tensor of sizes, or draw one."""

from __future__ import annotations

import math

from irkit import dims
from irkit.core.blobs import Blob
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context


def infer_Constant(c: Context) -> Type:
    """-> the content of attribute `value`"""
    value = c.attr("value")
    if not isinstance(value, Blob):
        raise c.fail("attribute value must hold a tensor", hint="use irkit.const(...)")
    return value.type


def shape_of(c: Context, index: int) -> tuple[Dim, ...]:
    """The dimensions that an operand says; fresh ones where only their number is known."""
    c.ranked(index, 0, 1)
    found = c.contents(index)
    if found is None:
        return tuple(dims.fresh() for _ in range(c.axes_in(index)))
    for d in found:
        if type(d) is int and d < 0:
            raise c.fail(f"{d} is not a size")
    return found


def infer_ConstantOfShape(c: Context) -> Type:
    """shape i64[k] -> tensor of k dimensions, of the element type of `value`"""
    value = c.attr("value")
    return Tensor(value.dtype if isinstance(value, Blob) else DType.FLOAT, shape_of(c, 0))


def infer_Range(c: Context) -> Type:
    """start[], limit[], delta[] -> [max(0, ceil((limit - start) / delta))]"""
    for index in range(3):
        if c.rank(index) != 0 and c.shape(index) != (1,):
            raise c.fail(f"operand {index} ({c.spec.formal(index).name}) must be a scalar")
    return Tensor(c.dtype(0), (range_length(c),))


def range_length(c: Context) -> Dim:
    """How many numbers a Range gives; fresh where its operands are not known."""
    blobs = [c.blob(i) for i in range(3)]
    if all(b is not None for b in blobs):
        start, limit, delta = (b.array.reshape(-1)[0] for b in blobs)  # type: ignore[union-attr]
        if delta == 0:
            raise c.fail("delta is 0")
        if c.dtype(0).is_integer:
            return max(0, -((int(start) - int(limit)) // int(delta)))
        return max(0, math.ceil(float(limit - start) / float(delta)))  # the difference is rounded, as runtimes do
    start, limit, delta = (c.scalar(i) for i in range(3))
    if start is None or limit is None or type(delta) is not int or delta == 0:
        return dims.fresh()
    gap = dims.sub(limit, start) if delta > 0 else dims.sub(start, limit)
    return dims.maximum(0, dims.ceildiv(gap, abs(delta)))


def infer_EyeLike(c: Context) -> Type:
    """x[n, m] -> [n, m] of the element type `dtype`, else that of x"""
    x = c.ranked(0, 2)
    return Tensor(c.allowed(c.element("dtype", x.dtype)), x.shape)


def infer_RandomNormal(c: Context) -> Type:
    """-> tensor of attribute `shape`, of the element type `dtype`"""
    return Tensor(c.allowed(c.element("dtype", DType.FLOAT)), tuple(c.attr("shape")))


def infer_RandomNormalLike(c: Context) -> Type:
    """x[...] -> x[...] of the element type `dtype`, else that of x"""
    x = c.tensor(0)
    return Tensor(c.allowed(c.element("dtype", x.dtype)), x.shape)


infer_RandomUniform = infer_RandomNormal
infer_RandomUniformLike = infer_Bernoulli = infer_RandomNormalLike


def infer_Multinomial(c: Context) -> Type:
    """logits[n, classes] -> i32 or i64 [n, sample_size]"""
    x = c.ranked(0, 2)
    return Tensor(c.allowed(c.element("dtype", DType.INT32)), (x.shape[0], c.attr("sample_size")))


def infer_Dropout(c: Context) -> tuple[Type, ...]:
    """x[...], ratio[]?, training bool[]? -> x[...], mask bool[...]"""
    x = c.tensor(0)
    return c.several(x, Tensor(DType.BOOL, x.shape))
