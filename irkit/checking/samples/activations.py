"""Samples of activations."""

from __future__ import annotations

from irkit.build import op
from irkit.checking.samples.elementwise import unary
from irkit.checking.samples.sampler import F32, FLOATS, NUMBERS, Sampler, has_static_axis, static_axis
from irkit.core.ir import Value

sample_Relu, sample_Sigmoid = unary("Relu"), unary("Sigmoid")
sample_Softplus = unary("Softplus")
sample_Gelu, sample_HardSwish, sample_Softsign = unary("Gelu"), unary("HardSwish"), unary("Softsign")
sample_Mish = unary("Mish")
sample_Selu, sample_HardSigmoid, sample_Celu = unary("Selu"), unary("HardSigmoid"), unary("Celu", (F32,))
sample_Shrink = unary("Shrink", NUMBERS)


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
