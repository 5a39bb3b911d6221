"""torch programs into irkit graphs: capture, converters, the fold, and the export that runs.

`lower`, `trace` and `Program` bring in torch when they are asked for; `lowering.errors`, `lowering.tensors`,
`lowering.algorithms` and `lowering.aten` never do.
"""

from typing import TYPE_CHECKING, Any

from lowering.errors import CaptureError, LoweringError, MissingConverters, Unsupported

if TYPE_CHECKING:
    from lowering.program.program import Program
    from lowering.program.ways import lower, trace

__all__ = ["CaptureError", "LoweringError", "MissingConverters", "Program", "Unsupported", "lower", "trace"]


def __getattr__(name: str) -> Any:
    """`lower`, `trace` and `Program`, and with them torch."""
    if name not in ("lower", "trace", "Program"):
        raise AttributeError(f"module 'lowering' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("lowering.program.program" if name == "Program" else "lowering.program.ways"), name)
