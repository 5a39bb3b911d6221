"""Conditions that the ranges of sizes decide: `n > 0`, where every n in range is, is True."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from irkit import dims
from irkit.build import const, retyping
from irkit.core import walk
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor
from irkit.dims import Dim, Range
from irkit.errors import DimensionError
from irkit.ops.types.contents import contents
from irkit.rewriting.passes import Pass, in_bodies


def decide_here(graph: Graph, ranges: Mapping[str, Range]) -> Graph:
    """Conditions of If and Loop that the ranges decide as constants; bodies in bodies are left alone."""
    found: dict[Value, bool] = {}
    for value in graph.order:
        at = {"If": 0, "Loop": 1}.get(value.op)
        flag = value.inputs[at] if at is not None and at < len(value.inputs) else None
        answer = None if flag is None or flag.blob is not None else verdict(flag, ranges)
        if flag is not None and answer is not None:
            found[flag] = answer
    if not found:
        return graph
    new: dict[Value, Value] = {v: const(np.full(shape_of(v), answer)) for v, answer in found.items()}
    for value in graph.order:
        if value not in new and not new.keys().isdisjoint(value.inputs):
            new[value] = retyping.over(value, tuple([v if v is None else new.get(v, v) for v in value.inputs]))
    return graph.with_results(new.get(r, r) for r in graph.results)


def decide_all(graph: Graph) -> Graph:
    """The graph with the conditions that its ranges decide as constants, in bodies too."""

    def here(inner: Graph) -> Graph:
        return decide_here(inner, graph.symbols)

    return in_bodies(here).run(graph)


decide: Pass = Pass("decide", (), lambda graph, observe, depth: decide_all(graph))
"""Conditions of If and Loop that the ranges of sizes decide -> constants."""


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of one flag."""
    return tuple(1 for _ in value.shape)


def verdict(flag: Value, ranges: Mapping[str, Range]) -> bool | None:
    """What a flag certainly is; None where that is not known."""
    known: dict[Value, bool | None] = {}
    for value in walk.post_order([flag], stop=lambda v: v.op not in LOGIC and v.op not in COMPARED):
        if not isinstance(value.type, Tensor) or any(d != 1 for d in value.shape):
            known[value] = None
        elif value.op in COMPARED:
            known[value] = compared(value, ranges)
        else:
            known[value] = LOGIC[value.op]([literal(v, known) for v in value.inputs[: ARITY.get(value.op, 1)]])
    return known.get(flag)


def literal(value: Value | None, known: Mapping[Value, bool | None]) -> bool | None:
    """What an operand is."""
    if value is not None and value.blob is not None and value.dtype is DType.BOOL and value.blob.size == 1:
        return bool(value.blob.array.reshape(-1)[0])
    return None if value is None else known.get(value)


def compared(value: Value, ranges: Mapping[str, Range]) -> bool | None:
    """A comparison of two sizes; None where their ranges leave it open."""
    sides = [None if v is None else contents(v) for v in value.inputs]
    if any(side is None or len(side) != 1 for side in sides):
        return None
    (a,), (b,) = cast("list[tuple[Dim]]", sides)
    try:
        gap: Dim = dims.sub(a, b)
        found = dims.bounds(gap, ranges)
    except DimensionError:
        return None
    return COMPARED[value.op](found.lo, float("inf") if found.hi is None else found.hi)


def _and(flags: list[bool | None]) -> bool | None:
    return False if False in flags else (True if None not in flags else None)


def _or(flags: list[bool | None]) -> bool | None:
    return True if True in flags else (False if None not in flags else None)


ARITY: Mapping[str, int] = {"And": 2, "Or": 2}
"""How many operands are flags, where that is not one."""

LOGIC: Mapping[str, Callable[[list[bool | None]], bool | None]] = {
    "And": _and, "Or": _or, "Not": lambda flags: None if flags[0] is None else not flags[0],
    "Identity": lambda flags: flags[0], "Squeeze": lambda flags: flags[0], "Unsqueeze": lambda flags: flags[0],
    "Reshape": lambda flags: flags[0],
}  # fmt: skip
"""Flags of flags."""

COMPARED: Mapping[str, Callable[[Any, Any], bool | None]] = {
    "Greater": lambda lo, hi: True if lo > 0 else (False if hi <= 0 else None),
    "GreaterOrEqual": lambda lo, hi: True if lo >= 0 else (False if hi < 0 else None),
    "Less": lambda lo, hi: True if hi < 0 else (False if lo >= 0 else None),
    "LessOrEqual": lambda lo, hi: True if hi <= 0 else (False if lo > 0 else None),
    "Equal": lambda lo, hi: True if lo == hi == 0 else (False if lo > 0 or hi < 0 else None),
}  # fmt: skip
"""What a comparison of a and b is, given the least and the greatest of a - b."""
