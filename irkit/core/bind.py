"""A graph with other contents of its weights, by name: those of parameters, and of constants that have a name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, cast

import attrs

from irkit.core.blobs import Blob, blobs_in, joined_blob
from irkit.core.ir import Graph, Value, constant, require_graph, vertex
from irkit.core.types import same_types
from irkit.core.walk import post_order
from irkit.errors import GraphError


def bound_graph(graph: Graph, weights: Mapping[str, Blob], *, strict: bool = True) -> Graph:
    """The graph with `weights` in the place of its parameters and named contents of these names; itself where there is
    none. What is tied to a content is bound with it, and what is known to be its transpose, or put together of several,
    follows. A parameter that is bound is none any more.

    Raises GraphError for a weight of another type than what it stands for; for a name that the graph does not have,
    unless it is not `strict`; and where a constant was computed from one that is bound.
    """
    require_graph(graph)
    ports = [port.name for port in graph.signature.params]
    names = [*ports, *(p.origin.node for p in graph.params[len(ports) :])]
    work = Bound(weights)
    given: dict[Value, Value] = {}
    for name, each in zip(names, graph.params, strict=True):
        if name in weights:
            work.used.add(name)
            require_type(name, weights[name], each.type)
            given[each] = constant(attrs.evolve(weights[name], name=name)).with_origin(each.origin)
    results = work.results(graph, given)
    unknown = sorted(weights.keys() - work.used)
    if unknown and strict:
        known = {*names, *work.names}
        near = get_close_matches(unknown[0], sorted(known), 1)
        raise GraphError(
            f"the graph has no parameter and no weight called {unknown[0]!r}"
            + (f", nor {len(unknown) - 1} more of the names given" if unknown[1:] else ""),
            hint=f"did you mean {near[0]!r}?"
            if near
            else "strict=False, in a shell --no-strict, leaves out what the graph lacks",
        )
    if not given:
        return graph.with_results(results)
    kept = [i for i, each in enumerate(graph.params) if each not in given]
    signature = graph.signature
    signature = attrs.evolve(signature, params=tuple(signature.params[i] for i in kept if i < len(ports)))
    params = tuple(graph.params[i] for i in kept)
    return attrs.evolve(graph, params=params, results=results, signature=signature)


def require_type(name: str, given: Blob, wanted: Any) -> None:
    """Raises GraphError where a weight is of another type than what it is for."""
    if same_types(given.type, wanted) is not True:
        fixes = same_types(given.type, wanted) is None
        raise GraphError(
            f"{name} is {given.type!r}, and the graph has {wanted!r} there",
            hint="capture the model with that dimension fixed" if fixes else "give it in that element type and shape",
        )


@attrs.define(eq=False)
class Bound:
    """What one run has bound: contents by themselves, and bodies, each with its original; the names that were used, and
    all that there are. `stored` are the contents by the storage of those for which they stand."""

    weights: Mapping[str, Blob]
    blobs: dict[int, tuple[Blob, Blob]] = attrs.field(factory=dict[int, tuple[Blob, Blob]])
    stored: dict[int, Blob] = attrs.field(factory=dict[int, Blob])
    bodies: dict[int, tuple[Graph, Graph]] = attrs.field(factory=dict[int, tuple[Graph, Graph]])
    used: set[str] = attrs.field(factory=set[str])
    names: set[str] = attrs.field(factory=set[str])

    def results(self, graph: Graph, given: Mapping[Value, Value]) -> tuple[Value, ...]:
        """The results of a graph over the weights; `given` are constants in the place of parameters."""
        order = post_order(graph.results)
        for value in order:
            for blob in (each for _, a in value.attributes for each in blobs_in(a)):
                self.note(blob)
        new: dict[Value | None, Value | None] = {None: None, **given}
        for value in order:
            if value not in given:
                inputs = tuple([new[v] for v in value.inputs])
                attributes = tuple([(name, self.attribute(each)) for name, each in value.attributes])
                bodies = tuple([self.body(body) for body in value.bodies])
                before = (*value.inputs, *(a for _, a in value.attributes), *value.bodies)
                after = (*inputs, *(a for _, a in attributes), *bodies)
                same = all(a is b for a, b in zip(before, after, strict=True))
                new[value] = value if same else vertex(value.op, inputs, attributes, bodies, value.type, value.origin)
        return tuple(new[v] for v in graph.results)  # type: ignore[misc]

    def body(self, body: Graph) -> Graph:
        """A body with the weights in it."""
        if id(body) not in self.bodies:
            self.bodies[id(body)] = body, body.with_results(self.results(body, {}))
        return self.bodies[id(body)][1]

    def note(self, blob: Blob) -> None:
        """Looks whether a content is bound by its name, and so whatever else lies in its storage."""
        self.names.update([blob.name] if blob.name else [])
        found = self.weights.get(blob.name) if blob.name else None
        if found is not None:
            self.used.add(blob.name)
            require_type(blob.name, found, blob.type)
            if blob.source is not None:
                self.stored.setdefault(id(blob.source), found)
        for each in (*blob.parts, *([] if blob.turned is None else [blob.turned])):
            self.note(each)

    def attribute(self, value: Any) -> Any:
        """An attribute with the weights in it; the same object where there is none."""
        if blobs_in(value) and type(value) is tuple:
            given = cast("tuple[Any, ...]", value)
            found = tuple(map(self.attribute, given))
            return given if all(a is b for a, b in zip(given, found, strict=True)) else found
        return self.blob(value) if isinstance(value, Blob) else value

    def blob(self, blob: Blob) -> Blob:
        """What stands for a content."""
        if id(blob) not in self.blobs:
            self.blobs[id(blob)] = blob, self.replaced(blob)
        return self.blobs[id(blob)][1]

    def replaced(self, blob: Blob) -> Blob:
        """The weight of that name or storage; what follows from such ones; else the content itself."""
        found = self.weights.get(blob.name) if blob.name else None
        tied = None if blob.source is None else self.stored.get(id(blob.source))
        if found is None and tied is not None and tied.type == blob.type:
            found = tied
        if found is not None:
            return attrs.evolve(found, name=blob.name)
        if blob.turned is not None and (turned := self.blob(blob.turned)) is not blob.turned:
            return Blob(blob.dtype, blob.shape, lambda: turned.read().T, blob.name, turned=turned)
        if blob.parts:
            parts = [self.blob(part) for part in blob.parts]
            if any(a is not b for a, b in zip(parts, blob.parts, strict=True)):
                return joined_blob(parts, blob.name)
        if tied is not None or any(self.blob(each) is not each for each in blob.of):
            raise GraphError(
                f"{blob!r} was computed from a weight that is bound, and would stay what it was",
                hint="bind the weights of the graph as it was lowered (program.graph), and optimize it afterwards",
            )
        return blob
