"""Which small sizes of a few names conditions allow, and make a computed dimension what: bits, one for each point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice, product
from typing import Any

from irkit import dims
from irkit.dims import Range
from lowering.capture.guards.answers import holds

SIDE = 16
"""Sizes below this are tried."""
Others = tuple[tuple[str, int], ...]
"""The sizes of other names."""


def points_of(count: int) -> Iterable[tuple[int, ...]]:
    """The points of so many names, in the order of their bits."""
    return islice(product(range(SIDE), repeat=count), SIDE**2)


def size_at(number: int, names: tuple[str, ...]) -> dict[str, int]:
    """The point of a number."""
    return dict(zip(names, next(islice(points_of(len(names)), number, None)), strict=True))


def bits_allowed(conditions: Iterable[Any], ranges: Mapping[str, Range], names: tuple[str, ...], hints: Any) -> int:
    """At which points no range and no condition excludes sizes, where all other names have those of the example."""
    if any(hints[name] not in known for name, known in ranges.items() if name in hints and name not in names):
        return 0
    found = bits_inside(tuple(ranges.get(name) for name in names))
    for each in conditions:
        if not found:
            break
        if each is not None:
            found &= bits_where(each, names, others_of(each, names, hints))
    return found


def others_of(expr: Any, names: tuple[str, ...], hints: Any) -> Others:
    """The sizes of the names in an expression that are not among some."""
    labels = map(dims.label, dims.symbols_of(expr))
    return tuple((name, hints[name]) for name in labels if name not in names and name in hints)


@lru_cache(maxsize=1 << 10)
def bits_inside(known: tuple[Range | None, ...]) -> int:
    """At which points each size is in its range."""
    points = enumerate(points_of(len(known)))
    return sum(1 << i for i, at in points if all(r is None or size in r for size, r in zip(at, known, strict=True)))


@lru_cache(maxsize=1 << 14)
def bits_where(expr: Any, names: tuple[str, ...], others: Others) -> int:
    """At which points a condition does not exclude sizes."""
    known = dict(others)
    points = enumerate(points_of(len(names)))
    return sum(1 << i for i, at in points if holds(expr, {**known, **dict(zip(names, at, strict=True))}) is not False)


@lru_cache(maxsize=1 << 12)
def bits_by_size(dim: Any, names: tuple[str, ...], others: Others) -> Mapping[int, int]:
    """At which points a computed dimension is what whole number."""
    known, found = dict(others), dict[int, int]()
    for i, at in enumerate(points_of(len(names))):
        try:
            made = dims.number_of(dim, {**known, **dict(zip(names, at, strict=True))})
            whole = int(made)
        except (ArithmeticError, TypeError, ValueError):
            continue  # a quotient by 0
        if made == whole:
            found[whole] = found.get(whole, 0) | 1 << i
    return found
