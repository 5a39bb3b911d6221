"""Fourier transforms of real and complex tensors, and of frames of a signal.

ONNX Runtime's DFT loses three digits, and much time, where a size is not a power of two. So transforms of moderate size
are products with a matrix of cosines and sines; DFT serves large powers of two, and sizes that are symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import const, dim_scalar, op, shape_vector
from irkit.core.blobs import owned_blob
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from lowering.errors import Unsupported
from lowering.tensors.complex_pairs import PARTS, Parts, pair, parts, to_real
from lowering.tensors.pieces import full, swap
from lowering.tensors.promotion import cast, scalar, to_float
from lowering.tensors.shaping import concat, expand, reshape, slice_axis, squeeze, unsqueeze

NONE, BY_ROOT, BY_SIZE = 0, 1, 2
"""torch's numbers for what a transform is divided by: 1, sqrt(n), n."""

SMALL, ODD = 512, 2048
"""Sizes up to which a matrix serves: of powers of two, and of others."""


EXACT = DType.DOUBLE
"""What DFT computes in, so that the digits that ONNX Runtime loses are not missed."""


def by_matrix(size: Dim) -> bool:
    """True where a transform of that size is a product with a matrix."""
    return type(size) is int and (size <= SMALL or (size <= ODD and size & (size - 1) != 0))


