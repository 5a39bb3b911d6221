"""Equations of two pictures, and pictures drawn by functions: both directions, conditions, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irkit
import passes
from irkit import Graph, Value, const, decline, equation, explain, hole, op, p, param, replace_pattern, rewrite, tensor
from irkit.core.walk import post_order
from irkit.errors import RewriteError, TypeRuleError
from irkit.pattern import attr, is_all_ones, one_of, rest
from irkit.pattern import const as constant

x, y, z = hole("x"), hole("y"), hole("z")


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def ops_of(graph: Graph) -> list[str]:
    """The operators of a graph, in order."""
    return [v.op for v in graph.order if v.op not in ("Param", "Constant", "Item", "ShapeVector")]


def after(rules: Any, *results: Value) -> Graph:
    """The graph of results, rewritten."""
    return rewrite(Graph(tuple(v for v in post_order(results) if v.op == "Param"), results), rules)


def test_both_directions_are_rules_and_undo_each_other() -> None:
    found = equation(p.Sub(x, y), p.Add(x, p.Neg(y)))
    a, b = value("n", 3), value(3)
    graph = Graph((a, b), (op.Sub(a, b),))
    there = rewrite(graph, found.forward)
    assert ops_of(there) == ["Neg", "Add"]
    assert rewrite(there, found.backward) == graph
    assert found.forward.name == "sub_to_add_neg" and found.backward.name == "sub_to_add_neg_backward"
    assert found.backward.doc == "Add(x, Neg(y)) -> Sub(x, y)"
    assert found.flipped.forward.doc == found.backward.doc
    assert repr(found) == "<equation sub_to_add_neg: Sub(x, y) == Add(x, Neg(y))>"


@pytest.mark.parametrize(
    ("left", "right", "exact"),
    [
        (p.Sub(x, y), p.Add(x, p.Neg(y)), True),
        (p.Add(p.Mul(x, y), p.Mul(x, z)), p.Mul(x, p.Add(y, z)), False),
        (p.Neg(p.Transpose(x, perm=attr("a"))), p.Transpose(p.Neg(x), perm=attr("a")), True),
        (p.Relu(p.Concat(x, *rest("more"), axis=attr("a"))), p.Relu(p.Relu(p.Concat(x, *rest("more"), axis=attr("a")))),
         True),
        (p.Mul(hole("x", dtype="float"), 2.0), p.Add(x, x), True),
        (p.Max(hole("x", dtype="float"), y), p.Neg(p.Min(p.Neg(x), p.Neg(y))), False),
    ],
)  # fmt: skip
def test_equations_that_are_true_pass_in_both_directions(left: Any, right: Any, exact: bool) -> None:
    reports = equation(left, right, exact=exact).check(12, onnxruntime=False)
    assert [each.fired for each in reports] == [12, 12]


def test_a_wrong_equation_is_found_in_either_direction() -> None:
    wrong = equation(p.Sub(x, y), p.Sub(y, x))
    for each in wrong.rules:
        with pytest.raises(RewriteError, match="differs"):
            irkit.check_rule(each, onnxruntime=False)


def test_what_a_hole_is_asked_for_on_one_side_is_asked_for_on_both() -> None:
    found = equation(p.Mul(hole("x", dtype="float", rank=2), constant("one", where=is_all_ones)), p.Identity(x))
    assert "x: dtype=float, rank=2" in str(found) and "one: a constant, is_all_ones" in str(found)
    assert ops_of(after(found.backward, op.Identity(value(2, 3)))) == ["Mul"]  # by a one that the predicate names
    assert equation(p.Mul(x, constant("c", rank=0)), p.Identity(x)).impossible[1] == "nothing says what c is"
    typed = equation(p.Mul(x, 2.0).typed(dtype="float"), p.Add(hole("x", rank=(1, 2)), x))
    assert ops_of(after(typed.backward, op.Add(a := value("n"), a))) == ["Mul"]
    assert ops_of(after(typed.backward, op.Add(a := value("n", dtype="i64"), a))) == ["Add"]
    assert ops_of(after(typed.forward, op.Mul(value(2, 2, 2), 2.0))) == ["Mul"]
    with pytest.raises(TypeRuleError, match="another type on each side"):
        equation(p.Neg(hole("x", dtype="float")), p.Abs(hole("x", dtype="integer")))
    with pytest.raises(TypeRuleError, match="one operand and for several"):
        equation(p.Concat(*rest("x"), axis=0), p.Neg(x))


def test_what_broadcasts_to_another_type_is_declined() -> None:
    found = equation(p.Add(p.Sub(x, y), y), p.Identity(x), exact=False)
    big = op.Add(op.Sub(value(4), b := value(3, 4)), b)
    why = explain(found.forward, big)
    assert why.matched and "is not surely a f32[3, 4]" in why.reason
    a, b = value("n"), value("m")
    assert not explain(found.forward, op.Add(op.Sub(a, b), b)).applies


def test_a_condition_says_why_it_does_not_hold() -> None:
    found = equation(p.Neg(p.Neg(x)), p.Identity(x), where=lambda m: m.x.rank == 2 or decline("no matrix"))
    assert explain(found.forward, op.Neg(op.Neg(value(2)))).reason == "no matrix"
    assert explain(found.forward, op.Neg(op.Neg(value(2, 2)))).applies
    plain = equation(p.Neg(p.Neg(x)), p.Identity(x), where=lambda m: m.x.rank == 2)
    assert "does not hold" in explain(plain.forward, op.Neg(op.Neg(value(2)))).reason


def test_a_number_fills_a_tensor_of_any_size() -> None:
    found = equation(p.Sub(hole("x", dtype="integer"), x), 0)
    for shape, expected in (((), "Constant"), ((2, 3), "Constant"), (("n", 3), "Expand")):
        a = value(*shape, dtype="i64")
        graph = after(found.forward, op.Sub(a, a))
        assert graph.results[0].op == expected and graph.results[0].type == a.type
        (zeros,) = irkit.evaluate(graph, [np.ones((2, 3)[: len(shape)], np.int64)])
        assert not zeros.any()


def test_several_values_and_several_results_are_replaced_together() -> None:
    found = equation((p.Add(x, y), p.Sub(x, y)), (p.Neg(p.Sub(p.Neg(x), y)), p.Neg(p.Sub(y, x))))
    a, b = value(3), value(3)
    graph = after(found.forward, op.Add(a, b), op.Sub(a, b))
    assert sorted(ops_of(graph)) == ["Neg", "Neg", "Neg", "Sub", "Sub"]
    halves = p.Split(x, num_outputs=2, axis=attr("a")).named("s")
    split = equation(p.Add(halves[0], halves[1]), p.Add(halves[1], halves[0]))
    parts = op.Split(value(4), num_outputs=2)
    assert explain(split.forward, op.Add(*parts)).applies
    plain = p.TopK(x, y, axis=attr("a"))
    top = equation(plain[0], p.Neg(p.TopK(p.Neg(x), y, axis=attr("a"), largest=0)[0]), exact=False)
    graph = after(top.forward, op.TopK(value(3, 4), [2])[0])
    assert ops_of(graph) == ["Neg", "TopK", "Neg"]


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (p.Add(x, y), p.Neg(z), "says in neither direction"),
        (p.Neg(x), one_of("Relu", "Abs")(y), "says in neither direction"),
        ((p.Neg(x), p.Abs(x)), p.Neg(x), "2 values on the left, and 1 on the right"),
        (p.Neg(x), (), "a side of the equation is empty"),
        (p.Neg(x), "Neg", "is not a pattern"),
        (p.Neg(x), lambda x: x, "one side is a function"),
        (lambda x: op.Neg(x), lambda y: op.Neg(y), "the other of y"),
    ],
)
def test_what_is_no_equation_is_refused(left: Any, right: Any, message: str) -> None:
    with pytest.raises(TypeRuleError, match=message) as caught:
        equation(left, right)
    assert caught.value.hint


def test_a_direction_that_is_not_there_says_why() -> None:
    found = equation(one_of("Relu", "Abs")(x), p.Max(x, p.Neg(x)))
    assert found.impossible[0] == "" and "which operator" in found.impossible[1]
    with pytest.raises(RewriteError, match="cannot be used backward"):
        _ = found.backward
    with pytest.raises(TypeRuleError, match="not a function of a match"):
        equation(p.Neg(x), p.Neg(p.Neg(x)), where=True)  # type: ignore[arg-type]


def test_a_sample_makes_instances_of_both_sides() -> None:
    def sample(rng: np.random.Generator) -> Value:
        return op.Transpose(value(2, 3, int(rng.integers(1, 4))), perm=(2, 0, 1))

    third = attr("perm", where=lambda perm: perm == (2, 0, 1))
    found = equation(
        p.Transpose(x, perm=third), p.Transpose(p.Identity(x), perm=third), sample=sample, name="with_a_sample"
    )
    assert [each.fired for each in found.check(5, onnxruntime=False)] == [5, 5]


# ---------------------------------------------------------------------------------------------- functions


def unit(x: Value) -> Value:
    return op.Div(x, op.Sqrt(op.ReduceSum(op.Mul(x, x), [-1])))


def test_functions_draw_one_picture_for_all_ranks() -> None:
    found = replace_pattern(
        unit, lambda x: op.LpNormalization(x, axis=-1), where=lambda m: m.x.dtype.is_float, exact=False
    )
    assert found.name == "unit"
    for rank in range(1, 5):
        v = value(*range(2, 2 + rank))
        assert ops_of(after(found, unit(v))) == ["LpNormalization"]
    assert irkit.check_rule(found, 10, onnxruntime=False).fired == 10


def test_functions_that_look_at_ranks_draw_a_picture_for_each() -> None:
    def twice(x: Value) -> Value:
        order = list(range(x.rank))[::-1]
        return op.Transpose(op.Transpose(x, perm=order), perm=order)

    found = replace_pattern(twice, lambda x: x)
    assert ops_of(after(found, twice(value("n", 3)))) == []
    assert ops_of(after(found, twice(value(2, 3, "n")))) == []
    assert irkit.check_rule(found, 10, onnxruntime=False).fired == 10
    with pytest.raises(TypeRuleError, match="depends on the ranks"):
        equation(twice, lambda x: op.Identity(x))


def test_functions_see_the_shapes_of_what_was_found_and_may_decline() -> None:
    def zeros(x: Value) -> Any:
        return op.Expand(0, irkit.shape_vector(x.shape)) if x.rank else decline("a scalar")

    found = replace_pattern(lambda x: op.Sub(x, x), zeros, where=lambda m: m.x.dtype is irkit.DType.INT64)
    assert found.name == "zeros"
    a = value("n", 2, dtype="i64")
    assert ops_of(after(found, op.Sub(a, a))) == ["Expand"]
    assert explain(found, op.Sub(a := value(dtype="i64"), a)).reason == "a scalar"
    wrong = replace_pattern(lambda x: op.Sub(x, x), lambda x: 0.0)
    assert "not surely" in explain(wrong, op.Sub(a := value(3), a)).reason
    refused = replace_pattern(lambda x: op.Sub(x, x), lambda x: op.Not(x))
    assert "Not" in explain(refused, op.Sub(a, a)).reason


def test_functions_of_operands_of_several_kinds_and_of_given_types() -> None:
    chosen = replace_pattern(lambda c, x, y: op.Where(c, x, y), lambda c, x, y: op.Where(op.Not(c), y, x))
    assert irkit.check_rule(chosen, 10, onnxruntime=False).fired == 10
    like = tensor("f32", "n", 3, "h", "w"), tensor("f32", 8, 3, 1, 1)
    found = replace_pattern(lambda x, w: op.Relu(op.Conv(x, w)), lambda x, w: op.Max(op.Conv(x, w), 0.0), like=like)
    a, w = value(1, 3, 8, 8), value(4, 3, 1, 1)
    assert ops_of(after(found, op.Relu(op.Conv(a, w)))) == ["Conv", "Max"]


def test_several_results_of_functions_are_replaced_together() -> None:
    def pair(x: Value, y: Value) -> tuple[Value, Value]:
        return op.Min(x, y), op.Max(x, y)

    found = replace_pattern(pair, lambda x, y: (op.Neg(op.Max(op.Neg(x), op.Neg(y))), op.Max(x, y)), exact=False)
    a, b = value(3), value(3)
    assert "Min" not in ops_of(after(found, *pair(a, b)))
    uneven = replace_pattern(pair, lambda x, y: op.Min(x, y))
    with pytest.raises(RewriteError, match="returned 1 value for 2 results"):
        after(uneven, *pair(a, b))


def with_default(x: Value, *, axis: int = 0) -> Value:
    return op.Softmax(x, axis=axis)


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (lambda x: op.Reshape(x, [x.shape[0], -1]), "depends on sizes"),
        (lambda x, y: op.Neg(x), "does not use y"),
        (lambda x: irkit.build.call("NoSuchOperator", [x]), "computes nothing"),
        (with_default, "which is no value"),
        (lambda *xs: op.Sum(*xs), "which is no value"),
        (lambda: const(1.0), "no parameters"),
        ("Neg", "not a function of values"),
        (lambda x: x, "applies no operator"),
    ],
)
def test_functions_that_draw_nothing_are_refused(before: Any, message: str) -> None:
    with pytest.raises(TypeRuleError, match=message):
        replace_pattern(before, before)


def test_constants_of_functions_are_their_numbers_or_their_content() -> None:
    halved = replace_pattern(lambda x: op.Mul(x, 0.5), lambda x: op.Div(x, 2.0))
    assert ops_of(after(halved, op.Mul(value(3), np.full((3,), 0.5, np.float32)))) == ["Div"]
    assert ops_of(after(halved, op.Mul(value(3), 0.25))) == ["Mul"]
    last = replace_pattern(lambda x: op.ReduceSum(x, [0, 1]), lambda x: op.ReduceSum(x, [1, 0]))
    assert explain(last, op.ReduceSum(value(3, 4), [0, 1])).applies
    assert not explain(last, op.ReduceSum(value(3, 4), [0])).applies


def test_patterns_where_functions_are_wanted_are_told_of_equations() -> None:
    with pytest.raises(TypeRuleError, match=r"Sub\(x, y\) is a pattern") as raised:
        irkit.replace_pattern(p.Sub(x, y), p.Add(x, y))  # type: ignore[arg-type]
    assert "irkit.equation" in raised.value.hint
    difference: Any = equation(p.Sub(x, y), p.Add(x, p.Neg(y)))
    graph = irkit.Graph((), (op.Relu(irkit.const([1.0], "f32")),))
    for call in (
        lambda: irkit.rewrite(graph, difference),
        lambda: irkit.check_rule(difference),
        lambda: irkit.prove(difference),
        lambda: passes.optimize(graph, rules=difference),
    ):
        with pytest.raises(irkit.RewriteError, match="is not a rule") as refused:
            call()
        assert "of an equation" in refused.value.hint
