"""Layers that are alike but for their weights: one of them is rewritten, the others are made of what it became.

A deep model computes the same over and over, and a graph of it holds the same stretch of operators many times, each
time with other weights and over what the stretch before it gave. Such a stretch is rewritten once, as a graph of its
own: what the stretches differ in are parameters there, and weights are constants whose numbers nobody can read, so that
no rule can rely on either. What comes of it therefore holds for each of the stretches, and is put in place of each.

What rules see beyond the ends of a stretch, or read in weights, is left for the sweep over the whole graph that
follows. It finds next to nothing to do in the stretches, which is what makes a deep model cheap to optimize.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import attrs
import numpy as np

from irkit.core import walk
from irkit.core.blobs import Blob, computed_blob
from irkit.core.ir import Graph, Value, constant, param, vertex
from irkit.core.origins import Origin, provenance
from irkit.core.types import Tensor, dims_of
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.dims import symbols_of
from irkit.rewriting.driver import symbols_of as symbols_bound
from irkit.rewriting.firings import Firing, Told
from passes.analysis.questions import UnreadError
from passes.rules.constants import transposed_blob

LEAST = 6
"""So many layers must be alike for one to be rewritten by itself."""

SHORTEST = 12
"""So many operators a layer must have."""

NARROW = 4
"""So many places at which layers may begin are looked at."""

GRAM = 8
"""So many operators in a row are compared to find after how many others the same come again."""

LONG_GRAM = 24
"""The same for operators by their names alone, where a layer has the same short row several times, such as norms."""

Rewriting = Callable[[Graph, Told | None], Graph]
"""What is done to a graph, which keeps its parameters and results, and who is told of the rules that fire."""


@attrs.frozen(eq=False)
class Layers:
    """Layers of a graph that are alike: the values of the first, and what each of them, and of the values that it is
    computed of, is in every one, the first included. `given` are the latter, `results` what is used outside."""

    first: Sequence[Value]
    each: Sequence[Mapping[Value, Value]]
    given: Sequence[Value]
    results: Sequence[Value]

    def told_of(self, first: Mapping[Value, Value]) -> Layers:
        """The same, told of another one of them: what all share is made in the lowest, as it is without this."""
        each = [{first[x]: y for x, y in found.items()} for found in self.each]
        values, given, results = ([first[x] for x in part] for part in (self.first, self.given, self.results))
        return Layers(values, each, given, results)


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


def template_of(graph: Graph, layers: Layers, rewriting: Rewriting, told: Told | None) -> Template | None:
    """What the first of some layers becomes by itself; None where that is not told for all of them."""
    changing = [x for x in layers.given if changes(x, layers.each)]
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


# ---------------------------------------------------------------------------------------------- where they are


def layers_of(graph: Graph) -> Layers | None:
    """The layers of a graph that are alike; None where there are too few, or too small ones."""
    values = [value for value in graph.order if value.inputs]
    if len(values) < LEAST * SHORTEST:
        return None
    operators = as_text([value.op for value in values])
    if not come_often(operators):
        return None
    length = distance_of(operators) or distance_of(operators, LONG_GRAM)
    if not length:
        return None
    kinds = kinds_of(values)
    start, stop = longest_run(kinds, length)
    if stop - start < LEAST * length:  # what is done again so soon is done to something else
        length = distance_of(as_text(kinds))
        start, stop = longest_run(kinds, length) if length else (0, 0)
        if stop - start < LEAST * length or not length:
            return None
    ordered = Ordered.of(values, graph.results)
    place = ordered.place
    start = best_start(ordered, narrowest(ordered.last, start, length), stop, length)
    count = (stop - start) // length
    stretches = [values[start + k * length : start + (k + 1) * length] for k in range(count)]
    used = used_outside(values, graph.results, place, start, length, count)
    like = [k for k in range(count) if used[k] <= used[0]]
    pairs = [(stretches[k], matched(stretches[0], stretches[k])) for k in like]
    each = [found for _, found in pairs if found is not None]
    if len(each) < LEAST:
        return None
    given = [x for x in each[-1] if place.get(x, -1) < start]
    results = [stretches[0][offset] for offset in sorted(used[0], reverse=True)]  # walked from the last one, in order
    below = layers_below(ordered, stretches[0], results, each) if each[0] is pairs[0][1] else []
    each = [*below, *each]
    inside = {found[x] for found in each for x in stretches[0]}
    others = (x for value in values if value not in inside for x in value.inputs)
    if not have_own_weights(given, each, (*graph.results, *others)):
        return None
    layers = Layers(stretches[0], each, given, results)
    return layers.told_of(below[0]) if below else layers


@attrs.frozen(eq=False)
class Ordered:
    """The values of a graph that have operands, in order, its results, the place of each of these values, and that of
    its last user."""

    values: Sequence[Value]
    results: Sequence[Value]
    place: Mapping[Value, int]
    last: Sequence[int]

    @classmethod
    def of(cls, values: Sequence[Value], results: Sequence[Value]) -> Ordered:
        """Values in order, of a graph with these results."""
        place = {value: index for index, value in enumerate(values)}
        return cls(values, results, place, last_uses(values, results, place))

    def is_used_beside(self, used: Iterable[Value], users: set[Value]) -> bool:
        """Whether a value that is not among `users` uses one of some that are no results."""
        if not (places := [self.place[each] for each in used]):
            return False
        near = self.values[min(places) : max([self.last[place] for place in places]) + 1]
        sought = set(used)
        return any(not sought.isdisjoint(each.inputs) for each in near if each not in users)


def layers_below(
    graph: Ordered, first: Sequence[Value], results: Sequence[Value], each: Sequence[Mapping[Value, Value]]
) -> list[dict[Value, Value]]:
    """What each value of the first layer is in those like it that stand before, the lowest first, between what layers
    share: in the order of a graph that begins with the first of its users."""
    after = {y: x for x, y in each[1].items()}
    handed = [(x, after[x]) for x in results if x in after]  # what one layer gives, and what that is to the next
    found: list[dict[Value, Value]] = []
    own = inside = set(first)
    lowest = each[0]
    while handed and len(found) < LEAST:
        below = layer_below(graph, first, own, results, [(x, lowest[given]) for x, given in handed])
        if below is None or not inside.isdisjoint(below[x] for x in first):
            break
        found.insert(0, below)
        inside, lowest = inside.union(below[x] for x in first), below
    return found


def layer_below(
    graph: Ordered,
    first: Sequence[Value],
    own: set[Value],
    results: Sequence[Value],
    pairs: list[tuple[Value, Value]],
) -> dict[Value, Value] | None:
    """What each value of a layer is in another, of which it is known what some are, and those that it is computed of;
    None where that is none like it."""
    found: dict[Value, Value] = {}
    while pairs:
        x, y = pairs.pop()
        if x in found:
            if found[x] is not y:
                return None
            continue
        found[x] = y
        if x not in own:
            if x is not y and not may_stand(x, y):
                return None
            continue
        alike = x.op == y.op and x.type == y.type and x.attributes == y.attributes and x.bodies == y.bodies
        if not alike or len(x.inputs) != len(y.inputs):
            return None
        for one, other in zip(x.inputs, y.inputs, strict=True):
            if one is not None and other is not None:
                pairs.append((one, other))
            elif one is not other:
                return None
    images = {found[x] for x in first if x in found}
    if len(images) < len(first) or len(set(found.values())) < len(found):
        return None
    given = [y for x, y in found.items() if x not in own]
    if not images.isdisjoint(walk.post_order(given)):
        return None  # what it is given hangs on what it gives
    inner = images.difference(found[x] for x in results)
    if not inner.isdisjoint(graph.results):
        return None
    return None if graph.is_used_beside(inner, images) else found


def best_start(graph: Ordered, starts: Sequence[int], stop: int, length: int) -> int:
    """The one of some places from which most layers follow, counting one that stands before them."""
    values = graph.values

    def count(start: int) -> int:
        one, other = values[start : start + length], values[start + length : start + 2 * length]
        found = matched(one, other)
        used = {*graph.results, *(x for v in other for x in v.inputs)}
        same = {x: x for x in (*(found or ()), *one)}
        below = [] if found is None else layers_below(graph, one, [x for x in one if x in used], [same, found])
        return (stop - start) // length + len(below)

    return max(starts, key=count)


def have_own_weights(
    given: Iterable[Value], each: Sequence[Mapping[Value, Value]], others: Iterable[Value | None]
) -> bool:
    """Whether no weight is used by two of the layers, or by one and something else: how many use a weight is a reason
    of rules."""
    weights = [x for x in given if x.op == CONSTANT and is_weight(x.attributes[0][1])]
    keys = {found[x].attributes[0][1].key for found in each for x in weights}
    if len(keys) < len(weights) * len(each):
        return False
    used = {x for x in others if x is not None and x.op == CONSTANT}
    return not any(x.attributes[0][1].key in keys for x in used)


def kinds_of(values: Sequence[Value]) -> list[int]:
    """Equal numbers for values that are computed alike, their operands apart. Types and attributes that many values
    have are one object in most graphs, and are compared once."""
    held: dict[object, int] = {}
    numbers: dict[object, int] = {}
    objects = [(v.op, id(v.type), id(v.attributes), id(v.bodies)) for v in values]
    for key, value in dict(zip(objects, values, strict=True)).items():
        alike = (value.op, value.type, value.attributes, value.bodies)
        held[key] = numbers.setdefault(alike, len(numbers))
    return list(map(held.__getitem__, objects))


def as_text(kinds: Sequence[object]) -> str:
    """One letter for each, of which those that are equal have the same."""
    codes = {kind: chr(min(code, sys.maxunicode)) for code, kind in enumerate(dict.fromkeys(kinds))}
    return "".join(map(codes.__getitem__, kinds))


def come_often(text: str) -> bool:
    """False where so few rows come as often as there must be layers that there are no layers: each place of a layer
    begins a row that comes in each of the others, but for the last one, in which it may end behind the layers."""
    counts = Counter([text[index : index + GRAM] for index in range(len(text) - GRAM + 1)]).values()
    return sum([count for count in counts if count >= LEAST - 1]) >= (LEAST - 1) * SHORTEST


def distance_of(text: str, size: int = GRAM) -> int:
    """After how many others most letters come again, so many in a row; 0 where that is too soon, or not often
    enough."""
    seen: dict[str, int] = {}  # a part of a text is made and looked up in a third of the time that a tuple takes
    found = defaultdict[int, int](int)
    for index in range(len(text) - size + 1):
        gram = text[index : index + size]
        if gram in seen:
            found[index - seen[gram]] += 1
        seen[gram] = index
    best = max(found, key=found.__getitem__, default=0)
    return best if best >= SHORTEST and found[best] >= (LEAST - 2) * best else 0


def longest_run(kinds: Sequence[int], length: int) -> tuple[int, int]:
    """From where to where each comes again after so many others, counted to the end of the last time."""
    best, index = (0, 0), 0
    for same, group in groupby(map(int.__eq__, kinds, kinds[length:])):
        size = len(list(group))
        if same and size > best[1] - best[0]:
            best = (index, index + size)
        index += size
    return best[0], best[1] + length


def last_uses(values: Sequence[Value], results: Sequence[Value], place: Mapping[Value, int]) -> list[int]:
    """The place of the last user of each value."""
    last = list(range(len(values)))
    for index, value in enumerate(values):
        for x in value.inputs:
            if x is not None and x in place:
                last[place[x]] = index
    for each in results:
        if each in place:
            last[place[each]] = len(values)
    return last


def narrowest(last: Sequence[int], start: int, length: int) -> list[int]:
    """The first places, from `start` on, across which the fewest values of one layer are used."""
    counts = [0] * (2 * length + 1)
    for index in range(start, start + 2 * length):
        counts[index - start] += 1  # from after it on
        counts[min(last[index], index + length, start + 2 * length) - start] -= 1
    crossing, least, found = 0, len(last), [start]
    for offset in range(2 * length - 1):
        crossing += counts[offset]
        if offset >= length - 1 and crossing <= least:
            found = [*(found if crossing == least else ()), start + offset + 1 - length]
            least = crossing
    return found[:NARROW]


def used_outside(
    values: Sequence[Value], results: Sequence[Value], place: Mapping[Value, int], start: int, length: int, count: int
) -> list[set[int]]:
    """By layer, the values that are used outside of it, by their places in it."""
    found: list[set[int]] = [set[int]() for _ in range(count)]
    end = start + length * count
    for index in range(start, len(values)):
        layer = (index - start) // length
        for x in values[index].inputs:
            at = -1 if x is None or x not in place else place[x]
            if start <= at < end and (at - start) // length != layer:
                found[(at - start) // length].add((at - start) % length)
    for each in results:
        at = place.get(each, -1)
        if start <= at < end:
            found[(at - start) // length].add((at - start) % length)
    return found


def matched(first: Sequence[Value], other: Sequence[Value]) -> dict[Value, Value] | None:
    """What each value of the first layer, and each that it uses, is in another; None where that is none like it."""
    found = dict(zip(first, other, strict=True))
    own = set(other)
    ours = [x for value in first for x in (*value.inputs, value)]  # each behind its operands, which are as many then
    theirs = [x for value in other for x in (*value.inputs, value)]
    if len(ours) != len(theirs):
        return None
    for x, y in zip(ours, theirs, strict=True):
        if x is None or y is None:
            if x is not y:
                return None
        elif x in found:
            if found[x] is not y:
                return None
        elif x is not y and (y in own or not may_stand(x, y)):
            return None
        else:
            found[x] = y
    return found


def may_stand(x: Value, y: Value) -> bool:
    """Whether a value that a layer uses may be another one in a layer like it: a value that is computed, or a
    parameter, for another; a constant for an equal one, or a weight for a weight."""
    if x.type is not y.type and x.type != y.type:
        return False
    if x.inputs or y.inputs or x.op == PARAM or y.op == PARAM:
        return (x.op == PARAM or bool(x.inputs)) and (y.op == PARAM or bool(y.inputs))
    if x.attributes is y.attributes or x.op != y.op or x.op != CONSTANT:
        return x.op == y.op and x.attributes == y.attributes
    one, other = x.attributes[0][1], y.attributes[0][1]
    return (is_weight(one) and is_weight(other)) or one.key == other.key


def is_weight(blob: Blob) -> bool:
    """Whether a content is a weight, which is no property of the program, and made of no other."""
    named = blob.name and blob.dtype.is_float and blob.shape
    return bool(named) and blob.turned is None and not blob.parts and not blob.of and blob.is_weight


def changes(x: Value, each: Iterable[Mapping[Value, Value]]) -> bool:
    """Whether a value that layers use is another in some of them, and no constant equal to it."""
    for found in each:
        y = found[x]
        if y is x:
            continue
        if x.inputs or x.op == PARAM:
            return True
        if x.op == CONSTANT and x.attributes is not y.attributes and x.attributes[0][1].key != y.attributes[0][1].key:
            return True
    return False


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
    first layer whose origin it has, where there is one; what the parameters and weights in it stand for; and
    what stands for its results."""

    values: Sequence[tuple[Value, Value | None]]
    opened: Mapping[Value, Value]
    slots: Mapping[Blob, Value]
    results: Sequence[Value]

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
        return cls(values, {stands: x for x, stands in opened.items()}, slots, after.results)


