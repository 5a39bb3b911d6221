"""Two decoders as one model: a branch that goes on from a cache, and one that begins, over the same weights."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from irkit.build import call
from irkit.core import walk
from irkit.core.blobs import Blob
from irkit.core.ir import Fact, Graph, Port, Value, param
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT
from irkit.nodes.bodies import sealed_graph

FLAG = "use_cache_branch"
SHARED = 1024
"""Weights of so many bytes and more stand outside of the branches, once."""


def merged_decoders(first: Graph, later: Graph) -> Graph:
    """Both graphs as one with a parameter more, `use_cache_branch`: where it is true `later` computes the results, else
    `first`. Results of `first` that `later` lacks are handed through from the parameters of the past."""
    flag = param(Tensor(DType.BOOL, (1,)))
    outer = dict[str, tuple[Port, Value]]()
    for graph in (first, later):
        for port, value in zip(graph.signature.params, graph.params, strict=True):
            outer.setdefault(port.name, (port, param(value.type)))
    weights = shared_weights((first, later))
    values = {name: value for name, (_, value) in outer.items()}
    begun, gone_on = (results_over(graph, values, weights) for graph in (first, later))
    ports = first.signature.results
    for port in ports:
        if port.name not in gone_on:
            gone_on[port.name] = call("Identity", [values[port.name.replace("present", "past_key_values")]])
    captures = (*values.values(), *dict.fromkeys(weights.values()))
    bodies = [
        sealed_graph((), [found[port.name] for port in ports], captures, name)
        for found, name in ((gone_on, "then_branch"), (begun, "else_branch"))
    ]
    made = call(
        "If",
        [flag, *captures],
        {"captures": len(captures), "then_branch": bodies[0], "else_branch": bodies[1]},
        outputs=len(ports),
    )
    results = made if isinstance(made, tuple) else (made,)
    return Graph(
        (*values.values(), flag),
        results,
        {**first.symbols, **later.symbols},
        attrs.evolve(
            first.signature,
            params=(*(port for port, _ in outer.values()), Port(FLAG)),
            results=ports,
            facts=facts_of(first, later),
        ),
        name=first.name,
    )


def shared_weights(graphs: tuple[Graph, ...]) -> dict[Value, Value]:
    """For each large constant of the graphs, and of bodies in none, the one that stands for all of its content."""
    known = dict[tuple[bytes, object], Value]()
    found = dict[Value, Value]()
    for graph in graphs:
        for value in graph.order:
            held: Blob | None = value.blob if value.op == CONSTANT else None
            if held is not None and held.nbytes >= SHARED:
                found[value] = known.setdefault((held.digest, value.type), value)
    return found


def results_over(graph: Graph, values: Mapping[str, Value], weights: Mapping[Value, Value]) -> dict[str, Value]:
    """The results of a graph by name, computed from other parameters of the same names, and of shared weights."""
    named = {port.name: value for port, value in zip(graph.signature.params, graph.params, strict=True)}
    swaps = {value: values[name] for name, value in named.items()} | {v: w for v, w in weights.items() if v is not w}
    built = walk.rebuild(graph.results, swaps)
    return {p.name: built[v] for p, v in zip(graph.signature.results, graph.results, strict=True)}


def facts_of(first: Graph, later: Graph) -> tuple[Fact, ...]:
    """The conditions of both, those of one branch alone as notes: they hold where that branch is taken."""
    both = [fact for fact in first.signature.facts if fact in later.signature.facts]
    noted = [
        Fact("note", f"{word} {FLAG}: {fact.text}", fact.source)
        for graph, word in ((later, "with"), (first, "without"))
        for fact in graph.signature.facts
        if fact not in both
    ]
    return (*both, *noted)
