"""`export_hf`: a model of transformers as a folder that optimum, transformers.js or onnxruntime-genai read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from irkit.errors import IrkitError
from irkit.onnx.shared_weights import write_models
from lowering.errors import CaptureError
from lowering.layouts.parts import Part, decoder_part, require_sizes
from lowering.layouts.sources import Source, require_folder, source_of
from lowering.program.program import Program
from lowering.records.options import ExportOptions

OPTIMUM = "optimum"
LAYOUTS = (OPTIMUM,)


@attrs.frozen(eq=False)
class Layout:
    """What `lowering.export_hf` has written: the folder, its files, and the program of each model in it by name."""

    folder: Path
    files: tuple[Path, ...]
    programs: Mapping[str, Program]


def export_hf(
    source: Any,
    folder: Any,
    layout: str = OPTIMUM,
    *,
    task: str | None = None,
    random: bool = False,
    seed: int = 0,
    **options: Any,
) -> Layout:
    """Writes a model of transformers into a folder from which another library loads it.

    Args:
        source: a model in eval mode; a folder that `save_pretrained` wrote; or the path of a configuration.
        folder: where to write; made where it is missing.
        layout: whose names and files: "optimum".
        task: what the model is for, as optimum calls it: "text-generation", "feature-extraction" and others; what the
            configuration names where it is not given.
        random: random weights, after `seed`, for a configuration without any.
        options: those of `irkit.to_onnx` that say how to export: opset, target, rules, precision, quantize and others.

    Returns what was written. Raises CaptureError for a source, task or model that there is no layout for, and what
    `irkit.to_onnx` raises.
    """
    if layout not in LAYOUTS:
        raise IrkitError(f"there is no layout {layout!r}", hint=f"take one of {', '.join(LAYOUTS)}")
    settings = ExportOptions(**options)
    meant = source_of(source, task, random, seed)
    parts = parts_of(meant)
    programs = {part.name: part.program(settings) for part in parts}
    graphs = {part.name: part.graph(programs[part.name]) for part in parts}
    for graph in graphs.values():
        require_sizes(graph, {"batch_size": 1, "sequence_length": 4, "past_sequence_length": 0}, "read a prompt")
        require_sizes(graph, {"batch_size": 1, "sequence_length": 1, "past_sequence_length": 4}, "go on token by token")
    folder = require_folder(folder)
    written = write_models({name: (graph, programs[name].opset) for name, graph in graphs.items()}, folder, WEIGHTS)
    files = [*written.values(), folder / WEIGHTS, *meant.copy_beside(folder)]
    return Layout(folder, tuple(each for each in files if each.exists()), programs)


WEIGHTS = "model.onnx_data"


def parts_of(source: Source) -> list[Part]:
    """The programs of a model. Raises CaptureError for one that is no decoder alone."""
    if source.model.config.is_encoder_decoder:
        raise CaptureError(
            f"{type(source.model).__name__} has an encoder, and decoders alone are laid out",
            hint="lowering.generation serves it",
        )
    return [decoder_part(source.model)]
