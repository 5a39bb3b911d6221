"""The programs of a layout, made and written: what all layouts have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from irkit.core.ir import Graph
from irkit.onnx.shared_weights import write_models
from lowering.layouts.encoders import encoder_part
from lowering.layouts.parts import Part, decoder_part, require_sizes
from lowering.layouts.sources import Source
from lowering.program.program import Program
from lowering.records.options import ExportOptions


@attrs.frozen(eq=False)
class Order:
    """What is asked of a layout: the model, where to write it, how to export, and what numbers it computes with.

    `dtypes` are transformers.js's names of these, each a model of its own; () leaves that to the options.
    """

    source: Source
    folder: Path
    options: ExportOptions
    dtypes: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class Layout:
    """What `lowering.export_hf` has written: the folder, its files, and the program of each model in it by name."""

    folder: Path
    files: tuple[Path, ...]
    programs: Mapping[str, Program]


def parts_of(model: Any) -> list[Part]:
    """The programs that a model consists of. Raises CaptureError for a model that there is no layout for."""
    if model.can_generate():
        return [decoder_part(model)]
    return [encoder_part(model)]


def programs_of(parts: Sequence[Part], options: ExportOptions) -> tuple[dict[str, Program], dict[str, Graph]]:
    """The program of each part by name, and the graph of it that is written. Raises what `irkit.to_onnx` raises, and
    CaptureError for a program that does not read prompts, or does not go on from them."""
    programs = {part.name: part.program(options) for part in parts}
    graphs = {part.name: part.graph(programs[part.name]) for part in parts}
    for part in parts:
        for what, sizes in part.needed.items():
            require_sizes(graphs[part.name], sizes, what)
    return programs, graphs


def write_graphs(
    graphs: Mapping[str, Graph], programs: Mapping[str, Program], folder: Path, weights: str
) -> list[Path]:
    """Writes each graph as a model of its name, and the weights of all of them, each once, into a file; returns the
    paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = write_models({name: (graph, programs[name].opset) for name, graph in graphs.items()}, folder, weights)
    return [*written.values(), *(path for path in (folder / weights,) if path.exists())]
