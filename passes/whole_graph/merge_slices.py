"""What several values do with one operand, done once: rules see one value and what is below it, not its siblings."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from irkit.build import call
from irkit.core.ir import Graph, Value
from irkit.pattern import uniform
from irkit.rewriting.passes import Pass, graph_pass, in_bodies
from passes.analysis.questions import axes_of, vector


@attrs.frozen
class Cut:
    """A Slice along one axis: the elements from `start` up to `stop`."""

    value: Value
    source: Value
    axis: int
    start: int
    stop: int


def cut(value: Value) -> Cut | None:
    """The Slice as a cut of one static axis without steps; None for every other value."""
    source = value.inputs[0] if value.op == "Slice" else None
    if source is None or len(value.inputs) < 4:
        return None
    starts, ends, axes = (axes_of(v) for v in value.inputs[1:4])
    if starts is None or ends is None or axes is None or len(axes) != 1:
        return None
    if len(value.inputs) > 4 and value.inputs[4] is not None and uniform(value.inputs[4]) != 1:
        return None
    axis = axes[0] % source.rank
    size = source.shape[axis]
    if type(size) is not int:
        return None
    start, stop, _ = slice(starts[0], ends[0]).indices(size)
    return Cut(value, source, axis, start, max(start, stop))


def tiling(cuts: Iterable[Cut], size: int) -> list[Cut] | None:
    """The cuts in order, where they cover an axis of `size` without gap or overlap; None where they do not."""
    ordered = sorted(cuts, key=lambda c: (c.start, c.stop))
    at = 0
    for each in ordered:
        if each.start != at or each.stop == at:
            return None
        at = each.stop
    return ordered if at == size and len(ordered) > 1 else None


def merge_slices_here(graph: Graph) -> Graph:
    """Slices that tile one axis of one value -> a single Split, outside of bodies."""
    groups: dict[tuple[Value, int], list[Cut]] = {}
    for value in graph.order:
        found = cut(value) if value.op == "Slice" else None
        if found is not None:
            groups.setdefault((found.source, found.axis), []).append(found)
    parts: dict[Value, tuple[list[Cut], list[Cut]]] = {}
    for (source, axis), cuts in groups.items():
        tiles = tiling({(c.start, c.stop): c for c in cuts}.values(), source.shape[axis])
        if tiles is not None:
            parts.update((c.value, (tiles, cuts)) for c in cuts)
    return merged(graph, parts) if parts else graph


def merged(graph: Graph, parts: dict[Value, tuple[list[Cut], list[Cut]]]) -> Graph:
    """The graph with each group of slices as one Split. Operands first: a source may itself lie above other slices."""
    new: dict[Value, Value] = {}
    for value in graph.order:
        if value in parts and value not in new:
            tiles, cuts = parts[value]
            source = new.get(tiles[0].source, tiles[0].source)
            new.update(split(source, tiles[0].axis, tiles, cuts))
        elif value not in new and not new.keys().isdisjoint(value.inputs):
            new[value] = value.with_inputs(tuple(v if v is None else new.get(v, v) for v in value.inputs))
    return graph.with_results(new.get(r, r) for r in graph.results)


def split(source: Value, axis: int, tiles: list[Cut], found: list[Cut]) -> dict[Value, Value]:
    """Each Slice with the part of a Split that stands for it."""
    sizes = [t.stop - t.start for t in tiles]
    parts = call("Split", [source, vector(sizes)], {"axis": axis}, outputs=len(sizes))
    origin = tiles[0].value.origin.after("merge_slices")
    whole = parts[0].inputs[0].with_origin(origin)
    named = {(t.start, t.stop): p.with_inputs((whole,)).with_origin(origin) for t, p in zip(tiles, parts, strict=True)}
    return {c.value: named[c.start, c.stop] for c in found if (c.start, c.stop) in named}


merge_slices: Pass = in_bodies(graph_pass(merge_slices_here))
"""Slices that tile one axis of one value -> a single Split, in bodies too."""
