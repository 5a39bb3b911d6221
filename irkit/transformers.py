"""irkit for transformers' exporters: after `irkit.transformers.register()` the export format "irkit" is irkit.

`IrkitConfig` says how to export, `IrkitExporter` exports, `IrkitRunner` runs; docs/guide/generate.md shows them. torch
and transformers are imported when one of these is asked for.
"""

from typing import Any

from irkit.doors.above import BACKEND, found_in_plug_in


def __getattr__(name: str) -> Any:
    """What transformers is given of irkit."""
    if name not in BACKEND:
        raise AttributeError(f"module 'irkit.transformers' has no attribute {name!r}")
    return found_in_plug_in(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *BACKEND})
