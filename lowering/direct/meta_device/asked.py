"""Of which operators the CPU is asked how their results lie: of those that nothing here tells rightly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lowering.fold.memory.on_cpu import is_asked_for, laid_as_on_cpu, tensors_in

TOLD_HERE = frozenset(f"aten::{name}" for name in "layer_norm log_sigmoid floor_divide".split())
"""Operators that are told here as they lie on a CPU whatever the order of their operands is."""


def may_lie_otherwise(func: Any) -> bool:
    """Whether how the results of an operator lie is to be asked."""
    return is_asked_for(func) and func._schema.name not in TOLD_HERE


def laid_as_asked(func: Any, args: Sequence[Any], named: Mapping[str, Any], told: Any) -> Any:
    """What an operator gives for arguments on the meta device, laid out as on a CPU."""
    return told if has_plain_channels(func, args) else laid_as_on_cpu(func, args, named, told)


def has_plain_channels(func: Any, args: Sequence[Any]) -> bool:
    """Whether a convolution is one of floats in a single group, whose operands lie in order, or with their channels
    last: of these it is told here how they lie."""
    if "conv" not in func._schema.name:
        return False
    names, given = [each.name for each in func._schema.arguments], list(tensors_in(args))
    if "groups" not in names or not given[0].is_floating_point():
        return False
    place = names.index("groups")
    single = len(args) <= place or args[place] == 1
    last = {4: torch.channels_last, 5: torch.channels_last_3d}
    return single and all(
        each.is_contiguous() or (each.dim() in last and each.is_contiguous(memory_format=last[each.dim()]))
        for each in given
    )
