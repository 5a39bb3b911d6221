"""`irkit viz`: a model, and what rewriting does to it, as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irkit.doors.console import STREAM, Model, Target, chosen_rules, read_graph, require_writable
from irkit.doors.viz import viz

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
) -> None:
    """Write a page that shows a model, and each pass and rule that `irkit optimize` would apply to it.

    It is one HTML file, which loads nothing.
    """
    name = "model" if model == STREAM else model.stem
    page = output or Path(f"{name}.html")
    require_writable(page)
    graph = read_graph(model)
    if plain:
        viz(graph, page, title=name)
    else:
        viz(graph, page, rules=chosen_rules(rules), target=target, title=name)
    typer.echo(f"wrote {page}")
