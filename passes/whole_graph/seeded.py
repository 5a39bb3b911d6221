"""Reproducible draws: every operator that draws random numbers is given a seed of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from operator import index

from irkit.core.ir import Graph, Value
from irkit.core.vocabulary import PARAM
from irkit.errors import RewriteError
from irkit.ops.schemas import spec
from irkit.rewriting.numbering import UNSHARED, with_bodies

DRAWS = UNSHARED - {PARAM}
"""The operators that draw. Dropout does so in training mode only; a seed changes nothing elsewhere."""
SEEDS = 1 << 24
"""ONNX holds the seed of most draws as f32, which knows every whole number up to this one."""


def seeded(graph: Graph, seed: int) -> Graph:
    """`graph` with another seed for each of its draws, all of them following from one; in bodies too.

    A session on the resulting model gives the same numbers, run by run, as any other session on it: its first run those
    of the other's first run, its second run those of the second, which differ from the first. Seeds that a model
    brought along are replaced. A graph without draws is returned as it is. The numbers are not those that torch draws
    for the same seed. Raises RewriteError for a seed that is not a whole number.
    """
    try:
        number = index(seed)
    except TypeError:
        raise RewriteError(
            f"a seed is a whole number, and {seed!r} is none", hint="give an int, as in seed=0"
        ) from None
    return _seeded(graph, _numbers(random.Random(number)))


def _numbers(source: random.Random) -> Iterator[int]:
    """Numbers from 1 on and below SEEDS, none of them twice."""
    given: set[int] = set()
    while True:
        number = source.randrange(1, SEEDS)
        if number not in given:
            given.add(number)
            yield number


def _seeded(graph: Graph, numbers: Iterator[int]) -> Graph:
    """`graph` with seeds from `numbers`. A body that is held twice becomes two, with seeds of their own."""
    swaps: dict[Value, Value] = {}
    for value in graph.order:
        new = value
        if any(v in swaps for v in value.inputs if v is not None):
            new = value.with_inputs(tuple(swaps.get(v, v) if v is not None else None for v in value.inputs))
        if new.bodies:
            new = with_bodies(new, tuple(_seeded(body, numbers) for body in new.bodies))
        if new.op in DRAWS:
            new = with_seed(new, next(numbers))
        if new is not value:
            swaps[value] = new
    return graph.with_results(swaps.get(r, r) for r in graph.results) if swaps else graph


def with_seed(value: Value, number: int) -> Value:
    """A draw with another seed, in the type that its operator holds it in."""
    kind = spec(value.op).attributes["seed"].kind
    others = [(name, held) for name, held in value.attributes if name != "seed"]
    attributes = tuple(sorted([*others, ("seed", float(number) if kind == "FLOAT" else number)]))
    return Value(value.op, value.inputs, attributes, value.bodies, value.type, value.origin)
