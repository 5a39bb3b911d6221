"""The samples of all families, gathered once into an immutable map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from irkit.checking.samples import (
    activations,
    attention,
    casts,
    control,
    convolution,
    creation,
    elementwise,
    images,
    indexing,
    linear_algebra,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    sequences,
    signal,
    text,
)
from irkit.support.families import functions_of

Sample = Callable[[Any], Any]
"""From a `Sampler` to a value, or to several."""


SAMPLES: Mapping[str, Sample] = functions_of("sample_", "irkit.checking.samples", (
    elementwise, activations, casts, movement, indexing, reduction, linear_algebra, convolution, pooling, normalization,
    creation, control, sequences, attention, recurrent, images, signal, text,
))  # fmt: skip

WITH_BODIES = frozenset(("If", "Loop", "Scan", "Call", "SequenceMap"))
"""The samples that have bodies."""
