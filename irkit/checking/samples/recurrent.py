"""Samples of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable

from irkit.build import call
from irkit.checking.samples.sampler import F32, Sampler
from irkit.core.ir import Value
from irkit.support.results import as_tuple


def layer(name: str, gates: int) -> Callable[[Sampler], Value]:
    """The sample of a recurrent layer over a few steps: its first result."""

    def sample(s: Sampler) -> Value:
        x = s.of(F32, (s.integer(1, 3), s.integer(1, 2), 2))
        w, r = s.of(F32, (1, gates * 2, 2)), s.of(F32, (1, gates * 2, 2))
        return as_tuple(call(name, [x, w, r], {"hidden_size": 2}, outputs=1))[0]

    return sample


sample_RNN, sample_GRU, sample_LSTM = layer("RNN", 1), layer("GRU", 3), layer("LSTM", 4)
