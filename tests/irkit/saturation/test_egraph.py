"""The e-graph: congruence, commutative operators, types, constants; instances of patterns in it; extraction."""

from __future__ import annotations

from typing import Any

import pytest

from irkit import Graph, Value, const, equation, hole, op, p, param, tensor
from irkit.errors import RewriteError
from irkit.pattern import attr, either, match, one_of, rest
from irkit.pattern import const as constant
from irkit.saturation.egraph import EGraph
from irkit.saturation.extraction import Extraction, graph_of
from irkit.saturation.instances import Finder
from irkit.saturation.rounds import Bounds, saturation


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def test_equal_values_are_one_class_and_commutative_operands_in_any_order() -> None:
    graph, a, b = EGraph(), value(3), value(3)
    assert graph.add(op.Add(a, b)) == graph.add(op.Add(b, a))
    assert graph.add(op.Sub(a, b)) != graph.add(op.Sub(b, a))
    assert graph.add(op.Softmax(a, axis=0)) != graph.add(op.Softmax(a, axis=-1))
    assert graph.add(const(0.0)) == graph.add(const(0.0)) != graph.add(const(-0.0))


def test_what_is_over_equal_classes_becomes_equal() -> None:
    graph, a, b = EGraph(), value(3), value(3)
    first, second = op.Relu(op.Neg(a)), op.Relu(op.Neg(b))
    for each in (first, second):
        graph.add(each)
    assert graph.class_of(first) != graph.class_of(second)
    assert graph.join(graph.class_of(a), graph.class_of(b))
    graph.rebuild()
    assert graph.class_of(first) == graph.class_of(second)
    assert not graph.join(graph.class_of(first), graph.class_of(second))


def test_types_are_kept_apart() -> None:
    graph, a, b, c = EGraph(), value(3), value("n"), value(3, dtype="i64")
    numbers = [graph.add(v) for v in (a, b, c)]
    assert not graph.join(numbers[0], numbers[1])  # equal at some sizes only
    with pytest.raises(RewriteError, match="is said to equal"):
        graph.join(numbers[0], numbers[2])


def test_what_hangs_on_constants_is_known_to() -> None:
    graph, a = EGraph(), value(3)
    fixed, moving = op.Mul(const([1.0, 2.0, 3.0]), 2.0), op.Mul(a, 2.0)
    assert graph.classes[graph.add(fixed)].is_constant
    assert not graph.classes[graph.add(moving)].is_constant
    noise = op.RandomUniform(shape=[3])
    assert not graph.classes[graph.add(op.Neg(noise))].is_constant


PATTERNS = [
    p.Add(hole("x"), p.Neg(hole("y"))),
    p.Add(hole("x"), hole("x")),
    p.Mul(hole("x", dtype="float"), 2.0),
    p.Mul(hole("x"), constant("c")),
    either(p.Relu(hole("x")), p.Neg(hole("x"))),
    one_of("Relu", "Neg")(hole("x")),
    p.Concat(hole("x"), *rest("more"), axis=attr("axis")),
    p.Split(hole("x"), constant("sizes"), axis=attr("axis"))[1],
    p.Relu(p.Add(p.Neg(hole("x")), hole("y"))).named("whole"),
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_in_a_plain_graph_the_same_instances_are_found_as_by_the_matcher(pattern: Any) -> None:
    a, b = value(4), value(4)
    parts = op.Split(a, [1, 3], axis=0)
    results = (
        op.Relu(op.Add(op.Neg(a), b)), op.Add(a, a), op.Mul(a, 2.0), op.Mul(op.Relu(b), 3.0),
        op.Concat(a, b, op.Neg(b), axis=0), *parts,
    )  # fmt: skip
    source = Graph((a, b), results)
    graph = EGraph()
    for each in source.order:
        graph.add(each)
    finder, found = Finder(graph), set[int]()
    for number in graph.classes:
        if any(v is not None and match(pattern, v) is not None for _, v in finder.of(pattern, number)):
            found.add(number)
    assert found == {graph.class_of(v) for v in source.order if match(pattern, v) is not None}


def test_instances_over_all_forms_of_operands_are_found() -> None:
    """x + (-y) where the sum's operand is a difference, whose class holds the negation by another rule only."""
    a, b = value(4), value(4)
    hidden = equation(p.Sub(0.0, hole("y", dtype="float")), p.Neg(hole("y")), exact=False).forward
    add_neg = equation(p.Add(hole("x"), p.Neg(hole("y"))), p.Sub(hole("x"), hole("y"))).forward
    made = saturation(Graph((a, b), (op.Add(a, op.Sub(0.0, b)),)), (add_neg, hidden), Bounds(200, 5, 5))
    assert made.complete and made.fired == {"add_neg_to_sub": 1, "sub_to_neg": 1}
    root = made.graph.class_of(made.source.results[0])
    assert {n.value.op for n in made.graph.classes[root].nodes} == {"Add", "Sub"}


def test_extraction_shares_what_several_results_need() -> None:
    """Two products are cheaper apart, each by itself, than as two parts of one; together they are not."""
    a = value(1, 8)
    left, right = (const([[float(i)] * 8] * 8) for i in (1, 2))

    def price(v: Value) -> float:
        return {"MatMul": 1.0, "Gemm": 2.0, "Split": 0.5}.get(v.op, 0.0)

    from passes.saturation import EQUATIONS

    source = Graph((a,), (op.MatMul(a, left), op.MatMul(a, right)))
    made = saturation(source, EQUATIONS, Bounds(300, 3, 5))
    found = Extraction(made.graph, price, tuple(made.graph.class_of(v) for v in source.results))
    choice = found.best(made.graph.choice_of(source.order))
    assert found.total(choice) == pytest.approx(1.5, abs=1e-3)
    after = graph_of(found, choice, source)
    assert [v.op for v in after.order if v.op in ("MatMul", "Split", "Gemm")] in (
        ["MatMul", "Split"],
        ["Gemm", "Split"],
    )
