"""The last choice of words: what keeps ONNX Runtime's own optimizer from fusing what runs slower fused.

Its kernel of a LayerNormalization with the sum before it (SkipLayerNormalization) takes several times as long as both
by themselves (`benchmarks/kernel_costs.py`, "Add before LayerNormalization"), and nothing in a model turns that fusion
off. It looks for an Add: a Sum of two is the same, bit for bit, and is left alone. Sums of more, such as those of a
product, its bias and what goes around it, are computed in one go, to the same bits again.
"""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, tensor
from irkit.pattern import attr, hole, p, rest
from irkit.rewriting.face import Made, Match, Rules, decline, rewrite_where, rule
from irkit.rewriting.firings import heard
from irkit.rewriting.passes import Observer, Pass, nobody
from irkit.support.uncollected import without_collector
from passes.analysis.questions import same_shape
from passes.targets import Target

x, y = hole("x"), hole("y")
_names = ("axis", "epsilon", "stash_type")


@rule(
    p.LayerNormalization(
        p.Add(x, y).once(), hole("scale"), hole("bias", optional=True), **{name: attr(name) for name in _names}
    )
)
def sum_before_norm(m: Match) -> Made:
    """LayerNormalization(x + y, ...) -> LayerNormalization(Sum(x, y), ...)"""
    if not isinstance(m.root.type, Tensor) or m.x.dtype not in (DType.FLOAT, DType.DOUBLE):
        return decline("its mean is wanted too, or Sum has no kernel")
    if not same_shape(m.x.shape, m.y.shape):
        return decline("ONNX Runtime fuses no sum that expands an operand")
    return op.LayerNormalization(op.Sum(m.x, m.y), m.scale, m.bias, **{name: m[name] for name in _names})


_terms = [hole(name, dtype=("f32", "f64")) for name in "abc"]


def _three(rng: np.random.Generator) -> Value:
    a, b, c = (param(tensor("f32", "n", "m", 4)) for _ in range(3))
    row = const(rng.standard_normal(4).astype(np.float32))
    makers = (lambda: op.Add(op.Add(a, row), b), lambda: op.Add(c, op.Add(a, b)), lambda: op.Add(op.Sum(a, row, b), c))
    return makers[int(rng.integers(3))]()


@rule(p.Add(p.Add(*_terms[:2]).once(), _terms[2]), sample=_three)
def sum_of_three(m: Match) -> Made:
    """(a + b) + c -> Sum(a, b, c)"""
    if m.root.inputs[0] is m.root.inputs[1]:
        return decline("the inner sum is added to itself, and would be needed still")
    return op.Sum(m.a, m.b, m.c)


@rule(p.Add(p.Sum(*rest("terms")).once(), _terms[2]), sample=_three)
def sum_of_more(m: Match) -> Made:
    """Sum(a, b, ...) + c -> Sum(a, b, ..., c) of 64 terms at most"""
    if m.root.inputs[0] is m.root.inputs[1]:
        return decline("the inner sum is added to itself, and would be needed still")
    if len(m.terms) >= TOGETHER:
        return decline("the sum is long enough")
    return op.Sum(*m.terms, m.c)


TOGETHER = 64
"""Terms of a Sum that others are added to: what a longer one would save is less than what it costs to look through."""


STEERING: Rules = (sum_of_three, sum_of_more, sum_before_norm)
"""All such rules."""


@without_collector
def steer(graph: Graph, target: Target, *, observe: Observer = nobody) -> Graph:
    """The graph in words that ONNX Runtime on the CPU runs fastest; the very same object for other targets."""
    if target.provider != "CPUExecutionProvider":
        return graph
    step = Pass(
        "steer",
        (("target", str(target)),),
        lambda before, seen, _depth: rewrite_where(before, STEERING, told=heard(seen)),
    )
    return step.run(graph, observe)
