"""irkit as an exporter and a runner of transformers, which its `AutoHfExporter` finds under "irkit"."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers.exporters.auto import EXPORT_BACKENDS, register_backend
from transformers.exporters.base import HfExporter
from transformers.exporters.configs import ExportConfigMixin
from transformers.exporters.exporter_dynamo import patch_model_config, register_cache_pytrees_for_model
from transformers.exporters.metadata import ExportMetadata, build_export_metadata, record_output_structure
from transformers.exporters.runners.base import ModelRunner
from transformers.exporters.utils import apply_patches, prepare_for_export

from irkit.onnx.shared_weights import write_models
from lowering.decoding.program_files import FileProgram, file_graph
from lowering.decoding.steps import shapes_of
from lowering.errors import CaptureError
from lowering.program.bound import Bound
from lowering.program.program import Program
from lowering.program.to_onnx import export_model
from lowering.records.options import ExportOptions
from lowering.records.torch_internals import pytree

FORMAT = "irkit"
OPTIONS = ("opset", "target", "rules", "precision", "functions", "quantize", "optimize", "progress", "seed", "copy")


@dataclass
class IrkitConfig(ExportConfigMixin):
    """How irkit exports a model of transformers.

    `dynamic` lets vary what transformers varies: the batch, the tokens that are read, those in a cache, the positions
    of an encoder. `dynamic_shapes` says it in any form that `irkit.to_onnx` takes, and wins. The others are the options
    of `irkit.to_onnx` of the same names.
    """

    export_format: str = FORMAT
    dynamic: bool = False
    dynamic_shapes: dict[str, Any] | None = None
    opset: int | None = None
    target: str = "onnxruntime-cpu"
    rules: Any = ()
    precision: Any = None
    functions: Any = None
    quantize: Any = None
    optimize: bool = True
    seed: int | None = None
    copy: bool = False
    progress: Callable[[str, int, int], None] | None = None
    quantizer: None = None

    def options(self) -> dict[str, Any]:
        """The options that are not left to irkit, by name."""
        return {name: getattr(self, name) for name in OPTIONS}


class IrkitExporter(HfExporter):
    """Exports a model of transformers by irkit. Its programs are `irkit.Program`s."""

    export_format = FORMAT
    config_class = IrkitConfig
    program_suffix = ".onnx"
    required_packages: list[str] = ["torch", "onnx", "onnxruntime"]  # noqa: RUF012

    def export_program(  # pyright: ignore[reportIncompatibleMethodOverride]: as each exporter of transformers
        self, model: Any, sample_inputs: MutableMapping[str, Any], config: IrkitConfig
    ) -> tuple[Program, ExportMetadata]:
        """The program of one graph, and what transformers records of it. Raises what `irkit.to_onnx` raises, and
        CaptureError for a quantizer of transformers, and for a model in training mode."""
        if config.quantizer is not None:
            raise CaptureError("quantizer is for other formats", hint="say quantize=, as irkit.to_onnx takes it")
        if model.training:
            raise CaptureError(f"{type(model).__name__} is in training mode", hint="call model.eval() before")
        model, inputs, flags = prepare_for_export(model, sample_inputs)
        shapes = config.dynamic_shapes
        if shapes is None and config.dynamic:
            shapes = shapes_of(inputs)
        options = ExportOptions(
            dynamic_shapes=shapes,
            specialization="report" if config.dynamic_shapes is None else None,
            **config.options(),
        )
        packed = apply_patches("dynamo") if "cu_seqlens" in inputs else nullcontext()  # else a loop over images
        with torch.no_grad(), patch_model_config(model, flags), packed:
            program = export_model(model, (), copy.deepcopy(dict(inputs)), options)
            result = model(**copy.deepcopy(dict(inputs)))
        register_cache_pytrees_for_model(model)
        tree = pytree.tree_structure
        spec = SimpleNamespace(in_spec=tree(((), dict(inputs))), out_spec=tree(result))
        metadata = build_export_metadata(model, inputs, SimpleNamespace(call_spec=spec), self.required_packages)
        record_output_structure(metadata, result)
        return program, metadata

    @classmethod
    def save_program(cls, program: Program | FileProgram, path: str | os.PathLike[str]) -> None:
        """Writes a program, its weights beside it in `<name>.data`."""
        path = Path(path)
        if isinstance(program, FileProgram):
            program.save(path)
        else:
            write_models({path.name.removesuffix(".onnx"): file_graph(program)}, path.parent, f"{path.name}.data")
        path.with_name(f"{path.name}.data").touch()  # transformers asks for it, where no weight is large enough too

    @classmethod
    def program_files(cls, filename: str) -> list[str]:
        """The model and its weights."""
        return [filename, f"{filename}.data"]

    @classmethod
    def load_program(cls, path: str | os.PathLike[str]) -> FileProgram:
        """The program in a file that `save_program` wrote."""
        return FileProgram.of(path)


class IrkitRunner(ModelRunner):
    """Runs a program of irkit's: one that was just exported, or one from a file. Each call is checked."""

    def __init__(self, metadata: ExportMetadata, call: Callable[..., Any]) -> None:
        super().__init__(metadata)
        self.call = call

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @classmethod
    def from_program(cls, program: Program | FileProgram, metadata: ExportMetadata, device: Any = None) -> IrkitRunner:
        """The runner of a program. Raises ValueError for another device than the CPU."""
        if device is not None and torch.device(device).type != "cpu":
            raise ValueError(f"irkit's runner runs on the CPU, and was asked for {device}")
        call: Bound | FileProgram = program if isinstance(program, FileProgram) else program.bound()
        return cls(metadata, call)

    def __call__(self, share_inputs: bool = True, share_outputs: bool = False, **kwargs: Any) -> Any:
        """What the model returns. Inputs are read in place; outputs are nobody else's, whatever is asked. Raises
        ContractError for what the model was not captured for."""
        return self.call(**kwargs)


def register() -> None:
    """Has transformers find irkit under "irkit": `AutoHfExporter`, `AutoExportConfig`, `ExportedModel.from_pretrained`.
    Once it does, this does nothing."""
    known: Mapping[str, Any] = EXPORT_BACKENDS
    if FORMAT not in known:
        register_backend(IrkitExporter, IrkitRunner)
