"""Calls made of regions of a graph, and Calls written out again.

A region is what one call of a module computed: the values whose origin says so. Its values become the body of a Call,
over the values from outside that they use. Bodies that are equal are one graph, so that a file holds each once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs

from irkit.core import walk
from irkit.core.blobs import SMALL, Blob
from irkit.core.ir import Graph, Port, Signature, Value, item, param, require_graph
from irkit.core.origins import Origin, plain
from irkit.core.types import Tuple
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.onnx.writing.inlining import expand_calls
from irkit.support.uncollected import without_collector


def inline(graph: Graph, predicate: Callable[[Value], bool] | None = None) -> Graph:
    """The graph with each Call written out of which the predicate is true, in bodies too; all where there is none. The
    graph itself where nothing changes.

    The predicate is asked of the Call: `call.bodies[0]` is the body, whose `name` is that of the function, and
    `call.origin.module` the module that it was. A Call inside a body that is written out is asked of as well.
    """
    require_graph(graph)
    return expand_calls(graph, predicate)


@attrs.frozen
class Outlined:
    """A graph with Calls, and the paths of what could not become one, each with the reason."""

    graph: Graph
    left: tuple[tuple[str, str], ...] = ()


@without_collector
def outline(graph: Graph, name_of: Callable[[str], str | None], *, inside: bool = False) -> Outlined:
    """The graph with a Call for each call of a module, in the place of the values that it computed.

    `name_of` gives for the path of a module the name of its function, or None for one that shall not be one. Modules
    in modules become Calls in bodies. Weights (named floating-point contents, and large ones) become operands of the
    Call, so that layers that are equal but for their weights share a body; with `inside` they stay in the body.
    What a module computes before and after something of which its later part is made is no function: it is left as
    it is, and named in `left`.
    """
    require_graph(graph)
    work = Outliner(name_of, inside)
    found = work.graph(graph, ())
    return Outlined(found, tuple(work.left.items()))


@attrs.define(eq=False)
class Outliner:
    """The work on one graph: regions by the module of a value, those that are none, and the bodies by what they are."""

    name_of: Callable[[str], str | None]
    inside: bool
    left: dict[str, str] = attrs.field(factory=dict[str, str])
    regions: dict[str, tuple[str, ...]] = attrs.field(factory=dict[str, tuple[str, ...]])
    bodies: dict[object, Graph] = attrs.field(factory=dict[object, Graph])
    orders: dict[object, Sequence[int]] = attrs.field(factory=dict[object, Sequence[int]])
    weights: dict[Value, str] = attrs.field(factory=dict[Value, str])

    def regions_of(self, module: str) -> tuple[str, ...]:
        """The regions in which a value of a module stands, the outermost first."""
        if module not in self.regions:
            parts = module.split(".")
            paths = (".".join(parts[: i + 1]) for i in range(len(parts)))
            self.regions[module] = tuple(p for p in paths if p and self.name_of(plain(p)) is not None)
        return tuple(p for p in self.regions[module] if p not in self.left)

    def graph(self, graph: Graph, around: tuple[str, ...]) -> Graph:
        """A graph that stands in some regions, with those inside as Calls."""
        while True:
            region = self.placed(graph, len(around))
            torn = torn_region(graph, region)
            if not torn:
                break
            self.left[torn] = "what it computes is used between, by what it goes on with"
        members: dict[str, list[Value]] = {}
        for value, path in region.items():
            if path:
                members.setdefault(path, []).append(value)
        return self.rebuilt(graph, region, members, around) if members else graph

    def placed(self, graph: Graph, depth: int) -> dict[Value, str]:
        """The region of each value at a depth, "" for one that stands in none."""
        found: dict[Value, str] = {}
        for value in graph.order:
            if value.op in (PARAM, CONSTANT) or not value.inputs:
                found[value] = ""
            elif value.op == ITEM:
                found[value] = found[value.inputs[0]]  # type: ignore[index]
            else:
                regions = self.regions_of(value.origin.module)
                found[value] = regions[depth] if len(regions) > depth else ""
        return found

    def rebuilt(
        self, graph: Graph, region: Mapping[Value, str], members: Mapping[str, list[Value]], around: tuple[str, ...]
    ) -> Graph:
        """The graph with the members of each region in the body of a Call."""
        users, results = graph.users, set(graph.results)
        new: dict[Value, Value] = {}
        for value in in_order(graph, region, members):
            path = region[value]
            if not path:
                inputs = tuple([None if v is None else new[v] for v in value.inputs])
                same = all(a is b for a, b in zip(inputs, value.inputs, strict=True))
                new[value] = value if same else value.with_inputs(inputs)
            elif value not in new:
                outputs = [
                    v
                    for v in members[path]
                    if v in results or (type(v.type) is not Tuple and any(region[u] != path for u in users[v]))
                ]
                new |= self.called(path, members[path], self.ordered(path, members[path], outputs), around, new)
        return graph.with_results(new[r] for r in graph.results)

    def ordered(self, path: str, members: Sequence[Value], outputs: Sequence[Value]) -> list[Value]:
        """The results of a region in the order that those of an equal one before it have."""
        known = hashes_of(members)
        mine = [known[v] for v in outputs]
        order = self.orders.setdefault((self.name_of(plain(path)), tuple(sorted(mine))), mine)
        return sorted(outputs, key=lambda v: order.index(known[v]))

    def called(
        self,
        path: str,
        members: Sequence[Value],
        outputs: Sequence[Value],
        around: tuple[str, ...],
        new: Mapping[Value, Value],
    ) -> dict[Value, Value]:
        """The outputs of a region as results of a Call over what the region uses."""
        own = set(members)
        order = walk.post_order(outputs, stop=lambda v: v not in own)
        used = dict.fromkeys(v for value in order for v in value.inputs if v is not None and v not in own)
        given = [v for v in used if not self.is_inside(v)]
        given.sort(key=self.is_named)  # weights last, each in the order in which they are used
        name = self.name_of(plain(path)) or path
        body = self.body(path, name, given, outputs, around)
        where = Origin(outputs[0].origin.node, name, path)
        parts = Tuple(tuple(v.type for v in outputs))
        several = len(outputs) > 1
        made = Value(CALL, tuple([new[v] for v in given]), (), (body,), parts if several else outputs[0].type, where)
        if not several:
            return {**dict.fromkeys(members, made), outputs[0]: made}
        items = {v: item(made, i).with_origin(v.origin) for i, v in enumerate(outputs)}
        return {**dict.fromkeys(members, made), **items}

    def is_inside(self, value: Value) -> bool:
        """Whether a value from outside is repeated in the body: a size that is fixed, a content that is no operand."""
        if value.op == SHAPE_VECTOR:
            return not value.inputs
        return value.blob is not None and (self.inside or not is_weight(value.blob))

    def is_named(self, value: Value) -> bool:
        """Whether a value is a weight, or stands for one."""
        return value.op == CONSTANT or value in self.weights

    def body(
        self, path: str, name: str, given: Sequence[Value], outputs: Sequence[Value], around: tuple[str, ...]
    ) -> Graph:
        """The body of a region, the same graph for equal ones."""
        names = unique(self.port_names(path, given))
        params = tuple(param(v.type).with_origin(Origin(node=n)) for v, n in zip(given, names, strict=True))
        for value, each in zip(given, params, strict=True):
            if self.is_named(value):
                self.weights[each] = value.blob.name if value.blob is not None else self.weights[value]
        built = walk.rebuild(outputs, dict(zip(given, params, strict=True)))
        results = ["output", *(f"output_{i}" for i in range(1, len(outputs)))]
        signature = Signature(tuple(map(Port, names)), tuple(Port(n, "output") for n in results))
        flat = Graph(params, tuple(built[v] for v in outputs), signature=signature, name=name)
        body = self.graph(flat, (*around, path))
        return self.bodies.setdefault((body.token, name, tuple(p.type for p in params)), body)

    def port_names(self, path: str, given: Iterable[Value]) -> Iterator[str]:
        """What the operands of a region are called in its body: weights as in the module, others by their place."""
        inside, count = f"{plain(path)}.", 0
        for value in given:
            if not self.is_named(value):
                yield f"input_{count}" if count else "input"
                count += 1
            else:
                name = value.blob.name if value.blob is not None else self.weights[value]
                yield name.removeprefix(inside) or "weight"


def is_weight(blob: Blob) -> bool:
    """Whether a content is one that layers which are otherwise equal have each of their own."""
    return (bool(blob.name) and blob.dtype.is_float) or blob.nbytes > SMALL


def unique(names: Iterable[str]) -> list[str]:
    """Names, each once: one that is taken gets a number."""
    found: dict[str, None] = {}
    for name in names:
        number, free = 0, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found[free] = None
    return list(found)


def torn_region(graph: Graph, region: Mapping[Value, str]) -> str:
    """A region that needs a value from outside that is made of its own; "" where there is none."""
    bits = {path: 1 << i for i, path in enumerate(dict.fromkeys(region.values()))}
    above: dict[Value, int] = {}
    for value in graph.order:
        own, mask = region[value], 0
        for v in value.inputs:
            if v is not None:
                mask |= above[v] | (0 if region[v] == own else bits[region[v]])
        if own and mask & bits[own]:
            return own
        above[value] = mask
    return ""


def in_order(graph: Graph, region: Mapping[Value, str], members: Mapping[str, list[Value]]) -> Iterator[Value]:
    """Values of a graph such that all that a region uses comes before its first value: one of each region is given."""
    needs: dict[str, list[Value]] = {
        path: [v for value in own for v in value.inputs if v is not None and region[v] != path]
        for path, own in members.items()
    }
    done: set[object] = set()
    stack: list[tuple[Value, bool]] = [(r, False) for r in reversed((*graph.params, *graph.results))]
    while stack:
        value, ready = stack.pop()
        path = region[value]
        key: object = path or value
        if key in done:
            continue
        if ready:
            done.add(key)
            yield value
            continue
        stack.append((value, True))
        operands = needs[path] if path else [v for v in value.inputs if v is not None]
        stack.extend((v, False) for v in reversed(operands) if (region[v] or v) not in done)


def hashes_of(members: Sequence[Value]) -> dict[Value, int]:
    """Equal numbers for values that are computed alike of what comes from outside."""
    found: dict[Value, int] = {}
    for value in members:
        operands = tuple(found.get(v) or ("given", v.type) if v is not None else None for v in value.inputs)
        plain_attributes = tuple((name, str(each)) for name, each in value.attributes)
        found[value] = hash((value.op, plain_attributes, len(value.bodies), value.type, operands))
    return found
