"""torch programs into irkit graphs: capture, converters, the fold, and the export that runs.

`lower`, `trace`, `Program`, `generation`, `export_hf` bring in torch when they are asked for; `lowering.errors`,
`lowering.tensors`, `lowering.algorithms` and `lowering.aten` never do.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from irkit.support.uncollected import collector_paused
from lowering.errors import CaptureError, LoweringError, MissingConverters, Unsupported

if TYPE_CHECKING:
    from lowering.capture.functional import functional
    from lowering.capture.patched import Replacement, patched
    from lowering.decoding.generation import Generation, generation
    from lowering.decoding.loaded import LoadedGeneration, load_generation
    from lowering.layouts.export_hf import export_hf
    from lowering.layouts.written import Layout
    from lowering.localization.localize import Located, localize
    from lowering.piecewise.exported import Exported
    from lowering.piecewise.observing import Observation, observe
    from lowering.piecewise.pieces import Piece, pieces
    from lowering.piecewise.statuses import Status, Strategy
    from lowering.program.elsewhere import run_elsewhere
    from lowering.program.program import Program
    from lowering.program.ways import lower, trace
    from lowering.records.options import Functions
    from lowering.records.pytrees import pytree_class
    from lowering.torch_modules.as_module import as_module

__all__ = [
    "CaptureError",
    "Exported",
    "Functions",
    "Generation",
    "Layout",
    "LoadedGeneration",
    "Located",
    "LoweringError",
    "MissingConverters",
    "Observation",
    "Piece",
    "Program",
    "Replacement",
    "Status",
    "Strategy",
    "Unsupported",
    "as_module",
    "export_hf",
    "functional",
    "generation",
    "load_generation",
    "localize",
    "lower",
    "observe",
    "patched",
    "pieces",
    "pytree_class",
    "run_elsewhere",
    "trace",
]

PLACES = {
    "Exported": "lowering.piecewise.exported",
    "Functions": "lowering.records.options",
    "Generation": "lowering.decoding.generation",
    "Layout": "lowering.layouts.written",
    "LoadedGeneration": "lowering.decoding.loaded",
    "Located": "lowering.localization.localize",
    "Observation": "lowering.piecewise.observing",
    "Piece": "lowering.piecewise.pieces",
    "Program": "lowering.program.program",
    "Replacement": "lowering.capture.patched",
    "Status": "lowering.piecewise.statuses",
    "Strategy": "lowering.piecewise.statuses",
    "as_module": "lowering.torch_modules.as_module",
    "export_hf": "lowering.layouts.export_hf",
    "functional": "lowering.capture.functional",
    "generation": "lowering.decoding.generation",
    "load_generation": "lowering.decoding.loaded",
    "localize": "lowering.localization.localize",
    "lower": "lowering.program.ways",
    "observe": "lowering.piecewise.observing",
    "patched": "lowering.capture.patched",
    "pieces": "lowering.piecewise.pieces",
    "pytree_class": "lowering.records.pytrees",
    "run_elsewhere": "lowering.program.elsewhere",
    "trace": "lowering.program.ways",
}
"""Where what brings in torch stands."""


def __getattr__(name: str) -> Any:
    """What stands in the modules of `PLACES`, and with it torch."""
    if name == "architectures":  # a package of its own, which this attribute imports
        return import_module("lowering.architectures")
    if name not in PLACES:
        raise AttributeError(f"module 'lowering' has no attribute {name!r}")
    with collector_paused():
        return getattr(import_module(PLACES[name]), name)
