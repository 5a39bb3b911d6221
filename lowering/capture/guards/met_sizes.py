"""Sizes that an operator's kernel alone holds against one another, in either way of capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import sympy


def within_memory(held: Sequence[Any], sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Iterator[Any]:
    """The condition that memory of the sizes `held` reaches as far as a strided view of it: as_strided and its like."""
    if any(size == 0 for size in sizes):
        return
    last = sum((size - 1) * step for size, step in zip(map(sympy.sympify, sizes), strides, strict=True))
    yield from undecided(sympy.Ge(sympy.sympify(prod(held)), sympy.expand((offset or 0) + last + 1)))


def put_at_places(shape: Sequence[Any], places: Sequence[Sequence[Any] | None], new: Sequence[Any]) -> Iterator[Any]:
    """The conditions that sizes of what is put at some places, by index_put, broadcast to those of what is there; the
    `places` are the sizes of an index for each axis, None where it has none."""
    whole = indexed(shape, places)
    for i, size in enumerate(reversed(new)):
        there = whole[-1 - i] if i < len(whole) else ()
        yield from undecided(sympy.Or(*(sympy.Eq(sympy.sympify(size), each) for each in (1, *there))))


def no_place(shape: Sequence[Any], places: Sequence[Sequence[Any] | None]) -> Iterator[Any]:
    """The conditions that nothing is put along an axis of no element: of what is empty no runtime looks at places."""
    for size, each in zip(shape, places, strict=False):
        if size == 0 and each is not None:
            yield from undecided(sympy.Or(*(sympy.Eq(sympy.sympify(count), 0) for count in each)))


def indexed(shape: Sequence[Any], places: Sequence[Sequence[Any] | None]) -> list[tuple[Any, ...]]:
    """For each dimension of what indices choose of a tensor, the sizes that are broadcast to it."""
    axes = [axis for axis, each in enumerate(places) if each is not None]
    rank = max((len(each) for each in places if each is not None), default=0)
    common = [tuple(s[i - rank] for s in places if s is not None and len(s) >= rank - i) for i in range(rank)]
    together = axes == list(range(axes[0], axes[0] + len(axes))) if axes else True
    first = axes[0] if axes and together else 0
    rest: list[tuple[Any, ...]] = [(size,) for axis, size in enumerate(shape) if axis not in axes]
    return [*rest[:first], *common, *rest[first:]]


def undecided(condition: Any) -> Iterator[Any]:
    """The condition; none where it always holds."""
    if condition not in (True, sympy.true):
        yield condition
