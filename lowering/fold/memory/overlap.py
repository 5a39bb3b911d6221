"""Elements of tensors that share their memory, told by strides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from lowering.errors import LoweringError
from lowering.fold.memory import storage
from lowering.records.source_lines import source_of

FILLS = ("aten::fill_", "aten::zero_")
"""Operators that write the same to every element, so that it may be written twice."""


def copies_one(func: Any, shape: Iterable[Any]) -> bool:
    """Whether an operator copies the only element of a tensor of this shape: that is left as it is by being written."""
    return func._schema.name == "aten::copy_" and all(type(size) is int and size == 1 for size in shape)


def same_elements(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one memory have the same elements at the same places."""
    same = one.shape == other.shape and one.storage_offset() == other.storage_offset() and one.dtype is other.dtype
    steps = zip(one.shape, one.stride(), other.stride(), strict=True) if same else ()
    return same and all(a == b for size, a, b in steps if size > 1)


def share_elements(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one memory have an element in common."""
    try:
        there: Any = MOST_WORK  # numpy's types know two numbers only
        return np.shares_memory(*(np.asarray(Bytes(each)) for each in (one, other)), max_work=there)
    except np.exceptions.TooHardError:
        return True


MOST_WORK = 1 << 20


class Bytes:
    """Where the elements of a tensor lie, as numpy takes it; they are never looked at."""

    def __init__(self, tensor: torch.Tensor) -> None:
        size = tensor.element_size()
        self.__array_interface__ = {
            "version": 3, "typestr": f"|V{size}", "shape": tuple(tensor.shape),
            "strides": tuple(step * size for step in tensor.stride()),
            "data": (BEGIN + tensor.storage_offset() * size, True),
        }  # fmt: skip


BEGIN = 1 << 20


def fills_alone(func: Any) -> bool:
    """Whether an operator writes one number everywhere, also where elements share their memory: by a tensor, as
    `t[...] = 1` has it, torch copies, and refuses such."""
    return func._schema.name in FILLS and func._schema.overload_name != "Tensor"


def has_overlap(twin: torch.Tensor) -> bool:
    """Whether elements of a tensor may share their memory."""
    reach = 0
    for step, size in sorted(zip(twin.stride(), twin.shape, strict=True)):
        if size > 1:
            if step <= reach:
                return True
            reach += step * (size - 1)
    return False


# ---------------------------------------------------------------------------------------------- of FX nodes


def refuse_shared_elements(node: Node, target: Node) -> None:
    """Raises LoweringError for a node that writes a tensor several of whose elements are one, or that reads elements
    which it writes at another place, be it at the sizes of the example or at others: what it leaves hangs on the order
    of the writes."""
    target_of: Any = node.target
    if fills_alone(target_of):
        return
    memory = storage.storage_of(target)
    others = [each for each in node.all_input_nodes if each is not target and storage.storage_of(each) == memory]
    reads = [each for each in others if not copies_one(target_of, each.meta["val"].shape)]
    for other_sizes in (False, True):
        written, *read = laid_out([target, *reads], other_sizes)
        shared = any(not same_elements(each, written) and share_elements(each, written) for each in read)
        if shared or has_overlap(written):
            which = (
                "reads what it writes at another place" if shared else "has several elements that share their memory"
            )
            raise LoweringError(
                f"{node.target} writes {target.name}, which {'it ' if shared else ''}{which}",
                source=source_of(node),
                hint="clone() it before the write",
            )


def laid_out(nodes: Iterable[Node], other_sizes: bool, sizes: Mapping[Any, int] | None = None) -> list[torch.Tensor]:
    """The tensors of nodes on the meta device, as they lie in memory at the sizes of the example, or at others that
    are all different, or for some of torch's symbols."""
    moved: dict[Any, int] = dict(sizes or {})

    def number(size: Any) -> int:
        if not isinstance(size, torch.SymInt):
            return size
        if not other_sizes and sizes is None and size.node.has_hint():
            return int(size.node.hint)
        for symbol in sorted(size.node.expr.free_symbols - moved.keys(), key=str):
            moved[symbol] = LARGE + STEP * len(moved)
        return max(0, int(size.node.expr.xreplace(moved)))

    found = []
    for node in nodes:
        kept = node.meta["val"]
        room = torch.empty(ROOM, dtype=kept.dtype, device="meta")
        strides = (tuple(map(number, kept.shape)), tuple(map(number, kept.stride())), number(kept.storage_offset()))
        found.append(room.as_strided(*strides))
    return found


LARGE, STEP = 101, 6
ROOM = 1 << 50
