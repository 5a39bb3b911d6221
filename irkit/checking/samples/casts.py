"""Samples of casts and of quantization."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.checking.samples.sampler import ANY, CASTABLE, F16, F32, FLOATS, I32, U8, Sampler, cast
from irkit.core.ir import Value
from irkit.core.types import DType

I8 = DType.INT8


def scale(s: Sampler) -> Value:
    """A step between numbers."""
    return const(np.array(s.choose((0.5, 0.25, 1.0)), np.float32))


def sample_Cast(s: Sampler) -> Value:
    """To any element type."""
    return cast(s.tensor(ANY), s.choose((*ANY, F16, U8) if not s.wide or s.flag() else CASTABLE))


def sample_BitCast(s: Sampler) -> Value:
    """To integers of as many bits, and back."""
    x = s.tensor((F32,))
    bits = op.BitCast(x, to=int(I32))
    return bits if s.flag() else op.BitCast(bits, to=int(F32))


def sample_CastLike(s: Sampler) -> Value:
    """To the element type of another."""
    return op.CastLike(s.tensor(FLOATS), s.tensor(FLOATS))


def sample_QuantizeLinear(s: Sampler) -> Value:
    """To bytes."""
    zero = const(np.array(s.integer(0, 9), s.choose((np.uint8, np.int8))))
    return op.QuantizeLinear(s.tensor((F32,)), scale(s), zero)


def sample_DequantizeLinear(s: Sampler) -> Value:
    """Of bytes."""
    x = s.tensor((U8, I8))
    return op.DequantizeLinear(x, scale(s), const(np.array(s.integer(0, 9), x.dtype.numpy)))


def sample_DynamicQuantizeLinear(s: Sampler) -> tuple[Value, ...]:
    """All results."""
    return op.DynamicQuantizeLinear(s.tensor((F32,), 1, 3, lambda t: all(type(d) is int and d > 0 for d in t.shape)))
