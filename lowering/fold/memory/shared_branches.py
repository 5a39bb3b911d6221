"""Memory that eager shares where a branch or a loop leaves a tensor, and that torch.export copies: of rewritten models,
whose variables are names of one tensor, and not results of functions of the model's own."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from lowering.errors import CaptureError
from lowering.fold.memory import storage
from lowering.records.source_lines import source_of
from lowering.records.torch_internals import HigherOrderOperator, OpOverload


def refuse_writes_after(module: GraphModule) -> None:
    """Raises CaptureError where what a branch or a loop leaves, or what it may be a name of, is written, and the other
    is read after that."""
    together: list[set[Any]] = []
    written: dict[Any, tuple[Node, int]] = {}  # with how many of these were left before that
    for node in module.graph.nodes:
        used = {storage.storage_of(each) for each in node.all_input_nodes} - {None}
        for memory, (write, count) in written.items():
            if any(memory in each and used & each - {memory} for each in together[:count]):
                raise CaptureError(
                    f"{write.name} writes what a branch or a loop on data leaves, or takes, which may share its memory "
                    "with another tensor that is read after that",
                    source=source_of(write),
                    hint="keep a copy where it is made: y.clone(); or use capture='direct'",
                )
        if isinstance(node.target, HigherOrderOperator) and node.target._name in BRANCHING:
            together.append(set(memories_left(module, node)))
        for each in storage.written_nodes(node):
            written[storage.storage_of(each)] = node, len(together)


BRANCHING = frozenset("cond while_loop while_loop_stack_output scan map_impl associative_scan".split())
"""The operators that branches and loops of a rewritten model become."""


def memories_left(module: GraphModule, node: Node) -> Iterator[Any]:
    """The memories that a branch or a loop is given, and those that it leaves, but for what it computes anew on every
    way."""
    given = [each for each in node.all_input_nodes if each.op != "get_attr"]
    yield from (storage.storage_of(root_of(each)) for each in given)
    bodies = [getattr(module, str(each.target)) for each in node.all_input_nodes if each.op == "get_attr"]
    branch = node.target is torch.ops.higher_order.cond
    new = [set(computed_anew(body)) for body in bodies if isinstance(body, GraphModule)] if branch else []
    always = set.intersection(*new) if new else set()
    for each in node.users:
        if each.target is not operator.getitem or each.args[1] not in always:
            yield storage.storage_of(each)


def computed_anew(body: GraphModule) -> Iterator[int]:
    """The places of the results of a body that are the only ones of their memory, which the body itself makes."""
    returned: Any = body.graph.output_node().args[0]
    roots = [root_of(each) for each in returned]
    for place, root in enumerate(roots):
        if roots.count(root) == 1 and root.op == "call_function" and root.target is not operator.getitem:
            yield place


def root_of(node: Node) -> Node:
    """What a node is a view of, or a copy that was made for torch.export's sake."""
    while node.op == "call_function" and isinstance(node.target, OpOverload) and node.args:
        before, returns = node.args[0], node.target._schema.returns
        view = bool(returns) and returns[0].alias_info is not None
        if not isinstance(before, Node) or not (view or node.target is torch.ops.aten.clone.default):
            break
        node = before
    return node
