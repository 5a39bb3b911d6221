"""Type rules of casts and of quantization."""

from __future__ import annotations

from irkit import dims
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context


def infer_QuantizeLinear(c: Context) -> Type:
    """x[...], scale, zero_point? -> x[...] of `output_dtype`, else of the type of zero_point, else u8"""
    default = c.dtype(2) if c.has(2) else DType.UINT8
    to = c.element("output_dtype", default)
    if c.has(2) and to is not default:
        raise c.fail(f"output_dtype is {to.short}, and the zero point is {default.short}")
    return Tensor(c.allowed(to), quantized(c))


def infer_DequantizeLinear(c: Context) -> Type:
    """x[...], scale, zero_point? -> x[...] of `output_dtype`, else of the type of scale"""
    return Tensor(c.allowed(c.element("output_dtype", c.dtype(1))), quantized(c))


def quantized(c: Context) -> tuple[Dim, ...]:
    """The shape of the operand, after a look at the scale: a scalar, one for each place of `axis`, or blocks."""
    x, scale = c.shape(0), c.shape(1)
    if c.has(2) and not {scale, c.shape(2)} <= {(), (1,)}:
        c.unify_shapes(scale, c.shape(2), "scale and zero point")
    if len(scale) == 1 and len(x) > 1 and not c.attr("block_size") and scale != (1,):
        c.unify(scale[0], x[c.axis(c.attr("axis"), len(x))], "the scales and the axis")
    if c.attr("block_size"):
        axis = c.axis(c.attr("axis"), len(x))
        if len(scale) != len(x):
            raise c.fail(f"a blocked scale must have rank {len(x)}, and has {len(scale)}")
        for i, (a, b) in enumerate(zip(scale, x, strict=True)):
            if i != axis and dims.same(a, b) is False:
                raise c.fail(f"the scale has size {a} on axis {i}, where {b} is needed")
    return x


def infer_DynamicQuantizeLinear(c: Context) -> tuple[Type, ...]:
    """x f32[...] -> u8[...], scale f32[], zero point u8[]"""
    return Tensor(DType.UINT8, c.shape(0)), Tensor(DType.FLOAT, ()), Tensor(DType.UINT8, ())


def infer_Cast(c: Context) -> Type:
    """x[...] -> x[...] of the element type `to`"""
    first = c.tensor(0)
    to = c.allowed(c.element("to", DType.FLOAT))
    return first if first.dtype is to else Tensor(to, first.shape)


def infer_CastLike(c: Context) -> Type:
    """x[...], like[...] -> x[...] of the element type of `like`"""
    return Tensor(c.dtype(1), c.shape(0))


def infer_BitCast(c: Context) -> Type:
    """x[...] -> x[...] read as another element type of the same width"""
    first, to = c.tensor(0), c.allowed(c.element("to", DType.FLOAT))
    if first.dtype.bits != to.bits:
        raise c.fail(f"{first.dtype.short} and {to.short} have different widths", hint="use op.Cast")
    return Tensor(to, first.shape)
