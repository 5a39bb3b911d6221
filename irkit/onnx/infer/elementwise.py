"""Type rules of elementwise operators: one or several operands, broadcast."""

from __future__ import annotations

from irkit.onnx.infer.context import Context, broadcast
from irkit.types import DType, Tensor, Type


def infer_same(c: Context) -> Type:
    """x[...] -> x[...]"""
    return c.type(0)


def infer_broadcast(c: Context) -> Type:
    """x[...], y[...] -> broadcast, of the element type of x"""
    return Tensor(c.dtype(0), broadcast(c, *(v.type.shape for v in c.inputs)))


def infer_compare(c: Context) -> Type:
    """x[...], y[...] -> bool, broadcast"""
    return Tensor(DType.BOOL, broadcast(c, c.shape(0), c.shape(1)))


infer_Abs = infer_Relu = infer_Sigmoid = infer_Exp = infer_Tanh = infer_same
infer_Add = infer_Sub = infer_Mul = infer_Div = infer_broadcast
infer_Equal = infer_Less = infer_Greater = infer_compare
