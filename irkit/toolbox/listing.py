"""A graph as plain data: what `irkit show --json` prints. The text of a graph can be read again, this cannot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from irkit.contract.as_json import Json
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Port, Value
from irkit.core.printer import words_of
from irkit.core.vocabulary import PARAM


def graph_data(graph: Graph) -> Json:
    """A graph as JSON holds it: inputs and outputs with their types, sizes, facts, and the nodes, operands first, under
    the names of its text. Contents of constants are told by their type and name."""
    names = graph.names
    return {
        "name": graph.name,
        "operators": len(graph),
        "inputs": ports(graph.signature.params, graph.params, names),
        "outputs": ports(graph.signature.results, graph.results, names),
        "sizes": {name: str(allowed) for name, allowed in sorted(graph.symbols.items())},
        "facts": [{"kind": f.kind, "text": f.text, "source": f.source} for f in graph.signature.facts],
        "nodes": [node_data(value, names) for value in graph.order if value.op != PARAM],
    }


def ports(given: tuple[Port, ...], values: tuple[Value, ...], names: Mapping[Value, str]) -> list[Json]:
    """The parameters or results of a graph, by the names that a file gives them."""
    return [
        {"name": given[i].name if i < len(given) else "", "value": names[value], "type": repr(value.type)}
        for i, value in enumerate(values)
    ]


def node_data(value: Value, names: Mapping[Value, str]) -> Json:
    """One value of a graph: its name, operator, operands, attributes, type, and where it comes from."""
    found: Json = {
        "name": names[value],
        "op": str(value.op),
        "inputs": [None if v is None else names[v] for v in value.inputs],
        "attributes": {name: plain(each) for name, each in value.attributes},
        "type": repr(value.type),
        "module": value.origin.module,
        "source": value.origin.source,
    }
    if value.bodies:
        words = words_of(value)
        found["bodies"] = {word: graph_data(body) for word, body in zip(words, value.bodies, strict=True)}
    return found


def plain(given: Any) -> Any:
    """An attribute as JSON holds it: numbers and texts as they are, lists of them, all else as text."""
    if isinstance(given, Blob):
        return {"type": repr(given.type), "name": given.name, "bytes": given.nbytes}
    if isinstance(given, tuple):
        return [plain(each) for each in cast("tuple[Any, ...]", given)]
    if isinstance(given, float) and not math.isfinite(given):
        return str(given)
    return given if isinstance(given, bool | int | float | str) else str(given)
