"""Applications of rules as values, and patterns written from instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irkit.build import op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.errors import RewriteError
from irkit.evaluation.interpreter import evaluate
from irkit.pattern import hole, p
from irkit.pattern.writing import pattern_of
from irkit.rewriting.face import Rule, explain, rewrite
from irkit.rewriting.journal import culprit, usage, with_journal

x, y = hole("x"), hole("y")
RULES = (
    Rule("relu_twice", p.Relu(p.Relu(x)), lambda m: op.Relu(m.x)),
    Rule("no_abs", p.Abs(x), lambda m: m.x),
    Rule("neg_twice", p.Neg(p.Neg(x)), lambda m: m.x),
)


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def chain() -> Graph:
    a = value(3)
    v: Value = a
    for makers in ((op.Relu, op.Relu), (op.Neg, op.Neg, op.Neg), (op.Abs,), (op.Sin,), (op.Neg, op.Neg), (op.Exp,)):
        for make in makers:
            v = make(v)
    return Graph((a,), (v,))


def test_the_journal_holds_each_application_and_counts_by_rule() -> None:
    graph, journal = chain(), []
    after = rewrite(graph, with_journal(RULES, journal))
    assert after == rewrite(graph, RULES)
    assert [a.rule.name for a in journal] == ["relu_twice", "neg_twice", "no_abs", "neg_twice"]
    assert [(a.removed, a.added) for a in journal] == [(2, 1), (2, 0), (1, 0), (2, 0)]
    assert "f32[3] = Relu(f32[3] Relu)" in str(journal[0])
    used = usage(journal)
    assert [(u.rule, u.applied, u.removed, u.added) for u in used] == [
        ("neg_twice", 2, 4, 0),
        ("no_abs", 1, 1, 0),
        ("relu_twice", 1, 2, 1),
    ]
    assert all(u.seconds > 0 for u in used)


def test_the_first_applications_can_be_replayed() -> None:
    graph = chain()
    assert rewrite(graph, with_journal(RULES, [], 0)) is graph
    sizes = [len(rewrite(graph, with_journal(RULES, [], n))) for n in range(5)]
    assert sizes == [10, 9, 7, 6, 4]


def test_the_application_that_breaks_a_graph_is_found() -> None:
    graph, feed = chain(), [np.array([1.0, -2.0, 3.0], np.float32)]
    expected = evaluate(graph, feed)[0]

    def good(other: Graph) -> bool:
        return bool(np.allclose(evaluate(other, feed)[0], expected))

    found = culprit(graph, RULES, good)
    assert found is not None and found.rule.name == "no_abs"
    assert culprit(graph, RULES[:1], good) is None
    with pytest.raises(RewriteError, match="bad before"):
        culprit(graph, RULES, lambda other: False)


def test_a_pattern_written_from_an_instance_matches_it() -> None:
    a, b = value("batch", 4), value("batch", 4)
    mean = op.ReduceMean(op.Mul(a, a), np.array([-1]), keepdims=1)
    root = op.Mul(op.Div(op.Relu(a), op.Sqrt(op.Add(mean, 1e-5))), op.Split(b, np.array([1, 3]), axis=1)[0])
    code = pattern_of(root, name="norm")
    found: dict[str, Any] = {}
    exec(code, found)
    rule = found["norm"]
    assert explain(rule, root).reason == "write the right side"
    assert not explain(rule, op.Mul(op.Div(op.Relu(a), op.Sqrt(op.Add(mean, 1e-3))), b)).matched
    cut = pattern_of(root, inputs=[mean], name="part")
    exec(cut, found)
    assert explain(found["part"], root).matched and "ReduceMean" not in cut


def test_a_pattern_is_written_once_for_what_is_used_twice() -> None:
    a = value("batch", 4)
    inner = op.Sigmoid(op.Mul(a, np.arange(4, dtype=np.float32)))
    code = pattern_of(op.Sub(inner, op.Mul(inner, a)))
    assert code.count("p.Sigmoid") == 1 and '.named("sigmoid")' in code.replace("'", '"')
    found: dict[str, Any] = {}
    exec(code, found)
    other = op.Sigmoid(a)
    assert explain(found["mine"], op.Sub(inner, op.Mul(inner, a))).matched
    assert not explain(found["mine"], op.Sub(inner, op.Mul(other, a))).matched


def test_a_pattern_of_too_much_is_refused() -> None:
    a = value(3)
    v: Value = a
    for i in range(80):
        v = op.Add(op.Abs(v), float(i))
    with pytest.raises(RewriteError, match="too many"):
        pattern_of(v)
    (chosen,) = op.If(value(dtype="bool"), then_branch=lambda: op.Abs(a), else_branch=lambda: op.Neg(a))
    with pytest.raises(RewriteError, match="no pattern can be written for If"):
        pattern_of(op.Abs(chosen))
