"""Rules that `irkit.discover` found: each fires, declines where it must, and keeps the numbers."""

from __future__ import annotations

import numpy as np

from irkit import Graph, Value, compare, evaluate, explain, op, param, tensor
from irkit.rewriting.face import rewrite
from passes import optimize
from passes.rules.arithmetic.algebra import log_of_exp, neg_of_sub, softmax_of_log_softmax

A, B = param(tensor("f32", "n", 4)), param(tensor("f32", 4))
NUMBERS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def left(result: Value, *params: Value) -> list[str]:
    """The operators that are left, after the numbers were compared."""
    before = Graph(params, (result,))
    after = optimize(before)
    arrays = [NUMBERS, NUMBERS[0]][: len(params)]
    assert compare(evaluate(before, arrays), evaluate(after, arrays)) is None
    return [v.op for v in after.order if v.inputs]


def test_a_difference_is_turned_around() -> None:
    assert left(op.Neg(op.Sub(A, B)), A, B) == ["Sub"]
    kept = op.Sub(A, B)
    both = Graph((A, B), (op.Neg(kept), op.Exp(kept)))
    assert rewrite(both, neg_of_sub) is both  # the difference is needed for itself


def test_a_logarithm_of_an_exponential_does_not_overflow() -> None:
    assert left(op.Log(op.Exp(A)), A) == []
    (large,) = evaluate(optimize(Graph((A,), (op.Neg(op.Log(op.Exp(A))),))), [NUMBERS + 1000])
    assert np.isfinite(large).all()
    assert not explain(log_of_exp, op.Exp(op.Log(A))).applies


def test_softmax_takes_away_what_log_softmax_takes_away() -> None:
    assert left(op.Softmax(op.LogSoftmax(A, axis=-1), axis=-1), A) == ["Softmax"]
    assert left(op.LogSoftmax(op.LogSoftmax(A, axis=1), axis=1), A) == ["LogSoftmax"]
    assert left(op.Softmax(op.LogSoftmax(A, axis=0), axis=1), A) == ["LogSoftmax", "Softmax"]
    assert not explain(softmax_of_log_softmax, op.Softmax(op.LogSoftmax(A, axis=0), axis=1)).applies
