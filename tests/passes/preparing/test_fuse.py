"""Fusions into ONNX Runtime's own operators: which are taken, which declined and why, and what is kept apart."""

from __future__ import annotations

import numpy as np
import pytest

import irkit
import passes
from irkit import const, op, param, tensor
from irkit.build.runtime.limits import limit
from irkit.core.ir import Graph, Value
from irkit.core.types import DType
from irkit.errors import RewriteError
from irkit.pattern import hole, p
from irkit.rewriting.face import Match, explain, rule
from passes.legal.definitions import written_out
from passes.preparing.fuse import fuse, fusions, unwanted, wanted_only
from passes.preparing.steer import STEERING, steer
from passes.rules.onnxruntime import CONTRIB
from passes.targets import costs, target_of

ORT = target_of("onnxruntime-cpu+com.microsoft")
PLAIN = target_of("onnxruntime-cpu")
x = hole("x")


@rule(p.Mul(x, p.Sigmoid(x)))
def quick(m: Match) -> Value:
    """x * Sigmoid(x) -> QuickGelu(x)"""
    return op.com_microsoft.QuickGelu(m.x, alpha=1.0)


@rule(p.LayerNormalization(p.Add(x, hole("y")), hole("s"), hole("b")))
def skip(m: Match) -> Value:
    """LayerNormalization(x + y) -> SkipLayerNormalization(x, y)"""
    return op.com_microsoft.SkipLayerNormalization(m.x, m.y, m.s, m.b, epsilon=1e-5)


def swish(dtype: str = "f32") -> Graph:
    v = param(tensor(dtype, "b", 4))
    return Graph((v,), (op.Mul(v, op.Sigmoid(v)),))


def table(monkeypatch: pytest.MonkeyPatch, **rows: dict[str, float]) -> None:
    """A table of costs for float32 in place of the measured one."""
    content = {
        "onnxruntime": "1.0",
        "provider": "CPUExecutionProvider",
        "ratios": {k: {"f32": v} for k, v in rows.items()},
    }
    monkeypatch.setattr(costs, "table", lambda: content)
    costs.pays.cache_clear()


@pytest.fixture(autouse=True)
def measured_table() -> object:
    yield
    costs.pays.cache_clear()


def test_the_domain_must_be_allowed() -> None:
    assert fusions(PLAIN, (quick,)) == ()
    graph = swish()
    assert fuse(graph, PLAIN) is graph
    assert [r.name for r in fusions(ORT, (quick,))] == ["quick"]


@pytest.mark.parametrize(("ratio", "taken"), [(0.5, True), (1.0, True), (1.02, True), (1.03, False), (3.0, False)])
def test_the_mean_of_the_ratios_decides(monkeypatch: pytest.MonkeyPatch, ratio: float, taken: bool) -> None:
    table(monkeypatch, QuickGelu={"small": ratio, "long": ratio})
    after = irkit.rewrite(swish(), (wanted_only(quick, ORT),))
    assert any(v.op == "com.microsoft::QuickGelu" for v in after.order) is taken


def test_one_slow_class_is_enough_to_decline(monkeypatch: pytest.MonkeyPatch) -> None:
    table(monkeypatch, QuickGelu={"small": 0.4, "long": 1.2})
    graph = swish()
    found = explain(wanted_only(quick, ORT), graph.results[0])
    assert not found.applies
    assert "QuickGelu takes 0.69 of the time of what it stands for, 1.20 at worst (long)" in found.reason


def test_a_reason_names_the_version_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    table(monkeypatch, QuickGelu={"small": 2.0})
    costs.other_version.cache_clear()
    try:
        assert "measured on ONNX Runtime 1.0, and" in costs.pays("QuickGelu", DType.FLOAT, ORT.provider)[1]
    finally:
        costs.other_version.cache_clear()


def test_what_was_not_measured_does_not_pay() -> None:
    good, why = costs.pays("NoSuchFusion", DType.FLOAT, "CPUExecutionProvider")
    assert not good and "was not measured" in why
    assert not costs.pays("QuickGelu", DType.FLOAT, "CUDAExecutionProvider")[0]


def test_a_kernel_must_exist() -> None:
    graph = swish("f64")
    found = explain(wanted_only(quick, ORT), graph.results[0])
    assert not found.applies and ("no kernel" in found.reason or "cannot be f64" in found.reason)


def test_without_a_provider_all_fusions_are_wanted() -> None:
    after = irkit.rewrite(swish("f32"), (wanted_only(quick, target_of("onnx+com.microsoft")),))
    assert any(v.op == "com.microsoft::QuickGelu" for v in after.order)


def test_a_sum_is_not_fused_into_the_norm_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime's kernel of both takes longer than both, as it was measured with 1.31."""
    table(monkeypatch, SkipLayerNormalization={"small": 1.9, "long": 5.0})
    a, b = (param(tensor("f32", "b", 3, 8)) for _ in range(2))
    made = op.LayerNormalization(op.Add(a, b), const(np.ones(8, "f4")), const(np.zeros(8, "f4")))
    found = explain(wanted_only(skip, ORT), made)
    assert not found.applies and "SkipLayerNormalization takes" in found.reason


