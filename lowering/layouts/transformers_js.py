"""The folder that transformers.js loads: models below `onnx/`, one for each kind of numbers, told apart by their
names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from irkit.core.ir import Graph
from irkit.onnx.save import AUTO_LIMIT, Form, write_model
from irkit.onnx.shared_weights import write_models
from irkit.onnx.writing.models import weights_of
from irkit.support.files import atomic_write
from lowering.errors import CaptureError
from lowering.layouts.images import image_parts, reads_images
from lowering.layouts.seq2seq import FIRST, WITH_PAST
from lowering.layouts.sources import CONFIG
from lowering.layouts.states import keeps_states, older_kinds, state_parts
from lowering.layouts.written import Layout, Order, graphs_of, parts_of, programs_again, programs_of
from lowering.program.program import Program
from lowering.records.options import ExportOptions
from passes.quantization import Quantization

FOLDER = "onnx"
UNUSED = (FIRST, WITH_PAST)
"""Models that transformers.js does not load: it has both in one."""

SETTINGS = "transformers.js_config"
FP32, BROWSERS = "fp32", "q8"
"""The numbers that a model is of if nobody says otherwise, and those that transformers.js looks for in a browser."""

DTYPES: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        FP32: ("", {}),
        "fp16": ("_fp16", {"precision": "float16"}),
        BROWSERS: ("_quantized", {"quantize": "dynamic"}),
        "int8": ("_int8", {"quantize": Quantization(weights="int8", activations="dynamic")}),
        "uint8": ("_uint8", {"quantize": Quantization(weights="uint8", activations="dynamic")}),
        "q4": ("_q4", {"quantize": "int4"}),
        "q4f16": ("_q4f16", {"quantize": "int4", "precision": "float16"}),
    }
)
"""What transformers.js calls numbers: how its files end, and the options of the export."""


def write_transformers_js(order: Order) -> Layout:
    """Writes a model for each of the dtypes, and the configurations; that of the model says where weights lie beside
    theirs, and which numbers to take where there are none that browsers look for. Raises CaptureError for a dtype that
    there is none of, and for numbers that the options ask for too."""
    dtypes = known_dtypes(order)
    model = order.source.model
    parts = image_parts(model) if reads_images(model) else state_parts(model) if keeps_states(model) else None
    parts = parts or parts_of(model)
    first = programs_of(parts, options_of(order.options, dtypes[0]))
    programs, files, beside = dict[str, Program](), list[Path](), dict[str, int]()
    for dtype in dtypes:
        options, end = options_of(order.options, dtype), DTYPES[dtype][0]
        made = first if dtype == dtypes[0] else programs_again(first, options)
        programs |= {name + end: each for name, each in made.items()}
        opset = next(iter(made.values())).opset
        for name, graph in graphs_of(parts, made).items():
            if name in UNUSED:
                continue
            paths = write_alone(graph, opset, order.folder / FOLDER, name + end)
            files += paths
            beside |= {paths[0].name: 1} if len(paths) > 1 else {}
    files += order.source.copy_beside(order.folder)
    settings: dict[str, Any] = {"use_external_data_format": beside} if beside else {}
    if BROWSERS not in dtypes:
        settings["dtype"] = dtypes[0]
    kinds = older_kinds(model)
    if settings or kinds:
        add_settings(order.folder / CONFIG, settings, kinds)
    return Layout(order.folder, tuple(files), programs)


def known_dtypes(order: Order) -> tuple[str, ...]:
    """The dtypes that are asked for, each once."""
    dtypes = tuple(dict.fromkeys(order.dtypes)) or (FP32,)
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise CaptureError(f"there is no dtype {dtype!r}", hint=f"take some of {', '.join(DTYPES)}")
    if order.options.precision is not None or order.options.quantize is not None:
        raise CaptureError(
            "precision and quantize are what dtypes say in this layout", hint=f"take some of {', '.join(DTYPES)}"
        )
    return dtypes


def options_of(options: ExportOptions, dtype: str) -> ExportOptions:
    """The options of an export with these numbers. Weights of four bits are for ONNX Runtime's own operator, which
    every build of it has."""
    asked = dict(DTYPES[dtype][1])
    if asked.get("quantize") == "int4" and isinstance(options.target, str) and "+" not in options.target:
        asked["target"] = f"{options.target}+com.microsoft"
    return attrs.evolve(options, **asked)


def write_alone(graph: Graph, opset: int, folder: Path, name: str, limit: int = AUTO_LIMIT) -> list[Path]:
    """Writes a model, weights of more bytes than `limit` beside it; returns the paths, the model's first."""
    folder.mkdir(parents=True, exist_ok=True)
    path, weights = folder / f"{name}.onnx", folder / f"{name}.onnx_data"
    if sum(blob.nbytes for blob in weights_of(graph)) > limit:
        write_models({name: (graph, opset)}, folder, weights.name)
        return [path, weights]
    write_model(graph, path, Form(False, opset=opset))
    return [path]


def add_settings(path: Path, settings: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Adds what transformers.js reads to the configuration of a model: its own settings, and others in their places."""
    said = {**json.loads(path.read_text(encoding="utf-8")), **others}
    if settings:
        said[SETTINGS] = {**said.get(SETTINGS, {}), **settings}
    with atomic_write(path) as file:
        file.write(json.dumps(said, indent=2).encode())
