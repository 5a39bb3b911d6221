"""Which tensors share their memory, in a program that was read from a file: torch writes down none of that, and gives
each node memory of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch.fx import GraphModule, Node

from lowering.fold.memory import storage
from lowering.fold.memory.apart import shares_everywhere
from lowering.fold.memory.in_front import may_give_a_view
from lowering.records.torch_internals import FakeTensor, OpOverload


def with_shared_memory(module: GraphModule) -> GraphModule:
    """The same graph, in which what torch recorded for views has the memory of what they are views of; itself where
    that is so already, or nothing is written."""
    nodes = module.graph.nodes
    if not any(storage.written_arguments(node.target) for node in nodes) or not any(map(is_torn, nodes)):
        return module
    graph = copy.deepcopy(module.graph)  # of which the nodes are new, and what was recorded for them is not
    for node in graph.nodes:
        if node.op == "call_function":
            share_memory(node)
    made = GraphModule(module, graph)
    made.meta.update(module.meta)
    return made


def is_torn(node: Node) -> bool:
    """Whether a node returns what it is given, or a view of it, and torch recorded other memory for that. What may be
    a copy is not asked."""
    recorded, target = node.meta.get("val"), node.target
    if not isinstance(target, OpOverload) or may_give_a_view(target) or not isinstance(recorded, torch.Tensor):
        return False
    returned = [each.alias_info for each in target._schema.returns]
    written = storage.written_nodes(node)
    of = written[0] if written else node.args[0] if node.args else None
    if not returned or returned[0] is None or not isinstance(of, Node):
        return False
    one, other = (storage.recorded_storage(each) for each in (of.meta.get("val"), recorded))
    return None not in (one, other) and one != other


def share_memory(node: Node) -> None:
    """Gives what was recorded for a node the memory of what it is a view of."""
    recorded = node.meta.get("val")
    if isinstance(node.target, OpOverload):
        of = next(viewed_by(node), None)
        base = of.meta.get("val") if of is not None else None
        if isinstance(base, list | tuple):
            base = base[0]
        if isinstance(base, torch.Tensor):
            several = isinstance(recorded, list | tuple)
            shown = [within(base, each) for each in (recorded if several else (recorded,))]
            node.meta["val"] = type(recorded)(shown) if several else shown[0]
    elif getattr(node.target, "__name__", "") == "getitem" and isinstance(node.args[0], Node):
        whole = node.args[0].meta.get("val")
        if isinstance(whole, list | tuple) and isinstance(node.args[1], int) and isinstance(recorded, torch.Tensor):
            node.meta["val"] = whole[node.args[1]]


def viewed_by(node: Node) -> Iterator[Node]:
    """The node that an operator returns, or gives a view of, whatever the sizes are."""
    written = storage.written_nodes(node)
    target: Any = node.target
    infos = [each.alias_info for each in target._schema.returns]
    if written and infos and infos[0] is not None:
        yield written[0]
    elif (
        not written
        and (may_give_a_view(target) or any(infos))
        and node.args
        and isinstance(node.args[0], Node)
        and shares_everywhere(node)
    ):
        yield node.args[0]


def within(base: torch.Tensor, recorded: Any) -> Any:
    """A tensor of the sizes, strides and element type that were recorded, in the memory of another."""
    if not isinstance(recorded, torch.Tensor) or recorded.layout is not torch.strided:
        return recorded
    mode: Any = recorded.fake_mode if isinstance(recorded, FakeTensor) else nullcontext()
    with mode, torch.no_grad():
        memory = base.untyped_storage()
        return torch.empty(0, dtype=recorded.dtype, device=recorded.device).set_(
            memory, 0, tuple(recorded.shape), tuple(recorded.stride())
        )
