"""Small pieces of HTML for notebooks: no scripts, no style sheets, colours that read on light and on dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

DIM, BLUE, TEAL, ORANGE = "#8b93a3", "#3b82f6", "#0d9488", "#d97706"
"""Colours of what is said in passing, of types, of attributes, and of operators."""

MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;line-height:1.5"
"""How text of the IR is set."""


def in_color(text: str, color: str) -> str:
    """A text in a colour."""
    return f'<span style="color:{color}">{escape(text)}</span>'


def lines_html(lines: Iterable[str]) -> str:
    """Lines of HTML, one below the other, as they are."""
    return f'<pre style="{MONO};margin:2px 0 6px 18px;white-space:pre;overflow-x:auto">' + "\n".join(lines) + "</pre>"


def folded_html(summary: str, inside: str, opened: bool = False) -> str:
    """HTML below a line of HTML that opens it."""
    state = " open" if opened else ""
    return f'<details{state}><summary style="{MONO};cursor:pointer">{summary}</summary>{inside}</details>'


def table_html(title: str, rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """A table of titles and lines of text; rows without lines are left out."""
    cell = "padding:2px 14px 2px 0;vertical-align:top;text-align:left"
    body = "".join(
        f'<tr><td style="{cell};color:{DIM}">{escape(name)}</td>'
        f'<td style="{cell};{MONO};white-space:pre-wrap">{"<br>".join(map(escape, lines))}</td></tr>'
        for name, lines in ((name, tuple(lines)) for name, lines in rows)
        if lines
    )
    return f'<div><b>{escape(title)}</b><table style="border-collapse:collapse;margin-top:4px">{body}</table></div>'
