"""What the content of a constant looks like: its first elements, its extremes, and how its numbers are spread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from irkit.core.blobs import Blob
from irkit.core.literals import element_texts
from irkit.errors import AbsentError

Plain = dict[str, Any]
"""Data that JSON can say."""

BINS = 32
"""Columns of a histogram."""

SHOWN = 48
"""Elements that are shown as they are."""

WHOLE = 1 << 16
"""Of contents with more elements than this a sample is looked at."""

STRETCHES, LENGTH = 64, 1024
"""A sample is so many stretches of so many elements, evenly spread: what lies in a file is read there only."""


def content_summary(blob: Blob) -> Plain:
    """The summary of a constant as plain data: `name`, `dtype`, `shape`, `bytes`, `first`, its first elements as text,
    and for numbers `least`, `greatest`, `mean`, `deviation`, `zeros`, `odd` (NaN and infinities), `bins` from `low` to
    `high`, all of `looked_at` elements; `absent` says why there is no content. Raises StaleError where it has changed.
    """
    found: Plain = {
        "name": blob.name,
        "dtype": blob.dtype.short,
        "shape": list(blob.shape),
        "bytes": blob.nbytes,
    }
    try:
        array = blob.read()
    except AbsentError as error:
        return {**found, "absent": error.what}
    flat = array.reshape(-1)
    found["first"] = element_texts(flat[:SHOWN], blob.dtype)
    numbers = sampled(flat)
    found["looked_at"] = int(numbers.size)
    if blob.dtype.is_float or blob.dtype.is_integer or array.dtype == np.bool_:
        found |= spread(numbers)
    return found


def sampled(flat: np.ndarray) -> np.ndarray:
    """The elements of a flat array; of a long one, evenly spread stretches."""
    if flat.size <= WHOLE:
        return flat
    starts = np.linspace(0, flat.size - LENGTH, STRETCHES).astype(np.int64)
    return np.concatenate([flat[start : start + LENGTH] for start in starts])


def spread(elements: np.ndarray) -> Plain:
    """Extremes, mean, standard deviation, zeros and histogram of numbers; {} where there are none."""
    numbers = elements.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    found: Plain = {"odd": int(numbers.size - finite.size)}
    if not finite.size:
        return found if numbers.size else {}
    low, high = float(finite.min()), float(finite.max())
    found |= {"least": low, "greatest": high, "zeros": int((finite == 0).sum())}
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation, width = float(finite.mean()), float(finite.std()), high - low
    if not (math.isfinite(mean) and math.isfinite(deviation) and math.isfinite(width)):
        return found  # numbers near the end of float64, of which sums overflow
    bins = 1 if width == 0 or low + width / BINS == low else BINS
    places = np.minimum(((finite - low) / (width or 1.0) * bins).astype(np.int64), bins - 1)
    counts = np.bincount(places, minlength=bins).tolist()
    return found | {"mean": mean, "deviation": deviation, "low": low, "high": high, "bins": counts}
