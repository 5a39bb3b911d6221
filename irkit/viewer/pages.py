"""The pages: of one graph, of what rewriting did to it, of two graphs side by side."""

from __future__ import annotations

from irkit.core.ir import Graph
from irkit.rewriting.history import History
from irkit.rewriting.rules import Rules
from irkit.support.counts import count_text
from irkit.viewer.contents import Plain
from irkit.viewer.differences import Compared, GraphDifference, compared_rows
from irkit.viewer.ledger import Ledger, graph_data
from irkit.viewer.moments import history_data
from irkit.viewer.page import Page
from irkit.viewer.tables import COLUMNS, Tables, port_of

FORMAT = 1
"""The version of the data in a page."""


def graph_page(graph: Graph, title: str = "") -> Page:
    """The page of one graph. Raises StaleError where a content has changed since the graph was made."""
    tables = Tables()
    shown = graph_data(graph, Ledger(tables))
    title = title or graph.name
    head = {"format": FORMAT, "kind": "graph", "title": title, "subtitle": summary(graph), "columns": COLUMNS}
    return Page(title, {**head, "graphs": [shown], **tables.finished()})


def history_page(history: History, title: str = "", own: Rules = (), subtitle: str = "") -> Page:
    """The page of what passes and rules did to a graph, with a slider; `own` are rules of the caller's, of which every
    miss is told. Raises StaleError where a content has changed since."""
    tables = Tables()
    shown = history_data(history, tables, own)
    title = title or history.graph.name
    became = f"{count_text(len(history.graph), 'operator')} to {len(history.result):,}"
    count = sum(len(turn.firings) for turn in history.turns)
    subtitle = subtitle or f"{became}, {count_text(count, 'firing')}"
    head = {"format": FORMAT, "kind": "history", "title": title, "subtitle": subtitle, "columns": COLUMNS}
    return Page(title, {**head, **shown, **tables.finished()})


def difference_page(found: GraphDifference, title: str = "") -> Page:
    """The page of two graphs side by side, with what differs between them."""
    compared = compared_rows(*found.graphs, histograms=True)
    graphs = [side_data(found, compared, 0), side_data(found, compared, 1)]
    title = title or " and ".join(found.names)
    subtitle = f"{count_text(len(found.changes), 'difference')}" if found else "no difference"
    head = {"format": FORMAT, "kind": "difference", "title": title, "subtitle": subtitle, "columns": COLUMNS}
    status = {str(number): parts for number, parts in compared.status.items()}
    changes = found.asdict()["changes"]
    return Page(title, {**head, "graphs": graphs, "status": status, "changes": changes, **compared.tables.finished()})


def side_data(found: GraphDifference, compared: Compared, side: int) -> Plain:
    """One of two graphs as plain data."""
    graph, ids = found.graphs[side], compared.tables.ids
    rows = (compared.before, compared.after)[side]
    ports, results = graph.signature, compared.results[side]
    return {
        "name": found.names[side],
        "operators": len(graph),
        "rows": list(rows.values()),
        "params": [[ids[v], *port_of(ports.params, i)] for i, v in enumerate(graph.params)],
        "results": [[number, *port_of(ports.results, i)] for i, number in enumerate(results)],
        "symbols": [[name, str(range_)] for name, range_ in graph.symbols.items()],
        "facts": [[f.kind, f.text, f.source] for f in ports.facts],
    }


def summary(graph: Graph) -> str:
    """What a graph has, in one line."""
    return (
        f"{count_text(len(graph.params), 'input')}, {count_text(len(graph), 'operator')}, "
        f"{count_text(len(graph.results), 'result')}"
    )
