"""Fourier transforms and windows. Complex numbers are a last dimension of real and imaginary part."""

from __future__ import annotations

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.common import Array, Kernel, attr, axis_of, ints, narrowed_to, real
from irkit.evaluation.kernels.creation import result_dtype
from irkit.evaluation.kernels.reference import run_reference


def joined(x: Array) -> Array:
    """(..., 1) or (..., 2) numbers as (...) complex ones."""
    value = real(x)
    return value[..., 0] + (1j * value[..., 1] if value.shape[-1] == 2 else 0j)


def split(x: Array) -> Array:
    """(...) complex numbers as (..., 2)."""
    return np.stack([np.real(x), np.imag(x)], axis=-1)


def resized(x: Array, axis: int, size: int) -> Array:
    """x cut, or padded with zeros at the end, to `size` along an axis."""
    if x.shape[axis] >= size:
        return np.take(x, np.arange(size), axis=axis)
    widths = [(0, size - x.shape[axis]) if i == axis else (0, 0) for i in range(x.ndim)]
    return np.pad(x, widths)


def kernel_DFT(node: Value, x: Array, length: Array | None = None, axis: Array | None = None) -> Array:
    """The discrete Fourier transform along an axis, forward or inverse; one half of it with `onesided`."""
    along = axis_of(node, -2 if axis is None else ints(axis)[0], x.ndim)
    value, inverse, onesided = joined(x), bool(attr(node, "inverse")), bool(attr(node, "onesided"))
    if inverse and onesided:
        size = 2 * (x.shape[along] - 1) if length is None else ints(length)[0]
        half = resized(value, along, size // 2 + 1)  # of none at all numpy makes what memory holds
        return narrowed_to(np.fft.irfft(half, n=size, axis=along)[..., None], x.dtype)
    size = x.shape[along] if length is None else ints(length)[0]
    value = resized(value, along, size)
    found = np.fft.ifft(value, axis=along) if inverse else np.fft.fft(value, axis=along)
    if onesided:
        found = np.take(found, np.arange(size // 2 + 1), axis=along)
    return narrowed_to(split(found), x.dtype)


def kernel_STFT(node: Value, x: Array, step: Array, window: Array | None = None, length: Array | None = None) -> Array:
    """(batch, frames, bins, 2): the transform of each windowed frame of the signal."""
    value, stride = joined(x), ints(step)[0]
    size = ints(length)[0] if length is not None else x.shape[1] if window is None else len(window)
    count = (x.shape[1] - size) // stride + 1
    place = np.arange(count)[:, None] * stride + np.arange(size)[None, :]
    frames = value[:, place]
    if window is not None:
        frames = frames * real(window)
    found = np.fft.fft(frames, axis=-1)
    if attr(node, "onesided"):
        found = found[..., : size // 2 + 1]
    return narrowed_to(split(found), x.dtype)


kernel_MelWeightMatrix = run_reference


def window(coefficients: tuple[float, ...]) -> Kernel:
    """The kernel of a sum of cosines over one period, of which a periodic window leaves the last sample out."""

    def kernel(node: Value, size: Array) -> Array:
        count = ints(size)[0]
        span = count if attr(node, "periodic") else count - 1
        with np.errstate(invalid="ignore"):  # of a symmetric window of one sample ONNX's own definition makes 0 / 0
            angle = 2 * np.pi * np.arange(count) / np.float64(span)
        found = sum((c * np.cos(k * angle) for k, c in enumerate(coefficients)), np.zeros(count))
        return narrowed_to(found, result_dtype(node))

    return kernel


kernel_HannWindow = window((0.5, -0.5))
kernel_HammingWindow = window((25 / 46, -21 / 46))
kernel_BlackmanWindow = window((0.42, -0.5, 0.08))
