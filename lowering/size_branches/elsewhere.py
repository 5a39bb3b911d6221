"""A block of a run that is made at other sizes than the example's, and what is asked in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, combinations, product
from typing import Any

import sympy

from irkit.dims import Range
from irkit.dims.choice import negation, plain
from irkit.dims.functions import interval
from lowering.capture.guards.answers import first_equal, holds
from lowering.capture.guards.comparisons import as_said
from lowering.capture.guards.guards import Guard
from lowering.capture.guards.questions import Questions
from lowering.direct.points import move_test, sizes_moved
from lowering.direct.tracer import Tracer


@contextmanager
def sizes_where(tracer: Tracer, condition: Any, point: Mapping[str, int]) -> Iterator[dict[Any, Guard]]:
    """A block that is run only where a condition on sizes holds, at a point at which it does. It is given what is asked
    in it, once it is over, of which nothing is kept: that need hold only there."""
    asked = tracer.asked
    found: dict[Any, Guard] = {}
    moved = {name: size for name, size in point.items() if asked.hints[name] != size}
    kept, hints, others, assumed = dict(asked.kept), dict(asked.hints), dict(tracer.others), asked.assumed
    at, required, answers = asked.moved, set(tracer.required), tracer.answers
    if moved:
        asked.moves += 1
        asked.moved = asked.moves
        asked.hints.update(moved)
    tracer.allowed.clear()
    tracer.answers = {}
    assume(tracer, condition)
    try:
        yield found
    finally:
        asked.hints.update({name: hints[name] for name in moved})
        tracer.others.update(others)
        asked.assumed, asked.moved = assumed, at
        tracer.required, tracer.answers = required, answers
        tracer.allowed.clear()
        found.update({told: asked.kept.pop(told) for told in list(asked.kept) if told not in kept})


def assume(tracer: Tracer, condition: Any) -> None:
    """Takes a condition for granted from now on in the block around, and other sizes to compare with where it holds."""
    asked = tracer.asked
    asked.assumed = (*asked.assumed, *(as_said(each) for each in sympy.And.make_args(plain(condition))))
    tracer.allowed.clear()
    if holds(condition, tracer.others) is not True:
        tracer.others.update({name: asked.hints[name] for name in tracer.named})
        tracer.others.update(sizes_moved(asked, tracer.others, condition))


def point_where(asked: Questions, condition: Any) -> dict[str, int] | None:
    """Sizes of names at which a condition holds, and all that was asked so far: those of now, or near them; None where
    none is found. One name has another size, else two."""
    hints = asked.hints
    if holds(condition, hints) is True:
        return {}
    condition, named = first_equal(condition)
    known = tuple((name, hints.get(name), asked.ranges.get(name)) for name in named)
    if as_said(negation(condition)) in asked.kept or not holds_near(condition, known):
        return None
    allows = move_test(asked)
    return next((point for point in points_near(condition, known) if allows(point)), None)


Known = tuple[tuple[str, int | None, Range | None], ...]
"""Names with their sizes of now and what is known of them."""


@lru_cache(maxsize=1 << 12)
def holds_near(condition: Any, known: Known) -> bool:
    """Whether a condition holds at some sizes near those of now, whatever else was asked: models ask one of memory, or
    of very large images, in each layer, and it is true at none."""
    return next(points_near(condition, known), None) is not None


def points_near(condition: Any, known: Known) -> Iterator[dict[str, int]]:
    """Sizes near those of now at which a condition holds: of one name first, then of two."""
    hints = {name: size for name, size, _ in known if size is not None}
    near = {name: sizes_near(hints[name], span) for name, _, span in known if span is not None}
    apart = {
        name: [*sizes[:APART], *(size for size in sizes_far(hints[name]) if size in sizes)]
        for name, sizes in near.items()
    }
    alone = ({name: size} for name, sizes in near.items() for size in sizes)
    spans = {name: Range(min(sizes), max(sizes)) for name, sizes in apart.items() if sizes}
    fixed = {name: Range(size, size) for name, size in hints.items()}
    pairs = (
        {one: size, two: other}
        for one, two in combinations(spans, 2)
        if may_hold(condition, {**fixed, one: spans[one], two: spans[two]})
        for size, other in product(apart[one], apart[two])
    )
    return (point for point in chain(alone, pairs) if holds(condition, {**hints, **point}) is True)


def may_hold(condition: Any, spans: Mapping[str, Range]) -> bool:
    """False where a condition holds at no sizes in these ranges, as the ends of its sides tell."""
    if isinstance(condition, sympy.And | sympy.Or):
        return (all if isinstance(condition, sympy.And) else any)(may_hold(each, spans) for each in condition.args)
    if not isinstance(condition, sympy.Gt | sympy.Ge | sympy.Lt | sympy.Le):
        return True
    sides: tuple[Any, ...] = condition.args
    ends = ((float(side), float(side)) if side.is_Float else interval(side, spans) for side in sides)
    (low, high), (least, most) = ends
    return high >= least if isinstance(condition, sympy.Gt | sympy.Ge) else low <= most


def sizes_near(hint: int, known: Range) -> list[int]:
    """Sizes around one, nearer ones first, those that many models treat otherwise last."""
    around = [size for step in range(1, 65) for size in (hint + step, hint - step)]
    every = (*around, *sizes_far(hint), *sizes_further(hint), 1, 0)
    return [size for size in sorted(dict.fromkeys(every), key=lambda size: size < 2) if size in known]


def sizes_far(hint: int) -> list[int]:
    """Multiples and parts of a size, by eighths of it: images are made smaller, and what is asked is asked of those."""
    return [*(hint * times for times in (2, 3, 4, 5, 8, 16)), *(hint * eighths // 8 for eighths in range(1, 25))]


def sizes_further(hint: int) -> list[int]:
    """Those that are further still, by halves."""
    return [hint * halves // 2 for halves in range(6, 33)]


APART = 24
"""How many near sizes of each of two names are looked at together, beside those that are far."""
