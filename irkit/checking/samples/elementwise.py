"""Samples of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit.build import call, const, op
from irkit.checking.samples.sampler import (
    ANY,
    BOOL,
    CASTABLE,
    F16,
    F32,
    F64,
    FLOATS,
    I32,
    INTEGERS,
    NUMBERS,
    U8,
    Sampler,
    cast,
    has_static_axis,
    static_axis,
)
from irkit.core.ir import Value


def unary(name: str, kinds: tuple = FLOATS) -> Callable[[Sampler], Value]:
    """The sample of an operator of one tensor."""

    def sample(s: Sampler) -> Value:
        return call(name, [s.tensor(kinds)])

    return sample


def binary(name: str, kinds: tuple = NUMBERS) -> Callable[[Sampler], Value]:
    """The sample of an operator of two tensors that broadcast."""

    def sample(s: Sampler) -> Value:
        x = s.tensor(kinds)
        y = x if s.rarely() else s.broadcastable(x)
        return call(name, [y, x] if s.flag() else [x, y])

    return sample


sample_Abs, sample_Neg, sample_Sign = unary("Abs", NUMBERS), unary("Neg", NUMBERS), unary("Sign", NUMBERS)
sample_Relu, sample_Sigmoid, sample_Tanh = unary("Relu"), unary("Sigmoid"), unary("Tanh")
sample_Exp, sample_Sqrt, sample_Erf = unary("Exp"), unary("Sqrt"), unary("Erf")
sample_Sin, sample_Atan, sample_Softplus = unary("Sin"), unary("Atan"), unary("Softplus")
sample_Ceil, sample_Floor, sample_Round = unary("Ceil"), unary("Floor"), unary("Round")
sample_IsNaN, sample_Not = unary("IsNaN"), unary("Not", (BOOL,))
sample_Identity, sample_BitwiseNot = unary("Identity", ANY), unary("BitwiseNot", INTEGERS)
sample_Gelu, sample_HardSwish, sample_Softsign = unary("Gelu"), unary("HardSwish"), unary("Softsign")

sample_Acos, sample_Acosh, sample_Asin = unary("Acos"), unary("Acosh"), unary("Asin")
sample_Asinh, sample_Atanh, sample_Cos = unary("Asinh"), unary("Atanh"), unary("Cos")
sample_Cosh, sample_Sinh, sample_Tan = unary("Cosh"), unary("Sinh"), unary("Tan")
sample_Log, sample_Reciprocal, sample_Mish = unary("Log"), unary("Reciprocal"), unary("Mish")
sample_Selu, sample_HardSigmoid, sample_Celu = unary("Selu"), unary("HardSigmoid"), unary("Celu", (F32,))
sample_IsInf, sample_Shrink = unary("IsInf", (F32, F64)), unary("Shrink", NUMBERS)

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


def sample_Cast(s: Sampler) -> Value:
    """To any element type."""
    return cast(s.tensor(ANY), s.choose((*ANY, F16, U8) if not s.wide or s.flag() else CASTABLE))


def sample_Clip(s: Sampler) -> Value:
    """With one end or both."""
    x = s.tensor(NUMBERS)
    low, high = (None if s.rarely() else const(np.array(v).astype(x.dtype.numpy)) for v in (0, 2))
    return op.Clip(x, low, high)


def sample_LeakyRelu(s: Sampler) -> Value:
    """With a float attribute."""
    return op.LeakyRelu(s.tensor(FLOATS), alpha=s.choose((0.1, 0.01, 1.0)))


def sample_Elu(s: Sampler) -> Value:
    """With a float attribute."""
    return op.Elu(s.tensor(FLOATS), alpha=s.choose((0.3, 1.0)))


def sample_ThresholdedRelu(s: Sampler) -> Value:
    """With a float attribute."""
    return op.ThresholdedRelu(s.tensor(FLOATS), alpha=s.choose((1.0, 0.0)))


def sample_Swish(s: Sampler) -> Value:
    """With a float attribute."""
    return op.Swish(s.tensor(FLOATS), alpha=s.choose((1.0, 0.5)))


def sample_PRelu(s: Sampler) -> Value:
    """With a slope for each element, or one."""
    x = s.tensor(FLOATS)
    return op.PRelu(x, s.of(x.dtype, x.shape if s.flag() else ()))


def sample_BitShift(s: Sampler) -> Value:
    """By a few bits."""
    x = s.tensor((U8,))
    return op.BitShift(x, const(np.array(s.integer(0, 3), x.dtype.numpy)), direction=s.choose(("LEFT", "RIGHT")))


def sample_BitCast(s: Sampler) -> Value:
    """To integers of as many bits, and back."""
    x = s.tensor((F32,))
    bits = op.BitCast(x, to=int(I32))
    return bits if s.flag() else op.BitCast(bits, to=int(F32))


def sample_CastLike(s: Sampler) -> Value:
    """To the element type of another."""
    return op.CastLike(s.tensor(FLOATS), s.tensor(FLOATS))


def sample_Sum(s: Sampler) -> Value:
    """Of one to three tensors."""
    x = s.tensor(FLOATS)
    return op.Sum(x, *(s.broadcastable(x) for _ in range(s.integer(0, 2))))


def sample_Softmax(s: Sampler) -> Value:
    """Along an axis that is not empty."""
    x = s.tensor(FLOATS, 1, 4, has_static_axis)
    return op.Softmax(x, axis=static_axis(s, x))


def sample_LogSoftmax(s: Sampler) -> Value:
    """Along an axis that is not empty."""
    x = s.tensor(FLOATS, 1, 4, has_static_axis)
    return op.LogSoftmax(x, axis=static_axis(s, x))


def sample_Hardmax(s: Sampler) -> Value:
    """Along an axis that is not empty."""
    x = s.tensor(FLOATS, 1, 4, has_static_axis)
    return op.Hardmax(x, axis=static_axis(s, x))
