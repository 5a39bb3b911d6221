"""float16 that is looked at: ONNX Runtime computes it in float32 where it has no kernel, and leaves out the roundings.

Around an operator without a kernel of float16 it puts casts to float32 and back, and drops those between two such
operators, a Cast of the model before them, too. Sums and products are the better for it. What is compared, made whole
numbers, or was rounded by the model itself is something else then: 1 + 1e-4 is 1 in float16, and 70000 infinite.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, tensor
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.pattern import Hole, attr, hole, p
from irkit.rewriting.face import Made, Match, Rule, Rules, decline
from passes.analysis.spans import MOVES
from passes.targets import Target
from passes.targets.targets import OURS, runs_uncast

DISCRETE = frozenset(
    ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Ceil", "Floor", "Round", "Sign", "Mod")
)
"""What a rounding of its operands changes altogether."""

PRODUCTS = frozenset((
    "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "Attention", "LayerNormalization", "RMSNormalization",
    "GroupNormalization", "InstanceNormalization", "BatchNormalization", "LSTM", "GRU", "RNN", "Softmax", "Resize",
))  # fmt: skip
"""What adds up so much that a rounding of its operands is lost in it."""

HOLDING = (DType.FLOAT16, DType.BOOL, DType.INT8, DType.UINT8)
"""Element types of which float16 holds all numbers."""


def holds_halves(graph: Graph) -> bool:
    """Whether some value of a graph or of its bodies is a tensor of float16."""
    kinds = [v.type.dtype for v in graph.order if type(v.type) is Tensor]
    return DType.FLOAT16 in kinds or any(holds_halves(body) for v in graph.order if v.bodies for body in v.bodies)


def half_rules(target: Target) -> Rules:
    """The rules for a target: the CPU's alone."""

    def looked_at(value: Value) -> bool:
        return any(True for _ in unrounded(value, target))

    def rounded(m: Match) -> Made:
        """The operator of operands whose rounding stands"""
        found = list(unrounded(m.root, target))
        if not found:
            return decline("its operands are rounded")
        return m.root.with_inputs(tuple(kept_rounded(v) if v in found else v for v in m.root.inputs))

    turned = p.Transpose(hole("x"), perm=attr("perm"))
    return (
        Rule("product_of_turned_halves", p.MatMul(turned, hole("y")), lambda m: in_float32(m, target), False,
             "MatMul(Transpose(x), y) of float16 -> Cast(MatMul(Transpose(Cast(x)), Cast(y)))", sample=_turned_left),
        Rule("product_by_turned_halves", p.MatMul(hole("y"), turned), lambda m: in_float32(m, target), False,
             "MatMul(y, Transpose(x)) of float16 -> Cast(MatMul(Cast(y), Transpose(Cast(x))))", sample=_turned_right),
        Rule("halves_looked_at", Hole("root", where=(looked_at,)), rounded, True,
             "f(x) -> f(Min(Max(x, -inf), inf)) of float16 that the runtime would not round", sample=_sample),
    )  # fmt: skip


def in_float32(m: Match, target: Target) -> Made:
    """The product of what is cast before it is turned, as the runtime computes it without a kernel of float16"""
    if m.perm is None or len(m.perm) < 3 or m.perm[0] == 0:
        return decline("the Transpose leaves the first dimension where it is, or turns all around, or has two")
    if m.root.dtype is not DType.FLOAT16 or runs_uncast(target, m.root):
        return decline("the runtime multiplies without casts")
    wide = {v: op.Cast(v, to=DType.FLOAT) for v in (m.x, m.y)}
    turned = op.Transpose(wide[m.x], perm=m.perm)
    left, right = (wide[m.y] if v is m.y else turned for v in m.root.inputs)
    return op.Cast(op.MatMul(left, right), to=DType.FLOAT16)


def _turned_halves(rng: np.random.Generator) -> Value:
    return op.Transpose(param(tensor("f16", "n", 3, 4)), perm=[[1, 0, 2], [1, 2, 0]][int(rng.integers(2))])


def _turned_left(rng: np.random.Generator) -> Value:
    turned = _turned_halves(rng)
    return op.MatMul(turned, param(tensor("f16", turned.shape[2], 5)))


def _turned_right(rng: np.random.Generator) -> Value:
    turned = _turned_halves(rng)
    return op.MatMul(param(tensor("f16", 5, turned.shape[1])), turned)


def kept_rounded(v: Value) -> Value:
    """The same numbers by two operators that have kernels of float16: one alone the runtime does in float32, too."""
    low, high = (const(np.array(end, np.float16)) for end in (-np.inf, np.inf))
    return op.Min(op.Max(v, low), high)


def unrounded(value: Value, target: Target) -> Iterator[Value]:
    """The operands of float16 that are to be rounded, and that the runtime hands on in float32."""
    halves = [v for v in value.inputs if v is not None and isinstance(v.type, Tensor) and v.dtype is DType.FLOAT16]
    if not halves or type(value.op) is not str or value.op in OURS or value.bodies:
        return
    whole = value.op == "Cast" and isinstance(value.type, Tensor) and not value.dtype.is_float
    if not whole and (value.op == "Cast" or value.op in PRODUCTS or runs_uncast(target, value)):
        return
    for v in halves:
        if v.op == "Cast" and not whole and value.op not in DISCRETE:
            if "to_precision" not in v.origin.rules and not is_rounded(v):
                yield v
        elif (value.op in DISCRETE or (whole and v.op != "Cast")) and not is_rounded(v):
            yield v


def is_rounded(v: Value) -> bool:
    """Whether a tensor of float16 is rounded whatever stands around it."""
    while v.op in MOVES and v.inputs[0] is not None:
        v = v.inputs[0]
    if v.op == "Cast":
        return v.inputs[0] is not None and v.inputs[0].dtype in HOLDING
    return v.op in (PARAM, CONSTANT) or is_kept(v)


def is_kept(v: Value) -> bool:
    """Whether a value is what `kept_rounded` makes."""
    end = v.inputs[1] if v.op == "Min" and len(v.inputs) == 2 else None
    return end is not None and end.blob is not None and not end.rank and bool(end.blob.array == np.inf)


def _sample(rng: np.random.Generator) -> Value:
    a, b = param(tensor("f16", "n", 3)), param(tensor("f16", "n", 3))
    wide = param(tensor("f32", "n", 3))
    compared = op.Equal if rng.random() < 0.5 else op.Greater
    return compared(op.Add(a, b), op.Cast(wide, to=DType.FLOAT16))
