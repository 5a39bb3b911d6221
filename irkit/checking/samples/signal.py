"""Samples of Fourier transforms and windows."""

from __future__ import annotations

import numpy as np

from irkit.build import call, const, op
from irkit.checking.samples.sampler import F32, Sampler
from irkit.core.ir import Value


def window(name: str):
    """The sample of a window."""

    def sample(s: Sampler) -> Value:
        return call(name, [const(np.array(s.integer(1, 5)))], {"periodic": s.integer(0, 1)})

    return sample


sample_BlackmanWindow, sample_HannWindow = window("BlackmanWindow"), window("HannWindow")
sample_HammingWindow = window("HammingWindow")


def sample_DFT(s: Sampler) -> Value:
    """Of real numbers."""
    return op.DFT(s.of(F32, (s.choose(s.sizes), 4, 1)), onesided=s.integer(0, 1))


def sample_STFT(s: Sampler) -> Value:
    """Of two frames."""
    return op.STFT(s.of(F32, (s.choose(s.sizes), 8, 1)), np.array(4), None, np.array(4))


def sample_MelWeightMatrix(s: Sampler) -> Value:
    """Of a few bands."""
    edges = (np.float32(0), np.float32(4000))
    return op.MelWeightMatrix(np.array(s.integer(1, 4)), np.array(16), np.array(8000), *edges)
