"""The assumption that numbers are finite: where ONNX Runtime drops or misplaces NaN, and nothing was added for it.

Its kernels of max pooling, of the largest and smallest of some elements, and of sorts do so (`passes.rules.nan`), and
to keep NaN beside them takes time. So a program says where it relies on numbers, in its report, its contract and its
file; `Program.refusing_nan` checks it, and an export with `rules="default+nan"` keeps NaN and relies on nothing.

So it is with `where(x > 0, x, 0)` behind a convolution, which makes 0 of NaN: written as a Relu, which keeps NaN, it
goes into the convolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from irkit.build import const, op
from irkit.core.ir import Fact, Graph, Value
from irkit.core.origins import Origin
from irkit.core.types import DType, Tensor
from irkit.pattern import hole
from irkit.rewriting.face import Made, Match, Rule, decline, rewrite
from lowering.fold.scope import Check
from lowering.tensors.promotion import cast
from passes.pipelines.standard import rules_named
from passes.rules.nan import NAN, ORDERED, POOLS, RECURRENT, compared_operands, is_choice, nan_assumptions
from passes.targets import Target

FINITE = "finite"
"""The kind of a fact that says where numbers are taken to be finite."""

HINT = 'export with rules="default+nan" to keep NaN, which takes time; or look where the inputs make it'


def places(graph: Graph) -> Mapping[tuple[str, str], tuple[Value, ...]]:
    """What relies on finite numbers: values by operator and line of the user's model."""
    found: dict[tuple[str, str], tuple[Value, ...]] = {}
    for value in nan_assumptions(graph):
        key = (value.op, value.origin.source)
        found[key] = (*found.get(key, ()), value)
    return found


def text_of(name: str) -> str:
    """The assumption, in words."""
    return f"finite numbers in {name}"


def free_choices(graph: Graph, target: Target, rules: Sequence[str | Rule] = ()) -> Graph:
    """The graph in which each `where(x > 0, x, 0)` behind a convolution is a Relu, with a fact for each line that has
    one; the same object where there is none, where `rules` ask for NaN to be kept, or where it is not ONNX Runtime that
    runs it. In bodies, which nothing outside can check, they stay."""
    found = [value for value in graph.order if is_choice(value)] if target.is_onnxruntime else []
    if not found or keeps_nan(rules) or any(holds_choice(body) for value in graph.order for body in value.bodies):
        return graph
    lines = dict.fromkeys(value.origin.source for value in found)
    freed = rewrite(graph, CHOICE)
    facts = (*freed.signature.facts, *(Fact(FINITE, text_of(CHOSEN), line) for line in lines))
    return freed.with_signature(attrs.evolve(freed.signature, facts=facts))


def keeps_nan(rules: Sequence[str | Rule]) -> bool:
    """Whether rules by which NaN is kept are among those that were asked for."""
    named = rules_named("+".join(each for each in rules if isinstance(each, str)))
    return any(rule in NAN for rule in (*named, *(each for each in rules if isinstance(each, Rule))))


def holds_choice(body: Graph) -> bool:
    """Whether a body, or one in it, holds such a choice."""
    return any(is_choice(value) or any(map(holds_choice, value.bodies)) for value in body.order)


def _freed(m: Match) -> Made:
    return op.Relu(m.root.inputs[0]) if is_choice(m.root) else decline("no convolution is before it")


CHOSEN = "Relu"
CHOICE = Rule("choice_freed", hole("value", ops=("ThresholdedRelu",)), _freed, False, "where(x > 0, x, 0) -> Relu(x)")


def freed_choices(graph: Graph) -> Mapping[tuple[str, str], tuple[Value, ...]]:
    """What stands for the choices that `free_choices` took for Relu, by operator and line of the user's model: the Relu
    of that line, or what it went into."""
    found: dict[tuple[str, str], tuple[Value, ...]] = {}
    for fact in graph.signature.facts:
        if fact.kind == FINITE and fact.text == text_of(CHOSEN):
            there = [v for v in graph.order if v.origin.source == fact.source and is_of_floats(v)]
            found[CHOSEN, fact.source] = tuple([v for v in there if v.op == CHOSEN] or there)
    return found


def is_of_floats(value: Value) -> bool:
    """Whether a value is a tensor of floats that is computed."""
    return value.blob is None and isinstance(value.type, Tensor) and value.dtype.is_float


def state_finiteness(graph: Graph, target: Target) -> Graph:
    """The graph with a fact for each operator and line that relies on finite numbers; the same object where none does,
    or where it is not ONNX Runtime that runs it."""
    found = places(graph) if target.is_onnxruntime else {}
    if not found:
        return graph
    facts = tuple(Fact(FINITE, text_of(name), line) for name, line in found)
    signature = graph.signature
    return graph.with_signature(attrs.evolve(signature, facts=(*signature.facts, *facts)))


def conditions(graph: Graph) -> tuple[Check, ...]:
    """For each fact of `state_finiteness` the condition, as a boolean scalar."""
    if not any(fact.kind == FINITE for fact in graph.signature.facts):
        return ()
    told = {**freed_choices(graph), **places(graph)}
    return tuple(
        Check(holds(values).with_origin(Origin(source=line, target=FINITE)), text_of(name), line, HINT)
        for (name, line), values in told.items()
    )


COMPARING = (*ORDERED, *RECURRENT)
"""Operators whose operands are looked at; of the others it is what they give."""


def holds(values: tuple[Value, ...]) -> Value:
    """Whether what some values compare is no NaN, and no pooling found a window of -inf alone."""
    looked = [x for value in values for x in (compared_operands(value) if value.op in COMPARING else (value,))]
    odd = [op.IsNaN(x) for x in looked if x.dtype.is_float]
    pools = [cast(value, DType.DOUBLE) for value in values if value.op in POOLS]
    lows = [float(np.finfo(value.dtype.numpy).min) for value in values if value.op in POOLS]
    odd += [op.LessOrEqual(x, const(np.float64(low))) for x, low in zip(pools, lows, strict=True)]
    counts = [op.ReduceSum(cast(flags, DType.FLOAT), keepdims=0) for flags in odd]
    whole = counts[0] if len(counts) == 1 else op.Sum(*counts)
    return op.Equal(whole, const(np.float32(0)))
