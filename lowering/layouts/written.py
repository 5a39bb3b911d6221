"""The programs of a layout, made and written: what all layouts have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from irkit.core.ir import Graph
from irkit.onnx.shared_weights import write_models
from lowering.layouts.parts import Part, require_sizes
from lowering.layouts.sources import Source
from lowering.program.program import Program
from lowering.records.options import ExportOptions


@attrs.frozen(eq=False)
class Order:
    """What is asked of a layout: the model, where to write it, how to export."""

    source: Source
    folder: Path
    options: ExportOptions


@attrs.frozen(eq=False)
class Layout:
    """What `lowering.export_hf` has written: the folder, its files, and the program of each model in it by name."""

    folder: Path
    files: tuple[Path, ...]
    programs: Mapping[str, Program]


def programs_of(parts: Sequence[Part], options: ExportOptions) -> tuple[dict[str, Program], dict[str, Graph]]:
    """The program of each part by name, and the graph of it that is written. Raises what `irkit.to_onnx` raises, and
    CaptureError for a program that does not read prompts, or does not go on from them."""
    programs = {part.name: part.program(options) for part in parts}
    graphs = {part.name: part.graph(programs[part.name]) for part in parts}
    for graph in graphs.values():
        require_sizes(graph, {"batch_size": 1, "sequence_length": 4, "past_sequence_length": 0}, "read a prompt")
        require_sizes(graph, {"batch_size": 1, "sequence_length": 1, "past_sequence_length": 4}, "go on token by token")
    return programs, graphs


def write_graphs(
    graphs: Mapping[str, Graph], programs: Mapping[str, Program], folder: Path, weights: str
) -> list[Path]:
    """Writes each graph as a model of its name, and the weights of all of them, each once, into a file; returns the
    paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = write_models({name: (graph, programs[name].opset) for name, graph in graphs.items()}, folder, weights)
    return [*written.values(), *(path for path in (folder / weights,) if path.exists())]
