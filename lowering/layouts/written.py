"""The programs of a layout, made and written: what all layouts have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from irkit.core.ir import Graph
from irkit.onnx.shared_weights import write_models
from lowering.layouts.encoders import encoder_part
from lowering.layouts.merged import merged_by_length, merged_decoders
from lowering.layouts.parts import Part, decoder_part, require_sizes
from lowering.layouts.seq2seq import FIRST, MERGED, WITH_PAST, seq2seq_parts
from lowering.layouts.sources import Source
from lowering.layouts.states import SEVERAL, SINGLE
from lowering.program.program import Program
from lowering.program.to_onnx import export_again
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
    """What `lowering.export_hf` has written: the folder, its files, the program of each model in it by name, and what
    could not be as its reader has it fastest."""

    folder: Path
    files: tuple[Path, ...]
    programs: Mapping[str, Program]
    notes: tuple[str, ...] = ()


def parts_of(model: Any) -> list[Part]:
    """The programs that a model consists of. Raises CaptureError for a model that there is no layout for."""
    if model.config.is_encoder_decoder and model.can_generate():
        return seq2seq_parts(model)
    return [decoder_part(model)] if model.can_generate() else [encoder_part(model)]


def programs_of(parts: Sequence[Part], options: ExportOptions) -> dict[str, Program]:
    """The program of each part by name, all of one opset. Raises what `irkit.to_onnx` raises, and CaptureError for a
    program that does not read prompts, or does not go on from them."""
    found = of_one_opset({part.name: part.program(options) for part in parts}, options)
    for part in parts:
        for what, sizes in part.needed.items():
            require_sizes(found[part.name].ready, sizes, what)
    return found


def programs_again(programs: Mapping[str, Program], options: ExportOptions) -> dict[str, Program]:
    """The same programs with other options, of what was captured once."""
    return of_one_opset({name: export_again(each, options) for name, each in programs.items()}, options)


def of_one_opset(programs: Mapping[str, Program], options: ExportOptions) -> dict[str, Program]:
    """Programs of the newest opset among theirs: two of them may become one model."""
    newest = max(program.opset for program in programs.values())
    settled = attrs.evolve(options, opset=newest)
    return {name: made if made.opset == newest else export_again(made, settled) for name, made in programs.items()}


def graphs_of(parts: Sequence[Part], programs: Mapping[str, Program]) -> dict[str, Graph]:
    """The graph of each part by name, and those of two decoders as one."""
    found = {part.name: part.graph(programs[part.name]) for part in parts}
    if WITH_PAST in found:
        found[MERGED] = merged_decoders(found[FIRST], found[WITH_PAST])
    if SINGLE in found:
        found[SEVERAL] = merged_by_length(found[SEVERAL], found.pop(SINGLE))
    return found


def write_graphs(graphs: Mapping[str, Graph], opset: int, folder: Path, weights: str) -> list[Path]:
    """Writes each graph as a model of its name, and the weights of all of them, each once, into a file; returns the
    paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = write_models({name: (graph, opset) for name, graph in graphs.items()}, folder, weights)
    return [*written.values(), *(path for path in (folder / weights,) if path.exists())]
