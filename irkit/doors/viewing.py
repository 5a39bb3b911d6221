"""`irkit viz`: a model, and what rewriting does to it, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from irkit.doors.console import (
    STREAM,
    AsJson,
    Model,
    Quiet,
    Target,
    as_text,
    chosen_rules,
    console_beside,
    read_graph,
    require_writable,
)
from irkit.doors.viz import diff, viz

PageFile = Annotated[
    Path | None, typer.Option("-o", "--output", dir_okay=False, help="the page to write; model.html if not given")
]


def viz_file(
    model: Model,
    output: PageFile = None,
    rules: Annotated[str, typer.Option(help="a Python file with rules of yours, or irkit's by name")] = "",
    target: Target = "onnxruntime-cpu",
    plain: Annotated[
        bool, typer.Option("--plain", help="the graph as it is, without what rewriting makes of it")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a page that shows a model, and each pass and rule that `irkit optimize` would apply to it.

    It is one HTML file, which loads nothing.
    """
    name = "model" if model == STREAM else model.stem
    page = output or Path(f"{name}.html")
    require_writable(page)
    graph = read_graph(model)
    if plain:
        made = viz(graph, page, title=name)
    else:
        made = viz(graph, page, title=name, rules=chosen_rules(rules), target=target)
    told = {"saved": str(page), "bytes": page.stat().st_size, "moments": len(made.data.get("moments", ()))}
    console_beside(None, quiet).print(as_text(told) if as_json else f"wrote {page}")


def diff_files(
    before: Model,
    after: Model,
    output: PageFile = None,
    as_json: AsJson = False,
) -> None:
    """Say what differs between two models: structure, types, names, weights. With -o also as a page, side by side.

    The exit status is 1 where they differ.
    """
    found = diff(read_graph(before), read_graph(after), names=(before.name, after.name))
    if output is not None:
        require_writable(output)
        viz(found, output)
    if as_json:
        typer.echo(found.json())
    else:
        Console(highlight=False, markup=False, soft_wrap=True).print(str(found))
    if found:
        raise typer.Exit(1)
