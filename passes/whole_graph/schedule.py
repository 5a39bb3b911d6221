"""The order in which nodes are written, chosen so that what is alive at once takes less memory.

ONNX Runtime makes an order of its own: from the results down, and at each node the operand first whose node stands last
in the file. Other runtimes work through the file. What keeps the one short of memory is the reverse of what does so for
the others, and so an order is judged by one of the two. Candidates are those that visit the operands of each node by
how much more memory it takes to compute them than to keep them (Sethi and Ullman's rule, which is optimal for trees).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs

from irkit import dims
from irkit.core.ir import Graph, Value
from irkit.core.types import Tensor, Tuple, Type
from irkit.core.vocabulary import CONSTANT, ITEM, PARAM
from irkit.dims import Dim
from irkit.rewriting.passes import Pass, graph_pass

TYPICAL = 128
"""What a size is taken to be of which nothing is known but its range."""

VIEWS = frozenset(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"))
"""Operators whose result is the memory of their first operand."""


@attrs.frozen(eq=False)
class Plan:
    """A graph as numbers: for each node its operands (nodes as well), and the bytes that its results take.

    Parameters, constants and results taken apart are no nodes; `values` has those that are.
    """

    values: tuple[Value, ...]
    operands: tuple[tuple[int, ...], ...]
    bytes: tuple[int, ...]
    kept: frozenset[int]


def plan_of(graph: Graph, sizes: Mapping[str, int]) -> Plan:
    """The nodes of a graph in its order, with symbols bound to `sizes`, or else to a typical size in their range."""
    number: dict[Value, int] = {}
    values: list[Value] = []
    operands: list[tuple[int, ...]] = []
    taken: list[int] = []
    known: dict[Type, int] = {}
    for value in graph.order:
        if value.op == PARAM or value.op == CONSTANT:
            continue
        if value.op == ITEM:
            source = value.inputs[0]
            if source is not None and source in number:
                number[value] = number[source]
            continue
        number[value] = len(values)
        values.append(value)
        operands.append(tuple(dict.fromkeys([number[v] for v in value.inputs if v in number])))
        size = known.get(value.type)
        if size is None:
            size = known[value.type] = bytes_of(value.type, graph, sizes)
        taken.append(size)
    kept = frozenset(number[r] for r in graph.results if r in number)
    return Plan(tuple(values), tuple(operands), tuple(taken), kept)


def bytes_of(type: Type, graph: Graph, sizes: Mapping[str, int]) -> int:
    """The bytes of a tensor, or of several; 0 for what is not a tensor."""
    if isinstance(type, Tuple):
        return sum(bytes_of(t, graph, sizes) for t in type.items)
    if not isinstance(type, Tensor):
        return 0
    count = 1
    for size in type.shape:
        count *= size if isinstance(size, int) else number_of(size, graph, sizes)
    return count * type.dtype.bits // 8


def number_of(size: Dim, graph: Graph, sizes: Mapping[str, int]) -> int:
    """A size under a binding of its symbols."""
    values: dict[str, int] = {}
    for symbol in dims.symbols_of(size):
        label = dims.label(symbol)
        known = graph.symbols.get(label)
        least, most = (0, None) if known is None else (known.lo, known.hi)
        values[label] = sizes.get(label, max(least, TYPICAL if most is None else min(most, TYPICAL)))
    return max(0, dims.evaluate(size, values))


def peak(plan: Plan, order: Iterable[int]) -> int:
    """The most bytes that are alive at once where nodes run in an order; parameters and constants are not counted."""
    left = [0] * len(plan.values)
    for operands in plan.operands:
        for i in operands:
            left[i] += 1
    for i in plan.kept:
        left[i] += 1
    home = list(range(len(plan.values)))  # where the memory of a view is
    alive = most = 0
    for node in order:
        operands = plan.operands[node]
        if operands and plan.values[node].op in VIEWS:
            home[node] = home[operands[0]]
            left[home[node]] += left[node]
        else:
            alive += plan.bytes[node]
            most = max(most, alive)
        for i in operands:
            i = home[i]
            left[i] -= 1
            if not left[i]:
                alive -= plan.bytes[i]
        if home[node] == node and not left[node]:
            alive -= plan.bytes[node]
    return most


def executed(plan: Plan, order: Iterable[int]) -> list[int]:
    """The order in which ONNX Runtime runs nodes that stand in the file in `order`."""
    place = [0] * len(plan.values)
    for at, node in enumerate(order):
        place[node] = at
    return visited(plan, lambda node: -place[node])


def visited(plan: Plan, first: Callable[[int], int | tuple[int, int]]) -> list[int]:
    """Every node after its operands, of which those come first that `first` gives the least key; from nodes without
    users down."""
    used = {i for operands in plan.operands for i in operands}
    done = [False] * len(plan.values)
    found: list[int] = []
    stack = sorted((n for n in range(len(plan.values)) if n not in used), key=first, reverse=True)
    while stack:
        node = stack.pop()
        if node < 0:
            found.append(~node)
        elif not done[node]:
            done[node] = True
            stack.append(~node)
            stack += sorted((i for i in plan.operands[node] if not done[i]), key=first, reverse=True)
    return found


def needs(plan: Plan) -> list[int]:
    """For each node how many bytes more it takes to compute it than to keep it, as if nothing were shared."""
    most = [0] * len(plan.values)
    for node, operands in enumerate(plan.operands):
        alive = top = 0
        for i in sorted(operands, key=lambda i: plan.bytes[i] - most[i]):
            top = max(top, alive + most[i])
            alive += plan.bytes[i]
        most[node] = max(top, alive + plan.bytes[node])
    return [top - kept for top, kept in zip(most, plan.bytes, strict=True)]


def lower_bound(plan: Plan) -> int:
    """What the largest node takes with its operands: no order needs less."""
    sizes = plan.bytes
    return max(
        (
            sum([sizes[i] for i in operands]) + (0 if v.op in VIEWS else sizes[n])
            for n, (v, operands) in enumerate(zip(plan.values, plan.operands, strict=True))
        ),
        default=0,
    )


def scheduled_here(graph: Graph, *, sizes: tuple[tuple[str, int], ...] = (), onnxruntime: bool = True) -> Graph:
    """The graph in an order that takes less memory; itself where none was found. Bodies keep theirs."""
    plan = plan_of(graph, dict(sizes))

    def judged(order: Iterable[int]) -> int:
        return peak(plan, executed(plan, order) if onnxruntime else order)

    best = judged(range(len(plan.values)))
    if best <= lower_bound(plan):
        return graph
    need = needs(plan)
    chosen = None
    for sign in (1, -1):
        order = visited(plan, lambda node: (sign * need[node], node))  # noqa: B023
        found = judged(order)
        if found < best:
            best, chosen = found, order
    return graph if chosen is None else graph.arranged(with_leaves(graph, [plan.values[n] for n in chosen]))


def with_leaves(graph: Graph, nodes: Iterable[Value]) -> list[Value]:
    """The nodes with constants before the first that uses them, and items behind what they are of."""
    items: dict[Value, list[Value]] = {}
    for value in graph.order:
        if value.op == ITEM and value.inputs[0] is not None:
            items.setdefault(value.inputs[0], []).append(value)
    found: dict[Value, None] = {}
    for source in graph.params:
        found.update(dict.fromkeys(items.get(source, ())))
    for node in nodes:
        found.update(dict.fromkeys(v for v in node.inputs if v is not None and v.op == CONSTANT))
        found[node] = None
        found.update(dict.fromkeys(items.get(node, ())))
    return [*found, *(r for r in dict.fromkeys(graph.results) if r not in found)]


scheduled: Pass = graph_pass(scheduled_here)
"""The nodes in an order that takes less memory, judged by what ONNX Runtime makes of it, or by the file itself:
`scheduled(onnxruntime=False, sizes=(("batch", 8),))`. Run it last: other passes make an order of their own."""
