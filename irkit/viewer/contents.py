"""What the content of a constant looks like: its first elements, its extremes, and how its numbers are spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from irkit.core.blobs import Blob
from irkit.core.literals import element_texts
from irkit.core.types import DType
from irkit.errors import AbsentError

Plain = dict[str, Any]
"""Data that JSON can say."""

Elements = Callable[[int, int], np.ndarray]
"""What gives the elements of a content from one place up to another."""

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
        elements = elements_of(blob)
        found["first"] = element_texts(elements(0, min(blob.size, SHOWN)), blob.dtype)
        numbers = sampled(elements, blob.size)
    except AbsentError as error:
        return {**found, "absent": error.what}
    found["looked_at"] = int(numbers.size)
    if blob.dtype.is_float or blob.dtype.is_integer or numbers.dtype == np.bool_:
        found |= spread(numbers)
    return found


def elements_of(blob: Blob) -> Elements:
    """The elements of a content in order, flat, from one place up to another: of one that lies in a file only these are
    read. Raises AbsentError where there is no content, StaleError, then or later, where it has changed."""
    place, width = blob.place, blob.dtype.numpy.itemsize
    if place is None or blob.dtype.bits < 8 or blob.dtype is DType.STRING:
        flat = blob.read().reshape(-1)
        return lambda start, stop: flat[start:stop]
    kind = blob.dtype.numpy
    return lambda start, stop: place.file.read(place.start + start * width, (stop - start) * width).view(kind)


def sampled(elements: Elements, size: int) -> np.ndarray:
    """So many elements; of very many, evenly spread stretches."""
    if size <= WHOLE:
        return elements(0, size)
    starts = np.linspace(0, size - LENGTH, STRETCHES).astype(np.int64).tolist()
    return np.concatenate([elements(start, start + LENGTH) for start in starts])


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