def waves(
    rows: int, columns: int, size: int, dtype: DType = EXACT, by: float = 1.0, *, twice: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2 pi j k / size, (rows, columns), computed in f64; those of frequencies that occur `twice`, two
    times; divided `by` a number. They are as many different numbers as there are frequencies, and looked up."""
    angle = 2 * np.pi * np.arange(size) / size
    places = np.outer(np.arange(rows), np.arange(columns))
    places %= size
    made = [wave * (2.0 if twice else 1.0) / by for wave in (np.cos(angle), np.sin(angle))]
    cosine, sine = (np.take(wave.astype(dtype.numpy), places) for wave in made)
    for row in np.flatnonzero(mirrored(size) == 1.0) if twice else ():
        for found, wave in ((cosine, np.cos(angle)), (sine, np.sin(angle))):
            found[row] = (wave / by).astype(dtype.numpy)[places[row]]
    return cosine, sine


def fixed(made: np.ndarray, dtype: DType) -> Value:
    """The constant that an array is which nobody else holds"""
    return const(owned_blob(made, dtype))


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
    made = cast(op.DFT(cast(joined, EXACT), None, scalar(axis, DType.INT64), **attributes), joined.dtype)
    real, imaginary = op.Split(made, axis=made.rank - 1, num_outputs=2, outputs=2)
    return squeeze(real, -1), squeeze(imaginary, -1)


# ---------------------------------------------------------------------------------------------- torch.fft

Axes = Sequence[int] | None
Sizes = Sequence[Dim] | None


def normalization_of(norm: str | None, forward: bool) -> int:
    """torch's number for what a transform in that direction is divided by"""
    if norm == "ortho":
        return BY_ROOT
    return BY_SIZE if (norm == "forward") is forward else NONE


def resized(x: Value, axis: int, size: Dim) -> Value:
    """x cut, or filled up with zeros, to `size` along one axis"""
    if dims.same(x.shape[axis], size) is True:
        return x
    if x.dtype.is_complex:
        real, imaginary = parts(x)
        return pair(resized(real, axis, size), resized(imaginary, axis, size))
    missing = dims.maximum(dims.sub(size, x.shape[axis]), 0)
    if missing != 0:
        ends = [0] * (2 * x.rank)
        x = op.Pad(x, shape_vector((*ends[: x.rank + axis], missing, *ends[x.rank + axis + 1 :])))
    return slice_axis(x, axis, 0, size)


def axes_of(x: Value, s: Sizes, dim: Axes) -> list[int]:
    """The axes that a transform over `dim`, or over the last ones that s tells the sizes of, goes along"""
    if dim is not None:
        return [d % x.rank for d in dim]
    return list(range(x.rank - (x.rank if s is None else len(s)), x.rank))


def prepared(x: Value, s: Sizes, axes: Sequence[int]) -> Value:
    """x in floats, and of the sizes s along the axes"""
    x = x if x.dtype.is_complex else to_float(x)
    for axis, size in zip(axes, s or (), strict=False):
        x = x if size == -1 else resized(x, axis, size)
    return x


def transformed(x: Value, s: Sizes, dim: Axes, norm: str | None, forward: bool) -> Value:
    """The transform of a real or complex tensor, or its inverse"""
    axes = axes_of(x, s, dim)
    x = prepared(x, s, axes)
    if not axes:
        return x if x.dtype.is_complex else pair(*parts(x))
    by = normalization_of(norm, forward)
    if forward and not x.dtype.is_complex:
        return aten__fft_r2c(x, axes, by, False)
    return aten__fft_c2c(x, axes, by, forward)


def half_spectrum(x: Value, s: Sizes, dim: Axes, norm: str | None, forward: bool) -> Value:
    """Half of the transform of a real tensor, or of its inverse"""
    axes = axes_of(x, s, dim)
    made = aten__fft_r2c(prepared(x, s, axes), axes, normalization_of(norm, forward), True)
    return made if forward else conjugate(made)


def from_half_spectrum(x: Value, s: Sizes, dim: Axes, norm: str | None, forward: bool) -> Value:
    """The real tensor of which x is half of the transform, or of the inverse transform where `forward`"""
    axes = axes_of(x, s, dim)
    last = s[-1] if s and s[-1] != -1 else dims.mul(dims.sub(x.shape[axes[-1]], 1), 2)
    half = dims.add(dims.floordiv(last, 2), 1)
    x = prepared(x, [*(s[:-1] if s else [-1] * (len(axes) - 1)), half], axes)
    return aten__fft_c2r(conjugate(x) if forward else x, axes, normalization_of(norm, forward), last)


def conjugate(x: Value) -> Value:
    """real - i * imag"""
    real, imaginary = parts(x)
    return pair(real, op.Neg(imaginary))


Transform = Callable[[Value, Sizes, Axes, str | None, bool], Value]


def forms_of(transform: Transform, forward: bool) -> tuple[Callable[..., Value], ...]:
    """The converters of a transform along one axis, along several, and along two, cut or filled up to `n` or `s`."""

    def along_one(self: Value, n: Dim | None = None, dim: int = -1, norm: str | None = None) -> Value:
        return transform(self, None if n is None else (n,), (dim,), norm, forward)

    def along_several(self: Value, s: Sizes = None, dim: Axes = None, norm: str | None = None) -> Value:
        return transform(self, s, dim, norm, forward)

    def along_two(self: Value, s: Sizes = None, dim: Axes = (-2, -1), norm: str | None = None) -> Value:
        return transform(self, s, dim, norm, forward)

    return along_one, along_several, along_two


aten_fft_fft, aten_fft_fftn, aten_fft_fft2 = forms_of(transformed, True)
aten_fft_ifft, aten_fft_ifftn, aten_fft_ifft2 = forms_of(transformed, False)
aten_fft_rfft, aten_fft_rfftn, aten_fft_rfft2 = forms_of(half_spectrum, True)
aten_fft_ihfft, aten_fft_ihfftn, aten_fft_ihfft2 = forms_of(half_spectrum, False)
aten_fft_irfft, aten_fft_irfftn, aten_fft_irfft2 = forms_of(from_half_spectrum, False)
aten_fft_hfft, aten_fft_hfftn, aten_fft_hfft2 = forms_of(from_half_spectrum, True)


# ---------------------------------------------------------------------------------------------- the three transforms


def pair_along(x: Parts, axis: int, forward: bool) -> Parts:
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
    made = op.DFT(cast(unsqueeze(x, -1), EXACT), None, scalar(axis, DType.INT64), onesided=int(onesided))
    made = cast(made, x.dtype)
    real, imaginary = op.Split(made, axis=made.rank - 1, num_outputs=2, outputs=2)
    return squeeze(real, -1), squeeze(imaginary, -1)


def half_along(x: Parts, axis: int, size: Dim) -> Value:
    """The real tensor of `size` whose transform is x and its mirror image, divided by nothing"""
    half = dims.add(dims.floordiv(size, 2), 1)
    if dims.same(x[0].shape[axis], half) is not True:
        x = slice_axis(x[0], axis, 0, half), slice_axis(x[1], axis, 0, half)
    if type(size) is not int or not by_matrix(size):
        joined = op.Concat(unsqueeze(x[0], -1), unsqueeze(x[1], -1), axis=-1)
        made = op.DFT(cast(joined, EXACT), dim_scalar(size), scalar(axis, DType.INT64), inverse=1, onesided=1)
        made = cast(made, joined.dtype)
        shape = (*x[0].shape[:axis], size, *x[0].shape[axis + 1 :])
        return times(reshape(made, shape), size)
    cosine, sine = waves(size // 2 + 1, size, size, twice=True)
    return op.Sub(along(x[0], axis, cosine), along(x[1], axis, sine))


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
        made = pair_along(made, axis, True)
    by = divisor([self.shape[a] for a in axes], normalization)
    return pair(divided(made[0], by), divided(made[1], by))


def aten__fft_c2c(self: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    """The transform, or its inverse, of a complex tensor over axes"""
    axes, made = [d % self.rank for d in dim], parts(self)
    for axis in axes:
        made = pair_along(made, axis, forward)
    by = divisor([self.shape[a] for a in axes], normalization)
    return pair(divided(made[0], by), divided(made[1], by))


def aten__fft_c2r(self: Value, dim: Sequence[int], normalization: int, last_dim_size: Dim) -> Value:
    """The inverse transform of half of a spectrum to a real tensor, `last_dim_size` long along the last of the axes"""
    axes, made = [d % self.rank for d in dim], parts(self)
    for axis in axes[:-1]:
        made = pair_along(made, axis, False)
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
    """A constant of frequencies; Unsupported, so that torch decomposes it, for a size that is not a number."""
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
    self: Value,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Value | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Value:
    """Transforms of overlapping frames: one convolution with windowed waves.  self: (b, l) or (l,).

    A complex signal is two channels, whose convolution is a product of complex numbers.
    """
    if align_to_window:
        raise Unsupported("stft aligned to its window")
    lone, dtype = self.rank == 1, PARTS.get(self.dtype, self.dtype)
    signal = [unsqueeze(v, *((0, 1) if lone else (1,))) for v in parts_of(self)]
    whole = self.dtype.is_complex or (window is not None and window.dtype.is_complex)
    count = n_fft if onesided is False or (onesided is None and whole) else n_fft // 2 + 1
    real, imaginary = windowed_waves(window, n_fft, win_length, count, dtype, normalized)
    if len(signal) == 2:
        real, imaginary = concat([real, op.Neg(imaginary)], 1), concat([imaginary, real], 1)
    attributes: dict[str, Any] = {"strides": (hop_length or n_fft // 4,), "kernel_shape": (n_fft,)}
    made = op.Conv(concat(signal, 1), concat([real, imaginary], 0), **attributes)
    halves = op.Split(made, axis=1, num_outputs=2, outputs=2)
    found = pair(*(squeeze(half, 0) if lone else half for half in halves))
    return to_real(found) if return_complex is False else found


def windowed_waves(
    window: Value | None, size: int, length: int | None, count: int, dtype: DType, normalized: bool
) -> Parts:
    """(count, 1, size): the window times exp(-2 pi i j k / size), by parts"""
    cosine, sine = (wave[:, None] for wave in waves(count, size, size, dtype))
    frames = [framing(v, size, length, dtype) for v in ([window] if window is None else parts_of(window))]
    if normalized:
        frames = [op.Mul(frame, scalar(1.0 / np.sqrt(size), dtype)) for frame in frames]
    real, imaginary = op.Mul(fixed(cosine, dtype), frames[0]), op.Mul(fixed(-sine, dtype), frames[0])
    if len(frames) == 1:
        return real, imaginary
    more = [op.Mul(fixed(wave, dtype), frames[1]) for wave in (sine, cosine)]
    return op.Add(real, more[0]), op.Add(imaginary, more[1])


def parts_of(x: Value) -> Sequence[Value]:
    """The parts of a complex value; a real one alone"""
    return parts(x) if x.dtype.is_complex else (x,)


def aten_istft(
    self: Value,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Value | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Dim | None = None,
    return_complex: bool = False,
) -> Value:
    """The signal whose frames have these transforms: frames added up, divided by the sum of squared windows.

    self: (b, f, frames) or (f, frames) -> (b, l). f is n_fft // 2 + 1; or n_fft, of which a real signal takes the
    first half, and a complex one (`return_complex`) all.
    """
    if window is not None and window.dtype.is_complex:
        raise Unsupported("istft with a complex window")
    dtype, hop, lone = PARTS[self.dtype], hop_length or n_fft // 4, self.rank == 2
    real, imaginary = (unsqueeze(v, 0) if lone else v for v in parts(self))
    count = n_fft if return_complex else n_fft // 2 + 1
    if dims.same(real.shape[1], count) is not True:
        real, imaginary = slice_axis(real, 1, 0, count), slice_axis(imaginary, 1, 0, count)
    by = np.sqrt(n_fft) if normalized else n_fft
    cosine, sine = waves(count, n_fft, n_fft, dtype, by, twice=not return_complex)
    frame = framing(window, n_fft, win_length, dtype)
    attributes: dict[str, Any] = {"strides": (hop,), "kernel_shape": (n_fft,)}
    total = dims.add(n_fft, dims.mul(hop, dims.sub(real.shape[2], 1)))
    first = n_fft // 2 if center else 0
    there = dims.sub(total, first)
    kept = dims.sub(there, first) if length is None else dims.minimum(length, there)

    def cut(added: Value) -> Value:
        return slice_axis(reshape(added, (added.shape[0], total)), 1, first, dims.add(first, kept))

    def signal(basis: np.ndarray) -> Value:
        weights = op.Mul(fixed(basis, dtype), frame)
        made = op.Div(cut(op.ConvTranspose(both, weights, **attributes)), envelope)
        if length is not None and dims.same(kept, length) is not True:
            made = op.Pad(made, shape_vector((0, 0, 0, dims.sub(length, kept))))
        return squeeze(made, 0) if lone else made

    both = concat([real, imaginary], 1)
    ones = expand(scalar(1, dtype), (1, 1, real.shape[2]))
    envelope = cut(op.ConvTranspose(ones, reshape(op.Mul(frame, frame), (1, 1, n_fft)), **attributes))
    made = signal(np.concatenate([cosine, -sine])[:, None])
    return pair(made, signal(np.concatenate([sine, cosine])[:, None])) if return_complex else made
