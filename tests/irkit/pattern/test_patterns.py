"""What patterns may say, rules of several roots, and sets of rules that do not come to an end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irkit.build import call_graph, op
from irkit.build import const as number
from irkit.checking.rules import check_rule
from irkit.core.ir import Graph, Value, param
from irkit.core.origins import Origin
from irkit.core.types import tensor
from irkit.errors import RewriteError
from irkit.evaluation.interpreter import evaluate
from irkit.pattern import const, hole, own, p, rest, through
from irkit.rewriting.face import Match, Rule, decline, explain, rewrite, rule
from irkit.verification.laws import verify

x, y = hole("x"), hole("y")


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def graph(*results: Value, params: tuple[Value, ...]) -> Graph:
    return Graph(params, results)


def ops(graph: Graph) -> list[str]:
    return [v.op for v in graph.order if v.op not in ("Param", "Constant", "Item")]


# ---------------------------------------------------------------------------------------------- what patterns may say


def test_holes_say_element_types_ranks_and_shapes() -> None:
    product = Rule(
        "product",
        p.MatMul(hole("a", dtype="float", shape=(..., "m", "k")), hole("b", rank=2, shape=("k", None))),
        lambda m: decline(f"{m.m} {m.k}"),
    )
    assert explain(product, op.MatMul(value("n", 2, 3), value(3, 4))).reason == "2 3"
    assert explain(product, op.MatMul(value("n", "k"), value("k", 4))).reason == "n k"
    assert "found rank 3, expected 2" in explain(product, op.MatMul(value(2, 3), value(5, 3, 4))).reason
    assert (
        explain(product, op.MatMul(value(2, 3, dtype="i64"), value(3, 4, dtype="i64"))).reason
        == "a: found i64, expected float"
    )
    square = Rule("square", p.Abs(hole("a", shape=("n", "n"))), lambda m: decline("matched"))
    assert explain(square, op.Abs(value(3, 3))).matched and not explain(square, op.Abs(value("m", "k"))).matched
    fixed = Rule("fixed", p.Abs(p.Neg(x).typed(dtype=("f16", "bf16"), rank=range(1, 3))), lambda m: decline("matched"))
    assert explain(fixed, op.Abs(op.Neg(value(3, dtype="bf16")))).matched
    assert "found f32, expected bf16 or f16" in explain(fixed, op.Abs(op.Neg(value(3)))).reason
    with pytest.raises(TypeError, match="not an element type"):
        hole("a", dtype="floaty")
    with pytest.raises(TypeError, match="in a shape"):
        hole("a", shape=(1, ...))
    with pytest.raises(TypeError, match="a value and a dimension"):
        rule(p.Add(x, hole("y", shape=("x",))))


def test_constants_are_compared_as_their_element_type_holds_them() -> None:
    a, half = value(2), value(2, dtype="f16")
    tenth = Rule("tenth", p.Mul(x, 0.1), lambda m: decline("matched"))
    assert explain(tenth, op.Mul(a, 0.1)).matched and explain(tenth, op.Mul(half, 0.1)).matched
    assert not explain(tenth, op.Mul(a, 0.10001)).matched
    near = Rule("near", p.Mul(x, const("c", value=0.7978845608)), lambda m: decline("matched"))
    assert explain(near, op.Mul(a, 0.79788456)).matched and explain(near, op.Mul(half, 0.798)).matched
    assert not explain(near, op.Mul(a, 0.798)).matched
    wide = Rule("wide", p.Mul(x, const("c", value=0.7978845608, rtol=1e-3)), lambda m: decline("matched"))
    assert explain(wide, op.Mul(a, 0.798)).matched and not explain(wide, op.Mul(a, 0.81)).matched


def test_operands_of_variadic_operators_are_found_in_any_order() -> None:
    a, b, c = value(3), value(3), value(3)
    sums = Rule("sums", p.Sum(p.Neg(x), p.Abs(y), *rest("more")), lambda m: decline(f"{len(m.more)}"))
    for operands in ([op.Neg(a), op.Abs(b), c], [c, op.Abs(b), op.Neg(a)], [op.Abs(b), c, op.Neg(a), c]):
        assert explain(sums, op.Sum(*operands)).reason == str(len(operands) - 2)
    assert not explain(sums, op.Sum(op.Neg(a), b, c)).matched
    three = Rule("three", p.Max(p.Neg(x), p.Abs(x), y), lambda m: decline("matched"))
    assert explain(three, op.Max(c, op.Abs(b), op.Neg(b))).matched
    assert not explain(three, op.Max(c, op.Abs(b), op.Neg(a))).matched


def test_two_results_of_one_operator() -> None:
    halves = p.Split(x, num_outputs=2, axis=-1).named("halves")
    gated = Rule("gated", p.Mul(halves[0], p.Sigmoid(halves[1])), lambda m: decline(m.halves.op))
    one, two = (op.Split(value(4), num_outputs=2, axis=-1) for _ in range(2))
    assert explain(gated, op.Mul(one[0], op.Sigmoid(one[1]))).reason == "Split"
    assert "another" in explain(gated, op.Mul(one[0], op.Sigmoid(two[1]))).reason
    assert not explain(gated, op.Mul(one[1], op.Sigmoid(one[0]))).matched


@rule(p.MatMul(x, const("v", rank=2)), p.MatMul(x, const("w", rank=2)))
def two_products(m: Match) -> Any:
    """x @ v, x @ w -> the halves of x @ Concat(v, w)"""
    if m.v.dtype is not m.w.dtype:
        return decline("two element types")
    sizes = np.array([m.v.shape[1], m.w.shape[1]])
    return op.Split(op.MatMul(m.x, op.Concat(m.v, m.w, axis=1)), sizes, axis=-1)


def test_rules_of_several_roots_replace_them_together() -> None:
    a, b = value("n", 3), value("n", 3)
    weights = [number(np.full((3, i + 1), float(i), np.float32)) for i in range(4)]
    g = graph(*(op.Relu(op.MatMul(a, w)) for w in weights[:2]), op.MatMul(b, weights[2]), params=(a, b))
    after = rewrite(g, two_products)
    verify(after)
    assert sorted(ops(after)) == ["Concat", "MatMul", "MatMul", "Relu", "Relu", "Split"]
    assert rewrite(after, two_products) is after
    feeds = [np.arange(6, dtype=np.float32).reshape(2, 3)] * 2
    for one, other in zip(evaluate(g, feeds), evaluate(after, feeds), strict=True):
        assert np.allclose(one, other)
    assert check_rule(two_products, 5).fired == 5


def test_what_is_replaced_together_does_not_come_to_need_itself() -> None:
    @rule(p.Add(x, y), p.Mul(x, hole("z")))
    def both(m: Match) -> Any:
        """x + y, x * z -> the halves of one"""
        joined = op.Concat(op.Sub(m.x, op.Neg(m.y)), op.Div(m.x, op.Reciprocal(m.z)), axis=0)
        return op.Split(joined, np.array([m.x.shape[0]] * 2), axis=0)

    a, b = value(2), value(2)
    apart = graph(op.Add(a, b), op.Mul(a, b), params=(a, b))
    assert "Concat" in ops(rewrite(apart, both))
    first = op.Add(a, b)
    chained = graph(op.Mul(a, op.Abs(first)), params=(a, b))
    assert rewrite(chained, both) is chained
    # two pairs, each free of itself, which would be a circle together
    c, d = value(2), value(2)
    r1, s1 = op.Add(a, b), op.Add(c, d)
    crossed = graph(op.Mul(a, op.Abs(s1)), op.Mul(c, op.Abs(r1)), params=(a, b, c, d))
    after = rewrite(crossed, both)
    verify(after)
    feeds = [np.array([i + 1.0, 2.0], np.float32) for i in range(4)]
    for one, other in zip(evaluate(crossed, feeds), evaluate(after, feeds), strict=True):
        assert np.allclose(one, other)


def test_a_fused_operator_with_several_results_replaces_an_inner_value_too() -> None:
    @rule(p.Abs(p.Neg(x).named("inner")), hole("inner"))
    def pair(m: Match) -> Any:
        """Abs(Neg(x)), Neg(x) -> the halves of one"""
        return op.Split(op.Concat(op.Relu(m.x), op.Sign(m.x), axis=0), np.array([3, 3]), axis=0)

    a = value(3)
    inner = op.Neg(a)
    after = rewrite(graph(op.Abs(inner), op.Exp(inner), params=(a,)), pair)
    verify(after)
    assert sorted(ops(after)) == ["Concat", "Exp", "Relu", "Sign", "Split"]


def test_patterns_see_through_called_functions() -> None:
    inner = value("n", 4)
    body = Graph((inner,), (op.Sigmoid(inner),))
    a = value("batch", 4)
    called = call_graph(body, a)
    swish = Rule("swish", p.Mul(x, through(p.Sigmoid(x))), lambda m: op.Swish(m.x), exact=False)
    g = graph(op.Mul(a, called), params=(a,))
    after = rewrite(g, swish)
    verify(after)
    assert ops(after) == ["Swish"] and ops(rewrite(graph(op.Mul(a, op.Sigmoid(a)), params=(a,)), swish)) == ["Swish"]
    plain = Rule("plain", p.Mul(x, p.Sigmoid(x)), lambda m: op.Swish(m.x))
    assert rewrite(g, plain) is g
    assert check_rule(swish, 5).fired == 5


def test_patterns_look_into_bodies() -> None:
    a, b, condition = value(3), value(3), value(dtype="bool")

    @rule(p.If(hole("c"), *rest("captures"), then_branch=p.Add(x, y), else_branch=p.Sub(x, y)))
    def chosen_sign(m: Match) -> Any:
        """If(c, x + y, x - y) -> x + Where(c, y, -y)"""
        return (op.Add(m.x, op.Where(m.c, m.y, op.Neg(m.y))),)

    def choice(then: Any, other: Any) -> Graph:
        (found,) = op.If(condition, then_branch=then, else_branch=other)
        return graph(op.Relu(found), params=(a, b, condition))

    before = choice(lambda: op.Add(a, b), lambda: op.Sub(a, b))
    after = rewrite(before, chosen_sign)
    verify(after)
    assert sorted(ops(after)) == ["Add", "Neg", "Relu", "Where"]
    for flag in (True, False):
        feeds = [np.array([1, 2, 3], np.float32), np.array([5, -7, 9], np.float32), np.array(flag)]
        assert np.array_equal(evaluate(before, feeds)[0], evaluate(after, feeds)[0])
    other = choice(lambda: op.Add(a, b), lambda: op.Mul(a, b))
    assert rewrite(other, chosen_sign) is other
    trips = np.array(4)
    (total,) = op.Loop(trips, True, a, body=lambda i, c, s: (c, op.Add(s, op.Mul(b, 2.0))))
    looped = Rule(
        "looped",
        p.Loop(
            const("trips"), const("go"), hole("start"), *rest("captures"), body=(own(1), p.Add(own(2), p.Mul(x, 2.0)))
        ),
        lambda m: (op.Add(m.start, op.Mul(m.x, float(m.trips.blob.array) * 2)),),
    )
    before = graph(total, params=(a, b))
    after = rewrite(before, looped)
    verify(after)
    assert ops(after) == ["Mul", "Add"]
    feeds = [np.array([1, 2, 3], np.float32), np.array([5, -7, 9], np.float32)]
    assert np.allclose(evaluate(before, feeds)[0], evaluate(after, feeds)[0])


def test_rules_that_feed_each_other_from_sweep_to_sweep_are_named() -> None:
    @rule(p.Abs(x), p.Neg(x))
    def there(m: Match) -> Any:
        """Abs(x), Neg(x) -> Neg(x), Abs(x)"""
        return op.Neg(m.x), op.Abs(m.x)

    a = value(3)
    with pytest.raises(RewriteError, match="the rules there feed each other"):
        rewrite(graph(op.Abs(a), op.Neg(a), params=(a,)), there)


def test_growth_without_end_through_other_values_names_the_rules() -> None:
    @rule(p.Exp(x))
    def unfold(m: Match) -> Any:
        """Exp(x) -> Neg(Sin(x))"""
        return op.Neg(op.Sin(m.x))

    @rule(p.Neg(p.Sin(x)))
    def fold(m: Match) -> Any:
        """Neg(Sin(x)) -> Neg(Exp(Abs(x)))"""
        return op.Neg(op.Exp(op.Abs(m.x)))

    a = value(3)
    with pytest.raises(RewriteError, match="circle") as error:
        rewrite(graph(op.Exp(a), params=(a,)), (unfold, fold))
    assert "unfold" in str(error.value) and "fold" in str(error.value)


# ---------------------------------------------------------------------------------------------- explain


def test_explain_of_a_graph_lists_near_matches_the_nearest_first() -> None:
    norm = Rule(
        "norm",
        p.Div(x, p.Sqrt(p.Add(p.ReduceMean(p.Mul(x, x), const("axes"), keepdims=1), const("epsilon", value=1e-5)))),
        lambda m: decline("too short") if m.x.shape[-1] == 2 else op.LpNormalization(m.x),
    )

    def written(a: Value, epsilon: float = 1e-5, square: Any = op.Mul) -> Value:
        mean = op.ReduceMean(square(a, a), np.array([-1]), keepdims=1)
        return op.Div(a, op.Sqrt(op.Add(mean, epsilon)))

    a, short = value("n", 4), value("n", 2)
    origin = Origin(source="net.py:7 return x / y")
    results = [
        op.Div(a, op.Exp(a)),
        written(a, square=op.Add),
        written(a, 0.1).with_origin(origin),
        written(short),
        written(a),
    ]
    found = explain(norm, graph(*results, params=(a, short)))
    assert [e.value for e in found] == list(reversed(results))
    assert found[0].applies and found[1].reason == "too short"
    assert found[2].reason == "epsilon: found f32[] Constant 0.1, expected about 1e-05"
    assert found[3].reason == "found Add, expected Mul" and found[4].reason == "found Exp, expected Sqrt"
    text = str(found)
    assert text.startswith("applies at 1, declines at 1, does not match at 3")
    assert "f32[n, 4] = Div(f32[n, 4] Param, f32[n, 1] Sqrt)  # net.py:7 return x / y" in text
    many = graph(*(op.Div(a, op.Exp(op.Mul(a, float(i)))) for i in range(50)), params=(a,))
    assert len(str(explain(norm, many)).splitlines()) < 50 and len(explain(norm, many)) == 50


def test_explain_takes_rule_sets_and_looks_into_bodies() -> None:
    a, condition = value(3), value(dtype="bool")
    twice = Rule("twice", p.Relu(p.Relu(x)), lambda m: op.Relu(m.x))
    negated = Rule("negated", p.Relu(p.Neg(x)), lambda m: m.x)
    (chosen,) = op.If(condition, then_branch=lambda: op.Relu(op.Relu(a)), else_branch=lambda: op.Neg(a))
    found = explain(twice, graph(chosen, params=(a, condition)))
    assert [e.applies for e in found] == [True, False]
    both = explain((negated, twice), op.Relu(op.Relu(a)))
    assert [(e.rule, e.applies) for e in both] == [("twice", True), ("negated", False)]
    lone = explain(two_products, op.MatMul(value(2, 3), number(np.ones((3, 4), np.float32))), graph(a, params=(a,)))
    assert "stands beside it" in lone.reason
