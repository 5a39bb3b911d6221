"""Two decoders as one model, over the same weights: a branch that goes on from a cache and one that begins, or one for
a single token and one for several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from irkit.build import call
from irkit.core import walk
from irkit.core.blobs import Blob, blob
from irkit.core.ir import Fact, Graph, Port, Value, constant, param
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT

FLAG, IDS = "use_cache_branch", "input_ids"
SHARED = 1024
"""Weights of so many bytes and more stand outside of the branches, once."""


def merged_decoders(first: Graph, later: Graph) -> Graph:
    """Both graphs as one with a parameter more, `use_cache_branch`: where it is true `later` computes the results, else
    `first`. Results of `first` that `later` lacks are handed through from the parameters of the past."""
    flag = param(Tensor(DType.BOOL, (1,)))
    outer = outer_params(first, later)
    return branched(first, later, {**outer, FLAG: (Port(FLAG), flag)}, flag, (f"without {FLAG}", f"with {FLAG}"))


def merged_by_length(several: Graph, single: Graph) -> Graph:
    """Both graphs as one: of one token `single` computes the results, of more `several`."""
    outer = outer_params(several, single)
    count = call("Shape", [outer[IDS][1]], {"start": 1, "end": 2})
    is_single = call("Equal", [count, constant(blob(np.array([1], np.int64)))])
    made = branched(several, single, outer, is_single, ("of several tokens", "of one token"))
    length = str(several.params[names(several).index(IDS)].shape[1])
    return made.with_symbols({**made.symbols, length: attrs.evolve(made.symbols[length], lo=1)})


def outer_params(first: Graph, later: Graph) -> dict[str, tuple[Port, Value]]:
    """The parameters of both by name, with the types of the first that has each."""
    outer = dict[str, tuple[Port, Value]]()
    for graph in (first, later):
        for port, value in zip(graph.signature.params, graph.params, strict=True):
            outer.setdefault(port.name, (port, param(value.type)))
    return outer


def branched(
    first: Graph,
    later: Graph,
    outer: Mapping[str, tuple[Port, Value]],
    condition: Value,
    words: tuple[str, str],
) -> Graph:
    """Both graphs as branches of one over the parameters `outer`: `later` where the condition holds, else `first`. What
    is true of one branch is noted with its word."""
    weights = shared_weights((first, later))
    values = {name: value for name, (_, value) in outer.items() if value is not condition}
    captures = (*values.values(), *dict.fromkeys(weights.values()))
    ports = first.signature.results
    bodies = [
        branch(graph, values, weights, captures, [port.name for port in ports], name)
        for graph, name in ((later, "then_branch"), (first, "else_branch"))
    ]
    made = call(
        "If",
        [condition, *captures],
        {"captures": len(captures), "then_branch": bodies[0], "else_branch": bodies[1]},
        outputs=len(ports),
    )
    return Graph(
        tuple(value for _, value in outer.values()),
        made if isinstance(made, tuple) else (made,),
        {**later.symbols, **first.symbols},
        attrs.evolve(
            first.signature,
            params=tuple(port for port, _ in outer.values()),
            results=ports,
            facts=facts_of(first, later, words),
        ),
        name=first.name,
    )


def branch(
    graph: Graph,
    outer: Mapping[str, Value],
    weights: Mapping[Value, Value],
    captures: Sequence[Value],
    results: Sequence[str],
    name: str,
) -> Graph:
    """A graph as a body over captures: its own parameters keep their types, which are those of its branch."""
    own = dict(zip(names(graph), graph.params, strict=True))
    of = {value: key for key, value in outer.items()}
    inner = {value: param(own[of[value]].type if of.get(value) in own else value.type) for value in captures}
    swaps = {value: inner[outer[key]] for key, value in own.items()} | {v: inner[w] for v, w in weights.items()}
    built = walk.rebuild(graph.results, swaps)
    found = {p.name: built[v] for p, v in zip(graph.signature.results, graph.results, strict=True)}
    handed = [
        found[each] if each in found else call("Identity", [inner[outer[each.replace("present", "past_key_values")]]])
        for each in results
    ]
    return Graph(tuple(inner.values()), tuple(handed), name=name)


def names(graph: Graph) -> list[str]:
    """The names of the parameters of a graph."""
    return [port.name for port in graph.signature.params]


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


def facts_of(first: Graph, later: Graph, words: tuple[str, str]) -> tuple[Fact, ...]:
    """The conditions of both, those of one branch alone as notes: they hold where that branch is taken."""
    both = [fact for fact in first.signature.facts if fact in later.signature.facts]
    noted = [
        Fact("note", f"{word}: {fact.text}", fact.source)
        for graph, word in ((later, words[1]), (first, words[0]))
        for fact in graph.signature.facts
        if fact not in both
    ]
    return (*both, *noted)
