"""How tensors lie in memory as torch.export recorded it, held against the CPU where a program writes what is a view in
one layout and a copy in another."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from lowering.errors import LoweringError
from lowering.fold.memory import storage
from lowering.fold.memory.apart import expression, hint_of
from lowering.fold.memory.in_front import InFront, may_give_a_view
from lowering.fold.memory.on_cpu import is_asked_for, laid_as_on_cpu
from lowering.records.source_lines import source_of
from lowering.records.torch_internals import pytree


def refuse_other_layouts(write: Node, front: InFront) -> None:
    """Raises LoweringError where an operator may give a view or a copy of what a node writes, or what is written, and
    what that hangs on was recorded with another layout than it has on a CPU."""
    for node in front.computed_around(write):
        refuse_other_layout(node)


def refuse_other_layout(node: Node) -> None:
    """Raises LoweringError where what an operator gives lies in memory otherwise on a CPU than was recorded."""
    target: Any = node.target
    if not is_asked_for(target) or (may_give_a_view(target) and target._schema.name in storage.SAME):
        return
    args, kwargs = pytree.tree_map_only((Node, torch.SymInt, torch.device), as_recorded, (node.args, node.kwargs))
    recorded = as_recorded(node)
    found = laid_as_on_cpu(target, args, kwargs, recorded)
    several = isinstance(recorded, tuple | list)
    for one, other in zip(recorded, found, strict=True) if several else [(recorded, found)]:
        if isinstance(one, torch.Tensor) and steps_of(one) != steps_of(other):
            raise LoweringError(
                f"{target} lays its result out with the steps {other.stride()} on a CPU, where torch.export recorded"
                f" {one.stride()}, and what hangs on it is written",
                source=source_of(node),
                hint="clone() it before the write, or use capture='direct'",
            )


def steps_of(x: torch.Tensor) -> list[int]:
    """The strides of axes of several elements; none of a tensor without elements."""
    return [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1] if x.numel() else []


def as_recorded(given: Any) -> Any:
    """What stands for an argument, on the meta device, at the sizes of the example."""
    held = given.meta.get("val") if isinstance(given, Node) else given
    if isinstance(held, tuple | list):
        return type(held)(map(as_recorded, held))
    if isinstance(held, torch.SymInt):
        told = expression(held)
        return int(told.xreplace({symbol: hint_of(held, symbol) for symbol in told.free_symbols}))
    if isinstance(held, torch.Tensor) and held.layout is torch.strided:
        places = (tuple(map(as_recorded, held.shape)), tuple(map(as_recorded, held.stride())))
        return torch.empty_strided(*places, dtype=held.dtype, device="meta")
    return torch.device("meta") if isinstance(held, torch.device) else held
