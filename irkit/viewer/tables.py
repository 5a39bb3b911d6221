"""A graph as plain data for a page: one row a value, texts and contents once each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import attrs

from irkit.core.blobs import Blob
from irkit.core.ir import Value
from irkit.core.origins import NAME_NOTE, Origin
from irkit.core.printer import blob_key
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.ops.families import family_of
from irkit.viewer.contents import Plain, content_summary

LONGEST = 240
"""Characters of an attribute that are shown."""

COLUMNS = ("id", "op", "name", "type", "inputs", "attributes", "module", "source", "node", "rules", "body", "constant")
"""What a row has. Texts are numbers in the table of texts; `inputs` are ids of rows, -1 for what is left out;
`attributes` are name and text by turns; `body` is the number of the nested graph that the value stands in, -1 for the
graph itself; `constant` that of its content, -1 for what is no constant."""

NONE = -1

Row = list[Any]
"""A row, which has `COLUMNS`."""

Texts = tuple[Callable[[Any], str], Callable[[Any], str]]
"""The text of a type, and that of an attribute."""


@attrs.define(eq=False)
class Tables:
    """The tables of one page while it is made: texts, contents and bodies of all graphs on it, each once, and the
    number of each value. Values keep their numbers in every graph that they stand in."""

    histograms: bool = True
    texts: dict[str, int] = attrs.field(factory=dict[str, int])
    ids: dict[Value, int] = attrs.field(factory=dict[Value, int])
    contents: dict[Hashable, int] = attrs.field(factory=dict[Hashable, int])
    blobs: list[Blob] = attrs.field(factory=list[Blob])
    bodies: list[Plain] = attrs.field(factory=list[Plain])
    count: int = 0

    def text(self, text: str) -> int:
        """The number of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def new_id(self) -> int:
        """A number that no row has yet."""
        self.count += 1
        return self.count - 1

    def id_of(self, value: Value) -> int:
        """The number of a value, a new one where it has none."""
        found = self.ids.get(value)
        if found is None:
            found = self.ids[value] = self.new_id()
        return found

    def constant(self, blob: Blob | None) -> int:
        """The number of a content; -1 without one."""
        if blob is None:
            return NONE
        key = blob_key(blob)
        found = self.contents.get(key)
        if found is None:
            found = self.contents[key] = len(self.blobs)
            self.blobs.append(blob)
        return found

    def finished(self) -> Plain:
        """The tables as plain data."""
        summaries = [content_summary(b) if self.histograms else outline_of(b) for b in self.blobs]
        operators = {value.op for value in self.ids}
        families = {op: family_of(op.rpartition("::")[2]) or "" for op in sorted(operators)}
        return {"texts": list(self.texts), "contents": summaries, "bodies": self.bodies, "families": families}


def outline_of(blob: Blob) -> Plain:
    """What is known of a content that is not looked at."""
    return {"name": blob.name, "dtype": blob.dtype.short, "shape": list(blob.shape), "bytes": blob.nbytes}


def port_of(ports: tuple[Any, ...], index: int) -> tuple[str, str]:
    """The name and role of a port, empty where there is none."""
    return (ports[index].name, ports[index].role) if index < len(ports) else ("", "")


def row_of(value: Value, number: int, name: Any, inputs: list[int], body: int, tables: Tables, texts: Texts) -> Row:
    """The row of a value. It has `COLUMNS`."""
    type_text, attribute_text = texts
    text, origin = tables.text, value.origin
    given: list[int] = []
    for key, attribute in value.attributes if value.op != CONSTANT else ():
        given += (text(key), text(short(attribute_text(attribute))))
    module = origin.module or ("" if value.op in (PARAM, CONSTANT) else path_in_name(origin))
    rules = [text(rule) for rule in origin.rules]
    places = (text(module), text(origin.source), text(origin.node), rules)
    return [
        number,
        text(value.op),
        name,
        text(type_text(value.type)),
        inputs,
        given,
        *places,
        body,
        tables.constant(value.blob),
    ]


def short(text: str) -> str:
    """A text, cut where it is long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


def path_in_name(origin: Origin) -> str:
    """The module that the name of a node tells, as exporters write it: `/layers.0/norm/Add` is of `layers.0.norm`."""
    notes: Mapping[str, str] = dict(origin.notes)
    name = notes.get(NAME_NOTE) or origin.node
    folder = name.strip("/").rpartition("/")[0] if "/" in name else ""
    return ".".join(part for part in folder.split("/") if part)
