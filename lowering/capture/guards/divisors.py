"""By what a program divides sizes: Python refuses 0 there, and torch records nothing of it."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from lowering.capture.guards.einsum_types import guards_of_element_types
from lowering.capture.guards.guards import Guard, number
from lowering.capture.guards.sparse import guards_of_stored
from lowering.records.source_lines import line_of, trace_of

DIVISIONS = frozenset((operator.floordiv, operator.mod, operator.truediv))


def guards_of_nodes(module: GraphModule, state: Mapping[str, Any]) -> Iterator[Guard]:
    """The conditions that nodes of a graph rely on, and torch does not record. Raises CaptureError for constants that
    break them."""
    yield from guards_of_element_types(module)
    yield from guards_of_stored(module, state)
    yield from guards_of_divisors(module)


def guards_of_divisors(module: GraphModule) -> Iterator[Guard]:
    """The conditions that what sizes are divided by is not 0."""
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target in DIVISIONS and len(node.args) == 2:
            divisor = divided_by(node.args[1])
            relation = sympy.true if divisor is None else sympy.Ne(divisor, 0)
            if relation != sympy.true:
                yield Guard(relation, str(relation), line_of(trace_of(node)))


def divided_by(argument: Any) -> Any:
    """The expression of a symbolic number; None for any other argument."""
    recorded = argument.meta.get("val") if isinstance(argument, Node) else argument
    found = recorded.node.expr if isinstance(recorded, torch.SymInt | torch.SymFloat) else None
    if found is None or found.is_number:
        return None
    # torch takes its symbols for positive
    return found.xreplace({s: number(s.name) for s in found.free_symbols if s.is_positive})
