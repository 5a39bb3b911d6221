"""What of a model is met as quantized: operators on quantized tensors, and those that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.direct.quantized.aten import MAKING, aten_call
from lowering.direct.quantized.dynamic import RECURRENT
from lowering.direct.quantized.layers import LAYERS
from lowering.direct.quantized.tensors import Tracer, Whole, has_quantized
from lowering.errors import CaptureError

QUANTIZED = ("quantized::", "aten::quantized_")
PACKED = ("quantized_lstm", "quantized_gru")


def is_met_as_quantized(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator takes or makes quantized tensors."""
    name = func._schema.name
    return name in MAKING or name.startswith(QUANTIZED) or has_quantized(args) or has_quantized(kwargs.values())


def quantized_call(tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator that takes or makes quantized tensors. Raises CaptureError for one that is not met."""
    space, _, name = func._schema.name.partition("::")
    handler = RECURRENT.get(f"{func._schema.name}.{func._overloadname}")
    if space == "quantized" and not func._overloadname.endswith("out"):
        handler = LAYERS.get(name)
    if handler is None and (space == "quantized" or name in PACKED):
        raise unmet(func)
    whole = Whole(tracer, name)
    args, kwargs = whole.of(tuple(args)), {key: whole.of(each) for key, each in kwargs.items()}
    with tracer.resumed():
        found = aten_call(tracer, func, args, kwargs) if handler is None else handler(tracer, *args, **kwargs)
    if found is NotImplemented:
        raise unmet(func)
    return found


def unmet(func: Any) -> CaptureError:
    """The error for an operator that is not met."""
    return CaptureError(
        f"{func} of quantized tensors is not met",
        hint="call dequantize() before it and torch.quantize_per_tensor(...) behind it, or leave the module out of "
        "what is converted: module.qconfig = None",
    )
