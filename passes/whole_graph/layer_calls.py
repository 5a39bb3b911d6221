"""Layers that are alike as calls of one body, until they are written out: as they were, or rewritten as one.

Capture makes layers that are alike of the values of the first, so that which they are is known without a search. Each
then is one value, a Call of what the first computes, and nobody walks over what is inside until all is known of sizes;
then the body is rewritten once, and each Call becomes what came of it. Such a Call is known by its attribute, which
holds what the values of the first are in its layer; no other graph has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from irkit.core import walk
from irkit.core.ir import Graph, Value, item, param, vertex
from irkit.core.types import Tuple, Type, dims_of
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, SHAPE_VECTOR
from irkit.dims import symbols_of
from irkit.rewriting.firings import Told
from irkit.rewriting.numbering import is_random
from passes.analysis.spans import LOOKED_UP, WHOLE_VIEWS
from passes.whole_graph.equal_layers import (
    Rewriting,
    Template,
    identity_of,
    put,
    template_of,
    with_first_constants,
)
from passes.whole_graph.layer_search import (
    LEAST,
    SHORTEST,
    Layers,
    have_own_weights,
    images_of,
    is_weight,
    is_weight_of,
    may_stand,
)

LAYER = "layer"
"""The attribute of a Call that is a layer."""

Seen = Mapping[Value, Value]
"""What each value of the first of some layers is in one of them."""


@attrs.frozen(eq=False)
class Alike:
    """Layers of a model that compute the same: what the first is `given`, what it computes, operands first, what of
    that it may give, and what each of these values is in every layer, the first included."""

    given: Sequence[Value]
    values: Sequence[Value]
    results: Sequence[Value]
    each: Sequence[Seen]


@attrs.frozen(eq=False)
class Layer:
    """One of some layers: what it is given, and what each value of the first is in it."""

    alike: Alike
    seen: Seen
    operands: Sequence[Value]


# ---------------------------------------------------------------------------------------------- as calls


def with_calls(roots: Sequence[Value], params: Sequence[Value], groups: Sequence[Alike]) -> list[Value] | None:
    """What roots are where the layers of some groups are calls, over the parameters of a graph; None where they cannot
    be, as where something in one of them is used outside."""
    known = {symbol for kind in walk.types(params) for dim in dims_of(kind) for symbol in symbols_of(dim)}
    kept = [alike for alike in groups if can_be_called(alike, known)]
    if not kept:
        return None
    longer = [longer_by_one(alike, known) for alike in kept]
    found = reached_layers(roots, longer) or (None if longer == kept else reached_layers(roots, kept))
    return None if found is None else called(roots, *found)


def longer_by_one(alike: Alike, known: set[Any]) -> Alike:
    """Layers with the one below them, where that is like them and may be a call, too; the very same elsewhere."""
    more = with_lowest(alike)
    return more if more is not alike and can_be_called(more, known) else alike


def with_lowest(alike: Alike) -> Alike:
    """The same layers with one more that stands before the first, where what that is given is computed alike: capture
    tells the lowest layer apart by how its operands lie in memory."""
    handed = [(x, given) for x in alike.results for given in alike.given if is_handed_on(alike, x, given)]
    found = images_of(set(alike.values), handed)
    if found is None or not found.keys() >= {*alike.values, *alike.given}:
        return alike
    return attrs.evolve(alike, each=[found, *alike.each])


def is_handed_on(alike: Alike, result: Value, given: Value) -> bool:
    """Whether each of some layers is given what the one before it gives."""
    return all(after[given] is before[result] for before, after in zip(alike.each, alike.each[1:], strict=False))


def reached_layers(roots: Sequence[Value], groups: Iterable[Alike]) -> Reached | None:
    """What roots reach where the layers of some groups are one value each; None where that cannot be, or where none of
    them is reached."""
    owners: dict[Value, tuple[Layer, int]] = {}
    inside: set[Value] = set()
    for alike in groups:
        for seen in alike.each:
            layer = Layer(alike, seen, [seen[x] for x in alike.given])
            inside.update(map(seen.__getitem__, alike.values))
            owners.update({seen[x]: (layer, place) for place, x in enumerate(alike.results)})
    found = reached(roots, owners, inside.difference(owners))
    return found if found is not None and found[1] else None


Reached = tuple[list["Value | Layer"], dict[int, set[int]]]
"""The values outside of layers, and the layers, operands first; and which results of layers that are alike are used, by
the identity of these."""


def can_be_called(alike: Alike, known: set[Any]) -> bool:
    """Whether layers are many and long enough, and nothing is in them that is looked for where a graph is made."""
    values = alike.values
    if len(alike.each) < LEAST or len(values) < SHORTEST:
        return False
    if any(is_looked_for(v) or v.bodies or not v.inputs or is_random(v) for v in values):
        return False
    if not all(known.issuperset(symbols_of(dim)) for kind in walk.types(values) for dim in dims_of(kind)):
        return False
    if any(seen[x].type != x.type for seen in alike.each for x in alike.results):
        return False
    given = [(x, seen[x]) for seen in alike.each for x in alike.given]
    if not all(x is y or is_weight_of(y, x) or may_stand(x, y) for x, y in given):
        return False
    return not any(map(counts_places, {y for _, y in given if y.inputs}))


def is_looked_for(value: Value) -> bool:
    """Whether a graph is looked through for such a value as it is made."""
    return value.op in LOOKED_FOR and not (value.op == "Gather" and has_its_places(value))


def has_its_places(gather: Value) -> bool:
    """Whether a Gather takes constant places along an axis of known size, which has them."""
    whole, places = gather.inputs
    blob = None if places is None else places.blob
    size = None if whole is None else whole.shape[gather.attribute("axis", 0)]
    if type(size) is not int or blob is None or blob.size > FEW:
        return False
    return bool((blob.array >= -size).all() and (blob.array < size).all())


FEW = 64
"""Up to this many places are looked at."""


def counts_places(value: Value) -> bool:
    """Whether a value holds places that are counted from either end."""
    while value.op in WHOLE_VIEWS and value.inputs[0] is not None:
        value = value.inputs[0]
    return value.op == "BitwiseAnd"


LOOKED_FOR = LOOKED_UP | {"BitwiseAnd", SHAPE_VECTOR, CALL}
"""Operators that are looked for in a graph as it is made: places in inputs, and numbers made of sizes."""


def reached(roots: Sequence[Value], owners: Mapping[Value, tuple[Layer, int]], inside: set[Value]) -> Reached | None:
    """What roots reach, of which some values are what layers give; None where something that is `inside` is used, or a
    layer is given what hangs on what it gives."""
    order: list[Value | Layer] = []
    used: dict[int, set[int]] = {}
    entered = set[Value | Layer | None]((None,))
    done = set[Value | Layer | None]((None,))
    path: list[tuple[Value | Layer | None, Iterator[Value | None]]] = [(None, iter(roots))]
    while path:
        node, rest = path[-1]
        for value in rest:
            at = None if value is None else owners.get(value)
            if at is not None:
                used.setdefault(id(at[0].alike), set()).add(at[1])
            elif value in inside:
                return None
            operand = value if at is None else at[0]
            if operand in done:
                continue
            if operand in entered or operand is None:
                return None
            entered.add(operand)
            path.append((operand, iter(operand.operands if isinstance(operand, Layer) else operand.inputs)))
            break
        else:
            path.pop()
            if node is not None:
                done.add(node)
                order.append(node)
    return order, used


def called(
    roots: Sequence[Value],
    order: Sequence[Value | Layer],
    used: Mapping[int, set[int]],
) -> list[Value]:
    """What roots are over calls of what layers that are alike compute."""
    bodies: dict[int, Body] = {}
    new: dict[Value | None, Value | None] = {None: None}
    for node in order:
        if not isinstance(node, Layer):
            inputs = tuple(map(new.__getitem__, node.inputs))
            new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
            continue
        alike, seen = node.alike, node.seen
        if id(alike) not in bodies:
            bodies[id(alike)] = Body.of(alike, sorted(used[id(alike)]))
        body = bodies[id(alike)]
        operands = tuple([new[seen[x]] for x in body.given])
        first = seen[body.results[0]]
        whole = vertex(CALL, operands, ((LAYER, node),), (body.graph,), body.type, first.origin)
        if len(body.results) == 1:
            new[first] = whole
        else:
            new.update({seen[x]: item(whole, i).with_origin(seen[x].origin) for i, x in enumerate(body.results)})
    return [each for root in roots if (each := new[root]) is not None]


@attrs.frozen(eq=False)
class Body:
    """What the first of some layers computes as a graph: what stands for its parameters, in the order in which they are
    met from the results on, as all values of graphs stand, and those of its results that are used; and the type of a
    call of it."""

    graph: Graph
    given: Sequence[Value]
    results: Sequence[Value]
    type: Type

    @classmethod
    def of(cls, alike: Alike, used: Sequence[int]) -> Body:
        """The body of layers of which these results are used, by their places."""
        results = [alike.results[place] for place in used]
        new = {x: param(x.type).with_origin(x.origin) for x in alike.given}
        built = walk.rebuild(results, new)
        known = {made: x for x, made in new.items()}
        inner = tuple([built[x] for x in results])
        params = tuple([value for value in walk.post_order(inner) if value in known])
        types = tuple([x.type for x in results])
        kind = types[0] if len(types) == 1 else Tuple(types)
        return cls(Graph(params, inner), [known[each] for each in params], results, kind)


# ---------------------------------------------------------------------------------------------- written out


def is_layer(value: Value) -> bool:
    """Whether a Call is a layer."""
    return bool(value.attributes) and value.attributes[0][0] == LAYER


def operator_count(graph: Graph) -> int:
    """How many operators there are when the layers that are calls are written out."""
    bodies = [value.bodies[0] for value in graph.order if value.op == CALL and is_layer(value)]
    return len(graph) - len(bodies) + sum(map(len, bodies))


def written_out(graph: Graph) -> Graph:
    """The graph with each layer that is a call as it was; the very graph where none is."""
    while group := next(iter((found := layer_calls_of(graph)).groups()), None):
        graph = found.put(graph, group, {})
    return graph


def rewritten_layers(graph: Graph, rewriting: Rewriting, told: Told | None = None) -> Graph | None:
    """The graph with the layers that are calls rewritten as the first of them is by itself, as `rewrite_layers` does
    with those that it finds, or written out; None where none of them can be rewritten so. Those of one body come after
    those of another that stand below them."""
    done, some, now = set[int](), False, graph
    while True:
        found = layer_calls_of(now)
        group = next((each for each in found.groups() if id(each[0].bodies[0]) not in done), None)
        if group is None:
            break
        done.add(id(group[0].bodies[0]))
        made: dict[Value, Put] = {}
        for part in calls_by_surroundings(now, group, found.gives):
            made |= rewritten_alike(now, part, found, rewriting, told)
        if made:
            some, now = True, found.put(now, group, made)
    return with_first_constants(written_out(now), graph) if some else None


def rewritten_alike(
    graph: Graph, calls: Sequence[Value], found: Calls, rewriting: Rewriting, told: Told | None
) -> dict[Value, Put]:
    """What stands for layers with equal surroundings; nothing where they cannot be rewritten as the first of them."""
    if len(calls) < 2:
        return {}
    layers = layers_of_calls(calls, found.gives)
    if not are_apart(graph, calls, layers):
        return {}
    sealed = made_by_layers([x for x in layers.given if x.inputs])
    template = template_of(graph, layers, rewriting, told, sealed)
    if template is None:
        return {}
    return {call: (template, layers, each) for call, each in zip(calls, layers.each, strict=True)}


def made_by_layers(values: Sequence[Value]) -> set[Value]:
    """Those of some values that are computed with matrices of weights, as what a decoder is given of its encoder is:
    what is below them would be rewritten for each of those that use it, and they say nothing to rules. What is looked
    up in a matrix, as positions are, may say something."""
    made = set[Value | None]()
    for value in walk.post_order(values):
        with_weights = value.op not in LOOKED_FOR and any(map(is_matrix, value.inputs))
        if value.op == CALL or with_weights or not made.isdisjoint(value.inputs):
            made.add(value)
    return {value for value in values if value in made}


def is_matrix(value: Value | None) -> bool:
    """Whether a value is a weight of two axes or more."""
    return value is not None and value.op == CONSTANT and value.rank > 1 and is_weight(value.attributes[0][1])


Put = tuple[Template, Layers, Mapping[Value, Value]]
"""What stands for a layer, among which, and what each value of the first is in it."""


@attrs.frozen(eq=False)
class Calls:
    """The layers of a graph that are calls, in order, and what each of them gives."""

    calls: Sequence[Value]
    gives: Mapping[Value, Sequence[Value]]

    def groups(self) -> list[list[Value]]:
        """Those that are calls of one body."""
        found: dict[int, list[Value]] = {}
        for call in self.calls:
            found.setdefault(id(call.bodies[0]), []).append(call)
        return list(found.values())

    def put(self, graph: Graph, group: Sequence[Value], made: Mapping[Value, Put]) -> Graph:
        """The graph with what was made in the place of calls of one body; the others of them written out."""
        whole, left = dict(made), [call for call in group if call not in made]
        if left:
            layers = bodies_of_calls(left, self.gives)
            template = as_it_is(layers)
            whole |= {call: (template, layers, each) for call, each in zip(left, layers.each, strict=True)}
        return put(graph, [whole[call] for call in group])


def layer_calls_of(graph: Graph) -> Calls:
    """The layers of a graph that are calls."""
    calls = [value for value in graph.order if value.op == CALL and is_layer(value)]
    items: dict[Value, dict[int, Value]] = {call: {} for call in calls}
    for value in graph.order if calls else ():
        if value.op == ITEM and (whole := value.inputs[0]) is not None and whole in items:
            items[whole][value.attributes[0][1]] = value
    return Calls(calls, {call: results_of(call, items[call]) for call in calls})


def results_of(call: Value, items: Mapping[int, Value]) -> list[Value]:
    """What a call gives, in order: a new value for a result that nobody uses."""
    if not isinstance(call.type, Tuple):
        return [call]
    return [items.get(place) or item(call, place) for place in range(len(call.type.items))]


def calls_by_surroundings(
    graph: Graph, calls: Sequence[Value], gives: Mapping[Value, Sequence[Value]]
) -> list[list[Value]]:
    """Layers by what they are given beside weights, parameters and what one gives to the next, and those by themselves
    that give something else which an operator outside computes with: both are seen by rules."""
    given = list(zip(*(call.inputs for call in calls), strict=True))
    handed = {value for call in calls for value in gives[call]}
    around = [column for column in given if handed.isdisjoint(column)]
    kept = [column for column in zip(*(gives[call] for call in calls), strict=True) if not is_handed(column, given)]
    shown = {value for column in kept for value in column}
    seen = shown.intersection(x for value in graph.order for x in value.inputs if x is not None) if shown else shown
    alike: dict[Any, list[Value]] = {}
    for place, call in enumerate(calls):
        alone = not seen.isdisjoint(gives[call])
        key = tuple([column[place] if is_computed(column[place]) else None for column in around])
        alike.setdefault((call if alone else None, key), []).append(call)
    return list(alike.values())


def is_handed(results: Sequence[Value], given: Sequence[Sequence[Value | None]]) -> bool:
    """Whether one of some results is given to another layer."""
    return any(not set(results).isdisjoint(column) for column in given)


def is_computed(value: Value | None) -> bool:
    """Whether a value is computed of others."""
    return value is not None and bool(value.inputs)


def layers_of_calls(calls: Sequence[Value], gives: Mapping[Value, Sequence[Value]]) -> Layers:
    """Layers that are calls of one body, told of the first of them, which is written out."""
    first, body = calls[0], calls[0].bodies[0]
    built = walk.rebuild(body.results, dict(zip(body.params, first.inputs, strict=True)))  # type: ignore[arg-type]
    values = [built[value] for value in body.order if value.inputs]
    given = [x for x in dict.fromkeys(first.inputs) if x is not None]
    results = [built[value] for value in body.results]
    return Layers(values, each_of(calls, gives, values, first.inputs, results), given, results)


def bodies_of_calls(calls: Sequence[Value], gives: Mapping[Value, Sequence[Value]]) -> Layers:
    """The same, told of the body and its parameters."""
    body = calls[0].bodies[0]
    values = [value for value in body.order if value.inputs]
    return Layers(values, each_of(calls, gives, values, body.params, body.results), body.params, body.results)


def each_of(
    calls: Sequence[Value],
    gives: Mapping[Value, Sequence[Value]],
    values: Sequence[Value],
    given: Sequence[Value | None],
    results: Sequence[Value],
) -> list[Mapping[Value, Value]]:
    """What is in each of some calls what is given, what is computed, and what is given back. Of what is computed that
    is a value as it was met, which tells where it comes from."""
    layer: Layer = calls[0].attributes[0][1]
    met = {identity_of(x.origin): x for x in reversed(layer.alike.values)}
    known = [(value, x) for value in values if (x := met.get(identity_of(value.origin))) is not None]
    each: list[Mapping[Value, Value]] = []
    for call in calls:
        seen: Seen = call.attributes[0][1].seen
        found: dict[Any, Any] = {value: seen[x] for value, x in known}
        found.update(zip(given, call.inputs, strict=True))
        found.update(zip(results, gives[call], strict=True))
        each.append(found)
    return each


def are_apart(graph: Graph, calls: Sequence[Value], layers: Layers) -> bool:
    """Whether no weight is used by two of the layers, or by one and something else, and what is one value in the first
    is one in each."""
    own = set(calls)
    others = (x for value in graph.order if value not in own for x in value.inputs)
    firsts = calls[0].inputs
    places = [firsts.index(x) for x in firsts]
    one = all(call.inputs[at] is x for call in calls for at, x in zip(places, call.inputs, strict=True))
    return one and have_own_weights(layers.given, layers.each, (*graph.results, *others))


def as_it_is(layers: Layers) -> Template:
    """The template of layers, told of their body, that stay what they are."""
    known = layers.each[0]
    values = [(value, value if value in known else None) for value in layers.first]
    return Template(values, {x: x for x in layers.given}, {}, layers.results, ())
