"""A door on the roof: what `irkit` offers of the packages above it, and of its own upper floors, looked up when it is
first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from irkit.support.uncollected import collector_paused

if TYPE_CHECKING:
    from irkit.doors.compile import compile
    from irkit.doors.to_onnx import save, to_onnx
    from irkit.doors.viz import diff, viz
    from irkit.toolbox.stats import stats
    from lowering.errors import CaptureError, LoweringError, MissingConverters
    from lowering.program.program import Program
    from passes.gradients import grad
    from passes.precision import Precision
    from passes.targets import Target

__all__ = ["ABOVE", "FOLDERS", "CaptureError", "LoweringError", "MissingConverters", "Precision", "Program", "Target"]
__all__ += ["compile", "diff", "found_above", "grad", "save", "stats", "to_onnx", "viz"]

ABOVE: Mapping[str, str] = MappingProxyType(
    {
        "to_onnx": "irkit.doors.to_onnx",
        "check_operator": "irkit.dialects.checks",
        "check_rule": "irkit.checking.rules",
        **dict.fromkeys(
            ("Discovery", "Equation", "Proof", "discover", "equation", "prove", "replace_pattern"), "irkit.equations"
        ),
        "compile": "irkit.doors.compile",
        "save": "irkit.doors.to_onnx",
        "viz": "irkit.doors.viz",
        "diff": "irkit.doors.viz",
        "stats": "irkit.toolbox.stats",
        "grad": "passes.gradients",
        "Program": "lowering.program.program",
        "Target": "passes.targets",
        "Precision": "passes.precision",
        "CaptureError": "lowering.errors",
        "LoweringError": "lowering.errors",
        "MissingConverters": "lowering.errors",
    }
)
"""The module of each name."""

PLUG_IN, BACKEND = (
    "lowering.decoding.transformers_exporter",
    ("IrkitConfig", "IrkitExporter", "IrkitRunner", "register"),
)
"""What irkit is to transformers' exporters, which `irkit.transformers` offers, and where that stands."""


def found_in_plug_in(name: str) -> Any:
    """The class or function of that name, and with it torch and transformers."""
    return getattr(import_module(PLUG_IN), name)


FOLDERS = ("testing", "transformers")
"""Folders that `import irkit` does not bring: `irkit.testing` is imported when it is first asked for."""


def found_above(name: str) -> Any:
    """The function, class or folder of that name."""
    with collector_paused():
        return import_module(f"irkit.{name}") if name in FOLDERS else getattr(import_module(ABOVE[name]), name)
