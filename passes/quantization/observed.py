"""What sample inputs show of a graph's values: ranges, the size of each channel, second moments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from irkit.core.ir import Graph, Value
from irkit.evaluation.interpreter import Content, Feeds, evaluate
from irkit.evaluation.kernels.common import is_array
from passes.quantization.integers import SHRUNK, nearest_integers, scale_of

TAIL = 1e-4
"""The part of the numbers beyond a percentile, half on each side."""

KEPT = 1 << 16
"""So many numbers of a value are kept to find a range by; of more, every so many-th."""


@attrs.frozen(eq=False)
class Seen:
    """What was seen of a value: its ends, and some of its numbers."""

    low: float
    high: float
    sample: np.ndarray

    def also(self, other: Seen) -> Seen:
        """What both saw."""
        numbers = np.concatenate([self.sample, other.sample])
        return Seen(min(self.low, other.low), max(self.high, other.high), thinned(numbers))

    def range(self, kind: str, ends: tuple[int, int]) -> tuple[float, float]:
        """The range that integers shall span: "minmax", "percentile" or "mse"."""
        if kind == "percentile":
            low, high = np.quantile(self.sample, (TAIL / 2, 1 - TAIL / 2))
            return float(low), float(high)
        if kind == "mse":
            return min(
                ((self.low * part, self.high * part) for part in SHRUNK), key=lambda pair: self.error(pair, ends)
            )
        return self.low, self.high

    def error(self, pair: tuple[float, float], ends: tuple[int, int]) -> float:
        """The square error of the sample, rounded to integers that span a range."""
        scale, zero = scale_of(np.asarray(pair[0]), np.asarray(pair[1]), ends, symmetric=False)
        held = (nearest_integers(self.sample, scale, zero, ends) - zero) * scale
        return float(np.square(held - self.sample, dtype=np.float64).sum())


def thinned(numbers: np.ndarray) -> np.ndarray:
    """At most `KEPT` of the numbers, taken evenly."""
    return numbers[:: -(-numbers.size // KEPT)] if numbers.size > KEPT else numbers


def seen_of(array: np.ndarray) -> Seen | None:
    """What an array shows; None of one without finite numbers."""
    finite = np.asarray(array, np.float32).reshape(-1)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return None
    return Seen(float(finite.min()), float(finite.max()), thinned(finite).copy())


def ranges_of(graph: Graph, samples: Sequence[Feeds], values: Collection[Value]) -> Mapping[Value, Seen]:
    """What the samples show of the values; those that were never computed, or held no finite number, are left out."""

    def join(old: Seen | None, array: np.ndarray) -> Seen | None:
        new = seen_of(array)
        return new if old is None else old if new is None else old.also(new)

    return {v: seen for v, seen in watched(graph, samples, values, join).items() if seen is not None}


def sizes_of_channels(graph: Graph, samples: Sequence[Feeds], values: Collection[Value]) -> Mapping[Value, np.ndarray]:
    """The largest absolute number of each channel (the last axis) of the values."""

    def join(old: np.ndarray | None, array: np.ndarray) -> np.ndarray:
        flat = np.abs(array.reshape(-1, array.shape[-1]).astype(np.float32))
        new = flat.max(0, initial=0)
        return new if old is None else np.maximum(old, new)

    return watched(graph, samples, values, join)


def moments_of(graph: Graph, samples: Sequence[Feeds], values: Collection[Value]) -> Mapping[Value, np.ndarray]:
    """X^T X of each value, X being its rows (the last axis is a row), as far as so many rows show it (`believed`)."""

    def join(old: tuple[int, np.ndarray] | None, array: np.ndarray) -> tuple[int, np.ndarray]:
        flat = array.reshape(-1, array.shape[-1]).astype(np.float64)
        flat = flat[np.isfinite(flat).all(1)]  # one NaN would make all of the moments NaN
        new = flat.T @ flat
        return (len(flat), new) if old is None else (old[0] + len(flat), old[1] + new)

    return {value: believed(new, rows) for value, (rows, new) in watched(graph, samples, values, join).items()}


def believed(moments: np.ndarray, rows: int) -> np.ndarray:
    """Second moments of some rows, whose mixed ones shrink towards 0 by how much of them so few rows show by chance
    (Schäfer and Strimmer, 2005): rounding that makes up for chance is worse on other rows than the nearest."""
    own = np.diag(moments)
    size = np.sqrt(np.where(own > 0, own, 1.0))
    alike = np.clip(moments / np.outer(size, size), -1.0, 1.0) ** 2
    np.fill_diagonal(alike, 0.0)
    mixed = float(alike.sum())
    chance = (float(((1.0 - alike) ** 2).sum()) - len(alike)) / max(rows, 1)
    part = max(0.0, 1.0 - chance / mixed) if mixed else 0.0
    return part * moments + (1.0 - part) * np.diag(own)


def watched(
    graph: Graph, samples: Sequence[Feeds], values: Collection[Value], join: Callable[[Any, np.ndarray], Any]
) -> dict[Value, Any]:
    """For each of the values, what `join` makes of what it made of earlier samples (None at first) and of an array.

    Raises EvaluateError for samples that do not fit the graph's inputs.
    """
    wanted = frozenset(values)
    found: dict[Value, Any] = {}

    def look(value: Value, result: Content) -> None:
        if value in wanted and is_array(result):
            found[value] = join(found.get(value), result)

    for feeds in samples:
        evaluate(graph, feeds, every=look)
    return found
