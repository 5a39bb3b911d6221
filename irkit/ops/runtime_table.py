"""The operator table of the installed ONNX Runtime: what `com.microsoft` holds, and what stands in ONNX's own domain
without being of ONNX. Nothing of it is read before such an operator is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxruntime.capi.onnxruntime_pybind11_state import OpSchema

CONTRIB = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

STOWAWAYS = frozenset(("SimplifiedLayerNormalization",))
"""Operators of ONNX Runtime's own that it keeps in ONNX's domain."""


def is_contrib(op: str) -> bool:
    """True for an operator of ONNX Runtime's own, whether the installed one has it or not."""
    return op.startswith("com.microsoft::") or op in STOWAWAYS


def runtime_schema(op: str) -> OpSchema | None:
    """ONNX Runtime's schema of an operator of its own; None where the installed one has none, or none is installed."""
    return _schemas().get(op) if is_contrib(op) else None


def contrib_names() -> tuple[str, ...]:
    """The operators of `com.microsoft` that the installed ONNX Runtime has, sorted, without their domain."""
    return tuple(sorted(name.partition("::")[2] for name in _schemas() if name.startswith(f"{CONTRIB}::")))


@cache
def _schemas() -> Mapping[str, OpSchema]:
    try:
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
    except ImportError:
        return MappingProxyType({})
    found: dict[str, OpSchema] = {}
    for schema in sorted(get_all_operator_schema(), key=lambda s: s.since_version):
        name = f"{schema.domain}::{schema.name}" if schema.domain else schema.name
        if is_contrib(name):
            found[name] = schema
    return MappingProxyType(found)
