"""Memory that operators share at some sizes only, or in eager only, of which torch.export records that they do not."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import lru_cache
from typing import Any

from torch.fx import Node

from lowering.errors import LoweringError
from lowering.fold.memory import storage
from lowering.fold.memory.apart import kept_apart
from lowering.records.source_lines import source_of
from lowering.records.torch_internals import C, OpOverload, pytree


@lru_cache(maxsize=1 << 12)
def may_give_a_view(target: Any) -> bool:
    """True for an operator that torch puts together of others, so that what it gives may be a view or new."""
    composite = C.DispatchKey.CompositeImplicitAutograd
    if not isinstance(target, OpOverload) or not target.has_kernel_for_dispatch_key(composite):
        return False
    return not storage.written_arguments(target) and not storage.reshapes_in_place(target)


def untold_sharing(write: Node) -> Iterator[tuple[Any, str]]:
    """(condition, line) for each operator between what a node writes and other memory that is read after that: the
    sizes at which eager shares no memory there, either.

    Raises LoweringError where eager shares memory at the example's own sizes.
    """
    links = [link for before in nodes_before(write) for link in links_of(before)]
    for target in storage.written_nodes(write) if links else ():
        around, between = reachable(storage.storage_of(target), links)
        if any(is_seen_after(write, memory) for memory in around):
            for node in dict.fromkeys(between):
                yield from ((each, source_of(node)) for each in kept_apart(node))


def refuse_stale_views(write: Node, placed: Container[Node]) -> None:
    """Raises LoweringError where a view of what a node writes is read after that, and nothing tells how it is read out
    of the memory: it is none of those that were placed."""
    memories = {storage.storage_of(each) for each in storage.written_nodes(write)} - {None}
    order = {node: at for at, node in enumerate(write.graph.nodes)}
    for node, at in order.items():
        if at >= order[write]:
            return
        if node in placed or node.op != "call_function" or storage.storage_of(node) not in memories:
            continue
        if any(order[user] > order[write] for user in node.users):
            raise LoweringError(
                f"{node.target} gives {node.name}, a view of memory that {write.target} writes, and it is read after",
                source=source_of(node),
                hint="clone() it before the write, or use capture='direct'",
            )


def nodes_before(write: Node) -> Iterator[Node]:
    """The calls in front of a node that may give a view."""
    for node in write.graph.nodes:
        if node is write:
            return
        if node.op == "call_function" and may_give_a_view(node.target) and not storage.returns_its_own(node):
            yield node


def links_of(node: Node) -> Iterator[tuple[Any, Any, Node]]:
    """(memory, other memory, node) for what an operator is given and what it gives, as it was recorded."""
    made = dict.fromkeys(storage.recorded_storage(each) for each in pytree.tree_leaves(node.meta.get("val")))
    given = dict.fromkeys(storage.storage_of(each) for each in node.all_input_nodes)
    memories = [other for other in made if other is not None and other not in given]
    yield from ((one, other, node) for one in given if one is not None for other in memories)


def reachable(memory: Any, links: list[tuple[Any, Any, Node]]) -> tuple[set[Any], list[Node]]:
    """(the other memory that some memory may be, the operators between)."""
    found, between, grown = {memory}, [], True
    while grown:
        grown = False
        for one, other, node in links:
            if one in found or other in found:
                between.append(node)
                grown = grown or not {one, other} <= found
                found |= {one, other}
    return found - {memory}, between


def is_seen_after(write: Node, memory: Any) -> bool:
    """Whether memory is read after a node, or is that of an input or of the model."""
    after = False
    for node in write.graph.nodes:
        outside = node.op in ("placeholder", "get_attr") and storage.storage_of(node) == memory
        if outside or (after and any(storage.storage_of(each) == memory for each in node.all_input_nodes)):
            return True
        after = after or node is write
    return False
