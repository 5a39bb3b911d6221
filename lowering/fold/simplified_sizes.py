"""Sizes as they read where what torch relied on holds: its guards, and the ranges of its symbols.

A table of 128 positions that is sliced to `seq` of them is `min(128, seq)` long; where a guard says that `seq` is that,
or a range that `seq` is no more, the size is `seq`. The graph refuses the sizes for which it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.dims import Dim, Range
from lowering.capture.guards.guards import Guard
from lowering.errors import LoweringError
from lowering.records.sizes import Sizes

EXTREMES = (dims.Max, dims.Min)
"""What torch writes for sizes that have an end."""


def relying_on(sizes: Sizes, guards: Sequence[Guard], ranges: Mapping[str, Range]) -> Sizes:
    """The same translation of torch's sizes, simplified by guards and by ranges of the symbols, by the user's names."""
    equal: dict[Any, Any] = {}
    for guard in guards:
        if isinstance(guard.expr, sympy.Eq) and guard.kind == "guard":
            equal |= solved(sizes, guard.expr)
    return attrs.evolve(sizes, relied=Relied(equal, ranges))


def solved(sizes: Sizes, relation: Any) -> dict[Any, Any]:
    """{extreme: what it is} of an equation in which one minimum or maximum stands, alone; nothing of any other one."""
    try:
        left, right = (sizes.number(side) for side in relation.args)
    except LoweringError:
        return {}
    gap: Any = dims.sub(left, right)
    if type(gap) is int:
        return {}
    found = gap.atoms(*EXTREMES)
    terms = {part: sign for sign in (1, -1) for part in found if sign * part in sympy.Add.make_args(gap)}
    if len(found) != 1 or not terms:
        return {}
    ((extreme, sign),) = terms.items()
    return {extreme: sympy.expand(extreme - sign * gap)}


@attrs.frozen
class Relied:
    """What is known of sizes: extremes that equal something simpler, and the ranges of symbols by name."""

    equal: Mapping[Any, Any]
    ranges: Mapping[str, Range]

    def __call__(self, size: Any) -> Any:
        """The size, with no minimum or maximum in it that is known to be one of its sides, or what a guard says."""
        if type(size) is int or not size.has(*EXTREMES):
            return size
        found: Any = dims.canonical(size.xreplace(self.equal))
        if type(found) is int:
            return found
        known = {extreme: self.side(extreme) for extreme in found.atoms(*EXTREMES)}
        return dims.canonical(found.xreplace({extreme: side for extreme, side in known.items() if side is not extreme}))

    def side(self, extreme: Any) -> Any:
        """The side of an extreme that is beyond all others; the extreme itself where that cannot be told."""
        for side in extreme.args:
            gaps = (side - other if isinstance(extreme, dims.Max) else other - side for other in extreme.args)
            if all(dims.bounds(self.expanded(gap), self.ranges).lo >= 0 for gap in gaps):
                return side
        return extreme

    @staticmethod
    def expanded(gap: Any) -> Dim:
        """The canonical form of a difference, in which what is in both is gone."""
        return dims.canonical(sympy.sympify(gap))
