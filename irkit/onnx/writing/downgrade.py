"""Operators of the IR's opset in the words of an older one, as they are written into a file: what `upgrade` undoes.

Only what one node of the older opset says as well is here. The graph that a user holds always speaks of operators as
they are at the IR's opset; what an older opset has no one word for is `passes.legalize`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from irkit.core.attributes import Attribute
from irkit.core.ir import Graph, Value
from irkit.core.vocabulary import CALL

Downgrade = Callable[[Value], Value | None]
"""The value in the words of the older opset; None where it has none."""


def respelled_value(value: Value, opset: int) -> Value:
    """The value as an older opset writes it; the very same object where that writes it alike, or cannot write it."""
    for below, function in DOWNGRADES.get(value.op, ()):
        if opset < below:
            found = function(value)
            return value if found is None else found
    return value


def downgraded_graph(graph: Graph, opset: int) -> Graph:
    """The graph for a file of an older opset, its bodies too; the very same object where nothing is written otherwise.

    What comes back is only to be written: operators in it have operands and attributes of the older opset.
    """
    return _Copy(opset).graph(graph) if opset < NEWEST_CHANGE else graph


@attrs.define(eq=False)
class _Copy:
    """One graph after the other, each body once, by identity."""

    opset: int
    done: dict[int, tuple[Graph, Graph]] = attrs.field(factory=dict[int, tuple[Graph, Graph]])

    def graph(self, graph: Graph) -> Graph:
        """The graph in the words of the opset."""
        if id(graph) not in self.done:
            new: dict[Value, Value] = {}
            for value in graph.order:
                made = self.value(value, new)
                if made is not value:
                    new[value] = made
            results = tuple(new.get(r, r) for r in graph.results)
            self.done[id(graph)] = graph, graph.with_results(results) if new else graph
        return self.done[id(graph)][1]

    def value(self, value: Value, new: Mapping[Value, Value]) -> Value:
        """One value over its new operands, with its new bodies."""
        if new and any(v in new for v in value.inputs):
            value = value.with_inputs(tuple(None if v is None else new.get(v, v) for v in value.inputs))
        if value.bodies:
            bodies = tuple(map(self.graph, value.bodies))
            if any(a is not b for a, b in zip(bodies, value.bodies, strict=True)):
                value = attrs.evolve(value, bodies=bodies)
        return value if value.op == CALL else respelled_value(value, self.opset)


# ---------------------------------------------------------------------------------------------- operators


def changed(value: Value, inputs: tuple[Value | None, ...], dropped: str = "", **given: Attribute) -> Value:
    """The value with other operands, without one attribute, and with others set."""
    kept = {name: attribute for name, attribute in value.attributes if name != dropped}
    return attrs.evolve(value, inputs=inputs, attributes=tuple(sorted({**kept, **given}.items())))


def axes(value: Value) -> Value | None:
    """axes are an attribute"""
    named = _numbers(value, 1)
    if not named and value.attribute("noop_with_empty_axes", 0):
        return None
    if named is None and len(value.inputs) > 1:
        return None
    given = {"axes": named} if named else {}
    return changed(value, value.inputs[:1], "noop_with_empty_axes", **given)


def dft(value: Value) -> Value | None:
    """axis is an attribute, counted from the front, and 1 by default"""
    x = value.inputs[0]
    given = len(value.inputs) > 2 and value.inputs[2] is not None
    named: tuple[int, ...] | None = _numbers(value, 2) if given else (-2,)
    if named is None or len(named) != 1 or x is None or "axis" in dict(value.attributes):
        return None
    inputs = value.inputs[:2] if len(value.inputs) > 1 and value.inputs[1] is not None else value.inputs[:1]
    return changed(value, inputs, axis=named[0] + x.rank if named[0] < 0 else named[0])


def grid_sample(value: Value) -> Value | None:
    """the modes are called bilinear and bicubic, and images have two axes"""
    names = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    mode = names.get(str(value.attribute("mode", "linear")))
    return None if mode is None or value.rank != 4 else changed(value, value.inputs, mode=mode)


def roi_align(value: Value) -> Value | None:
    """without the half pixel, and with no attribute that says so"""
    mode = "coordinate_transformation_mode"
    whole = value.attribute(mode) == "output_half_pixel"
    return changed(value, value.inputs, mode) if whole else None


def _numbers(value: Value, index: int) -> tuple[int, ...] | None:
    """The numbers in a constant operand; None where it is left out or no constant."""
    given = value.inputs[index] if index < len(value.inputs) else None
    blob = None if given is None else given.blob
    return None if blob is None else tuple(int(n) for n in blob.array.ravel())


_SUM_FREE = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
DOWNGRADES: Mapping[str, tuple[tuple[int, Downgrade], ...]] = {
    **{f"Reduce{name}": ((18, axes),) for name in _SUM_FREE},
    "DFT": ((20, dft),), "GridSample": ((20, grid_sample),), "RoiAlign": ((16, roi_align),),
}  # fmt: skip
"""For each operator the opsets below which it is written otherwise, and how."""

NEWEST_CHANGE = max(below for rows in DOWNGRADES.values() for below, _ in rows)
"""From this opset on every operator is written as it is."""
