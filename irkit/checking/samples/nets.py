"""Samples of convolutions, pools, norms, recurrent layers, attention and losses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from irkit.build import call, const, op
from irkit.checking.samples.movement import indices
from irkit.checking.samples.sampler import F32, FLOATS, U8, Sampler
from irkit.core.ir import Value
from irkit.core.types import DType

I8 = DType.INT8


def image(s: Sampler, least: int = 2) -> Value:
    """A batch of small images of one to three channels."""
    return s.of(F32, (s.choose(s.sizes), s.integer(1, 3), s.integer(least, 4), s.integer(least, 4)))


def of_image(name: str, **attributes: object) -> Callable[[Sampler], Value]:
    """The sample of an operator of an image."""

    def sample(s: Sampler) -> Value:
        return call(name, [image(s)], dict(attributes))

    return sample


sample_GlobalAveragePool, sample_GlobalMaxPool = of_image("GlobalAveragePool"), of_image("GlobalMaxPool")
sample_GlobalLpPool, sample_LRN = of_image("GlobalLpPool", p=2), of_image("LRN", size=3)
sample_AveragePool, sample_LpPool = (of_image(name, kernel_shape=[2, 2]) for name in ("AveragePool", "LpPool"))
sample_MeanVarianceNormalization = of_image("MeanVarianceNormalization")


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


def sample_MaxRoiPool(s: Sampler) -> Value:
    """Of one region."""
    x = s.of(F32, (1, s.integer(1, 2), 4, 4))
    return op.MaxRoiPool(x, const(np.array([[0, 0, 0, 3, 3]], np.float32)), pooled_shape=[2, 2])


def sample_RoiAlign(s: Sampler) -> Value:
    """Of one region."""
    x = s.of(F32, (1, s.integer(1, 2), 4, 4))
    where = const(np.array([[0, 0, 3, 3]], np.float32))
    return op.RoiAlign(x, where, const(np.array([0])), output_height=2, output_width=2)


def sample_MaxUnpool(s: Sampler) -> Value:
    """Of places that a pool gave."""
    x = s.of(F32, (1, 1, 4, 4))
    pooled, places = op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    return op.MaxUnpool(pooled, places, kernel_shape=[2, 2], strides=[2, 2])


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


def sample_Col2Im(s: Sampler) -> Value:
    """Of blocks of two by two."""
    return op.Col2Im(s.of(F32, (s.choose(s.sizes), 4, 4)), [3, 3], [2, 2])


def sample_DepthToSpace(s: Sampler) -> Value:
    """In both orders."""
    return op.DepthToSpace(s.of(F32, (s.choose(s.sizes), 4, 1, 2)), blocksize=2, mode=s.choose(("DCR", "CRD")))


def sample_SpaceToDepth(s: Sampler) -> Value:
    """In blocks of two."""
    return op.SpaceToDepth(s.of(F32, (s.choose(s.sizes), 1, 2, 4)), blocksize=2)


def sample_CenterCropPad(s: Sampler) -> Value:
    """One axis cut or padded."""
    return op.CenterCropPad(s.tensor(FLOATS, 1), [s.integer(1, 4)], axes=[0])


# ---------------------------------------------------------------------------------------------- norms


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
    found = call("BatchNormalization", [x, *given, op.Abs(s.of(F32, (x.shape[1],)))], {}, outputs=1)
    return found[0] if isinstance(found, tuple) else found


def sample_InstanceNormalization(s: Sampler) -> Value:
    """Of images."""
    x = image(s)
    return op.InstanceNormalization(x, *(s.of(F32, (x.shape[1],)) for _ in range(2)))


def sample_GroupNormalization(s: Sampler) -> Value:
    """In one group or two."""
    x = s.of(F32, (s.choose(s.sizes), 4, 3))
    return op.GroupNormalization(x, s.of(F32, (4,)), s.of(F32, (4,)), num_groups=s.integer(1, 2))


# ---------------------------------------------------------------------------------------------- layers


def layer(name: str, gates: int) -> Callable[[Sampler], Value]:
    """The sample of a recurrent layer over a few steps: its first result."""

    def sample(s: Sampler) -> Value:
        x = s.of(F32, (s.integer(1, 3), s.integer(1, 2), 2))
        w, r = s.of(F32, (1, gates * 2, 2)), s.of(F32, (1, gates * 2, 2))
        found = call(name, [x, w, r], {"hidden_size": 2}, outputs=1)
        return found[0] if isinstance(found, tuple) else found

    return sample


sample_RNN, sample_GRU, sample_LSTM = layer("RNN", 1), layer("GRU", 3), layer("LSTM", 4)


def sample_Attention(s: Sampler) -> Value:
    """Of one head or two, with and without a causal mask."""
    shape = (s.integer(1, 2), s.integer(1, 2), s.integer(1, 3), 4)
    found = op.Attention(*(s.of(F32, shape) for _ in range(3)), is_causal=s.integer(0, 1), outputs=1)
    return found[0] if isinstance(found, tuple) else found


def sample_RotaryEmbedding(s: Sampler) -> Value:
    """Of heads of four numbers."""
    x = s.of(F32, (1, 2, s.integer(1, 3), 4))
    return op.RotaryEmbedding(x, *(s.of(F32, (1, x.shape[2], 2)) for _ in range(2)), interleaved=s.integer(0, 1))


def sample_TensorScatter(s: Sampler) -> Value:
    """New rows in a cache."""
    cache = s.of(F32, (2, 4, 3))
    return op.TensorScatter(cache, s.of(F32, (2, 1, 3)), const(indices(s, (2,), 4) % 4), axis=1)


def labels(s: Sampler) -> tuple[Value, Value]:
    """Scores of three classes, and which is meant."""
    x = s.of(F32, (s.integer(1, 3), 3))
    return x, const(indices(s, (int(x.shape[0]),), 3) % 3)


def sample_NegativeLogLikelihoodLoss(s: Sampler) -> Value:
    """In every reduction."""
    return op.NegativeLogLikelihoodLoss(*labels(s), reduction=s.choose(("mean", "sum", "none")))


def sample_SoftmaxCrossEntropyLoss(s: Sampler) -> Value:
    """In every reduction."""
    found = op.SoftmaxCrossEntropyLoss(*labels(s), reduction=s.choose(("mean", "sum", "none")), outputs=1)
    return found[0] if isinstance(found, tuple) else found


# ---------------------------------------------------------------------------------------------- quantized numbers


def scale(s: Sampler) -> Value:
    """A step between numbers."""
    return const(np.array(s.choose((0.5, 0.25, 1.0)), np.float32))


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


def sample_MatMulInteger(s: Sampler) -> Value:
    """Of bytes."""
    x = s.tensor((U8, I8), 1, 3)
    return op.MatMulInteger(x, s.of(x.dtype, (x.shape[-1], 2)), s.of(x.dtype, ()))


def sample_QLinearMatMul(s: Sampler) -> Value:
    """Of bytes."""
    a, b = s.of(U8, (s.choose(s.sizes), 3)), s.of(U8, (3, 2))
    zero = const(np.array(1, np.uint8))
    return op.QLinearMatMul(a, scale(s), zero, b, scale(s), zero, scale(s), zero)


def sample_QLinearConv(s: Sampler) -> Value:
    """Of bytes."""
    x, w = s.of(U8, (s.choose(s.sizes), 2, 4)), s.of(U8, (2, 2, 3))
    zero = const(np.array(1, np.uint8))
    return op.QLinearConv(x, scale(s), zero, w, scale(s), zero, scale(s), zero)
