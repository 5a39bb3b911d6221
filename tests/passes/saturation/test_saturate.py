"""Equality saturation: what greedy rewriting misses is found, costs decide, and bounds and errors are kept."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import passes
from benchmarks.saturation import MODELS, modelled
from irkit import Graph, Value, compare, equation, evaluate, hole, op, p, param, rule, tensor, verify
from irkit.checking.rules import check_rule
from irkit.core.walk import post_order
from irkit.errors import GraphError, RewriteError
from irkit.rewriting.face import Match, Rule
from passes.saturation import EQUATIONS, SUMS, derivation, saturate, search
from passes.targets import microseconds
from tests.support.draws import drawn

x, y, z = hole("x"), hole("y"), hole("z")


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def graph_of(*results: Value) -> Graph:
    return Graph(tuple(v for v in post_order(results) if v.op == "Param"), results)


def ops_of(graph: Graph) -> list[str]:
    return [v.op for v in graph.order if v.op not in ("Param", "Constant", "Item", "ShapeVector")]


SOME = drawn("equations of saturation", EQUATIONS, 24, key=lambda each: each.name)


@pytest.mark.parametrize("each", SOME, ids=lambda each: each.name)
def test_equations_of_saturation_are_true(each: Rule) -> None:
    assert check_rule(each, 6, onnxruntime=False).fired >= 3


def test_sums_grouped_in_another_way_are_true_within_tolerances() -> None:
    for each in SUMS:
        for way in each.rules:
            assert check_rule(way, 6, onnxruntime=False, measured=False).fired == 6


@pytest.mark.parametrize("make", [m for m in MODELS if m.__name__ != "constants"], ids=lambda make: make.__name__)
def test_models_in_which_order_matters_are_no_worse_than_greedy_and_mostly_better(make: Any) -> None:
    graph = make()
    greedy = passes.optimize(graph)
    after = passes.optimize(saturate(greedy, seconds=2))
    verify(after)
    assert modelled(after) <= modelled(greedy) and len(after) <= len(greedy)
    assert modelled(after) < 0.8 * modelled(greedy) or make.__name__ == "projections_of_one_token"
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.5, 1.5, v.shape).astype(np.float32) for v in graph.params]
    assert compare(evaluate(graph, arrays), evaluate(after, arrays), rtol=1e-4, atol=1e-4) is None


def test_a_graph_that_has_nothing_to_gain_is_the_same_object() -> None:
    a = value("n", 3)
    graph = graph_of(op.Relu(op.Add(a, 1.0)))
    assert saturate(graph) is graph
    assert saturate(graph_of(op.Mul(a, a)), ()).results[0].op == "Mul"


def test_rules_that_undo_each_other_end_and_the_cheapest_form_is_taken() -> None:
    both = equation(p.Sub(x, y), p.Add(x, p.Neg(y)))
    a, b = value("n"), value("n")
    after = saturate(graph_of(op.Add(op.Neg(a), b)), both, check=True)
    assert ops_of(after) == ["Sub"]


def test_what_is_shared_counts_once() -> None:
    """(x + y) * (x + y) is as cheap as one sum and one product, though a square of sums has two."""
    a, b = value(64), value(64)
    total = op.Add(op.Add(op.Mul(a, a), op.Mul(a, b)), op.Add(op.Mul(b, a), op.Mul(b, b)))
    after = saturate(graph_of(total), check=True)
    assert sorted(ops_of(after)) == ["Add", "Mul"]


def test_costs_are_the_callers() -> None:
    both = equation(p.Add(x, x), p.Mul(hole("x", dtype="float"), 2.0))
    graph = graph_of(op.Add(a := value(4), a))
    assert saturate(graph, both, lambda v: float(v.op == "Mul")) is graph
    assert ops_of(saturate(graph, both, lambda v: float(v.op == "Add"))) == ["Mul"]
    chain = graph_of(op.MatMul(op.MatMul(value("n", "k"), value("k", "m")), value("m", 1)))
    wide = saturate(chain, cost=partial(microseconds, sizes={"n": 500, "k": 500, "m": 500}), rounds=3)
    assert wide.results[0].inputs[0] is chain.params[0]


def test_bounds_end_the_search_and_keep_the_graph_right() -> None:
    terms = [value(8) for _ in range(7)]
    total: Value = terms[0]
    for each in terms[1:]:
        total = op.Mul(total, each)
    graph = graph_of(op.Add(total, op.Mul(terms[0], 1.5)))
    for bounds in ({"nodes": 30}, {"rounds": 1}, {"seconds": 0.05}, {"nodes": 0}):
        after = saturate(graph, **bounds, check=True)  # type: ignore[arg-type]
        assert [v.type for v in after.results] == [v.type for v in graph.results]


@rule(p.Relu(x))
def wrong(m: Match) -> Value:
    """Relu(x) -> x, which is wrong"""
    return op.Identity(m.x)


def test_a_wrong_rule_is_found_by_its_numbers() -> None:
    graph = graph_of(op.Relu(value(5)))
    assert ops_of(saturate(graph, wrong)) == ["Identity"]
    with pytest.raises(GraphError, match="results differ"):
        saturate(graph, wrong, check=True)
    with pytest.raises(RewriteError, match="is not a rule"):
        saturate(graph, (lambda m: m.x,))  # type: ignore[arg-type]


def test_random_values_and_bodies_are_left_as_they_are() -> None:
    noise = op.Sub(op.RandomNormal(shape=[4]), op.RandomNormal(shape=[4]))
    nothing = equation(p.Sub(hole("x", dtype="float"), x), p.Mul(x, 0.0), exact=False).forward
    assert ops_of(saturate(graph_of(noise), nothing)) == ["RandomNormal", "RandomNormal", "Sub"]
    a = value(4)
    (chosen,) = op.If(
        op.Equal(op.ReduceSum(a, [0], keepdims=0), 0.0),
        then_branch=lambda: op.Add(op.Mul(a, 2.0), op.Mul(a, 3.0)),
        else_branch=lambda: a,
    )
    graph = graph_of(chosen)
    assert saturate(graph, check=True) is graph


# ---------------------------------------------------------------------------------------------- how it went


def chain() -> tuple[Graph, Graph]:
    """A product of three, grouped to the left and to the right, over parameters of their own."""
    left, right = ((value(96, 96), value(96, 96), value(96, 1)) for _ in range(2))
    a, b, c = right
    return graph_of(op.MatMul(op.MatMul(left[0], left[1]), left[2])), Graph(right, (op.MatMul(a, op.MatMul(b, c)),))


def test_a_search_tells_costs_rules_and_what_ended_it() -> None:
    graph, _ = chain()
    found = search(graph)
    assert found.graph == saturate(graph) and found.after < found.before == pytest.approx(modelled(graph))
    assert found.after == pytest.approx(modelled(found.graph))
    assert found.stopped == "" and found.fired["matmul_grouped"] == 1 and found.nodes >= found.classes > 0
    assert "nothing is left to add" in str(found) and "1 x matmul_grouped" in str(found)
    for bound, given in (("nodes", {"nodes": 1}), ("rounds", {"rounds": 1}), ("seconds", {"seconds": 0})):
        ended = search(graph, **given)  # type: ignore[arg-type]
        assert ended.stopped == bound and f"the bound on {bound}" in str(ended)
    relu = graph_of(op.Relu(value(4)))
    assert (kept := search(relu)).graph is relu and kept.before == kept.after and not kept.fired


def test_rules_make_two_graphs_equal_or_it_is_said_why_not() -> None:
    left, right = chain()
    found = derivation(left, right)
    assert found and found.apart == () and str(found).startswith("equal after 1 round")
    assert derivation(right, left, equation(p.MatMul(p.MatMul(x, y), z), p.MatMul(x, p.MatMul(y, z)), exact=False))
    assert derivation(left, left, ()) and not (none := derivation(left, right, ()))
    assert none.stopped == "" and none.apart == (0,) and "these rules lead to nothing more" in str(none)
    over = derivation(left, right, nodes=1)
    assert not over and over.stopped == "nodes" and "the bound on nodes was reached" in str(over)
    a, b, c = (value(96, 96), value(96, 96), value(96, 1))
    assert not derivation(left, Graph((a, b, c), (op.MatMul(op.MatMul(b, a), c),)))
    with pytest.raises(GraphError, match="parameters and results"):
        derivation(left, graph_of(op.Relu(value(3))))


WRONG_ARGUMENTS: dict[str, Any] = {
    "seconds": -1, "seconds ": "5", "seconds  ": float("nan"), "nodes": -1, "rounds": 1.5, "cost": 3,
    "cost ": lambda v: "a", "cost  ": lambda v: -1.0, "cost   ": lambda v: float("nan"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_bounds_and_costs_that_are_none_are_refused(name: str) -> None:
    """A cost that is NaN is below none, so that nothing was ever cheaper, and nobody was told."""
    with pytest.raises(RewriteError, match=name.strip()) as raised:
        saturate(graph_of(op.Relu(value(3))), **{name.strip(): WRONG_ARGUMENTS[name]})
    assert raised.value.hint


def test_a_text_is_no_rule() -> None:
    left, _ = chain()
    with pytest.raises(RewriteError, match="'all' is not a rule"):
        passes.saturate(left, "all")  # type: ignore[arg-type]
