"""Tables as text, aligned and coloured, and as HTML pages that need no other file."""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from types import MappingProxyType

import attrs
from rich.console import Console
from rich.table import Table
from rich.text import Text


@attrs.frozen
class Column:
    """A column: its title, and the style of its cells, in rich's words."""

    title: str
    style: str = ""
    right: bool = False


@attrs.frozen
class Shown:
    """A table to be shown. `styles` has the style of a row by its number, `details` what can be opened under it: title
    and text; `notes` stand above the table."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    styles: Mapping[int, str] = MappingProxyType({})
    details: Mapping[int, tuple[tuple[str, str], ...]] = MappingProxyType({})


def as_text(shown: Shown, color: bool | None = None, width: int | None = None) -> str:
    """The table as text; in colours where a terminal reads it, or they are asked for."""
    out = StringIO()
    colored = is_colored() if color is None else color
    console = Console(
        file=out,
        width=width or needed(shown),
        force_terminal=colored,
        no_color=not colored,
        legacy_windows=False,
        color_system="standard" if colored else None,
        highlight=False,
    )
    for line in (shown.title, *shown.notes):
        console.print(Text(line, style="bold" if line is shown.title else ""), soft_wrap=True)
    table = Table(box=None, show_header=True, pad_edge=False, header_style="dim")
    for column in shown.columns:
        table.add_column(
            column.title, style=column.style or None, justify="right" if column.right else "left", no_wrap=True
        )
    for number, row in enumerate(shown.rows):
        table.add_row(*(Text(cell) for cell in row), style=shown.styles.get(number))
    console.print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def is_colored() -> bool:
    """Whether the output is read on a terminal that shows colours; rich knows NO_COLOR and FORCE_COLOR."""
    console = Console(file=sys.stdout)
    return console.is_terminal and not console.no_color


def needed(shown: Shown) -> int:
    """The width at which no line is folded."""
    columns = zip([c.title for c in shown.columns], *shown.rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    return sum(widths) + 2 * len(widths) + 2


STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }
table { border-collapse: collapse; font: 12.5px/1.4 ui-monospace, monospace; }
th, td { text-align: left; padding: 2px 12px 2px 0; vertical-align: top; white-space: pre; }
th { border-bottom: 1px solid #999; position: sticky; top: 0; background: #fff; }
tr:hover td { background: #f2f6fa; }
td.right { text-align: right; }
.red { color: #b00020; } .green { color: #11713a; } .yellow { color: #8a6100; } .dim { color: #888; }
.bold { font-weight: 600; } .cyan { color: #0b6e80; }
details pre { background: #f6f6f6; padding: 8px 12px; overflow-x: auto; }
@media (prefers-color-scheme: dark) {
  body, th { background: #16181c; color: #ddd; } tr:hover td, details pre { background: #22262c; }
  .red { color: #ff7a85; } .green { color: #6fd394; } .yellow { color: #e6c15c; } .cyan { color: #6cc7d6; }
}
"""


def as_page(shown: Shown) -> str:
    """The table as an HTML page."""
    notes = "".join(f"<p>{html.escape(note)}</p>\n" for note in shown.notes)
    head = "".join(f"<th>{html.escape(column.title)}</th>" for column in shown.columns)
    body = "\n".join(row_of(shown, number, row) for number, row in enumerate(shown.rows))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(shown.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{html.escape(shown.title)}</h1>\n{notes}"
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</body>\n</html>\n"
    )


def row_of(shown: Shown, number: int, row: Sequence[str]) -> str:
    """A row of the page, and what can be opened under it."""
    style = html.escape(shown.styles.get(number, ""))
    cells = "".join(
        f'<td class="{column.style}{" right" if column.right else ""}">{html.escape(cell)}</td>'
        for column, cell in zip(shown.columns, row, strict=True)
    )
    below = "".join(
        f"<details><summary>{html.escape(title)}</summary><pre>{html.escape(text)}</pre></details>"
        for title, text in shown.details.get(number, ())
    )
    more = f'\n<tr><td colspan="{len(shown.columns)}">{below}</td></tr>' if below else ""
    return f'<tr class="{style}">{cells}</tr>{more}'
