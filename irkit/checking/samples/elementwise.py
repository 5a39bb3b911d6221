"""Samples of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit.build import call, const, op
from irkit.checking.samples.sampler import ANY, BOOL, F32, F64, FLOATS, INTEGERS, NUMBERS, U8, Sampler
from irkit.core.ir import Value
from irkit.core.types import DType


def unary(name: str, kinds: tuple[DType, ...] = FLOATS) -> Callable[[Sampler], Value]:
    """The sample of an operator of one tensor."""

    def sample(s: Sampler) -> Value:
        return call(name, [s.tensor(kinds)])

    return sample


def binary(name: str, kinds: tuple[DType, ...] = NUMBERS) -> Callable[[Sampler], Value]:
    """The sample of an operator of two tensors that broadcast."""

    def sample(s: Sampler) -> Value:
        x = s.tensor(kinds)
        y = x if s.rarely() else s.broadcastable(x)
        return call(name, [y, x] if s.flag() else [x, y])

    return sample


sample_Abs, sample_Neg, sample_Sign = unary("Abs", NUMBERS), unary("Neg", NUMBERS), unary("Sign", NUMBERS)
sample_Tanh = unary("Tanh")
sample_Exp, sample_Sqrt, sample_Erf = unary("Exp"), unary("Sqrt"), unary("Erf")
sample_Sin, sample_Atan = unary("Sin"), unary("Atan")
sample_Ceil, sample_Floor, sample_Round = unary("Ceil"), unary("Floor"), unary("Round")
sample_IsNaN, sample_Not = unary("IsNaN"), unary("Not", (BOOL,))
sample_BitwiseNot = unary("BitwiseNot", INTEGERS)
sample_Acos, sample_Acosh, sample_Asin = unary("Acos"), unary("Acosh"), unary("Asin")
sample_Asinh, sample_Atanh, sample_Cos = unary("Asinh"), unary("Atanh"), unary("Cos")
sample_Cosh, sample_Sinh, sample_Tan = unary("Cosh"), unary("Sinh"), unary("Tan")
sample_Log, sample_Reciprocal = unary("Log"), unary("Reciprocal")
sample_IsInf = unary("IsInf", (F32, F64))
sample_BitwiseXor, sample_Mean = binary("BitwiseXor", INTEGERS), binary("Mean", FLOATS)
sample_Add, sample_Sub, sample_Mul = binary("Add"), binary("Sub"), binary("Mul")
sample_Max, sample_Min = binary("Max"), binary("Min")
sample_Equal, sample_Less, sample_Greater = binary("Equal", ANY), binary("Less"), binary("Greater")
sample_LessOrEqual, sample_GreaterOrEqual = binary("LessOrEqual"), binary("GreaterOrEqual")
sample_And, sample_Or, sample_Xor = binary("And", (BOOL,)), binary("Or", (BOOL,)), binary("Xor", (BOOL,))
sample_BitwiseAnd, sample_BitwiseOr = binary("BitwiseAnd", INTEGERS), binary("BitwiseOr", INTEGERS)


def sample_Div(s: Sampler) -> Value:
    """By a tensor for floats, by a number that is not zero for integers."""
    x = s.tensor(NUMBERS)
    return op.Div(x, s.broadcastable(x) if x.dtype.is_float else s.choose((2, 3, 1)))


def sample_Mod(s: Sampler) -> Value:
    """By a positive number."""
    x = s.tensor(NUMBERS)
    return op.Mod(x, s.choose((2, 3)), fmod=int(x.dtype.is_float))


def sample_Pow(s: Sampler) -> Value:
    """To a small power."""
    x = s.tensor(FLOATS)
    return op.Pow(x, const(np.array(s.choose((2.0, 1.0, 0.0, 3.0)), x.dtype.numpy)))


def sample_Where(s: Sampler) -> Value:
    """Of three tensors that broadcast."""
    x = s.tensor(ANY)
    return op.Where(s.of(BOOL, x.shape[s.integer(0, x.rank) :]), x, s.broadcastable(x))


def sample_Clip(s: Sampler) -> Value:
    """With one end or both."""
    x = s.tensor(NUMBERS)
    low, high = (None if s.rarely() else const(np.array(v).astype(x.dtype.numpy)) for v in (0, 2))
    return op.Clip(x, low, high)


def sample_BitShift(s: Sampler) -> Value:
    """By a few bits."""
    x = s.tensor((U8,))
    return op.BitShift(x, const(np.array(s.integer(0, 3), x.dtype.numpy)), direction=s.choose(("LEFT", "RIGHT")))


def sample_Sum(s: Sampler) -> Value:
    """Of one to three tensors."""
    x = s.tensor(FLOATS)
    return op.Sum(x, *(s.broadcastable(x) for _ in range(s.integer(0, 2))))
