"""Samples of convolutions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit.build import call, const, op
from irkit.checking.samples.casts import scale
from irkit.checking.samples.sampler import F32, U8, Sampler
from irkit.core.ir import Value


def image(s: Sampler, least: int = 2) -> Value:
    """A batch of small images of one to three channels."""
    return s.of(F32, (s.choose(s.sizes), s.integer(1, 3), s.integer(least, 4), s.integer(least, 4)))


def of_image(name: str, **attributes: object) -> Callable[[Sampler], Value]:
    """The sample of an operator of an image."""

    def sample(s: Sampler) -> Value:
        return call(name, [image(s)], dict(attributes))

    return sample


def sample_ConvTranspose(s: Sampler) -> Value:
    """Over one axis."""
    x = s.of(F32, (s.choose(s.sizes), s.integer(1, 3), s.integer(1, 3)))
    return op.ConvTranspose(x, s.of(F32, (x.shape[1], s.integer(1, 2), 3)), strides=[s.integer(1, 2)])


def sample_ConvInteger(s: Sampler) -> Value:
    """Of bytes."""
    x = s.of(U8, (s.choose(s.sizes), 2, 4))
    return op.ConvInteger(x, s.of(U8, (2, 2, 3)), s.of(U8, ()), pads=[1, 1])


def sample_DeformConv(s: Sampler) -> Value:
    """With offsets of any size."""
    x = s.of(F32, (1, 2, 4, 4))
    return op.DeformConv(x, s.of(F32, (2, 2, 2, 2)), s.of(F32, (1, 8, 3, 3)), kernel_shape=[2, 2])


def sample_Col2Im(s: Sampler) -> Value:
    """Of blocks of two places along each of one to three axes, of which each has two windows."""
    axes, gap = s.integer(1, 3), s.integer(1, 2)
    columns = s.of(F32, (s.choose(s.sizes), 2**axes, 2**axes))
    return op.Col2Im(columns, [gap + 2] * axes, [2] * axes, dilations=[gap] * axes)


def sample_QLinearConv(s: Sampler) -> Value:
    """Of bytes."""
    x, w = s.of(U8, (s.choose(s.sizes), 2, 4)), s.of(U8, (2, 2, 3))
    zero = const(np.array(1, np.uint8))
    return op.QLinearConv(x, scale(s), zero, w, scale(s), zero, scale(s), zero)


def sample_Conv(s: Sampler) -> Value:
    """Over one axis, padded so that no kernel is larger than its input."""
    x = s.of(F32, (s.choose(s.sizes), s.integer(1, 3), s.integer(1, 3)))
    weight = s.of(F32, (s.integer(1, 2), x.shape[1], 3))
    bias = s.of(F32, (weight.shape[0],)) if s.flag() else None
    return op.Conv(x, weight, bias, pads=[1, 1], strides=[s.integer(1, 2)])
