"""Parts of graphs, other names, other expressions: each a graph of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import attrs
import sympy

from irkit import dims
from irkit.contract.as_json import names_of_condition
from irkit.contract.sizes import ENFORCED
from irkit.core.finding import unknown, value_at
from irkit.core.ir import Fact, Graph, Port, Signature, Value, param
from irkit.core.types import Tuple, dims_of
from irkit.core.vocabulary import CALL, CONSTANT, PARAM
from irkit.core.walk import post_order, rebuild
from irkit.errors import GraphError, TypeRuleError
from irkit.onnx.writing.inlining import called_bodies, expand_calls
from irkit.pattern import Pattern, match
from irkit.rewriting.driver import symbols_of
from irkit.rewriting.face import rewrite
from irkit.rewriting.rules import Match, rule
from irkit.support.arguments import brief
from irkit.verification.laws import verify

__all__ = ["cut", "inline", "matches", "rename", "replace", "value_at"]

Keys = Iterable[Value | str] | None
"""Values of a graph, or what tells of them."""


# ---------------------------------------------------------------------------------------------- parts


def cut(graph: Graph, inputs: Keys = None, outputs: Keys = None) -> Graph:
    """The part of a graph between some values: `inputs` are its parameters, `outputs` its results, and what else the
    outputs need of the graph's own parameters stays a parameter. Without inputs it begins where the graph does, without
    outputs it ends where the graph does.

    Raises GraphError for what is not in the graph, for an input that no output needs, and VerifyError where a size
    would be bound by nothing.
    """
    starts, ends = places(graph, inputs), places(graph, outputs)
    ports = graph.signature.results
    if outputs is None:
        ends = {(ports[i].name if i < len(ports) else f"output_{i}"): v for i, v in enumerate(graph.results)}
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


def places(graph: Graph, keys: Keys) -> dict[str, Value]:
    """The values that keys tell of, by the names that ports get. Raises GraphError for what is not in the graph."""
    if isinstance(keys, str | Value):
        raise GraphError(f"{keys!r} is no list of values", hint="write [value] for one")
    found: dict[str, Value] = {}
    for key in keys or ():
        value = value_at(graph, key) if isinstance(key, str) else key
        if not isinstance(value, Value) or value not in graph.names:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphError(
                f"{brief(key) if not isinstance(key, Value) else repr(key)} is no value of the graph {graph.name}",
                hint="take one of graph.order, or name it as the text of the graph does",
            )
        if isinstance(value.type, Tuple):
            raise GraphError(
                f"{graph.names[value]} is an operator with several results", hint="name one of its results"
            )
        found[port_name(graph, key, value)] = value
    return found


def port_name(graph: Graph, key: str | Value, value: Value) -> str:
    """What a port is called where a part begins or ends: as it was asked for, or as the value is."""
    if isinstance(key, str):
        return key.removeprefix("%").strip('"')
    signature = graph.signature
    for ports, values in ((signature.results, graph.results), (signature.params, graph.params)):
        for port, each in zip(ports, values, strict=False):
            if each is value:
                return port.name
    name = graph.names[value].removeprefix("%").strip('"')
    return f"v{name}" if name.isdecimal() else name


def facts_about(graph: Graph, params: Iterable[Value]) -> tuple[Fact, ...]:
    """The conditions of a graph on sizes that these parameters tell."""
    known = {s.name for v in params for d in dims_of(v.type) for s in dims.symbols_of(d)}
    return tuple(f for f in graph.signature.facts if f.kind in ENFORCED and names_of_condition(f.text) <= known)


# ---------------------------------------------------------------------------------------------- the whole


def inline(graph: Graph, names: Iterable[str]) -> Graph:
    """The graph with Calls written out, those of bodies of these names where any are given. Raises GraphError for a
    name that no body has."""
    wanted = tuple(names)
    if not wanted:
        return expand_calls(graph)
    known = [body.name for body in called_bodies(graph)]
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known) or sorted(set(known))
            raise GraphError(
                f"the graph {graph.name} calls no {name!r}",
                hint=f"it calls {', '.join(near)}" if near else "it calls nothing",
            )
    return expand_calls(graph, lambda v: v.op == CALL and v.bodies[0].name in wanted)


def matches(graph: Graph, pattern: object) -> tuple[Match, ...]:
    """Where a pattern matches, in order. Raises TypeRuleError for what is no pattern."""
    if not isinstance(pattern, Pattern):
        raise TypeRuleError(
            f"{brief(pattern)} is not a pattern",
            hint="write one by irkit.p, as in graph.matches(p.Relu(hole('x'))); graph.find takes names and operators",
        )

    def symbols() -> frozenset[sympy.Symbol]:
        return symbols_of(graph)

    def users(value: Value) -> int:
        return len(graph.users.get(value, ())) + sum(each is value for each in graph.results)

    found = ((value, match(pattern, value, users)) for value in graph.order)
    return tuple(Match(value, bound, symbols) for value, bound in found if bound is not None)


def replace(graph: Graph, pattern: Pattern, function: Callable[[Match], Any]) -> Graph:
    """The graph with what matches replaced. Raises RewriteError for a replacement of another type."""
    if isinstance(function, Pattern):
        raise TypeRuleError(
            "the replacement is a pattern",
            hint="two pictures are an equation: irkit.rewrite(graph, irkit.equation(before, after).forward)",
        )
    made = rule(pattern)(function)
    return rewrite(graph, attrs.evolve(made, name="replace") if made.name == "<lambda>" else made)


# ---------------------------------------------------------------------------------------------- names


def rename(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with other names of parameters, results and weights. Raises GraphError for a name that it does not
    have, and for one that it would have twice."""
    params = ports_of(graph.signature.params, graph.params, "input")
    results = ports_of(graph.signature.results, graph.results, "output")
    weights = {v.blob.name: v for v in graph.order if v.op == CONSTANT and v.blob is not None and v.blob.name}
    plain = {name.removeprefix("%"): new for name, new in names.items()}
    known = {p.name for p in (*params, *results)} | weights.keys()
    for name, new in plain.items():
        if name not in known:
            raise unknown(graph, name, sorted(known))
        if not isinstance(new, str) or not new:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphError(f"{new!r} is no name", hint=f'write graph.rename({name}="another")')
    params = [attrs.evolve(p, name=plain.get(p.name, p.name)) for p in params]
    results = [
        attrs.evolve(
            p, name=plain.get(p.name, p.name), binds=plain.get(p.binds, p.binds) if p.role == "state" else p.binds
        )
        for p in results
    ]
    for what, ports in (("parameters", params), ("results", results)):
        twice = {p.name for p in ports if sum(q.name == p.name for q in ports) > 1}
        if twice:
            raise GraphError(f"two {what} would be called {min(twice)!r}", hint="give each a name of its own")
    swaps = {
        value: vertex_named(value, plain[name]) for name, value in weights.items() if plain.get(name, name) != name
    }
    new = rebuild(graph.results, swaps)
    signature = attrs.evolve(graph.signature, params=tuple(params), results=tuple(results))
    return attrs.evolve(graph, results=tuple(new[r] for r in graph.results), signature=signature)


def vertex_named(value: Value, name: str) -> Value:
    """A constant whose content has another name."""
    return attrs.evolve(value, attributes=(("value", attrs.evolve(value.blob, name=name)), *value.attributes[1:]))


def ports_of(ports: tuple[Port, ...], values: tuple[Value, ...], role: str) -> list[Port]:
    """The port of each value; those that have none are called `input_0` or `output_0`."""
    return [ports[i] if i < len(ports) else Port(f"{role}_{i}", role) for i in range(len(values))]
