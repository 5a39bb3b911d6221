"""Samples of attention."""

from __future__ import annotations

from irkit.build import op
from irkit.checking.samples.sampler import F32, Sampler
from irkit.core.ir import Value
from irkit.support.results import as_tuple


def sample_Attention(s: Sampler) -> Value:
    """Of one head or two, with and without a causal mask."""
    shape = (s.integer(1, 2), s.integer(1, 2), s.integer(1, 3), 4)
    return as_tuple(op.Attention(*(s.of(F32, shape) for _ in range(3)), is_causal=s.integer(0, 1), outputs=1))[0]


def sample_RotaryEmbedding(s: Sampler) -> Value:
    """Of heads of four numbers."""
    x = s.of(F32, (1, 2, s.integer(1, 3), 4))
    return op.RotaryEmbedding(x, *(s.of(F32, (1, x.shape[2], 2)) for _ in range(2)), interleaved=s.integer(0, 1))
