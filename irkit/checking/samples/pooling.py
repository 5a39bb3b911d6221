"""Samples of pools."""

from __future__ import annotations

from irkit.build import op
from irkit.checking.samples.convolution import of_image
from irkit.checking.samples.sampler import F32, Sampler
from irkit.core.ir import Value


def sample_MaxPool(s: Sampler) -> Value:
    """Over one axis."""
    x = s.of(F32, (s.choose(s.sizes), s.integer(1, 3), s.integer(2, 3)))
    return op.MaxPool(x, kernel_shape=[2], strides=[s.integer(1, 2)])


sample_GlobalAveragePool, sample_GlobalMaxPool = of_image("GlobalAveragePool"), of_image("GlobalMaxPool")
sample_GlobalLpPool = of_image("GlobalLpPool", p=2)
sample_AveragePool, sample_LpPool = (of_image(name, kernel_shape=[2, 2]) for name in ("AveragePool", "LpPool"))


def sample_MaxUnpool(s: Sampler) -> Value:
    """Of places that a pool gave."""
    x = s.of(F32, (1, 1, 4, 4))
    pooled, places = op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    return op.MaxUnpool(pooled, places, kernel_shape=[2, 2], strides=[2, 2])
