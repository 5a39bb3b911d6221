"""Converters of `lowering.aten.signal.fft` against eager torch. Complex results leave the graph as pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import view_as_complex, view_as_real
from torch.export import Dim

from irkit.core.types import DType
from lowering.aten.signal.fft import mirrored, waves
from tests.lowering.aten.oracle import check

WINDOW = torch.hann_window(16)


@pytest.mark.parametrize("size", [1, 7, 8, 400, 1024])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_one_axis(size: int, norm: str) -> None:
    """Sizes that take a matrix, and one that takes DFT; every way to normalize."""
    half, whole = torch.randn(3, size // 2 + 1, 2), torch.randn(3, size, 2)
    check(lambda x: view_as_real(torch.fft.rfft(x, norm=norm)), torch.randn(3, size), tolerance=3e-4)
    check(lambda x: view_as_real(torch.fft.fft(x, dim=0, norm=norm)), torch.randn(size, 3), tolerance=3e-4)
    check(lambda x: view_as_real(torch.fft.ifft(view_as_complex(x), norm=norm)), whole, tolerance=3e-4)
    check(lambda x: torch.fft.irfft(view_as_complex(x), n=size, norm=norm), half, tolerance=3e-4)


def test_several_axes() -> None:
    """As FNet mixes tokens, and there and back again."""
    x = torch.randn(3, 5, 6)
    check(lambda x: torch.fft.fftn(x, dim=(1, 2)).real, x)
    check(lambda x: view_as_real(torch.fft.rfft2(x)), x)
    check(lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=(5, 6)), x)


def test_symbolic_sizes() -> None:
    """The size of the transform is a symbol."""
    batch, size = Dim("batch"), Dim("size")
    shapes, others = [{0: batch, 1: 2 * size}], [(torch.randn(2, 16),)]
    check(lambda x: view_as_real(torch.fft.fft(x)), torch.randn(3, 8), dynamic_shapes=shapes, others=others)
    check(lambda x: torch.fft.irfft(torch.fft.rfft(x)), torch.randn(3, 8), dynamic_shapes=shapes, others=others)


@pytest.mark.parametrize("center", [False, True])
def test_frames(center: bool) -> None:
    """One convolution, for signals of any length."""
    check(
        lambda x: torch.stft(x, 16, 4, window=WINDOW, center=center, return_complex=True).abs(),
        torch.randn(2, 64),
        dynamic_shapes=[{0: Dim("batch"), 1: Dim("length", min=32)}],
        others=[(torch.randn(1, 100),)],
        operators=["Conv"],
    )


def test_frames_otherwise() -> None:
    """A window shorter than the frame, both sides of the spectrum, divided by the root of the size; one signal."""
    check(
        lambda x: view_as_real(
            torch.stft(x, 16, 4, 10, WINDOW[:10], normalized=True, onesided=False, return_complex=True)
        ),
        torch.randn(64),
    )


def test_frames_added_up() -> None:
    """The inverse of stft, for any number of frames; a length that is asked for."""
    frames = view_as_real(torch.stft(torch.randn(2, 64), 16, 4, window=WINDOW, return_complex=True))
    fewer = frames[:1, :, :9].contiguous()
    shapes = [{0: Dim("batch"), 2: Dim("frames", min=3)}]
    for options in ({}, {"normalized": True}, {"center": True, "length": 40}):
        dynamic = {} if "length" in options else {"dynamic_shapes": shapes, "others": [(fewer,)]}
        check(lambda x, o=options: torch.istft(view_as_complex(x), 16, 4, window=WINDOW, **o), frames, **dynamic)
    check(lambda x: torch.istft(view_as_complex(x), 16, 4, window=WINDOW, length=70), frames)


def test_frequencies() -> None:
    """Constants."""
    check(lambda x: x + torch.fft.fftfreq(5, 0.5), torch.randn(5))
    check(lambda x: x + torch.fft.rfftfreq(8), torch.randn(5))


@pytest.mark.parametrize("size", [1, 2, 5, 16, 300])
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.FLOAT, DType.DOUBLE])
def test_waves_are_those_of_the_formula_to_the_last_bit(size: int, dtype: DType) -> None:
    """Looked up among as many numbers as there are frequencies, rather than computed one by one."""
    rows = size // 2 + 1
    angle = 2 * np.pi * (np.outer(np.arange(rows), np.arange(size)) % size) / size
    for twice, by in ((False, 1.0), (False, size), (True, size), (True, size**0.5)):
        scale = mirrored(size)[:, None] if twice else 1.0
        told = waves(rows, size, size, dtype, by, twice=twice)
        for wave, found in zip((np.cos(angle), np.sin(angle)), told, strict=True):
            assert found.dtype == dtype.numpy
            assert found.tobytes() == (wave * scale / by).astype(dtype.numpy).tobytes()
