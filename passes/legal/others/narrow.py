"""What is to be known of integers that a runtime computes in fewer bits, and that nothing is written for."""

from __future__ import annotations

from collections.abc import Iterator

from irkit.contract.sizes import names_of
from irkit.core.ir import Graph, Value
from irkit.core.printer import nested_graphs
from irkit.core.types import DType, Tensor
from passes.analysis.spans import span_of
from passes.targets.measured import OPENVINO

NARROW = {OPENVINO: "OpenVINO computes integers of 64 bits in 32, and those without a sign as such with one"}
"""What each runtime does."""
BEYOND = (DType.INT64, DType.UINT64, DType.UINT32)
ARITHMETIC = frozenset((
    "Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Pow", "Equal", "Less", "Greater", "LessOrEqual",
    "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
))  # fmt: skip
"""Operators of which a large constant is more than a place beyond the end."""
SHOWN = 3


def narrow_note(graph: Graph, provider: str) -> str:
    """A sentence that names what may hold numbers beyond 2^31 where a runtime has no more; empty where nothing does."""
    if provider not in NARROW:
        return ""
    names = list(dict.fromkeys(beyond(graph)))
    if not names:
        return ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{NARROW[provider]}: numbers beyond 2^31 are others there, in {', '.join(names[:SHOWN])}{more}"


def beyond(graph: Graph) -> Iterator[str]:
    """The inputs, casts of floats and constants of arithmetic whose integers may be beyond 2^31, by name."""
    for name, value in zip(names_of(graph), graph.params, strict=True):
        if isinstance(value.type, Tensor) and value.dtype in BEYOND:
            yield f"the input {name}"
    for nested, first in nested_graphs(graph):
        for value in nested.order if first else ():
            if value.op == "Cast" and value.dtype in BEYOND and is_float(value.inputs[0]) and is_wide(value):
                yield f"what {str(value.origin) or repr(value)} casts"
            if value.op in ARITHMETIC:
                held = [v for v in value.inputs if v is not None and v.blob is not None and v.blob.size]
                yield from (f"a constant of {value.op}" for v in held if v.dtype in BEYOND and is_wide(v))


def is_float(v: Value | None) -> bool:
    """True for a tensor of floats."""
    return v is not None and v.dtype.is_float


def is_wide(v: Value) -> bool:
    """True for numbers that may be beyond 32 bits with a sign."""
    span = span_of(v)
    return span.low < -(2**31) or span.high > 2**31 - 1
