"""Samples of operators on images and boxes."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.checking.samples.convolution import image
from irkit.checking.samples.sampler import F32, Sampler
from irkit.core.ir import Value


def sample_MaxRoiPool(s: Sampler) -> Value:
    """Of one region."""
    x = s.of(F32, (1, s.integer(1, 2), 4, 4))
    return op.MaxRoiPool(x, const(np.array([[0, 0, 0, 3, 3]], np.float32)), pooled_shape=[2, 2])


def sample_RoiAlign(s: Sampler) -> Value:
    """Of one region."""
    x = s.of(F32, (1, s.integer(1, 2), 4, 4))
    where = const(np.array([[0, 0, 3, 3]], np.float32))
    return op.RoiAlign(x, where, const(np.array([0])), output_height=2, output_width=2)


def sample_GridSample(s: Sampler) -> Value:
    """Of places in and beside the image."""
    x = s.of(F32, (s.choose(s.sizes), 2, 3, 3))
    mode = s.choose(("linear", "nearest"))
    return op.GridSample(x, s.of(F32, (x.shape[0], 2, 2, 2)), mode=mode, padding_mode=s.choose(("zeros", "border")))


def sample_AffineGrid(s: Sampler) -> Value:
    """For a small image."""
    return op.AffineGrid(s.of(F32, (1, 2, 3)), [1, 1, s.integer(1, 3), 2], align_corners=s.integer(0, 1))


def sample_Resize(s: Sampler) -> Value:
    """To twice the size, or half of it."""
    scale = s.choose((2.0, 0.5))
    return op.Resize(image(s), None, const(np.array([1, 1, scale, scale], np.float32)), mode="nearest")


def sample_NonMaxSuppression(s: Sampler) -> Value:
    """Of three boxes: a size that depends on data."""
    boxes = const(np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32))
    return op.NonMaxSuppression(boxes, s.of(F32, (1, 1, 3)), np.array([2]), np.array([0.5], np.float32))
