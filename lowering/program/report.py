"""What an export says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any

import attrs

from irkit.rewriting.history import Fired
from irkit.support.counts import count_text
from irkit.support.markup import table_html

if TYPE_CHECKING:
    from rich.table import Table

MOST_RULES = 8
"""Of how many rules of irkit's the text of a report tells."""


@attrs.frozen
class Report:
    """The record of one export. `str(report)` is a page of text; `asdict` gives plain data.

    `notes` are what capture has to say: dimensions that turned out to be one, a model in training mode. Times are in
    seconds. `rewritten` has a diff for each function whose control flow was rewritten. `nodes` counts FX calls, IR
    operators as lowered and as optimized, and ONNX nodes. `fired` has the rules that fired, the caller's own first, how
    often, in what time, and what became of what those made.
    """

    model: str
    capture: str
    opset: int
    target: str
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    dims: tuple[tuple[str, str], ...]
    guards: tuple[tuple[str, str], ...]
    baked: tuple[tuple[str, str], ...]
    state: tuple[str, ...]
    decomposed: Mapping[str, int]
    upcasts: Mapping[str, int]
    nodes: Mapping[str, int]
    seconds: Mapping[str, float]
    weights: tuple[int, int]
    notes: tuple[str, ...] = ()
    lengths: tuple[str, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()
    assumed: tuple[tuple[str, str], ...] = ()
    precision: str = ""
    quantization: str = ""
    rewritten: tuple[str, ...] = ()
    fired: tuple[Fired, ...] = ()

    def asdict(self) -> dict[str, Any]:
        """The report as plain data, ready for JSON."""
        return attrs.asdict(self)

    def render(self) -> Table:
        """The report as a rich table."""
        from rich.table import Table  # for those who look at it: an export waits for no module that it does not need
        from rich.text import Text

        table = Table(title=Text(f"{self.model} as ONNX, {self.target}"), show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for title, rows in self.sections():
            # Text, not markup: a type has brackets, f32[batch, 8].
            table.add_row(title, Text("\n".join(rows) if rows else "none"))
        return table

    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """(title, lines) of each part."""
        total = sum(self.seconds.values())
        count, size = self.weights
        return (
            ("captured by", (self.capture,)),
            ("inputs", tuple(f"{n}: {t}" for n, t in self.inputs)),
            ("outputs", tuple(f"{n}: {t}" for n, t in self.outputs)),
            ("state", self.state),
            ("dimensions", tuple(f"{n} in {r}" for n, r in self.dims)),
            ("guards", tuple(f"{t}  ({s})" if s else t for t, s in self.guards)),
            ("assumed", tuple(f"{t}  ({s})" if s else t for t, s in self.assumed)),
            ("notes", self.notes),
            ("baked values", tuple(f"{t}  ({s})" if s else t for t, s in self.baked)),
            ("lengths", self.lengths),
            ("fixed", tuple(f"{t}  ({s})" if s else t for t, s in self.fixed)),
            ("decomposed", tuple(f"{n} x {op}" for op, n in self.decomposed.items())),
            *((("precision", tuple(self.precision.splitlines())),) if self.precision else ()),
            *((("integers", tuple(self.quantization.splitlines())),) if self.quantization else ()),
            ("upcasts", tuple(f"{n} x {what}" for what, n in self.upcasts.items())),
            *((("rewritten", tuple("".join(self.rewritten).splitlines())),) if self.rewritten else ()),
            *((("rules", self.rules),) if self.fired else ()),
            ("weights", (f"{count_text(count, 'tensor')}, {size / 2**20:.1f} MiB",)),
            ("nodes", tuple(f"{n:6d} {stage}" for stage, n in self.nodes.items())),
            ("seconds", (*(f"{s:8.3f} {stage}" for stage, s in self.seconds.items()), f"{total:8.3f} in all")),
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """A line for each rule of the caller's own that fired, and for those of irkit that fired most."""
        own = sum(each.own for each in self.fired)
        lines = tuple(str(each) for each in self.fired[: own + MOST_RULES])
        more = self.fired[own + MOST_RULES :]
        return lines + ((f"and {len(more)} more, {sum(each.times for each in more)} times",) if more else ())

    def _repr_html_(self) -> str:
        return table_html(f"{self.model} as ONNX, {self.target}", self.sections())

    def __str__(self) -> str:
        from rich.console import Console

        out = StringIO()
        Console(file=out, width=110, no_color=True).print(self.render())
        return out.getvalue()
