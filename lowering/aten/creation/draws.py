"""Random numbers. Two draws are never one value, and no seed is fixed: ONNX Runtime draws anew in each run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from irkit import dims
from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.aten.creation.creation import dtype_of, fill
from lowering.tensors.promotion import DEFAULT, cast, scalar, to_float
from lowering.tensors.shaping import expand, squeeze, unsqueeze

TINY = 1e-38
"""Added before a logarithm, so that a draw of 0 gives no infinity."""


def uniform(size: Sequence[Dim], dtype: DType, low: float = 0.0, high: float = 1.0) -> Value:
    """Numbers from [low, high)."""
    return op.RandomUniformLike(fill(size, 0, dtype), dtype=int(dtype), low=low, high=high)


def gaussian(size: Sequence[Dim], dtype: DType, mean: float = 0.0, std: float = 1.0) -> Value:
    """Normally distributed numbers."""
    return op.RandomNormalLike(fill(size, 0, dtype), dtype=int(dtype), mean=mean, scale=std)


def aten_rand(size: Sequence[Dim], *, dtype: DType | None = None, expected: Any = None) -> Value:
    """Numbers from [0, 1)."""
    return uniform(size, dtype_of(dtype, expected, DEFAULT))


def aten_rand_like(self: Value, *, dtype: DType | None = None) -> Value:
    """Numbers from [0, 1), in the shape of self."""
    return uniform(self.shape, dtype or self.dtype)


def aten_randn(size: Sequence[Dim], *, dtype: DType | None = None, expected: Any = None) -> Value:
    """Normally distributed numbers of mean 0 and deviation 1."""
    return gaussian(size, dtype_of(dtype, expected, DEFAULT))


def aten_randn_like(self: Value, *, dtype: DType | None = None) -> Value:
    """Normally distributed numbers of mean 0 and deviation 1, in the shape of self."""
    return gaussian(self.shape, dtype or self.dtype)


def aten_uniform(self: Value, to: float = 1.0) -> Value:
    """Numbers from [0, to), in the shape of self."""
    return uniform(self.shape, self.dtype, 0.0, to)


def prims_uniform(shape: Sequence[Dim], *, low: float, high: float, dtype: DType, stride: Sequence[Dim]) -> Value:
    """Numbers from [low, high): what `uniform` with a lower limit is made of."""
    return uniform(shape, dtype, float(low), float(high))


def whole_numbers(low: Dim, high: Dim, size: Sequence[Dim], dtype: DType) -> Value:
    """Whole numbers from [low, high)."""
    span = scalar(dims.sub(high, low), DType.DOUBLE)
    drawn = op.Floor(op.Mul(uniform(size, DType.DOUBLE), span))
    return cast(op.Add(drawn, scalar(low, DType.DOUBLE)), dtype)


def aten_randint(high: Dim, size: Sequence[Dim], *, dtype: DType | None = None, expected: Any = None) -> Value:
    """Whole numbers from [0, high)."""
    return whole_numbers(0, high, size, dtype_of(dtype, expected, DType.INT64))


def aten_randint_low(
    low: Dim, high: Dim, size: Sequence[Dim], *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """Whole numbers from [low, high)."""
    return whole_numbers(low, high, size, dtype_of(dtype, expected, DType.INT64))


def aten_randint_like(self: Value, high: Dim, *, dtype: DType | None = None) -> Value:
    """Whole numbers from [0, high), in the shape of self."""
    return whole_numbers(0, high, self.shape, dtype or self.dtype)


def aten_randint_like_low_dtype(self: Value, low: Dim, high: Dim, *, dtype: DType | None = None) -> Value:
    """Whole numbers from [low, high), in the shape of self."""
    return whole_numbers(low, high, self.shape, dtype or self.dtype)


def aten_random_to(self: Value, to: Dim) -> Value:
    """Whole numbers from [0, to), in the shape of self."""
    return whole_numbers(0, to, self.shape, self.dtype)


def aten_random(self: Value) -> Value:
    """Whole numbers from 0 to the largest that self holds, or up to which a float holds all, in the shape of self."""
    dtype = self.dtype
    if dtype is DType.INT64:  # more digits than one draw has
        high, low = (whole_numbers(0, 1 << bits, self.shape, dtype) for bits in (31, 32))
        return op.Add(op.Mul(high, scalar(1 << 32, dtype)), low)
    if dtype is DType.BOOL:
        return aten_random_to(self, 2)
    if dtype.is_float:
        return aten_random_to(self, (1 << ml_dtypes.finfo(dtype.numpy).nmant + 1) + 1)
    return aten_random_to(self, int(np.iinfo(dtype.numpy).max) + 1)


def aten_randperm(n: Dim, *, dtype: DType | None = None, expected: Any = None) -> Value:
    """0, 1, ... n - 1 in random order: the order of random numbers."""
    drawn = uniform((n,), DEFAULT)
    return cast(op.TopK(drawn, unsqueeze(scalar(n, DType.INT64), 0), axis=0)[1], dtype_of(dtype, expected, DType.INT64))


def aten_normal(mean: Value, std: float | Value = 1.0) -> Value:
    """Normally distributed numbers about each of `mean`."""
    spread = gaussian(mean.shape, mean.dtype)
    return op.Add(mean, op.Mul(spread, std if isinstance(std, Value) else scalar(std, mean.dtype)))


def aten_normal_float_Tensor(mean: float, std: Value) -> Value:
    """Normally distributed numbers with each of the deviations `std`."""
    return op.Add(op.Mul(gaussian(std.shape, std.dtype), std), mean)


def aten_normal_float_float(
    mean: float, std: float, size: Sequence[Dim], *, dtype: DType | None = None, expected: Any = None
) -> Value:
    """Normally distributed numbers."""
    return gaussian(size, dtype_of(dtype, expected, DEFAULT), mean, std)


def aten_normal_functional(self: Value, mean: float = 0, std: float = 1) -> Value:
    """Normally distributed numbers, in the shape of self."""
    return gaussian(self.shape, self.dtype, mean, std)


def aten_bernoulli(self: Value) -> Value:
    """1 with the probability that self gives, else 0."""
    return cast(op.Less(uniform(self.shape, self.dtype), self), self.dtype)


def aten_bernoulli_p(self: Value, p: float = 0.5) -> Value:
    """1 with probability p, else 0, in the shape of self."""
    working = self.dtype if self.dtype.is_float else DEFAULT
    return cast(op.Less(uniform(self.shape, working), p), self.dtype)


def aten_exponential(self: Value, lambd: float = 1.0) -> Value:
    """Exponentially distributed numbers, in the shape of self."""
    return op.Div(op.Neg(op.Log(op.Add(uniform(self.shape, self.dtype), TINY))), lambd)


def aten_multinomial(self: Value, num_samples: Dim, replacement: bool = False) -> Value:
    """Places drawn with the weights of self: (n,) or (rows, n) -> (num_samples,) or (rows, num_samples).

    Without replacement: the largest of log(weight) plus Gumbel noise. With it: how many running sums a draw passes.
    """
    count = scalar(num_samples, DType.INT64)
    if not replacement or (type(num_samples) is int and num_samples == 1):
        noise = op.Neg(op.Log(op.Add(uniform(self.shape, self.dtype), TINY)))
        return op.TopK(op.Div(self, op.Add(noise, TINY)), unsqueeze(count, 0))[1]
    x = unsqueeze(self, 0) if self.rank == 1 else self
    sums = op.CumSum(x, scalar(1, DType.INT64))
    drawn = uniform((x.shape[0], num_samples), x.dtype)
    point = op.Mul(drawn, op.ReduceSum(x, [1]))
    passed = op.GreaterOrEqual(unsqueeze(point, -1), unsqueeze(sums, 1))
    places = op.ReduceSum(cast(passed, DType.INT64), [-1], keepdims=0)
    return squeeze(places, 0) if self.rank == 1 else places


# ---------------------------------------------------------------------------------------------- dropout


def kept(p: float, size: Sequence[Dim]) -> Value:
    """True with probability 1 - p."""
    return op.GreaterOrEqual(uniform(size, DEFAULT), p)


def dropped(x: Value, p: float, mask: Value) -> Value:
    """x where the mask holds, divided by the share that is kept, else 0."""
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return op.Where(mask, op.Mul(x, scalar(scale, x.dtype)), scalar(0, x.dtype))


def aten_dropout(input: Value, p: float, train: bool) -> Value:
    """input; while training with a share p of its elements set to 0 and the others scaled up."""
    return dropped(input, p, kept(p, input.shape)) if train and p else input


def aten_native_dropout(input: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """`dropout`, and which elements it kept."""
    if not train:
        return input, expand(scalar(True, DType.BOOL), input.shape)
    mask = kept(p, input.shape)
    return dropped(input, p, mask), mask


def aten_feature_dropout(input: Value, p: float, train: bool) -> Value:
    """input; while training with a share p of its channels set to 0 and the others scaled up."""
    if not train or not p:
        return input
    return dropped(input, p, kept(p, (*input.shape[:2], *(1 for _ in input.shape[2:]))))


ALPHA = 1.7580993408473766
"""What selu tends to, its sign turned: what `alpha_dropout` puts in place of what it drops."""


def alpha_dropped(x: Value, p: float, size: Sequence[Dim]) -> Value:
    """x with a share p of what `size` counts set to -ALPHA, then scaled and moved so that numbers of mean 0 and
    variance 1 keep both; all zeros for p = 1."""
    if p == 1:
        return op.Mul(x, scalar(0, x.dtype))
    scale = 1 / math.sqrt((ALPHA * ALPHA * p + 1) * (1 - p))
    chosen = op.Where(kept(p, size), x, scalar(-ALPHA, x.dtype))
    return op.Add(op.Mul(chosen, scalar(scale, x.dtype)), scalar(ALPHA * scale * p, x.dtype))


def aten_alpha_dropout(input: Value, p: float, train: bool) -> Value:
    """input; while training with a share p of its elements dropped, mean and variance kept (see `alpha_dropped`)."""
    return alpha_dropped(input, p, input.shape) if train and p else input


def aten_feature_alpha_dropout(input: Value, p: float, train: bool) -> Value:
    """input; while training with a share p of its channels dropped, mean and variance kept."""
    if not train or not p:
        return input
    return alpha_dropped(input, p, (*input.shape[:2], *(1 for _ in input.shape[2:])))


def aten_rrelu_with_noise_functional(
    self: Value, noise: Value, lower: float = 0.125, upper: float = 1 / 3, training: bool = False
) -> tuple[Value, Value]:
    """(self where it is above 0, else self times a slope; the slopes): drawn from [lower, upper) for each element
    while training, else their mean. A positive element has the slope 1."""
    positive = op.Greater(self, scalar(0, self.dtype))
    if not training:
        return op.Where(positive, self, op.Mul(self, scalar((lower + upper) / 2, self.dtype))), noise
    drawn = cast(uniform(self.shape, DEFAULT, float(lower), float(upper)), self.dtype)
    slopes = op.Where(positive, scalar(1, self.dtype), drawn)
    return op.Mul(self, slopes), slopes


def aten_native_dropout_backward(grad_output: Value, mask: Value, scale: float) -> Value:
    """grad_output * mask * scale"""
    gradient = to_float(grad_output)
    return op.Mul(op.Mul(gradient, cast(mask, gradient.dtype)), scalar(scale, gradient.dtype))
