"""A graph of its own memory: for those who go on writing the tensors, arrays or files that its contents lie in."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, cast

import attrs
import numpy as np

from irkit.core.blobs import Blob, blobs_in, joined_blob, owned_blob
from irkit.core.ir import Graph, Value, require_graph, vertex
from irkit.core.walk import post_order


def freeze(graph: Graph) -> Graph:
    """The graph with a copy of each content that lies in somebody else's memory or in a file; the same object where
    there is none. It is equal to the graph, and no longer cares what becomes of these.

    Raises StaleError where a content has changed before. What has no numbers is left as it is.
    """
    require_graph(graph)
    return freezer()(graph)


def freezer() -> Callable[[Graph], Graph]:
    """`freeze` for several graphs, of which each content is copied once."""
    return Frozen().graph


@attrs.define(eq=False)
class Frozen:
    """What one run has copied: contents, by themselves and by their storage, and bodies, each with its original."""

    blobs: dict[int, tuple[Blob, Blob]] = attrs.field(factory=dict[int, tuple[Blob, Blob]])
    stored: dict[Hashable, tuple[Blob, Blob]] = attrs.field(factory=dict[Hashable, tuple[Blob, Blob]])
    bodies: dict[int, tuple[Graph, Graph]] = attrs.field(factory=dict[int, tuple[Graph, Graph]])

    def graph(self, graph: Graph) -> Graph:
        """A graph, or a body, with copies."""
        if id(graph) not in self.bodies:
            self.bodies[id(graph)] = graph, self.rebuilt(graph)
        return self.bodies[id(graph)][1]

    def rebuilt(self, graph: Graph) -> Graph:
        """The graph over new constants and bodies."""
        new: dict[Value | None, Value | None] = {None: None}
        for value in post_order(graph.results):
            inputs = tuple([new[v] for v in value.inputs])
            attributes = tuple([(name, self.attribute(each)) for name, each in value.attributes])
            bodies = tuple([self.graph(body) for body in value.bodies])
            before = (*value.inputs, *(a for _, a in value.attributes), *value.bodies)
            after = (*inputs, *(a for _, a in attributes), *bodies)
            same = all(a is b for a, b in zip(before, after, strict=True))
            new[value] = value if same else vertex(value.op, inputs, attributes, bodies, value.type, value.origin)
        return graph.with_results(new[v] for v in graph.results)  # type: ignore[misc]

    def attribute(self, value: Any) -> Any:
        """An attribute with copies of the contents in it; the same object where there is none."""
        if not any(blob.watched for blob in blobs_in(value)):
            return value
        return tuple(map(self.attribute, cast("tuple[Any, ...]", value))) if type(value) is tuple else self.blob(value)

    def blob(self, blob: Blob) -> Blob:
        """A content with memory of its own. What is known to be the transpose of another, or to be made of parts, is so
        afterwards."""
        if id(blob) not in self.blobs:
            self.blobs[id(blob)] = blob, self.copied(blob) if blob.watched else blob
        return self.blobs[id(blob)][1]

    def copied(self, blob: Blob) -> Blob:
        """The content, copied once for each storage, which has one object of its own to be known by."""
        if blob.turned is not None:
            turned = self.blob(blob.turned)
            return Blob(blob.dtype, blob.shape, lambda: turned.read().T, blob.name, turned=turned)
        if blob.parts:
            return joined_blob([self.blob(part) for part in blob.parts], blob.name)
        if blob.source is None:
            return owned_blob(np.array(blob.read(), order="K"), blob.dtype, blob.name)
        key = (id(blob.source), blob.dtype, blob.shape)
        if key not in self.stored:
            first = owned_blob(np.array(blob.read(), order="K"), blob.dtype, blob.name, source=object())
            self.stored[key] = blob, first
        first = self.stored[key][1]
        return first if first.name == blob.name else attrs.evolve(first, name=blob.name)
