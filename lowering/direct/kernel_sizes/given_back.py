"""What operators give that give one of their operands for the example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from irkit import dims
from irkit.core.ir import Value
from lowering.direct.converting import apply_converter, operands


def gives_back(tracer: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], same: torch.Tensor) -> bool:
    """Whether an operator that gives an operand itself for the example does so at other sizes: `diff` does,
    of nothing."""
    handle = tracer.handle(same)
    if handle.twin.numel() or func._schema.returns[0].alias_info is not None:
        return True
    made = apply_converter(tracer, func, *operands(tracer, func, args, kwargs), None, args, kwargs)
    value = made if isinstance(made, Value) else handle.value
    return all(dims.same(one, other) is True for one, other in zip(value.shape, handle.value.shape, strict=True))
