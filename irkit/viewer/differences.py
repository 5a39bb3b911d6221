"""Two graphs compared: what stands in one only, and what is another in each: structure, types, names, weights."""

from __future__ import annotations

import json

import attrs
import numpy as np

from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value
from irkit.core.vocabulary import CONSTANT, ITEM, PARAM
from irkit.errors import AbsentError
from irkit.support.counts import count_text
from irkit.support.markup import DIM, in_color, lines_html
from irkit.viewer.contents import Plain, elements_of
from irkit.viewer.ledger import INPUTS, MODULE, NAME, Ledger
from irkit.viewer.tables import NONE, Row, Tables

LINES = 40
"""How many lines the text of a difference has for each part."""

PIECE = 1 << 18
"""So many elements of two weights are compared at a time."""

PARTS = ((1, "operator"), (3, "type"), (5, "attributes"), (4, "operands"))
"""The columns of a row that are compared, and what each is called."""


@attrs.frozen
class Changed:
    """Something that differs: `kind` is "removed", "added" or "changed", `part` "input", "result", "size", "operator"
    or "weight", `name` what it is called, `before` and `after` how it is in either graph, empty where it is not."""

    kind: str
    part: str
    name: str
    before: str = ""
    after: str = ""
    module: str = ""

    def __str__(self) -> str:
        place = f"  # {self.module}" if self.module else ""
        if self.kind == "changed":
            return f"~ {self.part} {self.name}: {self.before} -> {self.after}{place}"
        return f"{'-' if self.kind == 'removed' else '+'} {self.part} {self.name}: {self.before or self.after}{place}"


