"""The samples of all families, gathered once into an immutable map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
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
from irkit.errors import GraphError

PREFIX = "sample_"

Sample = Callable[[Any], Any]
"""From a `Sampler` to a value, or to several."""


def gathered(*families: ModuleType) -> Mapping[str, Sample]:
    """Every function `sample_X` of the modules, by name. Raises GraphError where two have one name."""
    found: dict[str, Sample] = {}
    for family in families:
        for name, function in vars(family).items():
            if name.startswith(PREFIX):
                if name in found:
                    raise GraphError(f"two samples are called {name}")
                found[name.removeprefix(PREFIX)] = function
    return MappingProxyType(found)


SAMPLES = gathered(
    elementwise, activations, casts, movement, indexing, reduction, linear_algebra, convolution, pooling, normalization,
    creation, control, sequences, attention, recurrent, images, signal, text,
)  # fmt: skip

WITH_BODIES = frozenset(("If", "Loop", "Scan", "Call", "SequenceMap"))
"""The samples that have bodies."""
