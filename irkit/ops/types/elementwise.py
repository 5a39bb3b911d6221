"""Type rules of elementwise operators: one or several operands, broadcast."""

from __future__ import annotations

from irkit.core.types import DType, Tensor, Type
from irkit.ops.types.context import Context, broadcast, broadcast_pair


def infer_same(c: Context) -> Type:
    """x[...] -> x[...]"""
    found = c.inputs[0].type
    return found if type(found) is Tensor else c.tensor(0)


infer_Abs = infer_Neg = infer_Sign = infer_Ceil = infer_Floor = infer_Round = infer_Reciprocal = infer_same
infer_Exp = infer_Log = infer_Sqrt = infer_Erf = infer_Not = infer_BitwiseNot = infer_same
infer_Sin = infer_Cos = infer_Tan = infer_Asin = infer_Acos = infer_Atan = infer_same
infer_Sinh = infer_Cosh = infer_Tanh = infer_Asinh = infer_Acosh = infer_Atanh = infer_same


def infer_Clip(c: Context) -> Type:
    """x[...], least[]?, greatest[]? -> x[...]"""
    for index in (1, 2):
        if c.has(index) and c.rank(index) != 0 and c.shape(index) != (1,):
            raise c.fail(
                f"operand {index} ({c.spec.formal(index).name}) must be a scalar", hint="use op.Min and op.Max"
            )
    return c.tensor(0)


def infer_predicate(c: Context) -> Type:
    """x[...] -> bool[...]"""
    return Tensor(DType.BOOL, c.shape(0))


infer_IsNaN = infer_IsInf = infer_predicate


def infer_broadcast(c: Context) -> Type:
    """x[...], y[...] -> broadcast, of the element type of x"""
    first = c.tensor(0)
    shape = first.shape
    for index, value in enumerate(c.inputs):
        if value.type is not first:
            shape = broadcast_pair(c, shape, c.shape(index))
    return first if shape is first.shape else Tensor(first.dtype, shape)


infer_Add = infer_Sub = infer_Mul = infer_Div = infer_Mod = infer_Pow = infer_broadcast
infer_And = infer_Or = infer_Xor = infer_broadcast
infer_BitwiseAnd = infer_BitwiseOr = infer_BitwiseXor = infer_BitShift = infer_broadcast
infer_Max = infer_Min = infer_Mean = infer_Sum = infer_broadcast


def infer_compare(c: Context) -> Type:
    """x[...], y[...] -> bool, broadcast"""
    return Tensor(DType.BOOL, broadcast(c, c.shape(0), c.shape(1)))


infer_Equal = infer_Less = infer_Greater = infer_LessOrEqual = infer_GreaterOrEqual = infer_compare


def infer_Where(c: Context) -> Type:
    """bool[...], x[...], y[...] -> broadcast of the three, of the element type of x"""
    shape = broadcast(c, c.shape(0), c.shape(1), c.shape(2))
    first = c.tensor(1)
    return first if first.shape is shape else Tensor(first.dtype, shape)
