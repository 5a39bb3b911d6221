"""A part of a graph as a graph of its own, by the names of the values where it begins and ends."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import attrs

from irkit import dims
from irkit.contract.as_json import names_of_condition
from irkit.contract.sizes import ENFORCED
from irkit.core.ir import Fact, Graph, Port, Signature, Value, param
from irkit.core.printer import value_names
from irkit.core.types import Tuple, dims_of
from irkit.core.vocabulary import PARAM
from irkit.core.walk import post_order, rebuild
from irkit.errors import GraphError
from irkit.verification.laws import verify


def named_values(graph: Graph) -> dict[str, Value]:
    """The values of a graph by their names: those of inputs and outputs, of nodes in the file, and as its text has
    them, with and without `%`."""
    found: dict[str, Value] = {}
    for value in graph.order:
        if not isinstance(value.type, Tuple) and value.origin.node:  # whose first result has the same name
            found.setdefault(value.origin.node, value)
    for value, name in value_names(graph).items():
        found.setdefault(name.removeprefix("%"), value)
        found.setdefault(name, value)
    for ports, values in ((graph.signature.results, graph.results), (graph.signature.params, graph.params)):
        found |= {port.name: value for port, value in zip(ports, values, strict=False) if port.name}
    return found


def value_named(names: dict[str, Value], name: str) -> Value:
    """The value of that name. Raises GraphError, with names near it, where there is none."""
    if name not in names:
        near = get_close_matches(name, [n for n in names if not n.startswith("%")])
        raise GraphError(
            f"the graph has no value called {name!r}",
            hint=f"near it: {', '.join(near)}" if near else "irkit show prints the names that there are",
        )
    return names[name]


def extract_part(graph: Graph, inputs: Iterable[str], outputs: Iterable[str]) -> Graph:
    """The part of a graph between some values, by name: `inputs` are its parameters, `outputs` its results, and what
    else the outputs need of the graph's own parameters stays a parameter. Without inputs it begins where the graph
    does, without outputs it ends where the graph does.

    Raises GraphError for a name that there is not, and for an input that no output needs.
    """
    names = named_values(graph)
    starts = {name: value_named(names, name) for name in inputs}
    ends = {name: value_named(names, name) for name in outputs}
    if not ends:
        ports = graph.signature.results
        ends = {(ports[i].name if i < len(ports) else f"output_{i}"): v for i, v in enumerate(graph.results)}
    tuples = [name for name, value in (starts | ends).items() if isinstance(value.type, Tuple)]
    if tuples:
        raise GraphError(f"{tuples[0]!r} is an operator with several results", hint="name one of its results")
    made = {value: value if value.op == PARAM else param(value.type) for value in starts.values()}
    built = rebuild(ends.values(), {old: new for old, new in made.items() if old is not new})
    results = tuple(built[v] for v in ends.values())
    reached = {v for v in post_order(results) if v.op == PARAM}
    idle = [name for name, value in starts.items() if made[value] not in reached]
    if idle:
        raise GraphError(f"no output needs {idle[0]!r}", hint="leave it out, or name an output that is computed of it")
    own = graph.signature.params
    kept = [
        (own[i] if i < len(own) else Port(f"input_{i}"), v)
        for i, v in enumerate(graph.params)
        if v in reached and v not in made
    ]
    params = [*((Port(name), made[value]) for name, value in starts.items()), *kept]
    signature = Signature(
        tuple(port for port, _ in params),
        tuple(Port(name, "output") for name in ends),
        facts_about(graph, [v for _, v in params]),
    )
    return verify(attrs.evolve(graph, params=tuple(v for _, v in params), results=results, signature=signature))


def facts_about(graph: Graph, params: Iterable[Value]) -> tuple[Fact, ...]:
    """The conditions of a graph on sizes that these parameters tell."""
    known = {s.name for v in params for d in dims_of(v.type) for s in dims.symbols_of(d)}
    return tuple(f for f in graph.signature.facts if f.kind in ENFORCED and names_of_condition(f.text) <= known)
