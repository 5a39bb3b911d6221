"""Where layers of a graph are alike but for their weights: stretches of the same operators, over and over."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import groupby
from operator import is_
from typing import Any

import attrs

from irkit.core import walk
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.vocabulary import CONSTANT, PARAM

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
    used = used_outside(ordered.last, start, length, count)
    like = [k for k in range(count) if used[k] <= used[0]]
    one = Stretch.of(stretches[0])
    pairs = [(stretches[k], one.matched(stretches[k])) for k in like]
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
    found = images_of(own, pairs)
    if found is None or not found.keys() >= own:
        return None
    images = {found[x] for x in first}
    given = [y for x, y in found.items() if x not in own]
    if not images.isdisjoint(walk.post_order(given)):
        return None  # what it is given hangs on what it gives
    inner = images.difference(found[x] for x in results)
    if not inner.isdisjoint(graph.results):
        return None
    return None if graph.is_used_beside(inner, images) else found


def images_of(own: set[Value], pairs: Iterable[tuple[Value, Value]]) -> dict[Value, Value] | None:
    """What each of a layer's own values, and of those that they are computed of, is in another, as far as it is reached
    from those of which that is known, each another value; None where that is none like it."""
    found: dict[Value, Value] = {}
    pending = list(pairs)
    while pending:
        x, y = pending.pop()
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
                pending.append((one, other))
            elif one is not other:
                return None
    return found if len(set(found.values())) == len(found) else None


def best_start(graph: Ordered, starts: Sequence[int], stop: int, length: int) -> int:
    """The one of some places from which most layers follow, counting one that stands before them."""
    values = graph.values

    def count(start: int) -> int:
        one, other = values[start : start + length], values[start + length : start + 2 * length]
        found = Stretch.of(one).matched(other)
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
    place_of: Any = place.get  # which gives None for the operand that is left out
    for index, value in enumerate(values):
        for x in value.inputs:
            if (at := place_of(x)) is not None:
                last[at] = index
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


def used_outside(last: Sequence[int], start: int, length: int, count: int) -> list[set[int]]:
    """By layer, the values that are used outside of it, which is after it, by their places in it; `last` are the places
    of the last users of all values."""
    ends = range(start + length, start + (count + 1) * length, length)
    return [{place for place in range(length) if last[end - length + place] >= end} for end in ends]


@attrs.frozen(eq=False)
class Stretch:
    """Values in a row, what they use and they themselves in order, and what they use beside, each with the first of its
    places in that order, and which of these are weights."""

    values: Sequence[Value]
    used: Sequence[Value | None]
    outside: Sequence[tuple[Value | None, int]]
    weights: Set[Value | None]

    @classmethod
    def of(cls, values: Sequence[Value]) -> Stretch:
        """The stretch of some values."""
        used = with_operands(values)
        own, places = set(values), dict[Value | None, int]()
        for place, x in enumerate(used):
            places.setdefault(x, place)
        outside = [(x, place) for x, place in places.items() if x not in own]
        weights = {x for x, _ in outside if x is not None and x.op == CONSTANT and is_weight(x.attributes[0][1])}
        return cls(values, used, outside, weights)

    def matched(self, other: Sequence[Value]) -> dict[Value, Value] | None:
        """What each of the values, and each that they use, is in another stretch; None where that is none like it."""
        theirs = with_operands(other)
        if len(self.used) != len(theirs):
            return None
        found: dict[Any, Any] = dict(zip(self.values, other, strict=True))
        outside = [(x, theirs[place]) for x, place in self.outside]
        found.update(outside)
        if not all(map(is_, map(found.__getitem__, self.used), theirs)):
            return None  # what is one value in one of them is two in the other
        own = set(other)
        for x, y in outside:
            if x is y or (x in self.weights and is_weight_of(y, x)):
                continue
            if x is None or y is None or y in own or not may_stand(x, y):
                return None
        found.pop(None, None)
        return found


def with_operands(values: Sequence[Value]) -> list[Value | None]:
    """The operands of each of some values, and the value behind them."""
    return [x for value in values for x in (*value.inputs, value)]


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


def is_weight_of(y: Value | None, x: Value | None) -> bool:
    """Whether a value is a weight of the type of another one."""
    if y is None or x is None or y.op != CONSTANT or (x.type is not y.type and x.type != y.type):
        return False
    blob: Blob = y.attributes[0][1]
    return bool(blob.name) and blob.turned is None and not blob.parts and not blob.of


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
