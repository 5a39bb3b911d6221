"""`export_hf`: a model of transformers as a folder that optimum, transformers.js or onnxruntime-genai read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs

from irkit.errors import IrkitError
from lowering.errors import CaptureError
from lowering.layouts.genai import write_genai
from lowering.layouts.optimum import write_optimum
from lowering.layouts.sources import require_folder, source_of
from lowering.layouts.transformers_js import write_transformers_js
from lowering.layouts.written import Layout, Order
from lowering.records.options import ExportOptions

OPTIMUM, JS = "optimum", "transformers.js"
LAYOUTS: Mapping[str, Callable[[Order], Layout]] = MappingProxyType(
    {OPTIMUM: write_optimum, JS: write_transformers_js, "genai": write_genai}
)
"""What writes each layout."""


def export_hf(
    source: Any,
    folder: Any,
    layout: str = OPTIMUM,
    *,
    task: str | None = None,
    random: bool = False,
    seed: int = 0,
    dtypes: Sequence[str] = (),
    **options: Any,
) -> Layout:
    """Writes a model of transformers into a folder from which another library loads it.

    Args:
        source: a model in eval mode; a folder that `save_pretrained` wrote; or the path of a configuration.
        folder: where to write; made where it is missing.
        layout: whose names and files: "optimum", "transformers.js", or "genai" for onnxruntime-genai.
        task: what the model is for, as optimum calls it: "text-generation", "feature-extraction" and others; what the
            configuration names where it is not given.
        random: random weights, after `seed`, for a configuration without any.
        dtypes: for transformers.js, the numbers of each model that is written, by its names: "fp32", "fp16", "q8",
            "int8", "uint8", "q4", "q4f16"; "fp32" if not given.
        options: those of `irkit.to_onnx` that say how to export: opset, target, rules, precision, quantize and others.

    Returns what was written. Raises CaptureError for a source, task or model that there is no layout for, and what
    `irkit.to_onnx` raises.
    """
    if layout not in LAYOUTS:
        raise IrkitError(f"there is no layout {layout!r}", hint=f"take one of {', '.join(LAYOUTS)}")
    settings = require_no_shapes(ExportOptions(**options))
    meant = source_of(source, task, random, seed)
    if dtypes and layout != JS:
        raise CaptureError(f"dtypes are for {JS}", hint="say precision= and quantize= in other layouts")
    names = (dtypes,) if isinstance(dtypes, str) else tuple(dtypes)
    made = LAYOUTS[layout](Order(meant, require_folder(folder), settings, names))
    return attrs.evolve(made, notes=(*meant.notes, *made.notes)) if meant.notes else made


def require_no_shapes(options: ExportOptions) -> ExportOptions:
    """The options. Raises CaptureError for sizes that vary, which a layout names itself."""
    if options.dynamic_shapes is not None:
        raise CaptureError("a layout says itself which sizes vary", hint="leave dynamic_shapes out")
    return options
