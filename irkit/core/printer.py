"""A graph as text, one line a value; `irkit.text.parser` reads it back. The grammar: docs/understand/grammar.md."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import sympy

from irkit import dims
from irkit.core.blobs import Blob, blobs_in
from irkit.core.literals import array_text, float_text, is_large, is_long, name_text, op_text, quoted_bytes, quoted_text
from irkit.core.types import Optional, Sequence, Tensor, Tuple, Type
from irkit.core.vocabulary import CONSTANT
from irkit.dims import Dim, notation
from irkit.errors import GraphError
from irkit.support.arguments import type_text

if TYPE_CHECKING:
    from irkit.core.ir import Fact, Graph, Port, Value

STEP = "  "
"""What a nested graph is moved right by."""

BODY_WORDS: Mapping[str, tuple[str, ...]] = {"If": ("then", "else")}
"""The words before the bodies of an operator; `body` for those that are not here."""

UNNAMED = "body"
"""The display name that a body has unless the text says otherwise."""


def print_graph(graph: Graph, *, hashes: bool = False, brief: bool = False) -> str:
    """The graph as text that `irkit.parse` reads back.

    Blobs of more than 1 KiB are named, not shown, and their content is not read, unless `hashes` asks for the hash of
    each (`irkit.save_text` does, and writes the contents to a file beside). With `brief`, which is what `str(graph)`
    gives, so are those of more than 32 elements that are not all equal.
    """
    if type(graph).__name__ != "Graph":  # the class itself stands above this file
        raise GraphError(f"{type_text(graph)} is not an irkit graph", hint="irkit.load(model) makes one")
    printer = _Printer.of(graph, hashes, brief)
    inside = printer.block(graph, STEP)
    head = [f"graph {name_text(graph.name)} {{", *printer.symbol_lines(graph, STEP, everywhere=True)]
    return "\n".join([*head, *inside, "}"])


def value_names(graph: Graph) -> dict[Value, str]:
    """The name of each value of the graph in its text: that of its port or weight where no other value has it yet,
    else the next number."""
    names: dict[Value, str] = {}
    used: set[str] = set()
    ports = graph.signature.params
    count = 0
    for i, value in enumerate(graph.order):
        public = ""
        if i < len(graph.params):
            public = ports[i].name if i < len(ports) else ""
        elif value.op == CONSTANT:
            blob = value.attributes[0][1] if value.attributes else None
            public = blob.name if isinstance(blob, Blob) else ""
        name = "%" + name_text(public) if public else ""
        if not name or name in used:
            name = f"%{count}"
            count += 1
        used.add(name)
        names[value] = name
    return names


def excerpt(graph: Graph, value: Value | None, around: int = 3) -> str:
    """The line of `value` underlined, between its `around` neighbours on either side; "" where it is not in the graph.

    Bodies are shown as `{...}`.
    """
    order = graph.order
    at = next((i for i, v in enumerate(order) if v is value), None)
    if at is None:
        return ""
    printer = _Printer.of(graph, brief=True)
    names = value_names(graph)
    ports = graph.signature.params
    lines: list[str] = []
    for i in range(max(0, at - around), min(len(order), at + around + 1)):
        if i < len(graph.params):
            line = printer.param_line(order[i], names, ports[i] if i < len(ports) else None)
        else:
            line = printer.head(order[i], names) + "".join(f" {w} {{...}}" for w in words_of(order[i]))
        lines.append(line + printer.comment(order[i]))
        if i == at:
            lines.append("^" * len(line))
    return "\n".join(lines)


def words_of(value: Value) -> tuple[str, ...]:
    """The word before each body of a value."""
    words = BODY_WORDS.get(value.op, ())
    return tuple(words[i] if i < len(words) else UNNAMED for i in range(len(value.bodies)))


def describer(graph: Graph) -> tuple[Callable[[Type], str], Callable[[Any], str]]:
    """(text of a type, text of an attribute), as they stand in the text of the graph."""
    printer = _Printer.of(graph, brief=True)
    return printer.type, printer.attribute


# ---------------------------------------------------------------------------------------------- what is in the whole


def nested_graphs(graph: Graph) -> Iterator[tuple[Graph, bool]]:
    """Each graph of the nest in the order of the text, the outermost first: (graph, True) the first time it stands
    there, and (graph, False) for each further time."""
    seen: set[int] = set()
    pending = [graph]
    while pending:
        here = pending.pop()
        first = id(here) not in seen
        yield here, first
        if first:
            seen.add(id(here))
            inner = [body for value in here.order if value.bodies for body in value.bodies]
            pending.extend(reversed(inner))


def long_blobs(graph: Graph) -> dict[str, Blob]:
    """The blobs that `str(graph)` leaves out, by the label that stands for each: its name in quotes where no other
    has that name, else its number. `Graph.text` leaves out the large ones of them, by the same labels."""
    found: dict[Hashable, Blob] = {}
    for nested, first in nested_graphs(graph):
        for value in nested.order if first else ():
            for _, attribute in value.attributes:
                for part in blobs_in(attribute):
                    if is_long(part):
                        found.setdefault(blob_key(part), part)
    holders: dict[str, int] = {}
    for blob in found.values():
        holders[blob.name] = holders.get(blob.name, 0) + 1
    return {
        quoted_text(blob.name) if blob.name and holders[blob.name] == 1 else str(i): blob
        for i, blob in enumerate(found.values())
    }


def large_blobs(graph: Graph) -> dict[str, Blob]:
    """Those of `long_blobs` that stand in no text, nor in one that is saved: of more than 1 KiB each."""
    return {label: blob for label, blob in long_blobs(graph).items() if is_large(blob)}


def blob_key(blob: Blob) -> Hashable:
    """Equal for blobs that have one label."""
    return (blob.key, blob.name)


# ---------------------------------------------------------------------------------------------- the printer


@attrs.define(eq=False)
class _Printer:
    """The state of one printing: names of symbols, texts of types, labels of blobs and of bodies that stand twice."""

    hashes: bool
    blobs: Mapping[Hashable, str]
    shared: Mapping[int, str]
    printed: set[int] = attrs.field(factory=set[int])
    fresh: dict[sympy.Symbol, str] = attrs.field(factory=dict[sympy.Symbol, str])
    symbols: dict[sympy.Symbol, None] = attrs.field(factory=dict[sympy.Symbol, None])
    types: dict[Type, str] = attrs.field(factory=dict[Type, str])

    @classmethod
    def of(cls, graph: Graph, hashes: bool = False, brief: bool = False) -> _Printer:
        """The printer of that graph."""
        several = dict.fromkeys(id(nested) for nested, first in nested_graphs(graph) if not first)
        shared = {body: f"@{i}" for i, body in enumerate(several)}
        left_out = long_blobs(graph) if brief else large_blobs(graph)
        return cls(hashes, {blob_key(blob): label for label, blob in left_out.items()}, shared)

    # -- lines

    def block(self, graph: Graph, indent: str) -> list[str]:
        """The lines between the braces of a graph, its symbols excepted."""
        names = value_names(graph)
        ports = graph.signature.params
        lines: list[str] = []
        for i, value in enumerate(graph.params):
            line = self.param_line(value, names, ports[i] if i < len(ports) else None)
            lines.append(indent + line + self.comment(value))
        lines += [indent + fact_line(fact) for fact in graph.signature.facts]
        lines += [f"{indent}metadata {name_text(k)} = {quoted_text(v)}" for k, v in graph.signature.metadata]
        for value in graph.order[len(graph.params) :]:
            line = indent + self.head(value, names)
            if value.bodies:
                self.with_bodies(value, line, indent, lines)
            else:
                lines.append(line + self.comment(value))
        return lines + [indent + line for line in return_lines(graph, names)]

    def with_bodies(self, value: Value, line: str, indent: str, lines: list[str]) -> None:
        """Adds the line of a value that has bodies, and theirs."""
        comment = self.comment(value)
        for word, body in zip(words_of(value), value.bodies, strict=True):
            label = self.shared.get(id(body), "")
            line += f" {word}{' ' + label if label else ''}"
            if id(body) in self.printed:
                continue
            if label:
                self.printed.add(id(body))
            title = "" if body.name == UNNAMED else " " + name_text(body.name)
            lines.append(f"{line}{title} {{{comment}")
            lines += self.symbol_lines(body, indent + STEP, everywhere=False)
            lines += self.block(body, indent + STEP)
            line, comment = indent + "}", ""
        lines.append(line + comment)

    def symbol_lines(self, graph: Graph, indent: str, everywhere: bool) -> list[str]:
        """The ranges that a graph knows; for the outermost also which symbols of the nest are signed."""
        known = {s.name: s for s in self.symbols} if everywhere else {}
        lines: list[str] = []
        for name, range_ in graph.symbols.items():
            sign = " signed" if name in known and not known[name].is_nonnegative else ""
            lines.append(f"{indent}symbol {name_text(name)} in {range_}{sign}")
        for name, symbol in known.items():
            if name not in graph.symbols and not symbol.is_nonnegative:
                lines.append(f"{indent}symbol {name_text(name)} signed")
        return sorted(lines)

    def param_line(self, value: Value, names: Mapping[Value, str], port: Port | None) -> str:
        """The line of a parameter, which begins with its role."""
        name = names[value]
        role = port.role if port is not None and port.role in ("input", "state") else "param"
        return f"{role} {name}: {self.type(value.type)}{port_text(port, role, name)}"

    def head(self, value: Value, names: Mapping[Value, str]) -> str:
        """The line of a value up to its bodies."""
        start = f"{names[value]}: {self.type(value.type)} = {op_text(value.op)}"
        blob = value.attributes[0][1] if value.op == CONSTANT and value.attributes else None
        if isinstance(blob, Blob) and blob.type == value.type and len(value.attributes) == 1 and not value.inputs:
            return f"{start} {self.blob(blob)}"
        operands = ", ".join(["_" if v is None else names[v] for v in value.inputs])
        if not value.attributes:
            return f"{start}({operands})"
        given = ", ".join([f"{name_text(k)} = {self.attribute(v)}" for k, v in value.attributes])
        return f"{start}({operands}) {{{given}}}"

    def comment(self, value: Value) -> str:
        """The origin of a value, behind `#`."""
        text = str(value.origin)
        return f"  # {' '.join(text.split())}" if text else ""

    # -- parts of a line

    def type(self, type_: Type) -> str:
        """A type as text; unknown dimensions as `?0`, `?1`, ... by first use."""
        known = self.types.get(type_)
        if known is None:
            known = self.types[type_] = self._type(type_)
        return known

    def _type(self, type_: Type) -> str:
        if isinstance(type_, Tensor):
            return f"{type_.dtype.short}[{', '.join(self.dim(d) for d in type_.shape)}]"
        if isinstance(type_, Tuple):
            return f"({', '.join(self.type(t) for t in type_.items)})"
        word = {Sequence: "seq", Optional: "opt"}[type(type_)]
        return f"{word}({self.type(type_.element)})"

    def dim(self, dim: Dim) -> str:
        """A dimension as text."""
        if type(dim) is int:
            return str(dim)
        for symbol in dims.symbols_of(dim):
            if not dims.is_fresh(symbol):
                self.symbols.setdefault(symbol)
            elif symbol not in self.fresh:
                self.fresh[symbol] = f"?{len(self.fresh)}"
        return notation.text(dim, self.fresh) if self.fresh else notation.text(dim)

    def attribute(self, value: Any) -> str:
        """An attribute as text."""
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # the type of Any
        if kind is int:
            return str(value)
        if kind is float:
            return float_text(value)
        if kind is str:
            return quoted_text(value)
        if kind is tuple:
            is_dims = any(hasattr(v, "free_symbols") for v in value)
            if is_dims and all(type(v) is int or hasattr(v, "free_symbols") for v in value):
                return f"<{', '.join(self.dim(v) for v in value)}>"
            return f"[{', '.join(self.attribute(v) for v in value)}]"
        if kind is bytes:
            return quoted_bytes(value)
        if kind is Blob:
            return f"{self.type(value.type)} {self.blob(value)}"
        if hasattr(value, "free_symbols"):
            return f"dim<{self.dim(value)}>"
        return (
            self.type(value) if isinstance(value, Type) else quoted_text(repr(value))
        )  # no attribute: shown in errors

    def blob(self, blob: Blob) -> str:
        """The elements of a blob, or the label of one left out; its name after `as` where the label is not that."""
        label = self.blobs.get(blob_key(blob)) if self.blobs else None
        title = f" as {quoted_text(blob.name)}" if blob.name else ""
        if label is None:
            return array_text(blob.array, blob.dtype) + title
        if self.hashes:
            return f"blob#{blob.digest.hex()}{title}"
        return f"blob {label}" + ("" if label.startswith('"') else title)


# ---------------------------------------------------------------------------------------------- lines by themselves


def port_text(port: Port | None, role: str, name: str) -> str:
    """What a port says beyond the name of its value and the `role` that it would have anyway."""
    if port is None:
        return ""
    title = "" if name == "%" + name_text(port.name) else f" as {name_text(port.name)}"
    said = "" if port.role == role != "param" else f" role {name_text(port.role)}"
    return title + said + (f" binds {name_text(port.binds)}" if port.binds else "")


def return_lines(graph: Graph, names: Mapping[Value, str]) -> list[str]:
    """The results: one line each where they have names, one line for all where they have none."""
    ports = graph.signature.results
    if not ports:
        return [f"return {', '.join(names[r] for r in graph.results)}".rstrip()]
    texts = [port_text(p, "output", "") for p in ports]
    return [f"return {names[r]}{texts[i] if i < len(texts) else ''}" for i, r in enumerate(graph.results)]


def fact_line(fact: Fact) -> str:
    """A fact that capture relied on."""
    source = f" from {quoted_text(fact.source)}" if fact.source else ""
    return f"fact {name_text(fact.kind)} {quoted_text(fact.text)}{source}"
