"""Type rules of pools."""

from __future__ import annotations

from irkit import dims
from irkit.core.types import DType, Tensor, Type
from irkit.dims import Dim
from irkit.ops.types.context import Context
from irkit.ops.types.convolution import window_count, windows


def infer_AveragePool(c: Context) -> Type:
    """x[n, c, d...] -> [n, c, o...], o as in Conv, or rounded up under `ceil_mode`"""
    return Tensor(c.dtype(0), pooled(c))


infer_LpPool = infer_AveragePool


def infer_MaxPool(c: Context) -> Type | tuple[Type, ...]:
    """x[n, c, d...] -> values[n, c, o...], i64 places[n, c, o...]"""
    shape = pooled(c)
    return c.several(Tensor(c.dtype(0), shape), Tensor(DType.INT64, shape))


def pooled(c: Context) -> tuple[Dim, ...]:
    """The shape of a pool."""
    x, kernel = c.shape(0), c.attr("kernel_shape")
    if len(x) != len(kernel) + 2:
        raise c.fail(f"kernel_shape {kernel} needs an operand of rank {len(kernel) + 2}, and not of {len(x)}")
    return (*x[:2], *(window_count(c, d, win) for d, win in zip(x[2:], windows(c, tuple(kernel)), strict=True)))


def infer_GlobalAveragePool(c: Context) -> Type:
    """x[n, c, d...] -> [n, c, 1...]"""
    x = c.tensor(0)
    if len(x.shape) < 2:
        raise c.fail(f"the operand must have a batch and a channel axis, and has rank {len(x.shape)}")
    return Tensor(x.dtype, (*x.shape[:2], *(1,) * (len(x.shape) - 2)))


infer_GlobalMaxPool = infer_GlobalLpPool = infer_GlobalAveragePool


def infer_MaxUnpool(c: Context) -> Type:
    """x[n, c, d...], places[n, c, d...], output_shape i64[rank]? -> [n, c, (d - 1) * stride + kernel - pads...]"""
    x = c.tensor(0)
    c.unify_shapes(x.shape, c.shape(1), "values and places")
    if c.has(2):
        found = c.contents(2)
        return Tensor(x.dtype, tuple(dims.fresh() for _ in x.shape) if found is None else found)
    kernel = tuple(c.attr("kernel_shape"))
    if len(x.shape) != len(kernel) + 2:
        raise c.fail(f"kernel_shape {kernel} needs an operand of rank {len(kernel) + 2}, and not of {len(x.shape)}")
    space = tuple(
        dims.add(dims.add(dims.mul(dims.sub(d, 1), win.stride), win.extent), -win.before - win.after)
        for d, win in zip(x.shape[2:], windows(c, kernel), strict=True)
    )
    return Tensor(x.dtype, (*x.shape[:2], *space))
