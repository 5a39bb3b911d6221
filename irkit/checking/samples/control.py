"""Samples of control flow, calls and sequences: bodies are grown as graphs are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from irkit.build import call, call_graph, const, op
from irkit.checking.samples import activations, elementwise, linear_algebra, movement, reduction
from irkit.checking.samples.sampler import ANY, BOOL, F32, I64, NUMBERS, Sampler, cast
from irkit.core import walk
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor
from irkit.dims import Dim
from irkit.nodes.bodies import entries, sealed_graph
from irkit.support.results import as_tuple

INNER = (
    elementwise.sample_Add, activations.sample_Relu, elementwise.sample_Mul, elementwise.sample_Where,
    movement.sample_Unsqueeze, movement.sample_Concat, movement.sample_Slice, reduction.sample_ReduceSum,
    linear_algebra.sample_MatMul, elementwise.sample_Less, movement.sample_ShapeVector,
)  # fmt: skip
"""What bodies are grown from."""


def grown(s: Sampler) -> Sampler:
    """The sampler of a body after a few operators were added to it."""
    for _ in range(s.integer(0, 2)):
        s.add(*as_tuple(s.choose(INNER)(s)))
    return s


def back(s: Sampler, like: Tensor) -> Value:
    """A value of the body of exactly that type: one that fits, or one made to."""
    fitting = [v for v in reversed(s.values) if v.type == like]
    return s.choose(fitting[:4]) if fitting else s.of(like.dtype, like.shape)


def known_there(s: Sampler, kind: DType, shape: tuple[Dim, ...]) -> Tensor:
    """The type with 1 for each size that a body does not know, since another body binds it."""
    return Tensor(kind, tuple(d if s.binders((d,)) is not None else 1 for d in shape))


def made_inside(s: Sampler, results: Sequence[Value]) -> set[Value]:
    """What the results reach and the graph around does not have, leaves excepted."""
    outside = set(walk.post_order(s.outer.values if s.outer is not None else ()))
    return {v for v in walk.post_order(results) if v not in outside}


def bodies(ways: Sequence[tuple[Sampler, Sequence[Value], Sequence[Value]]]) -> tuple[list[Graph], tuple[Value, ...]]:
    """(graphs, captures) of bodies that are given as (sampler, parameters, results)."""
    insides = [made_inside(s, results) | set(params) for s, params, results in ways]
    found = [entries(results, inside) for (_, _, results), inside in zip(ways, insides, strict=True)]
    captures = tuple(dict.fromkeys(v for used in found for v in used))
    return [sealed_graph(params, results, captures, "body") for _, params, results in ways], captures


def sample_If(s: Sampler) -> Value | tuple[Value, ...]:
    """Two ways of one or two results each."""
    condition = s.of(BOOL, ())
    first, second = grown(s.inside()), grown(s.inside())
    results = [first.tensor(ANY) for _ in range(s.integer(1, 2))]
    others = [back(second, known_there(second, r.dtype, r.shape)) for r in results]
    (then, otherwise), captures = bodies([(first, (), results), (second, (), others)])
    given = {"then_branch": then, "else_branch": otherwise, "captures": len(captures)}
    return call("If", [condition, *captures], given)


def sample_Loop(s: Sampler) -> tuple[Value, ...]:
    """A few trips over one carried value, and what each trip gives."""
    start = s.tensor(NUMBERS)
    inner = s.inside()
    number, go, carried = param(Tensor(I64, ())), param(Tensor(BOOL, ())), param(start.type)
    inner.add(number, carried)
    grown(inner)
    results = [go, back(inner, Tensor(start.dtype, start.shape)), inner.tensor(ANY)]
    (body,), captures = bodies([(inner, (number, go, carried), results)])
    trips = const(np.array(s.integer(s.least, 3)))
    return call("Loop", [trips, const(np.array(True)), start, *captures], {"body": body, "captures": len(captures)})


def sample_Scan(s: Sampler) -> tuple[Value, ...]:
    """One state over one sequence."""
    sequence = s.tensor(NUMBERS, 1)
    element = param(Tensor(sequence.dtype, sequence.shape[1:]))
    start = s.of(sequence.dtype, s.shape(0, 1))
    state = param(start.type)
    inner = s.inside()
    inner.add(state, element)
    grown(inner)
    results = [back(inner, Tensor(start.dtype, start.shape)), inner.tensor(NUMBERS)]
    (body,), captures = bodies([(inner, (state, element), results)])
    given = {"body": body, "num_scan_inputs": 1, "captures": len(captures)}
    return call("Scan", [start, sequence, *captures], given)


def sample_Call(s: Sampler) -> Value:
    """One body, applied twice."""
    x = s.tensor(NUMBERS)
    taken = param(x.type)
    body = Graph((taken,), (op.Add(cast(op.Neg(taken), x.dtype), taken),), name="twice")
    return call_graph(body, call_graph(body, x))


def sample_Sequence(s: Sampler) -> Value:
    """Put in and taken out again."""
    x = s.tensor(ANY)
    made = op.SequenceConstruct(x, s.of(x.dtype, x.shape))
    return op.SequenceAt(made, s.integer(-2, 1)) if s.flag() else op.SequenceLength(made)


def sample_SequenceMap(s: Sampler) -> Value:
    """One operator of each element."""
    x = s.tensor((F32,))
    found = op.SequenceMap(op.SequenceConstruct(x, s.of(F32, x.shape)), body=op.Neg)
    return op.SequenceAt(as_tuple(found)[0], s.integer(0, 1))
