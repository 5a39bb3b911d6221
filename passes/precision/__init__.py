"""Graphs at lower precision: which values, and what overflows."""

from passes.precision.mixed import (
    Conversion,
    Kept,
    Mixed,
    Precision,
    mixed_precision,
    patterns,
    to_precision,
)
from passes.precision.risks import overflowing

__all__ = [
    "Conversion",
    "Kept",
    "Mixed",
    "Precision",
    "mixed_precision",
    "overflowing",
    "patterns",
    "to_precision",
]
