"""Which sizes a captured program takes, and which conditions keep it from others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from irkit.core.types import Tensor
from lowering.capture.guards.answers import holds
from lowering.capture.guards.guards import Guard
from lowering.control_flow.rewriting import parts_said
from lowering.direct.run import HOW
from lowering.fold.lower import Lowered

SMALL = 65
"""Below this each size of a name is looked at, at the example's sizes of the others."""
MOST = 4
"""Of how many names sizes are looked at together."""


def conditions_left(low: Lowered) -> frozenset[Any]:
    """The conditions on sizes that refuse some, as the model may ask them, and the lines that asked; none for what was
    not captured directly."""
    if low.captured.how != HOW:
        return frozenset()
    hints = sizes_of_example(low)
    points = list(points_around(hints))
    found: set[Any] = set()
    for guard in low.captured.guards:
        if is_asked(guard, hints) and any(holds(guard.expr, point) is False for point in points):
            found.update(parts_said(guard.expr))
            found.add(guard.source.partition(" ")[0])
    return frozenset(found)


def is_asked(guard: Guard, hints: Mapping[str, int]) -> bool:
    """Whether a condition is one of sizes alone that a line of the model asked."""
    return guard.kind == "guard" and guard.expr is not None and bool(guard.source) and all(
        symbol.name in hints for symbol in guard.expr.free_symbols
    )


def takes_more(low: Lowered, other: Lowered) -> bool:
    """Whether a program takes more sizes than another, all of its own among them, and refuses no more data."""
    points = list(points_around(sizes_of_example(other)))
    return len(low.checks) <= len(other.checks) and taken(other, points) < taken(low, points)


def taken(low: Lowered, points: list[dict[str, int]]) -> frozenset[int]:
    """Which of some sizes a program takes, by their number."""
    return frozenset(i for i, point in enumerate(points) if takes(low, point))


def takes(low: Lowered, sizes: Mapping[str, int]) -> bool:
    """Whether a program takes sizes."""
    for name, (least, most) in low.captured.range_constraints.items():
        if name in sizes and not (least <= sizes[name] and (most is None or sizes[name] <= most)):
            return False
    return all(holds(guard.expr, sizes) is not False for guard in low.captured.guards)


def sizes_of_example(low: Lowered) -> dict[str, int]:
    """The sizes of names in the example, as far as a dimension is a name alone."""
    examples = {leaf.name: leaf.value for leaf in low.captured.leaves}
    found: dict[str, int] = {}
    for port, param in zip(low.graph.signature.params, low.graph.params, strict=True):
        shape = getattr(examples.get(port.name), "shape", ())
        dims = param.shape if isinstance(param.type, Tensor) else ()
        found |= {d.name: int(n) for d, n in zip(dims, shape, strict=False) if type(d) is not int and d.is_Symbol}
    return found


def points_around(hints: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Sizes around those of the example: of one name, and of several."""
    for name, hint in hints.items():
        near = (*range(SMALL), *(hint * times + more for times in (1, 2, 3, 5, 8) for more in (0, 1, 3, 8, 32)))
        yield from ({**hints, name: size} for size in near)
    names = list(hints)[:MOST]
    factors = itertools.product((1, 1.5, 2, 3, 0.5), repeat=len(names))
    yield from ({**hints, **{n: int(hints[n] * f) for n, f in zip(names, some, strict=True)}} for some in factors)
