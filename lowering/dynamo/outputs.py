"""The outputs of an FX graph in two parts: what torch makes of the inputs without computing, and what is computed.

A graph for training hands inputs, views of weights and sizes on to the graph of its gradients. ONNX Runtime would copy
each of them; torch gives them for nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import attrs
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from lowering.records.torch_internals import OpOverload

ARITHMETIC = frozenset((operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod))
"""What a graph does with sizes."""


@attrs.frozen(eq=False)
class Parted:
    """`computed` has the inputs of the graph, and those of its outputs that are to be computed; `viewed`, of the same
    inputs, gives the others. `order` says for each output which of `computed` ("computed"), which of `viewed`
    ("viewed"), or the constant it is ("constant")."""

    computed: GraphModule
    viewed: GraphModule
    order: tuple[tuple[str, Any], ...]


def split_outputs(module: GraphModule) -> Parted:
    """The outputs of a graph in two parts; the module itself is left as it is."""
    output = next(node for node in module.graph.nodes if node.op == "output")
    leaves = output.args[0] if isinstance(output.args[0], tuple | list) else (output.args[0],)
    free = views_of_inputs(module.graph)
    inside: list[Node] = []
    outside: list[Node] = []
    order: list[tuple[str, Any]] = []
    for leaf in leaves:
        if not isinstance(leaf, Node):
            order.append(("constant", leaf))
            continue
        kind, chosen = ("viewed", outside) if leaf in free else ("computed", inside)
        if leaf not in chosen:
            chosen.append(leaf)
        order.append((kind, chosen.index(leaf)))
    return Parted(ending_in(module, inside), ending_in(module, outside), tuple(order))


def views_of_inputs(graph: Graph) -> frozenset[Node]:
    """The nodes that torch gives without computing: inputs, views of them, and sizes."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder" or (
            node.op == "call_function"
            and (node.target in ARITHMETIC or is_view(node.target))
            and all(operand in found for operand in node.all_input_nodes)
            and (node.target not in ARITHMETIC or isinstance(node.meta.get("val"), torch.SymInt | int))
        ):
            found.add(node)
    return frozenset(found)


def is_view(target: Any) -> bool:
    """True for an operator whose only result is a view of an operand, by its schema."""
    if not isinstance(target, OpOverload):
        return False
    returns = target._schema.returns
    alias = returns[0].alias_info if len(returns) == 1 else None
    return alias is not None and not alias.is_write


def ending_in(module: GraphModule, results: list[Node]) -> GraphModule:
    """The graph with other results, and what these do not need left out; all inputs stay."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in module.graph.nodes:
        if node.op != "output":
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.output(map_arg(tuple(results), lambda n: copies[n]))
    graph.eliminate_dead_code()
    made = GraphModule(module, graph)
    made.meta.update(module.meta)
    return made


def outputs_in_order(parts: Parted, computed: Any, viewed: Any) -> list[Any]:
    """The outputs in their order, from those that were computed and those that are views."""
    sources: Mapping[str, Any] = {"computed": computed, "viewed": viewed}
    return [sources[kind][what] if kind in sources else what for kind, what in parts.order]
