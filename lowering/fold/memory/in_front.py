"""What a graph has in front of its writes: which operators may give views of what is written, between which memories,
and which views have no place. It is gathered in one walk for all writes of a graph, which come in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from functools import lru_cache
from math import inf
from typing import Any

import attrs
from torch.fx import Graph, Node

from lowering.fold.memory import storage
from lowering.records.torch_internals import C, OpOverload, pytree


@lru_cache(maxsize=1 << 12)
def may_give_a_view(target: Any) -> bool:
    """True for an operator that torch puts together of others, so that what it gives may be a view or new."""
    composite = C.DispatchKey.CompositeImplicitAutograd
    if not isinstance(target, OpOverload) or not target.has_kernel_for_dispatch_key(composite):
        return False
    return not storage.written_arguments(target) and not storage.reshapes_in_place(target)


@attrs.define(eq=False)
class Region:
    """Memories that may be one, as operators between them have it. `between` are those of these operators that no
    write has asked of yet, `touching` the ones that are given one of the memories. `readers` are the two of these
    that are read last, with when."""

    memories: list[Any]
    readers: list[tuple[float, Any]]
    between: list[Node] = attrs.field(factory=list)
    touching: list[Node] = attrs.field(factory=list)

    def take(self, other: Region) -> None:
        """Makes another region a part of this one."""
        self.memories += other.memories
        self.between += other.between
        self.touching += other.touching
        self.readers = sorted((*self.readers, *other.readers), key=lambda each: -each[0])[:2]

    def others_read_after(self, at: int, memory: Any) -> bool:
        """Whether another one of the memories is read after a place in the order."""
        return any(last > at for last, each in self.readers if each != memory)


class InFront:
    """What is known of a graph in front of a write; each write asks of what came since the one before it."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = list(graph.nodes)
        self.order = {node: at for at, node in enumerate(self.nodes)}
        self.reached = 0
        self.last: dict[Any, float] = {}
        self.regions: dict[Any, Region] = {}
        self.unplaced: defaultdict[Any, list[Node]] = defaultdict(list)
        self.seen: set[Node] = set()
        for at, node in enumerate(self.nodes):
            for each in node.all_input_nodes:
                memory = storage.storage_of(each)
                self.last[memory] = max(at, self.last.get(memory, -1))
            if node.op in ("placeholder", "get_attr"):
                self.last[storage.storage_of(node)] = inf

    def region(self, memory: Any) -> Region:
        """The memories that may be this one."""
        if memory not in self.regions:
            self.regions[memory] = Region([memory], [(self.last.get(memory, -1), memory)])
        return self.regions[memory]

    def advance(self, write: Node) -> None:
        """Walks on to a write."""
        end = self.order[write]
        for node in self.nodes[self.reached : end]:
            if node.op != "call_function":
                continue
            memory = storage.storage_of(node)
            if memory is not None:
                self.unplaced[memory].append(node)
            if may_give_a_view(node.target) and not storage.returns_its_own(node):
                self.meet(node)
        self.reached = max(self.reached, end)

    def meet(self, node: Node) -> None:
        """Notes an operator that may give a view."""
        for one, other in links_of(node):
            first, second = sorted((self.region(one), self.region(other)), key=lambda each: -len(each.memories))
            if first is not second:
                first.take(second)
                self.regions.update(dict.fromkeys(second.memories, first))
            first.between.append(node)
        for memory in {storage.storage_of(each) for each in node.all_input_nodes}:
            self.region(memory).touching.append(node)

    def operators_between(self, write: Node) -> Iterator[Node]:
        """The operators between what a write writes and other memory that is read after that, each once."""
        self.advance(write)
        for target in storage.written_nodes(write):
            memory = storage.storage_of(target)
            region = self.region(memory)
            if region.others_read_after(self.order[write], memory):
                found, region.between = dict.fromkeys(region.between), []
                yield from found

    def computed_around(self, write: Node) -> Iterator[Node]:
        """The calls that such operators hang on which are given what a node writes, or what may be that, each once for
        all writes."""
        self.advance(write)
        left: list[Node] = []
        for target in storage.written_nodes(write):
            region = self.region(storage.storage_of(target))
            left += region.touching
            region.touching = []
        while left:
            node = left.pop()
            if node not in self.seen:
                self.seen.add(node)
                left += node.all_input_nodes
                if node.op == "call_function" and isinstance(node.target, OpOverload):
                    yield node

    def stale_views(self, write: Node, placed: Container[Node]) -> Iterator[Node]:
        """The nodes in memory that a node writes that are read after that, and are none of those that were placed."""
        self.advance(write)
        at = self.order[write]
        for memory in {storage.storage_of(each) for each in storage.written_nodes(write)} - {None}:
            kept = [
                node
                for node in self.unplaced.pop(memory, ())
                if node not in placed and any(self.order[user] > at for user in node.users)
            ]
            self.unplaced[memory] = kept
            yield from kept


def links_of(node: Node) -> Iterator[tuple[Any, Any]]:
    """(memory, other memory) for what an operator is given and what it gives, as it was recorded."""
    made = dict.fromkeys(storage.recorded_storage(each) for each in pytree.tree_leaves(node.meta.get("val")))
    given = dict.fromkeys(storage.storage_of(each) for each in node.all_input_nodes)
    memories = [other for other in made if other is not None and other not in given]
    yield from ((one, other) for one in given if one is not None for other in memories)
