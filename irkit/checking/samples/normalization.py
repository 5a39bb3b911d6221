"""Samples of normalizations."""

from __future__ import annotations

from irkit.build import call, op
from irkit.checking.samples.convolution import image, of_image
from irkit.checking.samples.sampler import F32, Sampler
from irkit.core.ir import Value
from irkit.support.results import as_tuple


def sample_LayerNormalization(s: Sampler) -> Value:
    """Over the last axis."""
    x = normed(s)
    return op.LayerNormalization(x, s.of(F32, (x.shape[-1],)), s.of(F32, (x.shape[-1],)) if s.flag() else None)


sample_LRN = of_image("LRN", size=3)
sample_MeanVarianceNormalization = of_image("MeanVarianceNormalization")


def normed(s: Sampler) -> Value:
    """A tensor whose last dimension is a number above zero."""
    return s.tensor((F32,), 1, 4, lambda t: type(t.shape[-1]) is int and t.shape[-1] > 0)


def sample_RMSNormalization(s: Sampler) -> Value:
    """Over the last axis."""
    x = normed(s)
    return op.RMSNormalization(x, s.of(F32, (x.shape[-1],)))


def sample_LpNormalization(s: Sampler) -> Value:
    """By the first or the second norm."""
    return op.LpNormalization(normed(s), axis=-1, p=s.integer(1, 2))


def sample_BatchNormalization(s: Sampler) -> Value:
    """By numbers that are given."""
    x = image(s)
    given = [s.of(F32, (x.shape[1],)) for _ in range(3)]
    return as_tuple(call("BatchNormalization", [x, *given, op.Abs(s.of(F32, (x.shape[1],)))], {}, outputs=1))[0]


def sample_InstanceNormalization(s: Sampler) -> Value:
    """Of images."""
    x = image(s)
    return op.InstanceNormalization(x, *(s.of(F32, (x.shape[1],)) for _ in range(2)))


def sample_GroupNormalization(s: Sampler) -> Value:
    """In one group or two."""
    x = s.of(F32, (s.choose(s.sizes), 4, 3))
    return op.GroupNormalization(x, s.of(F32, (4,)), s.of(F32, (4,)), num_groups=s.integer(1, 2))