@attrs.frozen
class GraphDifference:
    """What differs between two graphs. It is true where something does; `str` is a page of text, `asdict` plain data,
    `json` that as JSON, and `irkit.viz(difference)` the page with both graphs side by side."""

    names: tuple[str, str]
    operators: tuple[int, int]
    changes: tuple[Changed, ...]
    graphs: tuple[Graph, Graph] = attrs.field(eq=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def asdict(self) -> Plain:
        """The difference as plain data, without the graphs."""
        changes = [attrs.asdict(each) for each in self.changes]
        return {"equal": not self, "names": list(self.names), "operators": list(self.operators), "changes": changes}

    def json(self) -> str:
        """The difference as a line of JSON."""
        return json.dumps(self.asdict(), ensure_ascii=False)

    def _repr_html_(self) -> str:
        colors = {"-": "#dc3a55", "+": "#12915f", "~": "#b67a05"}
        return lines_html(in_color(line, colors.get(line[:1], DIM)) for line in str(self).splitlines())

    def __str__(self) -> str:
        (a, b), (m, n) = self.names, self.operators
        head = f"{a}: {count_text(m, 'operator')}, {b}: {count_text(n, 'operator')}"
        if not self:
            return f"{head}\nno difference"
        lines = [head]
        for part in ("input", "result", "size", "operator", "weight"):
            found = [each for each in self.changes if each.part == part]
            lines += [str(each) for each in found[:LINES]]
            lines += [f"  and {len(found) - LINES} more {part}s"] if len(found) > LINES else []
        return "\n".join(lines)


@attrs.frozen(eq=False)
class Compared:
    """Two graphs as rows, in which what corresponds has one number; `weights` says how contents differ."""

    tables: Tables
    before: dict[int, Row]
    after: dict[int, Row]
    results: tuple[list[int], list[int]]
    status: dict[int, list[str]]
    weights: dict[int, str]


def difference(a: Graph, b: Graph, names: tuple[str, str] = ("", "")) -> GraphDifference:
    """What differs between two graphs, by which of their values correspond: inputs and weights by name, operators by
    what they compute of what corresponds, else by where they come from. Raises StaleError where a weight has changed
    since its graph was made."""
    compared = compared_rows(a, b)
    changes = (*port_changes(a, b), *size_changes(a, b), *value_changes(compared))
    return GraphDifference((names[0] or a.name, names[1] or b.name), (len(a), len(b)), changes, (a, b))


def compared_rows(a: Graph, b: Graph, histograms: bool = False) -> Compared:
    """Both graphs as rows, with what differs in rows that correspond."""
    tables = Tables(histograms=histograms)
    ledger = Ledger(tables)
    ledger.sync(a)
    before, first = dict(ledger.rows), list(ledger.results)
    olds = dict(ledger.values)
    ledger.sync(b, known_values(a, b, tables))
    news = dict(ledger.values)
    after = {n: [*row[:NAME], tables.text(ledger.names[n]), *row[NAME + 1 :]] for n, row in ledger.rows.items()}
    status: dict[int, list[str]] = {}
    weights: dict[int, str] = {}
    for number, row in after.items():
        old = before.get(number)
        if old is not None:
            found = [word for at, word in PARTS if old[at] != row[at]]
            one, other = olds[number].blob, news[number].blob
            change = weight_change(one, other) if one is not None and other is not None else ""
            if change:
                weights[number] = change
                found.append("weight")
            if found:
                status[number] = found
    return Compared(tables, before, after, (first, ledger.results), status, weights)


def known_values(a: Graph, b: Graph, tables: Tables) -> dict[Value, int]:
    """The numbers of values of the second graph that are known by their names: inputs and weights."""
    ports = {port.name: value for port, value in zip(a.signature.params, a.params, strict=False)}
    weights = {v.blob.name: v for v in a.order if v.blob is not None and v.blob.name}
    found: dict[Value, int] = {}
    taken: set[Value] = set()
    pairs = [(v, ports.get(p.name)) for p, v in zip(b.signature.params, b.params, strict=False)]
    for value in b.order:
        if value.blob is not None and value.blob.name:
            pairs.append((value, weights.get(value.blob.name)))
    if not ports:
        pairs += list(zip(b.params, a.params, strict=False))
    for value, old in pairs:
        if old is not None and old not in taken and value not in found:
            taken.add(old)
            found[value] = tables.ids[old]
    return found


def port_changes(a: Graph, b: Graph) -> list[Changed]:
    """Inputs and results that differ in name or type."""
    found: list[Changed] = []
    for part, one, other in (
        ("input", ports_of(a.signature.params, a.params), ports_of(b.signature.params, b.params)),
        ("result", ports_of(a.signature.results, a.results), ports_of(b.signature.results, b.results)),
    ):
        found += [Changed("removed", part, n, t) for n, t in one.items() if n not in other]
        found += [Changed("added", part, n, "", t) for n, t in other.items() if n not in one]
        found += [Changed("changed", part, n, t, other[n]) for n, t in one.items() if n in other and other[n] != t]
    return found


def ports_of(ports: tuple[object, ...], values: tuple[Value, ...]) -> dict[str, str]:
    """The types of ports by name, of those without one by place."""
    names = [getattr(port, "name", "") for port in ports] + [""] * len(values)
    return {names[i] or str(i): repr(v.type) for i, v in enumerate(values)}


def size_changes(a: Graph, b: Graph) -> list[Changed]:
    """Symbols of sizes that only one graph has, or that have another range in the other."""
    one, other = ({n: str(r) for n, r in g.symbols.items()} for g in (a, b))
    found = [Changed("removed", "size", n, r) for n, r in one.items() if n not in other]
    found += [Changed("added", "size", n, "", r) for n, r in other.items() if n not in one]
    return found + [Changed("changed", "size", n, r, other[n]) for n, r in one.items() if other.get(n, r) != r]


def value_changes(compared: Compared) -> list[Changed]:
    """Operators and weights that differ."""
    texts: tuple[str, ...] = (*compared.tables.texts,)
    found: list[Changed] = []

    def line(row: Row, rows: dict[int, Row]) -> str:
        operands = ", ".join("_" if n == NONE else texts[int(rows[n][NAME])] for n in map(int, row[INPUTS]))
        if texts[int(row[1])] == CONSTANT:
            return texts[int(row[3])]
        given = ", ".join(f"{texts[k]} = {texts[v]}" for k, v in zip(row[5][::2], row[5][1::2], strict=True))
        return f"{texts[row[3]]} = {texts[row[1]]}({operands})" + (f" {{{given}}}" if given else "")

    def told(kind: str, row: Row, before: str, after: str) -> None:
        op, name, module = (texts[int(row[at])] for at in (1, NAME, MODULE))
        if op not in (PARAM, ITEM):
            found.append(Changed(kind, "weight" if op == CONSTANT else "operator", name, before, after, module))

    for number, row in compared.before.items():
        new = compared.after.get(number)
        if new is None:
            told("removed", row, line(row, compared.before), "")
        elif number in compared.weights:
            told("changed", row, f"{texts[row[3]]}", f"{texts[new[3]]}, {compared.weights[number]}")
        elif number in compared.status and set(compared.status[number]) != {"operands"}:
            told("changed", row, line(row, compared.before), line(new, compared.after))
        elif number in compared.status:
            told("changed", row, line(row, compared.before), line(new, compared.after) + " over other operands")
    for number, row in compared.after.items():
        if number not in compared.before:
            told("added", row, "", line(row, compared.after))
    return found


def weight_change(one: Blob, other: Blob) -> str:
    """How two contents differ, in words; empty where they do not."""
    if one is other or one.key == other.key:
        return ""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return "of another type"
    try:
        return content_change(one, other)
    except AbsentError:
        return ""  # nothing is known of either


def content_change(one: Blob, other: Blob) -> str:
    """How two contents of one type differ, a piece at a time: weights may be larger than memory. Raises AbsentError
    where one has no numbers."""
    first, second = elements_of(one), elements_of(other)
    is_number = one.dtype.is_float or one.dtype.is_integer
    differ, gap = False, np.nan
    for start in range(0, one.size, PIECE):
        stop = min(start + PIECE, one.size)
        a, b = first(start, stop), second(start, stop)
        if a.dtype == object and not bool(np.array_equal(a, b)):
            return "other texts"
        if a.dtype == object or a.tobytes() == b.tobytes():
            continue
        if not is_number:
            return "other elements"
        differ = True
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.fmax(gap, np.fmax.reduce(np.abs(a.astype(np.float64) - b.astype(np.float64))))
    if not differ:
        return ""
    return "NaN in other places" if np.isnan(gap) else f"largest difference {gap:.3g}"
