"""By what a program divides sizes: Python refuses 0 there, and torch records nothing of it."""

from __future__ import annotations

import operator
from collections.abc import Container, Iterator, Mapping, Sequence
from traceback import FrameSummary
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node

from lowering.capture.guards.einsum_types import guards_of_element_types
from lowering.capture.guards.guards import Guard, line_at, number, shape_env_of
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
    return None if found is None or found.is_number else of_sizes(found)


def of_sizes(found: Any) -> Any:
    """An expression of sizes that may be 0: torch takes its symbols for positive."""
    return found.xreplace({s: number(s.name) for s in found.free_symbols if s.is_positive})


def with_divisors(
    guards: Sequence[Guard], ranges: Container[str], metas: Sequence[Any], heard: Mapping[Any, FrameSummary | None]
) -> tuple[Guard, ...]:
    """The same with the conditions that what the model was heard to divide by is not 0, of which its graph need hold
    nothing: `(n // m) * 0` is 0 to torch. Of numbers without a range nothing is asked: only data tells them."""
    env, known, more = shape_env_of(metas), {guard.text for guard in guards}, dict[str, Guard]()
    for divisor, frame in heard.items():
        found = of_sizes(divisor if env is None else env.replace(divisor))
        relation = sympy.Ne(found, 0)
        said = all(symbol.name in ranges for symbol in found.free_symbols)
        if said and relation != sympy.true and str(relation) not in known:
            more.setdefault(str(relation), Guard(relation, str(relation), line_at(frame)))
    return (*guards, *more.values())
