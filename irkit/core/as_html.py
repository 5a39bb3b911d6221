"""A graph as a piece of HTML for notebooks: its text in colours, folded by module, and no longer than can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from irkit.core.blobs import Blob
from irkit.core.origins import Origin
from irkit.core.printer import describer, value_names, words_of
from irkit.core.vocabulary import CONSTANT, ITEM, PARAM
from irkit.support.counts import count_text
from irkit.support.markup import BLUE, DIM, ORANGE, TEAL, folded_html, in_color, lines_html

if TYPE_CHECKING:
    from irkit.core.ir import Graph, Value

LINES = 250
"""How many values are shown."""

LONGEST = 120
"""Characters of an attribute that are shown."""

OPEN = 24
"""A graph of so many values is shown unfolded."""


def graph_html(graph: Graph) -> str:
    """The graph as HTML without scripts: a line for each of its first values, folded by module. Contents of large
    constants are not read."""
    head = escape(repr(graph)[1:-1])
    line = Lines(graph)
    pieces: list[str] = []
    left = LINES
    modules = modules_of(graph)
    for module, values in groupby(graph.order, key=modules.__getitem__):
        block = list(values)
        shown, left = block[:left], left - len(block[:left])
        if not shown:
            break
        text = lines_html(html for value in shown for html in line.of(value))
        summary = f"{escape(module) or 'graph'} {in_color(counted(block), DIM)}"
        pieces.append(folded_html(summary, text, len(graph.order) <= OPEN or (not module and not pieces)))
    more = len(graph.order) - LINES
    if more > 0:
        pieces.append(in_color(f"and {count_text(more, 'value')} more: irkit.viz(graph) shows all of them", DIM))
    results = ", ".join(line.names[r] for r in graph.results)
    return f"<div><b>{head}</b>{''.join(pieces)}<div>{in_color('return ' + results[:LONGEST], DIM)}</div></div>"


def modules_of(graph: Graph) -> dict[Value, str]:
    """The module of each value; a constant stands in that of what follows it."""
    found: dict[Value, str] = {}
    after = ""
    for value in reversed(graph.order):
        after = found[value] = after if value.op == CONSTANT else value.origin.module
    return found


def counted(values: list[Value]) -> str:
    """How many operators of which kind there are, in words."""
    found = Counter(v.op for v in values if v.op not in (PARAM, CONSTANT, ITEM))
    inputs = sum(v.op == PARAM for v in values)
    words = [f"{n} {op}" if n > 1 else op for op, n in found.most_common(5)]
    words += ["…"] if len(found) > 5 else []
    return ", ".join([*([count_text(inputs, "input")] if inputs else []), *words])


class Lines:
    """The lines of the values of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.names: Mapping[Value, str] = value_names(graph)
        self.type_text, self.attribute_text = describer(graph)

    def of(self, value: Value) -> Iterator[str]:
        """The line of a value, and one for each body that it has."""
        name, type_ = escape(self.names[value]), in_color(self.type_text(value.type), BLUE)
        if value.op == PARAM:
            yield f"{in_color('input', ORANGE)} {name}: {type_}"
            return
        operands = ", ".join("_" if v is None else escape(self.names[v]) for v in value.inputs)
        given = ", ".join(f"{escape(k)} = {in_color(self.short(v), TEAL)}" for k, v in value.attributes)
        if value.op == CONSTANT:
            yield f"{name}: {type_} = {in_color('Constant', ORANGE)} {in_color(self.constant(value.blob), TEAL)}"
        else:
            text = f"{name}: {type_} = {in_color(value.op, ORANGE)}({operands})" + (f" {{{given}}}" if given else "")
            yield text + self.comment(value.origin)
        for word, body in zip(words_of(value), value.bodies, strict=True):
            yield f"  {escape(word)} {{ {in_color(count_text(len(body), 'operator'), DIM)} }}"

    def short(self, attribute: object) -> str:
        """An attribute as text, cut where it is long."""
        text = self.attribute_text(attribute)
        return text if len(text) <= LONGEST else text[:LONGEST] + "…"

    def constant(self, blob: Blob | None) -> str:
        """What a constant holds, where that is a few numbers."""
        if blob is None or blob.nbytes > 64 or blob.absent:
            return "…"
        return self.short(blob)

    def comment(self, origin: Origin) -> str:
        """The line of the user's, and the rules that made a value."""
        rules = f" <{', '.join(origin.rules)}>" if origin.rules else ""
        text = (origin.source or origin.node) + rules
        return "  " + in_color(f"# {text[:LONGEST]}", DIM) if text else ""
