"""Layers that are alike but for their weights: one of them is rewritten, the others are made of what it became.

A deep model computes the same over and over, and a graph of it holds the same stretch of operators many times, each
time with other weights and over what the stretch before it gave. Such a stretch is rewritten once, as a graph of its
own: what the stretches differ in are parameters there, and weights are constants whose numbers nobody can read, so that
no rule can rely on either. What comes of it therefore holds for each of the stretches, and is put in place of each.

What rules see beyond the ends of a stretch, or read in weights, is left for the sweep over the whole graph that
follows. It finds next to nothing to do in the stretches, which is what makes a deep model cheap to optimize.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from irkit.core import walk
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value, constant, param, vertex
from irkit.core.origins import Origin, provenance
from irkit.core.remade_blobs import can_be_remade, is_made_of, remade
from irkit.core.types import Tensor, dims_of
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.dims import symbols_of
from irkit.rewriting.driver import symbols_of as symbols_bound
from irkit.rewriting.firings import Firing, Told
from passes.analysis.questions import UnreadError
from passes.whole_graph.layer_search import Layers, changes, layers_of

Rewriting = Callable[[Graph, Told | None], Graph]
"""What is done to a graph, which keeps its parameters and results, and who is told of the rules that fire."""


def rewrite_layers(graph: Graph, rewriting: Rewriting, told: Told | None = None) -> Graph:
    """The graph with each of its layers that are alike rewritten as the first one is by itself; the very graph where
    there are none. `told` is told of each firing in them once, with how many layers it was for. Bodies are left as they
    are."""
    found = layers_of(graph)
    if found is None:
        return graph
    made: dict[int, tuple[Template, Layers, Mapping[Value, Value]]] = {}
    for places, layers in by_surroundings(graph, found):
        template = template_of(graph, layers, rewriting, told)
        if template is not None:
            made |= {place: (template, layers, each) for place, each in zip(places, layers.each, strict=True)}
    if not made:
        return graph
    return with_first_constants(put(graph, [made[place] for place in sorted(made)]), graph)


def by_surroundings(graph: Graph, layers: Layers) -> list[tuple[list[int], Layers]]:
    """Layers, with their places among all, by what they are given beside weights, parameters and what one gives to the
    next, as layers with other masks than those between them are. What is computed around them is seen by rules, and
    what they make of one mask need not be what they make of another. One that is alone is left out, and so are those
    of which something that they do not give to the next is computed with elsewhere: who uses a value is a reason, too.
    """
    handed = {found[x] for found in layers.each for x in layers.results}
    computed = [x for x in layers.given if x.op == PARAM or x.inputs]
    given = [x for x in computed if handed.isdisjoint([found[x] for found in layers.each])]
    seen = seen_elsewhere(graph, layers)
    alike: dict[tuple[Value | None, ...], list[int]] = {}
    for place, found in enumerate(layers.each):
        if place in seen:
            continue
        around = tuple([None if found[x].op == PARAM else found[x] for x in given])
        alike.setdefault(around, []).append(place)
    if len(alike) == 1 and not seen:
        return [(list(range(len(layers.each))), layers)]
    parts: list[tuple[list[int], Layers]] = []
    for places in alike.values():
        each = [layers.each[place] for place in places]
        if len(places) > 1 and len(set(each[0].values())) == len(each[0]):  # what differs in the first is told apart
            parts.append((places, attrs.evolve(layers, each=each).told_of(each[0])))
    return parts


def seen_elsewhere(graph: Graph, layers: Layers) -> set[int]:
    """The places of the layers of which an operator outside uses a value that none of them is given."""
    given = {found[x] for found in layers.each for x in layers.given}
    kept = [x for x in layers.results if given.isdisjoint([found[x] for found in layers.each])]
    shown = {found[x]: place for place, found in enumerate(layers.each) for x in kept}
    if not shown:
        return set()
    inside = {found[x]: place for place, found in enumerate(layers.each) for x in layers.first}
    return {shown[x] for v in graph.order for x in v.inputs if x in shown and inside.get(v) != shown[x]}


def template_of(
    graph: Graph, layers: Layers, rewriting: Rewriting, told: Told | None, sealed: Collection[Value] = ()
) -> Template | None:
    """What the first of some layers becomes by itself, which sees nothing of what is `sealed`; None where that is not
    told for all of them."""
    changing = [x for x in layers.given if x in sealed or changes(x, layers.each)]
    opened = {x: param(x.type).with_origin(x.origin) for x in changing if x.op != CONSTANT}
    sizes = {s for x in opened for d in dims_of(x.type) for s in symbols_of(d)}
    if not sizes <= symbols_bound(graph) or not all(type(x.type) is Tensor for x in (*opened, *layers.results)):
        return None  # by itself the layer would know a size that the graph does not, or begin amid an operator
    unread = {x: unread_constant(x, tuple(found[x] for found in layers.each)) for x in changing if x.op == CONSTANT}
    new = {**opened, **unread}
    kept = {x: new.get(x, x) for x in layers.given}  # what is the same for all may be made of what is opened, too
    built = walk.rebuild(layers.results, kept)
    firings: list[Firing] = []
    before = Graph((*graph.params, *opened.values()), tuple(built[x] for x in layers.results), graph.symbols)
    after = rewriting(before, None if told is None else firings.append)
    template = Template.of(after, layers, opened, unread)
    if template is not None and told is not None:
        tell_for_all(told, firings, new.values(), len(layers.each))
    return template


def with_first_constants(graph: Graph, before: Graph) -> Graph:
    """The graph over those constants that were the first of equal ones `before`, where one by one all would share these
    with what is gone."""
    first: dict[Any, Value] = {}
    for value in own_constants(before.order):
        first.setdefault(value.attributes[0][1].key, value)
    held = own_constants(graph.order)
    swaps = {value: known for value in held if (known := first.get(value.attributes[0][1].key, value)) is not value}
    if not swaps:
        return graph
    built = walk.rebuild_over_leaves(graph.order, swaps)
    return graph.with_results(built.get(result, result) for result in graph.results)


def own_constants(values: Iterable[Value]) -> list[Value]:
    """Those that are constants, and neither weights nor made of others."""
    blobs = [(value, value.attributes[0][1]) for value in values if value.op == CONSTANT]
    return [value for value, blob in blobs if not (blob.name or blob.of or blob.parts or blob.turned is not None)]


def tell_for_all(told: Told, firings: Sequence[Firing], changing: Iterable[Value], count: int) -> None:
    """Tells of the firings at values that differ from layer to layer; the others will happen again, once."""
    differs = dict.fromkeys(changing, True)
    for firing in firings:
        for value in walk.post_order(firing.found, stop=differs.__contains__):
            differs[value] = any(differs[x] for x in value.inputs if x is not None)
        if any(differs[value] for value in firing.found):
            told(attrs.evolve(firing, times=count))


# ---------------------------------------------------------------------------------------------- one for all


def unread_constant(weight: Value, every: tuple[Value, ...]) -> Value:
    """A constant that stands for a weight of every layer, of which no rule can read what it holds."""
    blob: Blob = weight.attributes[0][1]

    def load() -> np.ndarray:
        error = UnreadError(
            f"{blob!r} stands for the weights of all layers that are alike", hint="leave the value as it is"
        )
        error.stands, error.every = stands, every
        raise error

    stands = Blob(blob.dtype, blob.shape, load, blob.name)
    return constant(stands).with_origin(weight.origin)


@attrs.frozen(eq=False)
class Template:
    """What the first layer became: its values that are others in each layer, operands first, each with the value of the
    first layer whose origin it has, where there is one; what the parameters and weights in it stand for; what stands
    for its results; and what it uses that is the same in each layer."""

    values: Sequence[tuple[Value, Value | None]]
    opened: Mapping[Value, Value]
    slots: Mapping[Blob, Value]
    results: Sequence[Value]
    shared: Sequence[Value]

    @classmethod
    def of(
        cls, after: Graph, layers: Layers, opened: Mapping[Value, Value], unread: Mapping[Value, Value]
    ) -> Template | None:
        """The template that a rewritten layer is, in which values stand for those that are opened, and constants for
        weights; None where a constant in it cannot be made of other weights."""
        slots = {stands.attributes[0][1]: x for x, stands in unread.items()}
        sources = [*layers.first, *(x for x in layers.given if x.op == CONSTANT)]
        known: dict[object, Value] = {}
        for source in sources:
            known.setdefault(identity_of(source.origin), source)
        values: list[tuple[Value, Value | None]] = []
        changing: set[Value | None] = set(opened.values())
        for value in after.order:
            blob = value.blob
            if blob is not None and is_made_of(blob, slots):
                if not can_be_remade(blob, slots):
                    return None
            elif changing.isdisjoint(value.inputs):
                continue
            changing.add(value)
            values.append((value, known.get(identity_of(value.origin))))
        used = (*(x for value, _ in values for x in value.inputs if x is not None), *after.results)
        shared = dict.fromkeys(x for x in used if x not in changing)
        return cls(values, {stands: x for x, stands in opened.items()}, slots, after.results, list(shared))


def put(graph: Graph, made: Iterable[tuple[Template, Layers, Mapping[Value, Value]]]) -> Graph:
    """The graph with templates in the place of layers, each with those that it was made of, and with what their values
    are in this one; the lowest first."""
    swaps: dict[Value, Value] = {}
    known: dict[object, Blob] = {}
    for template, layers, each in made:
        new: dict[Value | None, Value] = {}
        needed = {stands: each[x] for stands, x in template.opened.items()}
        left = [x for x in (*needed.values(), *template.shared) if x.inputs and x not in swaps]
        if left:
            swaps.update(walk.rebuild(left, swaps))  # what all share may be made of what layers below give
        new.update({x: swaps.get(x, x) for x in template.shared})
        new.update({stands: swaps.get(x, x) for stands, x in needed.items()})
        blobs = {blob: each[x].attributes[0][1] for blob, x in template.slots.items()}
        for value, source in template.values:
            given, origin = value.attributes, value.origin
            if value.op == CONSTANT:
                given = (("value", remade(given[0][1], blobs, known)),)
            inputs: Any = tuple(map(new.get, value.inputs, value.inputs))
            if source is not None:
                origin = moved(origin, each[source].origin)
            new[value] = vertex(value.op, inputs, given, value.bodies, value.type, origin)
        for old, result in zip(layers.results, template.results, strict=True):
            swaps[each[old]] = new.get(result, result)
    built = walk.rebuild(graph.results, swaps)
    return graph.with_results(built[result] for result in graph.results)


def identity_of(origin: Origin) -> object:
    """Equal for origins of what was made of the same value."""
    return (origin.node, origin.target, origin.module, origin.source)


def moved(origin: Origin, there: Origin) -> Origin:
    """The origin of a value in another layer, of which it is known where it comes from."""
    if origin.rules == there.rules:
        return there
    return provenance(there.node, there.target, there.module, there.source, origin.rules, there.notes)
