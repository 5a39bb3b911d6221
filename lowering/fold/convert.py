"""One operator: by its converter, or by torch's decomposition of that operator alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.fx import Node

from lowering.errors import LoweringError, Unsupported
from lowering.fold.arguments import call_arguments
from lowering.fold.complex_registry import complex_entry
from lowering.fold.decompose import run_decomposition
from lowering.fold.memory.apart import expression, hint_of
from lowering.fold.registry import Registry
from lowering.fold.scope import Scope
from lowering.tensors import complex_pairs


def convert(scope: Scope, node: Node, target: Any, args: Any, kwargs: Any, expected: Any) -> Any:
    """What the converter of `target` makes of arguments, or else torch's decomposition of that operator."""
    involved = complex_pairs.involves_complex((*args, *kwargs.values()), expected)
    find = complex_entry if involved else Registry.find
    found = find(scope.options.registry, target) if laid_out(node, target) else None
    reason = "no converter for complex numbers" if involved else "no converter"
    if found is not None:
        try:
            positional_, keyword = call_arguments(target, found, args, kwargs, expected)
        except Unsupported as declined:
            if found.function is scope.options.registry.handed_in(target):
                raise LoweringError(
                    str(declined), hint=f"call its parameters as torch does: {target._schema}"
                ) from None
            reason = str(declined)
        else:
            try:
                return found.function(*positional_, **keyword)
            except Unsupported as declined:
                reason = str(declined)
    if not laid_out(node, target):
        reason = "it reads memory that is not laid out as its operand's elements are"
    return run_decomposition(scope, node, target, args, kwargs, reason)


_STRIDED = frozenset((
    torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default,
    torch.ops.aten.as_strided_scatter.default, torch.ops.prims.as_strided_scatter.default,
))  # fmt: skip


def laid_out(node: Node, target: Any) -> bool:
    """False for an operator that addresses the memory of its operand, where that is not its elements in order."""
    if target not in _STRIDED:
        return True
    source = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
    if not isinstance(source, torch.Tensor) or not source.is_contiguous() or source.storage_offset() != 0:
        return False
    sizes, steps = (tuple(map(expression, each)) for each in (source.shape, source.stride()))
    vary: list[Any] = [size for size in (*source.shape, *source.stride()) if isinstance(size, torch.SymInt)]
    told = {symbol: hint_of(size, symbol) for size in vary for symbol in expression(size).free_symbols}
    return all(lies_in_order(sizes, steps, {s: size + more for s, size in told.items()}) for more in (0, *FURTHER))


FURTHER = (1, 3, 10, 97)
"""By how much sizes are others, at which a tensor that lies in order in the example must lie so, too."""


def lies_in_order(sizes: Sequence[Any], steps: Sequence[Any], told: Mapping[Any, int]) -> bool:
    """Whether a tensor of these sizes and strides, over symbols, lies in order where these are so large."""
    wanted = 1
    for size, step in zip(reversed(sizes), reversed(steps), strict=True):
        size, step = (sympy.sympify(each).xreplace(told) for each in (size, step))
        if size != 1 and step != wanted:
            return False
        wanted = wanted * size
    return True
