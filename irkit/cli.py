"""The command line: `irkit export`, `irkit show`, `irkit check`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from irkit.errors import IrkitError
from irkit.export_door import upstairs
from irkit.ir import Graph
from irkit.onnx.load import load
from irkit.text.files import load_text

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="PyTorch programs as immutable graphs, and as ONNX models."
)
Model = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="the model's file")]


@app.command()
def export(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="an exported program, .pt2")],
    output: Annotated[Path, typer.Option("-o", "--output", help="the ONNX file to write")],
    opset: Annotated[int | None, typer.Option(help="the ONNX opset, 18 to 26; the target's newest if not given")] = None,
    target: Annotated[str, typer.Option(help="what will run the model")] = "onnxruntime-cpu",
    check: Annotated[bool, typer.Option("--check", help="compare with torch on several sizes")] = False,
    strict: Annotated[bool, typer.Option(help="refuse operators that only torch's decomposition can express")] = False,
) -> None:
    """Write an exported PyTorch program as an ONNX model, and say what became of it."""
    console = Console()
    with stages(console) as show:
        program = upstairs("lowering.export").to_onnx(
            model, opset=opset, target=target, strict=strict, progress=show
        )
    program.save(output)
    console.print(program.report.render())
    console.print(f"wrote {output}")
    if check:
        report = program.check()
        console.print(str(report), style="green" if report else "red")
        if not report:
            raise typer.Exit(1)


@app.command()
def show(model: Model) -> None:
    """Print a model, .onnx, .pt2 or .irkit, as irkit text."""
    Console(soft_wrap=True, highlight=False, markup=False).print(str(read(model)))


@app.command()
def check(
    model: Model,
    against: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="the exported program to compare with")],
    runs: Annotated[int, typer.Option(help="how many other assignments of the dimensions to try")] = 3,
) -> None:
    """Compare an ONNX model with the PyTorch program it came from, by numbers, at several sizes."""
    report = upstairs("lowering.against").check_file(model, against, runs)
    Console().print(str(report), style="green" if report else "red")
    if not report:
        raise typer.Exit(1)


def read(path: Path) -> Graph:
    """The graph in a file, by its ending. Raises LoadError or ParseError for what is none."""
    if path.suffix == ".irkit":
        return load_text(path)
    if path.suffix == ".pt2":
        return upstairs("lowering.entry").lower(path)
    return load(path)


class stages(Progress):
    """A progress display whose `with` block gives the function that stages report to."""

    def __init__(self, console: Console) -> None:
        super().__init__(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
            console=console, transient=True,
        )  # fmt: skip

    def __enter__(self) -> Any:
        super().__enter__()
        tasks: dict[str, Any] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = self.add_task(stage, total=total)
            self.update(tasks[stage], completed=done, total=total)

        return show


def app_main() -> None:
    """Runs the command line; an irkit error is printed in its four parts, without a traceback, and exits with 1."""
    try:
        app()
    except IrkitError as error:
        Console(stderr=True, highlight=False, markup=False).print(f"error: {error}")
        sys.exit(1)