@pytest.mark.parametrize("rule", STEERING, ids=lambda r: r.name)
def test_steering_holds(rule: irkit.Rule) -> None:
    irkit.check_rule(rule)


def test_steering_writes_sum_for_add_before_a_norm() -> None:
    a, b = (param(tensor("f32", "b", 3, 8)) for _ in range(2))
    norm = op.LayerNormalization(op.Add(a, b), const(np.ones(8, "f4")), const(np.zeros(8, "f4")))
    graph = Graph((a, b), (norm,))
    assert [v.op for v in passes.prepare(graph).order if v.op in ("Add", "Sum")] == ["Sum"]
    assert steer(graph, target_of("onnx")) is graph
    twice = Graph((a, b), (norm, norm.inputs[0]))
    assert steer(twice, PLAIN) is twice, "the sum is needed by itself, and ONNX Runtime leaves it alone"


def test_an_operator_that_is_slow_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    table(monkeypatch, **{"onnx.GroupNormalization": {"small": 3.1, "large": 2.3}})
    v = param(tensor("f32", "b", 4, 6, 6))
    ones, zeros = const(np.ones(4, "f4")), const(np.zeros(4, "f4"))
    graph = Graph((v,), (op.GroupNormalization(v, ones, zeros, num_groups=2),))
    assert costs.is_slow("GroupNormalization", DType.FLOAT, "CPUExecutionProvider")
    assert not any(u.op == "GroupNormalization" for u in passes.prepare(graph).order)
    assert any(u.op == "GroupNormalization" for u in passes.prepare(graph, "onnx").order)


def grouped(batch: object, length: object, past: object, size: int = 16, **more: int) -> Value:
    """A GroupQueryAttention of those sizes."""
    q = param(tensor("f32", batch, length, 2 * size))
    k = param(tensor("f32", batch, length, size))
    old = param(tensor("f32", batch, 1, past, size))
    ends, total = param(tensor("i32", batch)), param(tensor("i32"))
    given = {"num_heads": 2, "kv_num_heads": 1, **more}
    return irkit.call("com.microsoft::GroupQueryAttention", [q, k, k, old, old, ends, total], given, outputs=3)[
        0
    ].inputs[0]


def test_limits_of_kernels_are_asked() -> None:
    assert not limit(grouped("b", 1, "p")) and not limit(grouped(1, "s", "p"))
    assert "a batch of 1 only" in limit(grouped("b", "s", "p"))
    assert "8 divides" in limit(grouped("b", 1, "p", 4))


def test_targets_by_name_with_domains() -> None:
    assert target_of("onnx+com.microsoft").domains == ("com.microsoft",)
    assert target_of("onnxruntime-cpu").domains == ()
    for wrong in ("onnxruntime-cpu+", "nowhere", "nowhere+com.microsoft"):
        with pytest.raises(RewriteError, match="there is no target"):
            target_of(wrong)


def test_every_row_of_the_table_is_of_a_known_fusion() -> None:
    content = costs.table()
    assert content["provider"] == "CPUExecutionProvider"
    for name, row in content["ratios"].items():
        assert row, name
        for classes in row.values():
            assert all(0.01 < ratio < 100 for ratio in classes.values()), name


def test_rules_are_declined_or_run() -> None:
    assert all(r.name for r in CONTRIB)
    assert unwanted(op.com_microsoft.Gelu(param(tensor("f32", 3))), ORT) == ""


def test_what_others_fused_is_written_out_before_rules_look_at_it() -> None:
    a, b = (param(tensor("f32", "b", 3, 8)) for _ in range(2))
    ones = const(np.ones(8, "f4"))
    total = irkit.call("com.microsoft::SkipLayerNormalization", [a, b, ones], {}, outputs=4)
    graph = Graph((a, b), (op.Add(total[0], total[3]),))
    plain = written_out(graph, PLAIN)
    assert sorted(v.op for v in plain.order if v.inputs) == ["Add", "Add", "LayerNormalization"]
    assert written_out(graph, ORT) is graph
    assert written_out(plain, PLAIN) is plain


def test_a_misspelled_domain_is_refused_by_name() -> None:
    x = param(tensor("f32", "n", 4))
    plain, own = Graph((x,), (op.Relu(x),)), Graph((x,), (irkit.custom("mylib::Own", x, type=x.type),))
    for name in ("onnxruntime-cpu+com.microsft", "onnx+com.microsft"):
        with pytest.raises(RewriteError, match=r"the domain 'com\.microsft', in which neither") as caught:
            passes.prepare(plain, name)
        assert "did you mean com.microsoft?" in str(caught.value)
    allowed = ("onnxruntime-cpu+com.microsoft", "onnx+ai.onnx.ml", "onnxruntime-cpu+com.microsoft+mylib")
    for name, graph in (*((name, plain) for name in allowed), ("onnx+mylib", own)):
        assert passes.prepare(graph, name).results
    (inside,) = op.If(True, then_branch=lambda: irkit.custom("mylib::Own", x, type=x.type), else_branch=lambda: x)
    assert passes.prepare(Graph((x,), (inside,)), "onnx+mylib").results
