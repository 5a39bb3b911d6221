"""torch programs into irkit graphs: capture, converters, the fold, and the export that runs.

`lower`, `trace` and `Program` bring in torch when they are asked for; `lowering.errors`, `lowering.tensors`,
`lowering.algorithms` and `lowering.aten` never do.
"""

from typing import TYPE_CHECKING, Any

from lowering.errors import CaptureError, LoweringError, MissingConverters, Unsupported

if TYPE_CHECKING:
    from lowering.program.program import Program
    from lowering.program.ways import lower, trace
    from lowering.records.options import Functions

__all__ = ["CaptureError", "Functions", "LoweringError", "MissingConverters", "Program", "Unsupported", "lower"]
__all__ += ["trace"]

PLACES = {
    "Functions": "lowering.records.options",
    "Program": "lowering.program.program",
    "lower": "lowering.program.ways",
    "trace": "lowering.program.ways",
}
"""Where what brings in torch stands."""


def __getattr__(name: str) -> Any:
    """What stands in the modules of `PLACES`, and with it torch."""
    if name not in PLACES:
        raise AttributeError(f"module 'lowering' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(PLACES[name]), name)
