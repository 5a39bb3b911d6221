"""`irkit.viz` and `irkit viz`: graphs, and what rewriting did to them, as one HTML page that needs no other file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from irkit.core.ir import Graph
from irkit.errors import GraphError, IrkitError
from irkit.viewer.page import Page
from irkit.viewer.pages import graph_page


def viz(what: Any, path: str | os.PathLike[str] | None = None, *, title: str = "") -> Page:
    """A page that shows a graph: folded by module, with types, sizes, origins and constants, to be searched and moved
    through by mouse and keys.

    Args:
        what: a graph, or a program of `irkit.to_onnx`.
        path: where to write the page; one file, which loads nothing.
        title: of the page; the name of the graph if not given.

    Returns the page: notebooks show it, `page.html` is its text. Raises GraphError for what cannot be shown, IrkitError
    where no file can be written there, StaleError where a weight has changed since the graph was made.
    """
    page = page_of(what, title)
    if path is not None:
        write_page(page, path)
    return page


def page_of(what: Any, title: str = "") -> Page:
    """The page of what `viz` shows. Raises GraphError for what cannot be shown."""
    if isinstance(what, Graph):
        return graph_page(what, title)
    graph = getattr(what, "graph", None)
    if isinstance(graph, Graph):
        return graph_page(graph, title)
    raise GraphError(f"a {type(what).__name__} cannot be shown", hint="give a graph, or a program of irkit.to_onnx")


def write_page(page: Page, path: str | os.PathLike[str]) -> None:
    """Writes the page. Raises IrkitError where no file can be written there."""
    try:
        Path(path).write_text(page.html, "utf-8")
    except OSError as error:
        raise IrkitError(f"the page cannot be written: {error}", hint="choose another path") from error