def put(graph: Graph, made: Iterable[tuple[Template, Layers, Mapping[Value, Value]]]) -> Graph:
    """The graph with templates in the place of layers, each with those that it was made of, and with what their values
    are in this one; the lowest first."""
    swaps: dict[Value, Value] = {}
    known: dict[object, Blob] = {}
    for template, layers, each in made:
        new: dict[Value | None, Value] = {}
        needed = {stands: each[x] for stands, x in template.opened.items()}
        left = [x for x in needed.values() if x.inputs and x not in swaps]
        if left:
            swaps.update(walk.rebuild(left, swaps))
        for stands, x in needed.items():
            new[stands] = swaps.get(x, x)
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


def below(blob: Blob) -> Iterator[Blob]:
    """The contents that another is made of, as far as it tells."""
    yield from blob.of
    yield from blob.parts
    if blob.turned is not None:
        yield blob.turned


def is_made_of(blob: Blob, slots: Mapping[Blob, Value]) -> bool:
    """Whether a content is one of the slots, or made of one."""
    return blob in slots or any(is_made_of(each, slots) for each in below(blob))


def can_be_remade(blob: Blob, slots: Mapping[Blob, Value]) -> bool:
    """Whether a content can be made of other weights: one of the slots, one transposed, or what is computed of some by
    a function that is known, and has a name only where that is the name of one."""
    if blob in slots or not is_made_of(blob, slots):
        return True
    if blob.parts or not all(can_be_remade(each, slots) for each in below(blob)):
        return False
    named = not blob.name or any(blob.name == each.name for each in slots)
    return named if blob.compute is not None else blob.turned is not None and not blob.of


def remade(blob: Blob, blobs: Mapping[Blob, Blob], known: dict[object, Blob]) -> Blob:
    """A content that can be remade, of other weights: `blobs` has that which each of the slots is now, and `known` what
    was made already, so that of weights that are one it is one, too."""
    if blob in blobs:
        return blobs[blob]
    if not blob.of and blob.turned is None:
        return blob
    made = [remade(each, blobs, known) for each in below(blob)]
    key = (blob, *[each.key for each in made])
    found = known.get(key)
    if found is None:
        found = known[key] = made_of(blob, made, blobs)
    return found


def made_of(blob: Blob, others: Sequence[Blob], blobs: Mapping[Blob, Blob]) -> Blob:
    """A content, made of others than it was."""
    if blob.compute is None:
        return transposed_blob(others[0])
    name = next((new.name for old, new in blobs.items() if old.name == blob.name), "") if blob.name else ""
    return computed_blob(blob.dtype, blob.shape, blob.compute, others, name)
