"""`irkit validate`: architectures from tiny configurations to numbers, one, several or all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from irkit.doors.to_onnx import upstairs
from irkit.errors import IrkitError

Names = Annotated[list[str] | None, typer.Argument(help="architectures, such as llama; --list shows all")]


def validate(
    names: Names = None,
    whole: Annotated[bool, typer.Option("--all", help="all architectures, as a table")] = False,
    listed: Annotated[bool, typer.Option("--list", help="print the names of all architectures")] = False,
    dtype: Annotated[str, typer.Option(help="float32, float64, float16 or bfloat16")] = "float32",
    opset: Annotated[int | None, typer.Option(help="the ONNX opset, 13 to 26")] = None,
    target: Annotated[str | None, typer.Option(help="what will run the model, as for export")] = None,
    capture: Annotated[str | None, typer.Option(help="direct, torch.export or auto")] = None,
    quantize: Annotated[str | None, typer.Option(help="keep weights as integers: int4, int8 or dynamic")] = None,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="compute branches and loops on data")] = False,
    patch: Annotated[
        list[str] | None,
        typer.Option(help="a patch in place while models are captured, package.module:name or file.py:name"),
    ] = None,
    runtime: Annotated[
        str, typer.Option(help="onnxruntime, irkit (the evaluator), openvino, tract, onnx-reference, onnxruntime-web")
    ] = "onnxruntime",
    as_json: Annotated[bool, typer.Option("--json", help="a line of JSON for each")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="with --all: how many processes")] = 1,
    limit: Annotated[float, typer.Option(help="with --all: seconds for one architecture")] = 300.0,
    results: Annotated[
        Path, typer.Option(dir_okay=False, help="with --all: a line of JSON for each; run again to go on")
    ] = Path("validated.jsonl"),
) -> None:
    """Build architectures from tiny configurations, export them, and compare each with PyTorch on several input sets:
    prefill, an empty cache, decoding, a batch of 1.

    The exit status is 1 where one fails. With --all they run in processes of their own, and what the file of results
    has for the same options is not done again.
    """
    known = upstairs("lowering.architectures").ARCHITECTURES
    if listed:
        typer.echo("\n".join(f"{each.task:8} {name}" for name, each in known.items()))
        return
    if not names and not whole:
        raise IrkitError("no architecture is named", hint="irkit validate llama, or --all; --list shows all names")
    asked = {"dtype": dtype, "opset": opset, "target": target, "capture": capture, "quantize": quantize}
    asked |= {"rewrite": rewrite or None, "patch": patch or None, "runtime": runtime}
    options = {key: value for key, value in asked.items() if value is not None}
    if whole:
        told = None if as_json else progress
        found: list[Any] = upstairs("lowering.architectures").sweep(
            list(names or known), options, results, jobs, limit, told or ignore
        )
        show(found, as_json)
    else:
        found = []
        for name in names or ():
            found.append(upstairs("lowering.architectures").validate(name, **options))
            if as_json:
                typer.echo(found[-1].json())
        if not as_json:
            show(found, False)
    if not all(found):
        raise typer.Exit(1)


def ignore(_: Any) -> None:
    """Prints nothing."""


def progress(found: Any) -> None:
    """Prints a line for an architecture as soon as it is done."""
    Console(stderr=True, highlight=False, markup=False).print(f"{found.name}: {found.said[:100]}")


def show(found: Sequence[Any], as_json: bool) -> None:
    """Prints outcomes as a table, or as lines of JSON."""
    if as_json:
        typer.echo("\n".join(each.json() for each in found))
        return
    table = Table("architecture", "task", "captured", "nodes", "kB", "seconds", "largest error", "sets", "")
    for each in found:
        seconds = f"{each.seconds.get('export', 0.0):.2f}" if each.seconds else ""
        sets = f"{sum(not s.problem for s in each.sets)} of {len(each.sets)}" if each.sets else ""
        error = f"{each.error:.1e}" if each.sets else ""
        cells = (each.name, each.task, each.capture, str(each.nodes), str(each.size // 1000), seconds, error, sets)
        table.add_row(*map(Text, cells), Text(each.said[:200]), style=None if each else "red")
    console = Console(highlight=False, markup=False)
    console.print(table)
    console.print(f"{sum(map(bool, found))} of {len(found)} agree with PyTorch on every set of inputs")
