"""What operators give that give one of their operands for the example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irkit import dims
from irkit.core.ir import Value


def gives_back(func: Any, handle: Any, convert: Callable[[], Any]) -> bool:
    """Whether an operator that gives an operand itself for the example, which `handle` holds, does so at other sizes,
    where what its converter makes has the sizes of it: `diff` does, of nothing."""
    if handle.twin.numel() or func._schema.returns[0].alias_info is not None:
        return True
    made = convert()
    value = made if isinstance(made, Value) else handle.value
    return all(dims.same(one, other) is True for one, other in zip(value.shape, handle.value.shape, strict=True))
