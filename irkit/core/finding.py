"""Values of a graph by what they are called: in its text, at its ports, in the model that it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from irkit.core.origins import plain
from irkit.core.types import Tuple
from irkit.core.vocabulary import CONSTANT, ITEM, PARAM
from irkit.errors import GraphError
from irkit.support.arguments import type_text
from irkit.support.counts import count_text

if TYPE_CHECKING:
    from irkit.core.ir import Graph, Value

SHOWN = 8
"""So many candidates an error lists."""


def named_values(graph: Graph) -> Mapping[str, Value]:
    """Each value by its names: those at the ports, those in the text with and without `%`, those of nodes.

    Of values that have one name that at a port is meant, then that in the text, then the first node.
    """
    found: dict[str, Value] = {}
    signature = graph.signature
    for ports, values in ((signature.results, graph.results), (signature.params, graph.params)):
        for port, value in zip(ports, values, strict=False):
            found.setdefault(port.name, value)
    for value, name in graph.names.items():
        found[name] = value  # which no port has, unless it begins with %
    for value, name in graph.names.items():
        found.setdefault(name.removeprefix("%"), value)
    for value in graph.order:
        if value.origin.node and not isinstance(value.type, Tuple):  # whose first result has the same name
            found.setdefault(value.origin.node, value)
    return found


def value_called(graph: Graph, name: str) -> Value:
    """The value that has a name (see `named_values`). Raises GraphError, with names near it, where there is none."""
    found = graph.named.get(name)
    if found is None:
        raise unknown(graph, name, graph.named)
    return found


def unknown(graph: Graph, key: object, known: Iterable[str]) -> GraphError:
    """The error for a name that a graph does not have."""
    names = {str(name): None for name in known if name}
    near = get_close_matches(str(key), names, SHOWN) or [n for n in names if str(key) and str(key) in n][:SHOWN]
    near = near or (list(names) if len(names) <= SHOWN else [])
    hint = f"near it: {', '.join(near)}" if near else "str(graph), or `irkit show`, prints the names that there are"
    return GraphError(f"the graph {graph.name} has no value called {key!r}", hint=hint)


def values_at(graph: Graph, key: str) -> tuple[Value, ...]:
    """The values that a key tells of, in order: the one of that name; else those of a module and of what lies in it,
    of a line of source (`model.py:12`, or a part of its text), of an operator or of what a node called, of a rule."""
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may give anything
        raise GraphError(
            f"{type_text(key)} tells of no value of a graph",
            hint="give a name, a module, an operator or a line; graph.order[i] is by number, graph.matches by pattern",
        )
    known = graph.named
    if key in known:
        return (known[key],)
    module = key.replace("/", ".")
    told: tuple[Callable[[Value], bool], ...] = (
        lambda v: within(v.origin.module, module) or within(plain(v.origin.module), module),
        lambda v: v.op == key or v.origin.target == key or key in v.origin.rules,
        lambda v: on_line(v.origin.source, key),
    )
    for is_meant in told:
        found = tuple(v for v in graph.order if is_meant(v))
        if found:
            return found
    return ()


def within(path: str, module: str) -> bool:
    """Whether the path of a module is that one, or lies in it."""
    return path == module or path.startswith(f"{module}.")


def on_line(source: str, key: str) -> bool:
    """Whether a line of source, `folder/model.py:12 y = f(x)`, is the one that a key names: by place or by text."""
    place, _, text = source.partition(" ")
    return bool(key) and (place == key or place.endswith(f"/{key}") or (len(key) > 2 and key in text))


def value_at(graph: Graph, key: str) -> Value:
    """The value that a key tells of, where it is one; of a module, a line or an operator what of it is used elsewhere.

    Raises GraphError, with names near it, where there is none; and with what there is to choose from where there are
    several.
    """
    found = values_at(graph, key)
    if not found:
        paths = {v.origin.module for v in graph.order} | {v.origin.source.partition(" ")[0] for v in graph.order}
        raise unknown(graph, key, (*graph.named, *sorted({*paths, *(v.op for v in graph.order)})))
    leaving = found if len(found) == 1 else results_of(graph, found)
    if len(leaving) != 1:
        lines = [f"{graph.names[v]}: {v.type!r} = {v.op}" for v in leaving[:SHOWN]]
        more = f"\n... and {len(leaving) - SHOWN} more" if len(leaving) > SHOWN else ""
        raise GraphError(
            f"{key!r} tells of {count_text(len(leaving), 'value')} of the graph {graph.name}",
            ir="\n".join(lines) + more,
            hint=f"take one by its name, graph.value({graph.names[leaving[0]]!r}), or all: graph.find({key!r})",
        )
    return leaving[0]


def results_of(graph: Graph, found: Iterable[Value]) -> tuple[Value, ...]:
    """Those of several values that values beside them use, or that are results; constants are none, unless all are."""
    own = set(found)
    results = set(graph.results)
    leaving = tuple(v for v in graph.order if v in own and (v in results or not own.issuperset(graph.users[v])))
    # An operator with several results is taken apart by its Items, which have its origin.
    computed = tuple(v for v in leaving if v.op not in (CONSTANT, PARAM) and not is_taken_apart(graph, v, own))
    return computed or leaving


def is_taken_apart(graph: Graph, value: Value, own: set[Value]) -> bool:
    """Whether a value is several, of which Items among the others take each."""
    return isinstance(value.type, Tuple) and any(u.op == ITEM and u in own for u in graph.users[value])
