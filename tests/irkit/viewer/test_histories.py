"""Histories on a page: what each moment changes adds up to what the pass made, and near misses are told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import irkit
from irkit import hole, op, p
from irkit.core.origins import Origin
from irkit.doors.cli import app
from irkit.rewriting import record
from irkit.rewriting.history import Tally, record_history
from irkit.rewriting.journal import with_journal
from irkit.rewriting.passes import rules_pass
from irkit.viewer.pages import history_page
from passes import optimize
from passes.files import optimized_for
from tests.irkit.viewer.browser import document_after
from tests.irkit.viewer.pages import data_in


def from_elsewhere(weights: int = 8) -> irkit.Graph:
    """A layer with its norm, its bias and its activation written out, and branches."""
    x, flag = irkit.param(irkit.tensor("f32", "batch", weights)), irkit.param(irkit.tensor("bool"))
    rng = np.random.default_rng(0)
    w, b = (irkit.const(rng.standard_normal(s).astype(np.float32)) for s in ((weights, weights), (weights,)))
    half, root, one = (irkit.const(np.float32(n)) for n in (0.5, 2**0.5, 1))
    h = op.Add(op.MatMul(x, w), b)
    h = op.Mul(op.Mul(h, half), op.Add(op.Erf(op.Div(h, root)), one))
    h = op.Transpose(op.Transpose(h, perm=(1, 0)), perm=(1, 0))
    h = op.Identity(op.Cast(op.Cast(h, to=11), to=1))
    (h,) = op.If(flag, then_branch=lambda: op.Add(op.Relu(op.Relu(h)), b), else_branch=lambda: op.Neg(op.Neg(h)))
    mean = op.ReduceMean(h, irkit.const(np.array([-1])), keepdims=1)
    centered = op.Sub(h, mean)
    variance = op.ReduceMean(op.Mul(centered, centered), irkit.const(np.array([-1])), keepdims=1)
    eps = irkit.const(np.float32(1e-5))
    done = op.Div(centered, op.Sqrt(op.Add(variance, eps))).with_origin(Origin("y", module="norm", source="m.py:9 y"))
    first, second = op.Split(done, num_outputs=2, axis=1)
    return irkit.Graph((x, flag), (op.Concat(first, second, axis=1), first), name="elsewhere")


def replayed(data: dict[str, Any]) -> list[tuple[dict[int, list[Any]], list[int]]]:
    """(rows, results) after each moment, as the page makes them."""
    rows = {row[0]: row for row in data["graphs"][0]["rows"]}
    results = [each[0] for each in data["graphs"][0]["results"]]
    states = [(rows, results)]
    for moment in data["moments"]:
        rows = {number: row for number, row in rows.items() if number not in set(moment["remove"])}
        rows |= {row[0]: row for row in (*moment["change"], *moment["add"])}
        results = moment.get("results", results)
        states.append((rows, results))
    return states


def structure(data: dict[str, Any], rows: dict[int, list[Any]], results: list[int]) -> set[str]:
    """What a state computes: one text for each result."""
    texts: dict[int, int] = {}
    names: dict[Any, int] = {}

    def of(number: int) -> int:
        if number < 0:
            return -1
        if number not in texts:
            row = rows[number]
            key = (row[1], tuple(of(i) for i in row[4]), tuple(row[5]), row[11], number if row[1] == param else -1)
            texts[number] = names.setdefault(key, len(names))
        return texts[number]

    param = data["texts"].index("Param")
    return {str((of(number), sorted(map(str, names)))) for number in results}


def optimized(graph: irkit.Graph, observe: Any) -> irkit.Graph:
    """The graph as `irkit optimize` makes it."""
    return optimized_for(graph, "onnxruntime-cpu", None, 2, observe=observe).graph


def test_moments_add_up_to_what_passes_made() -> None:
    history = record_history(optimized, from_elsewhere())
    data = data_in(history_page(history).html)
    states = replayed(data)
    assert data["kind"] == "history" and len(states) == len(data["moments"]) + 1 > 8
    for rows, results in states:  # each is a graph
        assert all(i == -1 or i in rows for row in rows.values() for i in row[4])
        assert set(results) <= rows.keys()
    last = record_history(optimized, history.result)  # rows of the result, made anew
    again = data_in(history_page(last).html)
    shown = [(data, states[-1][0]), (again, replayed(again)[0][0])]
    operators = [sorted(d["texts"][row[1]] for row in rows.values()) for d, rows in shown]
    assert operators[0] == operators[1]
    assert sum(m["kind"] == "firing" for m in data["moments"]) == sum(len(t.firings) for t in history.turns)


def test_firings_leave_little_for_the_pass_itself() -> None:
    data = data_in(history_page(record_history(optimize, from_elsewhere())).html)
    firings = [m for m in data["moments"] if m["kind"] == "firing"]
    assert all(m["seen"] and (m["add"] or m["change"] or m["remove"]) for m in firings if m["root"] is not None)
    seen = [m["seen"] for m in firings]
    assert sum(seen) >= 0.8 * len(seen)
    names = {m["rule"] for m in firings}
    assert {"layer_norm"} & names or any("norm" in name for name in names)
    assert names == data["rules"].keys() and all(rule["doc"] for rule in data["rules"].values())


@irkit.rule(p.Relu(p.Relu(hole("x"))))
def relu_twice(m: irkit.Match) -> Any:
    """Relu(Relu(x)) -> Relu(x)"""
    return op.Relu(m.x)


@irkit.rule(p.Mul(p.Sigmoid(p.Mul(hole("x"), 1.702)), hole("x")), exact=False)
def quick_gelu(m: irkit.Match) -> Any:
    """x * Sigmoid(1.702 x) -> Swish(x)"""
    return op.Swish(m.x, alpha=1.702)


def test_near_misses_say_where_the_match_stopped() -> None:
    x = irkit.param(irkit.tensor("f32", 3))
    graph = irkit.Graph((x,), (op.Mul(op.Sigmoid(op.Mul(x, irkit.const(np.float32(1.5)))), op.Relu(op.Relu(x))),))
    data = data_in(irkit.viz(graph, rules=(relu_twice, quick_gelu)).html)
    assert data["rules"]["relu_twice"]["own"]
    misses = [m for m in data["misses"] if m["rule"] == "quick_gelu"]
    miss = misses[0]
    assert "1.702" in miss["reason"] and not miss["matched"] and 0 < miss["near"] < 1
    rows = replayed(data)[miss["moment"] + 1][0]
    assert data["texts"][rows[miss["id"]][1]] == "Mul"


def test_near_misses_in_bodies_are_told_of() -> None:
    @irkit.rule(p.Tanh(p.Mul(hole("x"), 1.702)), exact=False)
    def steep(m: irkit.Match) -> Any:
        """Tanh(1.702 x) -> Tanh(x)"""
        return op.Tanh(m.x)

    x, flag = irkit.param(irkit.tensor("f32", 3)), irkit.param(irkit.tensor("bool"))
    made = op.If(
        flag,
        then_branch=lambda: op.Loop(1000, None, x, body=lambda i, c, v: (c, op.Tanh(op.Mul(v, 1.5))))[0],
        else_branch=lambda: op.Relu(op.Relu(x)),
    )
    data = data_in(irkit.viz(irkit.Graph((x, flag), made), rules=(relu_twice, steep)).html)
    miss = next(m for m in data["misses"] if m["rule"] == "steep")
    row = replayed(data)[miss["moment"] + 1][0][miss["id"]]
    assert "1.702" in miss["reason"] and data["texts"][row[1]] == "Tanh"
    assert data["bodies"][row[10]]["word"] == "body"


def test_journals_and_traces_are_histories_too() -> None:
    graph, journal = from_elsewhere(), list[Any]()
    irkit.rewrite(graph, with_journal((relu_twice,), journal))
    data = data_in(irkit.viz(journal).html)
    assert [t["title"] for t in data["turns"]] == ["relu_twice"]
    (moment,) = data["moments"]
    assert len(moment["remove"]) == 1 or moment["change"]
    traced = data_in(irkit.viz(record(optimize, graph)).html)
    assert traced["moments"] and not traced["rules"]
    with pytest.raises(irkit.GraphError, match="journal is empty"):
        irkit.viz([])


def test_tally_follows_what_own_rules_made() -> None:
    x = irkit.param(irkit.tensor("f32", 3))
    graph = irkit.Graph((x,), (op.Mul(op.Sigmoid(op.Mul(x, irkit.const(np.float32(1.702)))), x),))
    tally = Tally(("quick_gelu",))
    result = optimized_for(graph, "onnxruntime-cpu", 20, 2, rules=(quick_gelu,), observe=tally).graph
    first = tally.counts(result)[0]
    assert first.rule == "quick_gelu" and first.own and first.times == 1 and first.seconds > 0
    assert first.passes == ("own rules",)
    assert first.became == {"Swish written out again by legalize": 1}  # opset 20 has none
    assert "yours: 1 Swish written out again by legalize" in str(first)
    kept = Tally(("relu_twice",))
    twice = irkit.Graph((x,), (op.Relu(op.Relu(x)),))
    (only,) = kept.counts(optimize(twice, rules=(relu_twice,), observe=kept))
    assert only.became == {"equal to what was there, or used by nothing": 1}


def test_tally_tells_which_rule_took_up_what_own_rules_made() -> None:
    x = hole("x")

    @irkit.rule(p.Neg(p.Neg(x)))
    def twice(m: Any) -> Any:
        """-(-x) -> Abs(x), for the test"""
        return op.Abs(m.x)

    @irkit.rule(p.Sqrt(p.Abs(x)))
    def root(m: Any) -> Any:
        """Sqrt(Abs(x)) -> Exp(x), for the test"""
        return op.Exp(m.x)

    data = irkit.param(irkit.tensor("f32", 3))
    graph, tally = irkit.Graph((data,), (op.Sqrt(op.Neg(op.Neg(data))),)), Tally(("twice", "root"))
    result = rules_pass("own rules", (twice, root)).run(graph, tally)
    became = {each.rule: each.became for each in tally.counts(result)}
    assert became == {"twice": {"taken up by root": 1}, "root": {"Exp in the model": 1}}


def test_nobody_who_watches_changes_what_comes_out() -> None:
    graph = from_elsewhere()
    assert record_history(optimized, graph).result == optimized_for(graph, "onnxruntime-cpu", None, 2).graph


def test_command_takes_rules_of_a_file(tmp_path: Path) -> None:
    irkit.save(from_elsewhere(), tmp_path / "model.onnx")
    lines = "import irkit\nfrom irkit import hole, op, p\n\n@irkit.rule(p.Relu(p.Relu(hole('x'))))\ndef mine(m):\n"
    (tmp_path / "mine.py").write_text(f"{lines}    'Relu(Relu(x)) -> Relu(x)'\n    return op.Relu(m.x)\n")
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "bad.py").write_text("x = absent\n")
    call = ["viz", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "page.html"), "--rules"]
    done = CliRunner().invoke(app, [*call, str(tmp_path / "mine.py")])
    assert done.exit_code == 0, done.output
    data = data_in((tmp_path / "page.html").read_text("utf-8"))
    assert data["rules"]["mine"] == {"doc": "Relu(Relu(x)) -> Relu(x)", "exact": True, "own": True}
    for name, word in (("none.py", "makes no rules"), ("bad.py", "cannot be run"), ("absent.py", "no file")):
        assert word in CliRunner().invoke(app, [*call, str(tmp_path / name)]).output


def test_slider_moves_in_a_browser(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    irkit.viz(from_elsewhere(), page, target="onnxruntime-cpu")
    found = document_after(page, "moment=1&theme=light", tmp_path / "profile")
    assert "1 of " in found and 'class="chip removed"' in found and 'class="chip added"' in found
