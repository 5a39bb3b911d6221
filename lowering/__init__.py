"""torch programs into irkit graphs: capture, converters, the fold, and the export that runs.

`lower` brings in torch when it is asked for; `lowering.tensors`, `lowering.algorithms` and `lowering.aten` never do.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowering.program.ways import lower

__all__ = ["lower"]


def __getattr__(name: str) -> Any:
    """`lower`, and with it torch."""
    if name == "lower":
        from importlib import import_module

        return import_module("lowering.program.ways").lower
    raise AttributeError(f"module 'lowering' has no attribute {name!r}")
