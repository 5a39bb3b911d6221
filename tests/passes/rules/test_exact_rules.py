"""Rules that claim every bit keep it at the ends of the floats; `make exact-rules` checks many more instances."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

import irkit
from irkit.build import const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.core.walk import post_order
from irkit.errors import RewriteError
from irkit.rewriting.face import Rule
from passes import optimize, prepare
from passes.rules.arithmetic.algebra import add_add, add_zero, mul_mul
from passes.rules.arithmetic.clips import max_to_relu
from passes.rules.attention.scores import attention_of_factors
from tests.fuzz.exact_rules import check_bits
from tests.tables.rules import RULES


@pytest.mark.parametrize("rule", [r for r in RULES if r.exact], ids=lambda rule: rule.name)
def test_a_rule_that_is_said_to_be_exact_keeps_every_bit(rule: Rule) -> None:
    assert check_bits(rule, 3).fired


@pytest.mark.parametrize("rule", [mul_mul, add_add, add_zero, max_to_relu], ids=lambda rule: rule.name)
def test_a_rule_of_real_numbers_does_not_pass_for_exact(rule: Rule) -> None:
    with pytest.raises(RewriteError, match="differ"):
        check_bits(attrs.evolve(rule, exact=True), 200)


def same_after(results: Any, *arrays: np.ndarray, level: int = 1) -> list[str]:
    """The operators that are left of some results, optimized, where the numbers are the same to the bit."""
    found = results if isinstance(results, tuple) else (results,)
    params = tuple(v for v in post_order(found) if v.op == "Param")
    graph = Graph(params, found)
    after = optimize(graph, level)
    for one, other in zip(irkit.evaluate(graph, arrays), irkit.evaluate(after, arrays), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes(), f"{graph}\n{after}"
    return [v.op for v in after.order if v.op not in ("Param", "Constant")]


# ---------------------------------------------------------------------------------------------- what was wrong


def counting(x: Value) -> Value:
    """0, 1, ... over the first axis."""
    return op.Range(np.array(0), op.Squeeze(op.Shape(x, start=0, end=1), [0]), np.array(1))


@pytest.mark.parametrize("name", ["Add", "Sub", "Less", "Equal"])
def test_positions_that_may_be_one_are_repeated(name: str) -> None:
    """[n] against [2] has two places where n is 1, and there the first is the same in both."""
    x = param(tensor("f32", "n", 3))
    two = op.Range(np.array(0), np.array(2), np.array(1))
    for n in (1, 2):
        same_after(getattr(op, name)(counting(x), two), np.zeros((n, 3), np.float32))
        same_after(getattr(op, name)(two, counting(x)), np.zeros((n, 3), np.float32), level=2)


@pytest.mark.parametrize(
    "low, high", [(-1.0, -0.0), (-0.0, 2.0), (-1.0, 2.0), (1.0, 3.0), (np.inf, np.inf), (-1.0, 0.0)]
)
def test_relu_and_clip_keep_the_sign_of_zero(low: float, high: float) -> None:
    x = param(tensor("f32", 6))
    numbers = np.array([-3.0, -0.0, 0.0, 0.5, 3.0, np.nan], np.float32)
    bounds = [np.float32(low), np.float32(high)]
    same_after(op.Relu(op.Clip(x, *bounds)), numbers)
    same_after(op.Clip(op.Relu(x), *bounds), numbers)
    same_after(op.Clip(op.Clip(x, *bounds), np.float32(-2), np.float32(0)), numbers)
    same_after(op.Max(op.Max(x, np.float32(-0.0)), np.float32(low)), numbers)


def test_factors_of_attention_whose_scale_is_zero() -> None:
    q, k, v = (param(tensor("f32", 1, 2, 3, 4)) for _ in range(3))
    graph = Graph((q, k, v), (op.Attention(op.Mul(q, np.float32(2)), k, v, scale=0.0),))
    arrays = [np.random.default_rng(i).standard_normal((1, 2, 3, 4)).astype(np.float32) for i in range(3)]
    assert irkit.compare(irkit.evaluate(graph, arrays), irkit.evaluate(optimize(graph), arrays)) is None
    (value,) = graph.results
    told = irkit.explain(attention_of_factors, value)
    assert "the scale would not be a positive number" in str(told)


def test_a_sequence_of_elements_that_onnx_constructs_none_of() -> None:
    x = param(tensor("bf16", 4, 3))
    graph = Graph((x,), (op.SequenceAt(op.SplitToSequence(x, np.array([1, 3]), axis=0), np.array(0)),))
    assert "SplitToSequence" in [v.op for v in optimize(graph).order]


def test_below_level_two_nothing_becomes_an_operator_of_the_runtime() -> None:
    a, b = param(tensor("f32", "n", 8, 8)), param(tensor("f32", "n", 8, 8))
    graph = optimize(Graph((a, b), (op.Div(op.MatMul(a, op.Transpose(b, perm=(0, 2, 1))), np.float32(3)),)), 1)
    target = "onnxruntime-cpu+com.microsoft"
    assert "com.microsoft::FusedMatMul" in [v.op for v in prepare(graph, target).order]
    assert {v.op for v in prepare(graph, target, exact=True).order} == {
        "Param",
        "Constant",
        "Transpose",
        "MatMul",
        "Div",
    }


def test_layers_stay_as_they_are_where_every_bit_is_to_be_kept() -> None:
    x, w, b = param(tensor("f32", "n", 3, 4)), const(np.ones((4, 5), np.float32)), const(np.ones(5, np.float32))
    graph = Graph((x,), (op.Add(op.MatMul(x, w), b),))
    assert prepare(graph, exact=True) == graph
