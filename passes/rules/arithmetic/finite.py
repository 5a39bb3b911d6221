"""Rules for models in which no number is NaN or infinite. They belong to no level: they are applied where they are
asked for by name.

Where torch keeps NaN and ONNX Runtime does not, lowering adds operators that keep it, which take time. `optimize(graph,
rules="default+finite")` removes them.
"""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value, param
from irkit.core.types import DType, tensor
from irkit.pattern import const as constant
from irkit.pattern import either, hole, is_all_zeros, one_of, p
from irkit.rewriting.face import Made, Match, Rule, decline, rule
from passes.analysis.questions import is_float, same_shape


def _kept(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", "batch", 4))
    odd = op.IsNaN(x) if rng.random() < 0.5 else op.IsInf(x)
    return op.Where(odd, np.float32(np.nan), op.Abs(x))


@rule(p.Where(either(p.IsNaN(hole("x")), p.IsInf(hole("x"))), hole("a"), hole("y")), exact=False, sample=_kept)
def where_finite(m: Match) -> Made:
    """Where(IsNaN(x), a, y) -> y, and so for IsInf: where all numbers are finite"""
    return m.y if same_shape(m.y.shape, m.root.shape) else decline("y is broadcast")


def _pooled(rng: np.random.Generator) -> Value:
    x = param(tensor("f32", "batch", 2, 6, 6))
    table = const(np.array([-np.inf, -0.0, np.nan], np.float32))
    kinds = op.Cast(op.Greater(x, np.float32(-np.inf)), to=DType.FLOAT)
    steps = [int(rng.integers(1, 3))] * 2
    values, places = (op.MaxPool(v, kernel_shape=[2, 2], strides=steps) for v in (x, kinds))
    return op.Add(values, op.Gather(table, op.Cast(places, to=DType.INT32)))


_number = one_of("Cast")(p.Greater(hole("x"), -np.inf))
_kind = one_of("Cast")(one_of("MaxPool")(_number))  # where_finite went before


@rule(p.Add(hole("pooled"), p.Gather(constant("table"), _kind)), exact=False, sample=_pooled)
def pool_finite(m: Match) -> Made:
    """y + Gather([-inf, 0, NaN], MaxPool(x > -inf)) -> y, where all numbers are finite"""
    table = m.table.blob.array
    if table.shape != (3,) or table[1] != 0 or not same_shape(m.pooled.shape, m.root.shape):
        return decline("not what keeps NaN and -inf in max pooling")
    return m.pooled


_zero, _x = constant("zero", where=is_all_zeros), hole("x")


@rule(
    either(
        p.Where(either(p.Greater(_x, _zero), p.GreaterOrEqual(_x, _zero)), _x, _zero),
        one_of("ThresholdedRelu")(_x, alpha=0.0),
    ),
    exact=False,
)
def relu_finite(m: Match) -> Made:
    """Where(x > 0, x, 0) -> Relu(x), where all numbers are finite"""
    if not is_float(m.x) or not same_shape(m.x.shape, m.root.shape):
        return decline("integers, or a constant broadcasts x")
    return op.Relu(m.x)


FINITE: tuple[Rule, ...] = (where_finite, pool_finite, relu_finite)
"""Rules of finite numbers."""
