"""The samples of all families, gathered once into an immutable map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from irkit.ops.families import FAMILIES
from irkit.support.families import functions_of

Sample = Callable[[Any], Any]
"""From a `Sampler` to a value, or to several."""


SAMPLES: Mapping[str, Sample] = functions_of("sample_", "irkit.checking.samples", FAMILIES)

WITH_BODIES = frozenset(("If", "Loop", "Scan", "Call", "SequenceMap"))
"""The samples that have bodies."""
