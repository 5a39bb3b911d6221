"""Memory that operators share at some sizes only, or in eager only, of which torch.export records that they do not."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from torch.fx import Node

from lowering.errors import LoweringError
from lowering.fold.memory.apart import kept_apart
from lowering.fold.memory.in_front import InFront
from lowering.records.source_lines import source_of


def untold_sharing(write: Node, front: InFront) -> Iterator[tuple[Any, str]]:
    """(condition, line) for each operator between what a node writes and other memory that is read after that: the
    sizes at which eager shares no memory there, either. An earlier write has asked of some of them.

    Raises LoweringError where eager shares memory at the example's own sizes.
    """
    for node in front.operators_between(write):
        yield from ((each, source_of(node)) for each in kept_apart(node))


def refuse_stale_views(write: Node, placed: Container[Node], front: InFront) -> None:
    """Raises LoweringError where a view of what a node writes is read after that, and nothing tells how it is read out
    of the memory: it is none of those that were placed."""
    for node in front.stale_views(write, placed):
        raise LoweringError(
            f"{node.target} gives {node.name}, a view of memory that {write.target} writes, and it is read after",
            source=source_of(node),
            hint="clone() it before the write, or use capture='direct'",
        )
