"""`irkit export-hf`: a model of transformers as a folder that another library reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from irkit.doors.console import AsJson, Quiet, as_text, console_beside
from irkit.doors.to_onnx import upstairs


def export_hf(
    source: Annotated[
        Path, typer.Argument(exists=True, help="config.json, or a folder that save_pretrained wrote, weights and all")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", file_okay=False, help="the folder to write")],
    layout: Annotated[str, typer.Option(help="whose names and files: optimum, transformers.js or genai")] = "optimum",
    task: Annotated[
        str | None,
        typer.Option(help="what the model is for, such as text-generation; what the configuration names if not given"),
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="random weights, where there are none beside the configuration")
    ] = False,
    seed: Annotated[int, typer.Option(help="with --random: the seed of the weights")] = 0,
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="for transformers.js: fp32, fp16, q8, int8, uint8, q4 or q4f16; may be repeated"),
    ] = None,
    opset: Annotated[int | None, typer.Option(help="the ONNX opset, 13 to 26")] = None,
    target: Annotated[str, typer.Option(help="what will run the model, as for export")] = "onnxruntime-cpu",
    precision: Annotated[str | None, typer.Option(help="compute in float16 or bfloat16 as far as that is safe")] = None,
    quantize: Annotated[str | None, typer.Option(help="keep weights as integers: int4, int8 or dynamic")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a model of transformers as a folder that another library reads: its programs under the names that are
    looked for, the configuration, and the files of the tokenizer.
    """
    asked: dict[str, Any] = {"opset": opset, "target": target, "precision": precision, "quantize": quantize}
    made = upstairs("lowering.layouts.export_hf").export_hf(
        source, output, layout, task=task, random=random, seed=seed, dtypes=dtype or (), **asked
    )
    console = console_beside(None, quiet)
    if as_json:
        files = [str(path) for path in made.files]
        console.print(as_text({"layout": layout, "files": files, "notes": list(made.notes)}))
        return
    for path in made.files:
        console.print(f"wrote {path}")
    for note in made.notes:
        console.print(f"note: {note}")
