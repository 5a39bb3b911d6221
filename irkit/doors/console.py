"""What the commands share: their arguments, how they read and write models, what they print, and how they end."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from irkit.core.ir import Graph
from irkit.errors import IrkitError
from irkit.onnx.load import load
from irkit.onnx.save import Form, write_model
from irkit.onnx.writing.models import to_proto
from irkit.rewriting.rules import Rule
from irkit.support.counts import count_text
from irkit.support.upstairs import upstairs
from irkit.text.files import load_text, save_text
from irkit.text.parser import parse
from irkit.toolbox.rule_files import names_file, rules_in

STREAM = Path("-")
"""What stands for standard input, and for standard output."""


def require_file(path: Path) -> Path:
    """The path of a file, or `-`. Raises BadParameter where there is none.

    The check of typer itself, in 0.29, takes `-` for the name of a file.
    """
    if path != STREAM and not path.exists():
        raise typer.BadParameter(f"file {str(path)!r} does not exist.")
    if path.is_dir():
        raise typer.BadParameter(f"file {str(path)!r} is a directory.")
    return path


Model = Annotated[
    Path, typer.Argument(callback=require_file, help="a model, .onnx, .pt2 or .irkit; - reads one from standard input")
]
Output = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        dir_okay=False,
        allow_dash=True,
        help="the ONNX file to write; irkit text if it ends in .irkit; - writes it to standard output",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="print errors only")]
Sizes = Annotated[list[str] | None, typer.Argument(help="sizes by name, such as n=3", show_default=False)]
Seed = Annotated[int, typer.Option(help="what random inputs are drawn by")]
Drawn = Annotated[
    list[str] | None,
    typer.Option("--range", help="what an input is drawn from, such as ids=0:1000; may be repeated"),
]
Opset = Annotated[int | None, typer.Option(help="the ONNX opset, 13 to 26; the newest that runs if not given")]
Chosen = Annotated[
    str,
    typer.Option(
        "--rules",
        help="rules by name, such as default-attention or norms+casts, which `irkit rules` lists; or a file of your "
        "own, mine.py or mine.py:name",
    ),
]
Half = Annotated[str | None, typer.Option(help="compute in float16 or bfloat16 as far as that is safe")]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="with --precision or --quantize: an operator, module or result that stays in float32; may be repeated"
    ),
]
Integers = Annotated[
    str | None, typer.Option(help="keep weights as integers: int4, int8, dynamic, or static, which takes a --sample")
]
KeepIO = Annotated[bool, typer.Option(help="with --precision: inputs and outputs stay in float32")]
Samples = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="inputs by name, .npz: to see what overflows, and ranges for integers"
    ),
]
Target = Annotated[
    str,
    typer.Option(
        help="what will run the model: onnxruntime-cpu, onnxruntime-cuda or onnxruntime-web (+com.microsoft behind it "
        "allows ONNX Runtime's own operators), openvino, tract, onnx-reference, or onnx for any runtime"
    ),
]


TEXT = b"graph "
"""How a graph begins that is written as text."""


class Commands(TyperGroup):
    """The commands. An irkit error, or one of the file system, is printed without a traceback, and exits with 1; an
    interrupt ends in one line, and exits with 130."""

    def invoke(self, ctx: Any) -> Any:
        """What the command returns."""
        try:
            return super().invoke(ctx)
        except (IrkitError, OSError) as error:
            if getattr(error, "errno", None) == errno.EPIPE:  # `irkit show model.onnx | head`
                raise
            Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"error: {error}")
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            Console(stderr=True).print("interrupted")
            raise typer.Exit(130) from error


def chosen_rules(text: str) -> tuple[Rule | str, ...]:
    """What `--rules` chooses: the rules of a file, or the text itself, which names rules of irkit. Raises RewriteError
    for a file that is not there, cannot be run, or has no rules."""
    return rules_in(text) if names_file(text) else (text,) if text else ()


def arrays_in(path: Path) -> dict[str, Any]:
    """The arrays in an .npz file by name. Raises IrkitError for any other file."""
    try:
        with np.load(path) as found:
            return dict(found)
    except (AttributeError, EOFError, TypeError, ValueError, BadZipFile) as error:
        raise IrkitError(f"{path.name} holds no arrays by name", hint="numpy.savez(path, x=...) writes one") from error


def print_report(console: Console, report: Any) -> None:
    """Prints the report of a check. Raises typer.Exit, with status 1, where it found a difference."""
    console.print(str(report), style="green" if report else "red")
    if not report:
        raise typer.Exit(1)


def read_graph(path: Path) -> Graph:
    """The graph in a file, by its ending; in standard input, as text or as an ONNX model, for `-`. Raises LoadError,
    ParseError or CaptureError for what is none."""
    if path == STREAM:
        data = sys.stdin.buffer.read()
        return parse(data.decode()) if data.startswith(TEXT) else load(data)
    if path.suffix == ".irkit":
        return load_text(path)
    if path.suffix == ".pt2":
        return upstairs("lowering").lower(path)
    return load(path)


def write(graph: Graph, path: Path, opset: int | None) -> None:
    """Writes a graph that is ready for its target: as irkit text where the file ends so, else as ONNX."""
    if path == STREAM:
        sys.stdout.buffer.write(to_proto(graph, opset=opset).SerializeToString())
        sys.stdout.buffer.flush()
    elif path.suffix == ".irkit":
        save_text(graph, path)
    else:
        write_model(graph, path, Form(opset=opset))


def require_writable(output: Path) -> None:
    """Raises IrkitError where no file can be made there, or none of ONNX, before the work rather than after it."""
    if output.suffix in (".pt2", ".pt", ".pth"):
        raise IrkitError(
            f"{output.name} is the name of a file of torch's", hint="let the output end in .onnx or .irkit"
        )
    if output == STREAM:
        return
    folder = output.parent
    if not folder.is_dir():
        raise IrkitError(f"there is no folder {str(folder)!r}", hint="make it first, or choose another output")
    if not os.access(folder, os.W_OK):
        raise IrkitError(f"files in {str(folder)!r} may not be written", hint="choose another output")


def console_beside(output: Path | None, quiet: bool = False) -> Console:
    """Where a command says what it did: standard output, unless the model goes there; nowhere where it is `quiet`."""
    return Console(stderr=output == STREAM, quiet=quiet, highlight=False, markup=False, soft_wrap=True)


def node_count(graph: Graph) -> str:
    """How many nodes a graph has, in words."""
    return count_text(len(graph), "node")


def wrote(output: Path | None) -> str:
    """The end of a line that says which file was written; empty where none was."""
    return "" if output in (None, STREAM) else f": wrote {output}"


def as_text(given: object) -> str:
    """Plain data as JSON."""
    return json.dumps(given, indent=2, ensure_ascii=False)


class stages(Progress):
    """A progress display whose `with` block gives the function that stages report to."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Any:
        super().__enter__()
        tasks: dict[str, Any] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = self.add_task(stage, total=total)
            self.update(tasks[stage], completed=done, total=total)

        return show
