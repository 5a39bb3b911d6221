"""`irkit.viz` and `irkit viz`: graphs, and what rewriting did to them, as one HTML page that needs no other file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from irkit.core.ir import Graph, require_graph
from irkit.doors.to_onnx import upstairs
from irkit.errors import GraphError, IrkitError
from irkit.rewriting.history import History, record_history
from irkit.rewriting.journal import Applied
from irkit.rewriting.passes import Trace
from irkit.rewriting.rules import Rule, Rules
from irkit.support.arguments import type_text
from irkit.support.counts import count_text
from irkit.viewer.differences import GraphDifference, difference
from irkit.viewer.journals import journal_history, trace_history
from irkit.viewer.page import Page
from irkit.viewer.pages import difference_page, graph_page, history_page

if TYPE_CHECKING:
    from passes.targets import Target


def viz(
    what: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    rules: Rules | Rule | str | tuple[Rule | str, ...] = (),
    target: str | Target | None = None,
    title: str = "",
) -> Page:
    """A page that shows a graph: folded by module, with types, sizes, origins and constants, to be searched and moved
    through by mouse and keys; and what rewriting did to it, with a slider over passes and firings.

    Args:
        what: a graph; what `irkit.diff` returns, for two side by side; a program of `irkit.to_onnx`, with all that
            became of it; an `irkit.rewriting.History`; what `irkit.record` returns; or a journal, a list of
            `irkit.rewriting.Applied`.
        path: where to write the page; one file, which loads nothing.
        rules, target: of a graph: shown is what `passes.optimize` does to it with these rules, and what fits it to the
            target. Without either, the graph as it is.
        title: of the page; the name of the graph if not given.

    Returns the page: notebooks show it, `page.html` is its text. Raises GraphError for what cannot be shown, IrkitError
    where no file can be written there, StaleError where a weight has changed since the graph was made.
    """
    page = page_of(what, rules, target, title)
    if path is not None:
        write_page(page, path)
    return page


def page_of(what: Any, rules: Any, target: Any, title: str) -> Page:
    """The page of what `viz` shows. Raises GraphError for what cannot be shown."""
    own = tuple(r for r in ((rules,) if isinstance(rules, Rule | str) else rules) if isinstance(r, Rule))
    if isinstance(what, Graph):
        if not rules and target is None:
            return graph_page(what, title)
        return history_page(optimization(what, rules, target), title or what.name, own)
    if isinstance(what, History):
        return history_page(what, title, own)
    if isinstance(what, Trace):
        return history_page(trace_history(what), title, own)
    if isinstance(what, GraphDifference):
        return difference_page(what, title)
    journal = applications(what)
    if journal is not None:
        return history_page(
            journal_history(journal), title or "journal", subtitle=f"{count_text(len(journal), 'application')}"
        )
    history = getattr(what, "history", None)
    if callable(history):
        found: Any = history()
        return history_page(found, title, getattr(what, "own_rules", ()))
    raise GraphError(
        f"{type_text(what)} cannot be shown",
        hint="give a graph, a program of irkit.to_onnx, a history or a journal; irkit.load reads a file",
    )


def diff(a: Any, b: Any, *, names: tuple[str, str] = ("", "")) -> GraphDifference:
    """What differs between two graphs, or programs: structure, types, names of inputs and results, weights.

    Returns a difference that is true where there is one; `str` is a page of text, `asdict` and `json` plain data, and
    `irkit.viz(irkit.diff(a, b))` shows both side by side. What corresponds is found by names of inputs and weights, by
    what is computed of what corresponds, and by where values come from. Raises GraphError for what is no graph,
    StaleError where a weight has changed since its graph was made.
    """
    graphs = [each if isinstance(each, Graph) else getattr(each, "ready", each) for each in (a, b)]
    for each in graphs:
        require_graph(each)
    return difference(graphs[0], graphs[1], names)


def applications(what: Any) -> list[Applied] | None:
    """The applications in a journal; None for what is none."""
    if not isinstance(what, list | tuple):
        return None
    found = [each for each in cast("Sequence[object]", what) if isinstance(each, Applied)]
    return found if len(found) == len(cast("Sequence[object]", what)) else None


def optimization(graph: Graph, rules: Any, target: Any) -> History:
    """What the standard pipeline does to a graph, and, with a target, what fits it to that."""
    if target is None:

        def optimized(graph: Graph, observe: Any) -> Graph:
            return upstairs("passes").optimize(graph, rules=rules, observe=observe)

        return record_history(optimized, graph)

    def fitted(graph: Graph, observe: Any) -> Graph:
        return upstairs("passes.files").optimized_for(graph, target, None, 2, rules=rules, observe=observe).graph

    return record_history(fitted, graph)


def write_page(page: Page, path: str | os.PathLike[str]) -> None:
    """Writes the page. Raises IrkitError where no file can be written there."""
    try:
        Path(path).write_text(page.html, "utf-8")
    except OSError as error:
        raise IrkitError(f"the page cannot be written: {error}", hint="choose another path") from error
