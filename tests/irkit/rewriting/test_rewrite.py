"""Patterns, the rewrite driver, sharing, and passes as values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irkit.build import const as number
from irkit.build import op
from irkit.checking.rules import check_rule, guarded
from irkit.core.ir import Graph, Value, item, param
from irkit.core.origins import Origin
from irkit.core.types import tensor
from irkit.errors import RewriteError
from irkit.evaluation.interpreter import evaluate
from irkit.pattern import attr, const, either, hole, is_all_ones, one_of, p, rest
from irkit.rewriting import driver
from irkit.rewriting.face import Match, Rule, decline, explain, misses, rewrite, rule
from irkit.rewriting.numbering import share
from irkit.rewriting.passes import (
    Pass,
    fixpoint,
    graph_pass,
    in_bodies,
    in_sequence,
    record,
    rules_pass,
    verified,
    when,
)
from irkit.verification.laws import verify
from tests.support.timing import spent

x, y = hole("x"), hole("y")


@rule(p.Mul(x, const("one", where=is_all_ones)))
def mul_one(m: Match) -> Any:
    """x * 1 -> x"""
    return m.x if m.x.type == m.root.type else decline("the one broadcasts")


@rule(p.Relu(p.Relu(x)))
def relu_twice(m: Match) -> Any:
    """Relu(Relu(x)) -> Relu(x)"""
    return op.Relu(m.x)


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def graph(*results: Value, params: tuple[Value, ...]) -> Graph:
    return Graph(params, results)


def ops(graph: Graph) -> list[str]:
    return [v.op for v in graph.order if v.op not in ("Param", "Constant", "Item")]


# ---------------------------------------------------------------------------------------------- patterns


def test_commutative_operands_need_one_pattern() -> None:
    a = value("n", 4)
    for root in (op.Mul(a, 1.0), op.Mul(1.0, a)):
        assert rewrite(graph(root, params=(a,)), (mul_one,)).results == (a,)


def test_a_chain_of_commutative_operators_is_one_rule_and_is_found_in_every_order() -> None:
    holes = [hole(f"h{i}", ops=("Abs",)) for i in range(8)]
    pattern: Any = p.Neg(hole("h"))
    for each in holes:
        pattern = p.Add(pattern, each)
    a = value(3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        total: Value = op.Neg(a)
        for _ in holes:
            pair = [total, op.Abs(a)]
            total = op.Add(*(pair if rng.random() < 0.5 else reversed(pair)))
        assert explain(Rule("chain", pattern, lambda m: m.h), total).applies


def test_a_hole_that_occurs_twice_is_one_value() -> None:
    @rule(p.Sub(x, x))
    def same(m: Match) -> Any:
        """x - x -> x"""
        return m.x

    a, b = value(2), value(2)
    assert explain(same, op.Sub(a, a)).applies
    found = explain(same, op.Sub(a, b))
    assert not found.matched and found.path == (1,) and "another value" in found.reason


def test_optional_variadic_and_several_results() -> None:
    a, b, c = value(2, 3), value(3, 4), value(4)
    gemm = Rule("gemm", p.Gemm(x, y, hole("c", optional=True)), lambda m: decline(str(m.c)))
    assert explain(gemm, op.Gemm(a, b)).reason == "None"
    assert explain(gemm, op.Gemm(a, b, c)).matched
    joined = Rule("concat", p.Concat(x, *rest("more"), axis=attr("axis")), lambda m: decline(f"{len(m.more)} {m.axis}"))
    assert explain(joined, op.Concat(a, a, a, axis=1)).reason == "2 1"
    second = Rule("second", p.TopK(x, y, axis=attr("axis"))[1], lambda m: decline(str(m.axis)))
    values, indices = op.TopK(a, np.array([1]))
    assert explain(second, indices).reason == "-1"
    assert not explain(second, values).matched


def test_attributes_that_are_not_written_have_the_default() -> None:
    a, b = value(2, 2), value(2, 2)
    plain = Rule("plain", p.Gemm(x, y), lambda m: decline("matched"))
    assert explain(plain, op.Gemm(a, b, transA=0, alpha=1.0)).matched
    assert "transB" in explain(plain, op.Gemm(a, b, transB=1)).reason
    assert "2 operands" in explain(plain, op.Gemm(a, b, a)).reason or not explain(plain, op.Gemm(a, b, a)).matched
    with pytest.raises(TypeError, match="no attribute"):
        p.Gemm(x, y, trans=1)
    with pytest.raises(TypeError, match="say what attribute to is"):
        p.Cast(x)


def test_either_and_one_of_take_the_first_that_matches() -> None:
    a = value(2)
    both = Rule("both", p.Neg(either(p.Abs(x), p.Relu(x))), lambda m: m.x)
    assert rewrite(graph(op.Neg(op.Relu(a)), params=(a,)), (both,)).results == (a,)
    any_of = Rule("any", one_of("Abs", "Neg")(x), lambda m: m.x)
    assert rewrite(graph(op.Abs(op.Neg(a)), params=(a,)), (any_of,)).results == (a,)


def test_explain_names_the_predicate_and_the_place() -> None:
    a = value(2)
    found = explain(mul_one, op.Mul(op.Abs(a), 2.0))
    assert (found.path, found.reason) == ((1,), "one: found f32[] Constant 2.0, expected is_all_ones")
    found = explain(mul_one, op.Mul(value(1), np.ones((3,), np.float32)))
    assert found.matched and not found.applies and found.reason == "the one broadcasts"
    deep = Rule("deep", p.Neg(p.Abs(p.Relu(x))), lambda m: m.x)
    found = explain(deep, op.Neg(op.Abs(op.Exp(a))))
    assert found.path == (0, 0) and found.reason == "found Exp, expected Relu" and "inputs[0].inputs[0]" in str(found)
    listed = list(misses(graph(op.Mul(a, 2.0), op.Mul(a, a), params=(a,)), mul_one))
    assert len(listed) == 2


# ---------------------------------------------------------------------------------------------- the driver


def test_nothing_to_do_gives_the_same_object() -> None:
    a = value("n")
    g = graph(op.Relu(op.Abs(a)), params=(a,))
    assert rewrite(g, (mul_one, relu_twice)) is g
    assert share(g) is g


def test_equal_values_are_shared_and_random_draws_are_not() -> None:
    a = value(3)
    g = graph(op.Add(op.Abs(a), op.Abs(a)), op.RandomNormalLike(a), op.RandomNormalLike(a), params=(a,))
    shared = share(g)
    assert ops(shared) == ["Abs", "Add", "RandomNormalLike", "RandomNormalLike"]
    assert ops(rewrite(g, ())) == ops(shared)


def test_what_a_rule_builds_is_rewritten_too() -> None:
    @rule(p.Abs(x))
    def abs_to_relus(m: Match) -> Any:
        """Abs(x) -> Relu(Relu(x)) * 1"""
        return op.Mul(op.Relu(op.Relu(m.x)), 1.0)

    a = value(3)
    assert ops(rewrite(graph(op.Abs(a), params=(a,)), (abs_to_relus, mul_one, relu_twice))) == ["Relu"]


def test_an_operator_with_several_results_is_replaced_by_a_tuple() -> None:
    @rule(one_of("Split")(x))
    def halves(m: Match) -> Any:
        """Split(x) -> two slices"""
        return op.Slice(m.x, [0], [2]), op.Slice(m.x, [2], [4])

    a = value(4)
    first, second = op.Split(a, num_outputs=2)
    g = graph(op.Sub(second, first), params=(a,))
    after = rewrite(g, (halves,))
    verify(after)
    assert sorted(ops(after)) == ["Slice", "Slice", "Sub"]
    feed = [np.arange(4, dtype=np.float32)]
    assert np.array_equal(evaluate(after, feed)[0], evaluate(g, feed)[0])


def test_origins_name_the_rule() -> None:
    a = value(3)
    root = op.Neg(op.Relu(a)).with_origin(Origin(node="neg_7", source="net.py:3"))
    flipped = Rule("flipped", p.Neg(p.Relu(x)), lambda m: op.Min(op.Neg(m.x), 0.0))
    (found,) = rewrite(graph(root, params=(a,)), (flipped,)).results
    for new in (found, found.inputs[0]):
        assert new is not None and new.origin.source == "net.py:3" and new.origin.rules == ("flipped",)


def test_rules_that_run_in_a_circle_are_named() -> None:
    @rule(p.Abs(x))
    def there(m: Match) -> Any:
        """Abs -> Relu"""
        return op.Relu(m.x)

    @rule(p.Relu(x))
    def back(m: Match) -> Any:
        """Relu -> Abs"""
        return op.Abs(m.x)

    @rule(p.Exp(x))
    def growing(m: Match) -> Any:
        """Exp(x) -> Exp(Neg(x))"""
        return op.Exp(op.Neg(m.x))

    a = value(3)
    with pytest.raises(RewriteError, match="circle") as error:
        rewrite(graph(op.Abs(a), params=(a,)), (there, back))
    assert "there" in str(error.value) and "back" in str(error.value)
    with pytest.raises(RewriteError, match="growing"):
        rewrite(graph(op.Exp(a), params=(a,)), (growing,))


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda m: op.Cast(m.x, to=11), "turns a f32"),
        (lambda m: None, "returned None"),
        (lambda m: op.MatMul(m.x, m.x), "is refused"),
        (lambda m: value(3), "not the graph's"),
    ],
)
def test_a_rule_that_breaks_its_contract_is_named(function: Any, complaint: str) -> None:
    a = value(2, 3)
    broken = Rule("broken", p.Abs(x), function)
    root = op.Abs(a) if complaint != "not the graph's" else op.Abs(value(3))
    params = (a,) if complaint != "not the graph's" else (root.inputs[0],)
    with pytest.raises(RewriteError, match=complaint) as error:
        rewrite(Graph(params, (root,)), (broken,))  # type: ignore[arg-type]
    assert "broken" in str(error.value)


def test_types_are_inferred_again_where_an_operand_says_more() -> None:
    @rule(p.Identity(x))
    def fixed(m: Match) -> Any:
        """a value of known size"""
        return number(np.array([2, 3]))

    a, sizes = value(6), value(2, dtype="i64")
    g = graph(op.Abs(op.Reshape(a, op.Identity(sizes))), params=(a, sizes))
    assert not all(isinstance(d, int) for d in g.results[0].shape)
    assert rewrite(g, (fixed,)).results[0].shape == (2, 3)


def test_once_asks_for_users() -> None:
    alone = Rule("alone", p.Neg(p.Abs(x).once()), lambda m: op.Sign(m.x))
    a = value(3)
    inner = op.Abs(a)
    assert ops(rewrite(graph(op.Neg(inner), params=(a,)), (alone,))) == ["Sign"]
    g = graph(op.Neg(inner), inner, params=(a,))
    assert rewrite(g, (alone,)) is g
    assert "2 users" in explain(alone, g.results[0], g).reason


def test_bodies_are_rewritten_once_each() -> None:
    fired: list[int] = []

    @rule(p.Relu(p.Relu(x)))
    def counted(m: Match) -> Any:
        """Relu(Relu(x)) -> Relu(x)"""
        fired.append(1)
        return op.Relu(m.x)

    a, condition = value(3), value(dtype="bool")

    def branch() -> Value:
        return op.Relu(op.Relu(a))

    def other() -> Value:
        return op.Abs(a)

    (first,) = op.If(condition, then_branch=branch, else_branch=other)
    (second,) = op.If(op.Not(condition), then_branch=branch, else_branch=other)
    g = graph(first, second, params=(a, condition))
    after = rewrite(g, (counted,))
    verify(after)
    assert len(fired) == 1
    assert [len(v.bodies[0]) for v in after.order if v.op == "If"] == [1, 1]


def test_long_chains_take_linear_time_and_no_depth() -> None:
    def chain(n: int) -> Graph:
        a = value("n", 4)
        v = a
        for i in range(n):
            v = op.Mul(op.Relu(op.Relu(v)), 1.0) if i % 2 else op.Abs(op.Add(v, float(i)))
        return graph(v, params=(a,))

    def seconds(g: Graph) -> float:
        g.order  # noqa: B018
        with spent() as cost:
            rewrite(g, (mul_one, relu_twice))
        return cost.seconds

    small, large = chain(1000), chain(8000)
    times = min(seconds(small) for _ in range(3)), min(seconds(large) for _ in range(3))
    assert times[1] < 2
    assert times[1] < 8 * times[0] * 3  # linear, with room for a busy machine


# ---------------------------------------------------------------------------------------------- check


def test_check_finds_what_is_wrong_with_a_rule() -> None:
    assert check_rule(mul_one, 10).fired == 10

    @rule(p.Add(x, const("zero", where=lambda v: bool((v.blob.array == 0).all()))))
    def loses_the_sign(m: Match) -> Any:
        """x + 0.0 -> x"""
        return m.x if m.x.type == m.root.type else decline("broadcasts")

    with pytest.raises(RewriteError, match="loses_the_sign"):
        check_rule(loses_the_sign, 300)

    @rule(p.Sub(x, y))
    def swapped(m: Match) -> Any:
        """x - y -> y - x"""
        return op.Sub(m.y, m.x)

    with pytest.raises(RewriteError, match="swapped") as error:
        check_rule(swapped, 20)
    assert "left:  %0" in str(error.value) and "irkit.parse" in str(error.value)


def test_guarded_rules_name_the_one_that_is_wrong() -> None:
    wrong = Rule("wrong", p.Sub(p.Abs(x), y), lambda m: op.Sub(m.y, op.Abs(m.x)))
    narrow = Rule("narrow", p.Mul(x, const("c")), lambda m: m.x if m.x.type == m.root.type else decline("broadcasts"))
    a, b = value("n", 4), value("n", 4)
    right = graph(op.Relu(op.Relu(op.Mul(op.Add(a, b), 1.0))), params=(a, b))
    assert ops(rewrite(right, guarded((relu_twice, mul_one)))) == ["Add", "Relu"]
    for bad, root in ((wrong, op.Exp(op.Sub(op.Abs(op.Neg(a)), b))), (narrow, op.Exp(op.Mul(op.Abs(a), 3.0)))):
        with pytest.raises(RewriteError, match=f"the rule {bad.name} differ") as error:
            rewrite(graph(root, params=(a, b)), guarded((mul_one, bad, relu_twice)))
        assert "Exp" not in str(error.value)  # only the fragment is shown


# ---------------------------------------------------------------------------------------------- passes


@graph_pass
def no_relu(graph: Graph, *, keep: int = 0) -> Graph:
    """Relu(x) -> x"""
    return rewrite(graph, (Rule("no_relu", p.Relu(x), lambda m: decline("kept") if keep else m.x),))


def test_passes_are_values_with_options() -> None:
    a = value(3)
    g = graph(op.Relu(a), params=(a,))
    assert no_relu(g).results == (a,)
    assert no_relu(keep=1)(g) is g
    assert str(no_relu) == "no_relu" and str(no_relu(keep=1)) == "no_relu{keep=1}"
    assert no_relu(keep=1) == no_relu(keep=1) != no_relu
    with pytest.raises(TypeError, match="no option"):
        no_relu(kep=1)


def test_combinators() -> None:
    a = value(3)
    g = graph(op.Mul(op.Relu(op.Relu(a)), 1.0), params=(a,))
    tidy = in_sequence(rules_pass("ones", (mul_one,)), when(lambda graph: len(graph) > 1, no_relu))
    assert tidy(g).results == (a,)
    assert fixpoint(tidy)(g).results == (a,)

    @graph_pass
    def restless(graph: Graph) -> Graph:
        """A new graph, always"""
        return graph.with_results([op.Neg(graph.results[0])])

    with pytest.raises(RewriteError, match="still changes"):
        fixpoint(restless, limit=3)(g)


def test_in_bodies_reaches_every_body() -> None:
    a, condition = value(3), value(dtype="bool")
    (r,) = op.If(condition, then_branch=lambda: op.Relu(a), else_branch=lambda: op.Abs(a))
    inner_only: Pass = in_bodies(no_relu)
    after = inner_only(graph(op.Neg(r), params=(a, condition)))
    verify(after)
    assert ops(after) == ["If", "Neg"]


def test_record_bisect_observe_and_check() -> None:
    a = value(3)
    g = graph(op.Mul(op.Relu(op.Relu(a)), 1.0), params=(a,))
    steps = [rules_pass("ones", (mul_one,)), rules_pass("twice", (relu_twice,)), no_relu]
    trace = record(in_sequence(*steps), g)
    assert [v.made_by for v in trace] == ["", "ones", "twice", "no_relu"]
    culprit = trace.bisect(lambda graph: "Relu" in ops(graph))
    assert culprit is not None and culprit.made_by == "no_relu"
    seen: list[str] = []
    in_sequence(*steps, name="all")(g, observe=lambda step: seen.append(step.name))
    assert seen[:3] == ["ones", "twice", "no_relu"] and seen[3].startswith("all")

    def keeps_relu(before: Graph, after: Graph) -> None:
        if "Relu" in ops(before) and "Relu" not in ops(after):
            raise ValueError("the Relu is gone")

    with pytest.raises(RewriteError, match="no_relu broke keeps_relu"):
        verified(in_sequence(*steps), keeps_relu)(g)


def test_combinators_take_functions_and_single_rules() -> None:
    a = value(3)
    g = graph(op.Mul(op.Relu(op.Relu(a)), 1.0), params=(a,))

    def twice(graph: Graph) -> Graph:
        return rewrite(graph, relu_twice)

    def told(graph: Graph, observe: Any = None) -> Graph:
        return rules_pass("ones", mul_one)(graph, observe=observe)

    trace = record(in_sequence(fixpoint(twice), in_bodies(told), when(lambda graph: True, verified(told))), g)
    assert [v.made_by for v in trace] == ["", "twice", "in_bodies{inner=told}"]
    assert [v.made_by for v in record(in_sequence(told, twice), g)] == ["", "ones", "twice"]
    wrong: Any = 3
    with pytest.raises(TypeError, match="3 is neither a pass"):
        in_sequence(wrong)


def test_a_rule_that_returns_no_value_is_refused_by_its_check() -> None:
    def three(m: Match) -> Any:
        return 3

    wrong = rule(p.Relu(hole("x")))(three)
    with pytest.raises(RewriteError, match="returned 3"):
        check_rule(wrong)


def test_results_and_items_survive() -> None:
    a = value(4)
    pair = op.Split(a, num_outputs=2)
    g = graph(item(pair[0].inputs[0], 1), a, params=(a,))  # type: ignore[arg-type]
    assert rewrite(g, (mul_one,)) is g


def test_what_an_index_remembers_of_operators_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "REMEMBERED", 4)
    x = param(tensor("f32", 2))
    twice = Rule("relu_twice", p.Relu(p.Relu(hole("x"))), lambda m: op.Relu(m.x))
    index = driver.Index((twice,))
    for number_of in range(9):
        made = Value(f"mine::Op{number_of}", (x,), (), (), x.type)
        assert index.candidates(made) == ()
    assert len(index._candidates) == len(index._by_op) == 4
    assert len(index.candidates(op.Relu(op.Relu(x)))) == 1
