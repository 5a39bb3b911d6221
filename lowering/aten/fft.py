"""Fourier transforms of real and complex tensors, and of frames of a signal.

ONNX Runtime's DFT loses three digits, and much time, where a size is no power of two. So transforms of moderate size
are products with a matrix of cosines and sines; DFT serves large powers of two, and sizes that are symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.dims import Dim
from irkit.ir import Value
from irkit.types import DType
from lowering.aten.complex_ import aten_view_as_real
from lowering.complexes import PARTS, Parts, pair, parts
from lowering.errors import Unsupported
from lowering.pieces import full, swap
from lowering.promotion import cast, scalar
from lowering.shaping import concat, expand, reshape, sliced, squeeze, unsqueeze

NONE, BY_ROOT, BY_SIZE = 0, 1, 2
"""torch's numbers for what a transform is divided by: 1, sqrt(n), n."""

SMALL, ODD = 512, 2048
"""Sizes up to which a matrix serves: of powers of two, and of others."""


def by_matrix(size: Dim) -> bool:
    """True where a transform of that size is a product with a matrix."""
    return type(size) is int and (size <= SMALL or (size <= ODD and size & (size - 1) != 0))


def waves(rows: int, columns: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2 pi j k / size, (rows, columns), in f64"""
    angle = 2 * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % size) / size
    return np.cos(angle), np.sin(angle)


def divisor(sizes: Sequence[Dim], normalization: int) -> Any:
    """What the transform over these sizes is divided by: a number, or a dimension."""
    count = dims.product(sizes)
    if normalization == NONE:
        return 1
    if type(count) is not int:
        return count if normalization == BY_SIZE else ("root", count)
    return count if normalization == BY_SIZE else float(np.sqrt(count))


def divided(x: Value, by: Any) -> Value:
    """x / by; x itself for 1"""
    if isinstance(by, tuple):
        return op.Div(x, op.Sqrt(cast(dim_scalar(by[1]), x.dtype)))
    if isinstance(by, int | float):
        return x if by == 1 else op.Mul(x, scalar(1.0 / by, x.dtype))
    return op.Div(x, cast(dim_scalar(by), x.dtype))


def along(x: Value, axis: int, matrix: np.ndarray) -> Value:
    """x times a matrix along one axis"""
    weights, last = const(matrix.astype(x.dtype.numpy)), x.rank - 1
    return op.MatMul(x, weights) if axis == last else swap(op.MatMul(swap(x, axis, last), weights), axis, last)


def through_dft(x: Parts, axis: int, **attributes: int) -> Parts:
    """(real, imaginary) by ONNX's DFT, of both parts laid beside each other"""
    joined = op.Concat(unsqueeze(x[0], -1), unsqueeze(x[1], -1), axis=-1)
    made = op.DFT(joined, None, scalar(axis, DType.INT64), **attributes)
    real, imaginary = op.Split(made, axis=made.rank - 1, num_outputs=2, outputs=2)
    return squeeze(real, -1), squeeze(imaginary, -1)


# ---------------------------------------------------------------------------------------------- the three transforms


def complex_along(x: Parts, axis: int, forward: bool) -> Parts:
    """The transform of a complex tensor along one axis, divided by nothing"""
    size = x[0].shape[axis]
    if not by_matrix(size):
        real, imaginary = through_dft(x, axis, inverse=int(not forward))
        return (real, imaginary) if forward else (times(real, size), times(imaginary, size))
    cosine, sine = waves(size, size, size)
    sine = sine if forward else -sine
    a, b = x
    real = op.Add(along(a, axis, cosine), along(b, axis, sine))
    return real, op.Sub(along(b, axis, cosine), along(a, axis, sine))


def times(x: Value, size: Dim) -> Value:
    """x * size: ONNX's inverse divides by it"""
    return op.Mul(x, cast(dim_scalar(size), x.dtype))


def real_along(x: Value, axis: int, onesided: bool) -> Parts:
    """The transform of a real tensor along one axis, divided by nothing; half of it where `onesided`"""
    size = x.shape[axis]
    if by_matrix(size):
        cosine, sine = waves(size, size // 2 + 1 if onesided else size, size)
        return along(x, axis, cosine), along(x, axis, -sine)
    made = op.DFT(unsqueeze(x, -1), None, scalar(axis, DType.INT64), onesided=int(onesided))
    real, imaginary = op.Split(made, axis=made.rank - 1, num_outputs=2, outputs=2)
    return squeeze(real, -1), squeeze(imaginary, -1)


def half_along(x: Parts, axis: int, size: Dim) -> Value:
    """The real tensor of `size` whose transform is x and its mirror image, divided by nothing"""
    half = dims.add(dims.floordiv(size, 2), 1)
    if dims.same(x[0].shape[axis], half) is not True:
        x = sliced(x[0], axis, 0, half), sliced(x[1], axis, 0, half)
    if type(size) is not int or not by_matrix(size):
        joined = op.Concat(unsqueeze(x[0], -1), unsqueeze(x[1], -1), axis=-1)
        made = op.DFT(joined, dim_scalar(size), scalar(axis, DType.INT64), inverse=1, onesided=1)
        shape = (*x[0].shape[:axis], size, *x[0].shape[axis + 1 :])
        return times(reshape(made, shape), size)
    cosine, sine = waves(size // 2 + 1, size, size)
    twice = mirrored(size)[:, None]
    return op.Sub(along(x[0], axis, cosine * twice), along(x[1], axis, sine * twice))


def mirrored(size: int) -> np.ndarray:
    """How often each of the first half of frequencies occurs: once at 0 and at size / 2, else twice"""
    count = np.full(size // 2 + 1, 2.0)
    count[0] = 1.0
    if size % 2 == 0:
        count[-1] = 1.0
    return count


def aten__fft_r2c(self: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    """The transform of a real tensor over axes, half of it along the last of them where `onesided`; complex"""
    axes = [d % self.rank for d in dim]
    made = real_along(self, axes[-1], onesided)
    for axis in reversed(axes[:-1]):
        made = complex_along(made, axis, True)
    by = divisor([self.shape[a] for a in axes], normalization)
    return pair(divided(made[0], by), divided(made[1], by))


def aten__fft_c2c(self: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    """The transform, or its inverse, of a complex tensor over axes"""
    axes, made = [d % self.rank for d in dim], parts(self)
    for axis in axes:
        made = complex_along(made, axis, forward)
    by = divisor([self.shape[a] for a in axes], normalization)
    return pair(divided(made[0], by), divided(made[1], by))


def aten__fft_c2r(self: Value, dim: Sequence[int], normalization: int, last_dim_size: Dim) -> Value:
    """The inverse transform of half of a spectrum to a real tensor, `last_dim_size` long along the last of the axes"""
    axes, made = [d % self.rank for d in dim], parts(self)
    for axis in axes[:-1]:
        made = complex_along(made, axis, False)
    by = divisor([*(self.shape[a] for a in axes[:-1]), last_dim_size], normalization)
    return divided(half_along(made, axes[-1], last_dim_size), by)


def prims_fft_r2c(self: Value, *, dim: Sequence[int], onesided: bool) -> Value:
    """The transform of a real tensor, divided by nothing"""
    return aten__fft_r2c(self, dim, NONE, onesided)


def prims_fft_c2c(self: Value, *, dim: Sequence[int], forward: bool) -> Value:
    """The transform of a complex tensor, divided by nothing"""
    return aten__fft_c2c(self, dim, NONE, forward)


def prims_fft_c2r(self: Value, *, dim: Sequence[int], last_dim_size: Dim) -> Value:
    """The inverse transform to a real tensor, divided by nothing"""
    return aten__fft_c2r(self, dim, NONE, last_dim_size)


def aten_fft_fftfreq(n: Dim, d: float = 1.0, *, dtype: DType | None = None) -> Value:
    """(n,): 0, 1, ... up to the middle, then the negative ones, divided by n * d"""
    return frequencies(n, d, dtype, lambda size: np.fft.fftfreq(size, d))


def aten_fft_rfftfreq(n: Dim, d: float = 1.0, *, dtype: DType | None = None) -> Value:
    """(n // 2 + 1,): 0, 1, ... up to the middle, divided by n * d"""
    return frequencies(n, d, dtype, lambda size: np.fft.rfftfreq(size, d))


def frequencies(n: Dim, d: float, dtype: DType | None, make: Callable[[int], np.ndarray]) -> Value:
    """A constant of frequencies; Unsupported, so that torch decomposes it, for a size that is no number."""
    if type(n) is not int:
        raise Unsupported("frequencies of a symbolic size")
    return const(make(n).astype((dtype or DType.FLOAT).numpy))


# ---------------------------------------------------------------------------------------------- frames of a signal


def framing(window: Value | None, size: int, length: int | None, dtype: DType) -> Value:
    """(size,): the window, or ones, in the middle of zeros"""
    length = size if length is None else length
    made = cast(window, dtype) if window is not None else full(1, (length,), dtype)
    left = (size - length) // 2
    return made if length == size else op.Pad(made, np.array([left, size - length - left], np.int64))


def aten_stft(
    self: Value, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Value | None = None,
    normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Value:  # fmt: skip
    """Transforms of overlapping frames: one convolution with windowed waves.  self: (b, l) or (l,)."""
    if align_to_window:
        raise Unsupported("stft aligned to its window")
    if self.dtype.is_complex or (window is not None and window.dtype.is_complex):
        raise Unsupported("stft of a complex signal")
    lone = self.rank == 1
    x = unsqueeze(self, 0) if lone else self
    count = n_fft if onesided is False else n_fft // 2 + 1
    cosine, sine = (wave.T[:, None].astype(x.dtype.numpy) for wave in waves(n_fft, count, n_fft))
    frame = framing(window, n_fft, win_length, x.dtype)
    factor = scalar(1.0 / np.sqrt(n_fft), x.dtype) if normalized else None
    frame = frame if factor is None else op.Mul(frame, factor)
    kernels = op.Mul(const(np.concatenate([cosine, -sine])), frame)
    made = op.Conv(unsqueeze(x, 1), kernels, strides=(hop_length or n_fft // 4,), kernel_shape=(n_fft,))
    real, imaginary = op.Split(made, axis=1, num_outputs=2, outputs=2)
    if lone:
        real, imaginary = squeeze(real, 0), squeeze(imaginary, 0)
    whole = pair(real, imaginary)
    return aten_view_as_real(whole) if return_complex is False else whole


def aten_istft(
    self: Value, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Value | None = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: Dim | None = None,
    return_complex: bool = False,
) -> Value:  # fmt: skip
    """The signal whose frames have these transforms: frames added up, divided by the sum of squared windows.

    self: (b, f, frames) or (f, frames) -> (b, l).
    """
    if return_complex or onesided is False:
        raise Unsupported("istft to a complex signal, or from a whole spectrum")
    dtype, hop, lone = PARTS[self.dtype], hop_length or n_fft // 4, self.rank == 2
    real, imaginary = (unsqueeze(v, 0) if lone else v for v in parts(self))
    cosine, sine = waves(n_fft // 2 + 1, n_fft, n_fft)
    weight = mirrored(n_fft)[:, None] / (np.sqrt(n_fft) if normalized else n_fft)
    frame = framing(window, n_fft, win_length, dtype)
    basis = np.concatenate([cosine * weight, -sine * weight])[:, None].astype(dtype.numpy)
    attributes: dict[str, Any] = {"strides": (hop,), "kernel_shape": (n_fft,)}
    summed = op.ConvTranspose(concat([real, imaginary], 1), op.Mul(const(basis), frame), **attributes)
    ones = expand(scalar(1, dtype), (1, 1, real.shape[2]))
    envelope = op.ConvTranspose(ones, reshape(op.Mul(frame, frame), (1, 1, n_fft)), **attributes)
    total = dims.add(n_fft, dims.mul(hop, dims.sub(real.shape[2], 1)))
    first = n_fft // 2 if center else 0
    there = dims.sub(total, first)
    kept = dims.sub(there, first) if length is None else dims.minimum(length, there)
    summed, envelope = (reshape(v, (v.shape[0], total)) for v in (summed, envelope))
    parted = (sliced(v, 1, first, dims.add(first, kept)) for v in (summed, envelope))
    made = op.Div(*parted)
    if length is not None and dims.same(kept, length) is not True:
        made = op.Pad(made, shape_vector((0, 0, 0, dims.sub(length, kept))))
    return squeeze(made, 0) if lone else made
