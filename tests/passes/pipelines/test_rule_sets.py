"""Rules chosen by text, and how large a constant may become that is computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import irkit
from irkit import rule
from irkit.build import const, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.doors.cli import app
from irkit.errors import RewriteError
from irkit.pattern import hole, p
from irkit.testing import assert_equivalent
from passes import optimize, prepare
from passes.pipelines.rule_sets import families, families_of
from passes.pipelines.standard import EXACT, REAL, all_rules, selected, selected_fusions
from passes.rules.arithmetic.finite import FINITE
from passes.rules.nan import NAN
from passes.rules.onnxruntime import CONTRIB

x = param(tensor("f32", "n", 8))


def norm() -> Value:
    """A layer norm, written out, of the gelu of x, written out."""
    erf = op.Erf(op.Div(x, np.float32(np.sqrt(2))))
    y = op.Mul(op.Mul(x, op.Add(erf, 1.0)), 0.5)
    gap = op.Sub(y, op.ReduceMean(y, np.array([-1])))
    spread = op.ReduceMean(op.Pow(gap, 2.0), np.array([-1]))
    return op.Mul(op.Div(gap, op.Sqrt(op.Add(spread, 1e-5))), np.arange(8, dtype=np.float32))


def ops(graph: Graph) -> list[str]:
    return sorted({v.op for v in graph.order if v.op not in ("Param", "Constant", "ShapeVector")})


def test_rules_are_left_out_and_chosen_by_name() -> None:
    graph = Graph((x,), (norm(),))
    assert ops(optimize(graph)) == ["Gelu", "LayerNormalization"]
    without = optimize(graph, rules="default-norms")
    assert "Gelu" in ops(without) and "Sqrt" in ops(without) and "LayerNormalization" not in ops(without)
    assert optimize(graph, rules="-norms") == without == optimize(graph, rules=" default - norms ")
    only = optimize(graph, rules="gelu")
    assert "Gelu" in ops(only) and "Sqrt" in ops(only)
    assert "LayerNormalization" not in ops(optimize(graph, rules="default-layer_norm*-gelu+gelu"))
    assert optimize(optimize(graph, rules="default"), rules="default") == optimize(graph)
    for each in (without, only):
        assert_equivalent(graph, each)


def test_the_same_text_chooses_among_the_rules_of_a_target() -> None:
    """Nothing is measured for this target, and so all of its rules are taken."""
    wide, bias = param(tensor("f32", "n", "m", 8)), const(np.ones(8, np.float32))
    graph = Graph((wide,), (op.Gelu(op.Add(wide, bias), approximate="tanh"),))
    target = "onnx+com.microsoft"
    assert ops(prepare(graph, target)) == ["com.microsoft::FastGelu"]
    for text in ("-contrib", "default-gelu", "norms", "default-encoders"):
        assert not any("::" in name for name in ops(prepare(graph, target, rules=text)))
        assert ops(optimize(graph, rules=text))
    for text in ("gelu", "default-norms", "contrib", "fast_gelu*"):
        assert any("::" in name for name in ops(prepare(graph, target, rules=text))), text
    assert optimize(graph, rules="contrib") == graph
    with pytest.raises(RewriteError, match="near it: contrib"):
        prepare(graph, target, rules="-contrb")
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(approximate="tanh"))
    program = irkit.to_onnx(model, (torch.randn(2, 3, 4),), target=target, rules="default-gelu")
    assert not any("::" in name for name in ops(program.ready))


def test_own_rules_stand_beside_a_text() -> None:
    @rule(p.Gelu(hole("v")), exact=False)
    def gelu_by_erf(m: irkit.Match):
        """Gelu(v) -> Identity(Gelu(v))"""
        return op.Relu(m.v)

    found = optimize(Graph((x,), (norm(),)), rules=(gelu_by_erf, "-norms"))
    assert "Relu" in ops(found) and "LayerNormalization" not in ops(found)


def test_a_wrong_name_is_refused_with_names_near_it() -> None:
    graph = Graph((x,), (norm(),))
    for text, near in (("default-atention", "attention"), ("lay_norm", "layer_norm"), ("nrms", "norms")):
        with pytest.raises(RewriteError, match="no rule and no family") as error:
            optimize(graph, rules=text)
        assert near in str(error.value)
    for text in ("default--norms", "norms casts", "+", "norms+"):
        with pytest.raises(RewriteError, match="cannot be read"):
            optimize(graph, rules=text)
    with pytest.raises(RewriteError, match="layer_norm"):  # it is true of real numbers only
        optimize(graph, level=1, rules="layer_norm")


def test_every_rule_is_in_a_family_and_is_found_by_its_name() -> None:
    known = all_rules(2)
    for each in CONTRIB:
        assert each in selected_fusions(each.name) and "contrib" in families_of(each)
    assert selected_fusions("") == CONTRIB and selected_fusions("default-contrib") == ()
    assert set(map(id, known)) == {*map(id, REAL), *map(id, EXACT), *map(id, FINITE), *map(id, NAN)}
    assert {id(r) for rules in families(known).values() for r in rules} == set(map(id, known))
    for each in known:
        assert each in selected(2, each.name, None)
    assert selected(2, "default", None) == REAL and selected(1, "exact", None) == EXACT
    assert selected(2, "", None) is REAL


def test_what_keeps_nan_is_left_out_where_that_is_asked_for_only() -> None:
    pooled = op.MaxPool(image := param(tensor("f32", 1, 2, 8, 8)), kernel_shape=[2, 2])
    odd = op.IsNaN(op.AveragePool(image, kernel_shape=[2, 2]))
    graph = Graph((image,), (op.Where(odd, np.float32(np.nan), pooled),))
    assert "IsNaN" in ops(optimize(graph)) and "IsNaN" in ops(optimize(graph, level=1, rules="default"))
    assert ops(optimize(graph, rules="default+finite")) == ["MaxPool"]
    with pytest.raises(RewriteError, match="finite"):  # keeps no bits of NaN
        optimize(graph, level=1, rules="finite")


def test_constants_are_computed_up_to_the_size_that_is_asked_for() -> None:
    numbers = op.Mul(op.Expand(const(np.float32(2)), np.array([300, 300])), 3.0)
    graph = Graph((y := param(tensor("f32", 300, 300)),), (op.Add(y, numbers),))

    def sizes(found: Graph) -> list[int]:
        return [v.blob.size for v in found.order if v.blob is not None and v.blob.size > 100]

    assert sizes(optimize(graph)) == []
    assert sizes(optimize(graph, fold=90_000)) == [90_000]
    small = Graph((x,), (op.Add(x, op.Add(const(np.ones(8, np.float32)), np.arange(8, dtype=np.float32))),))
    assert ops(optimize(small)) == ["Add"] and len(optimize(small)) == 1
    assert len(optimize(small, fold=0)) == 2
    assert len(optimize(small, level=1, fold=1)) == 1  # no larger than what is there
    with pytest.raises(RewriteError, match="-1 elements"):
        optimize(small, fold=-1)


def test_the_command_line_chooses_and_lists_rules(tmp_path: Path) -> None:
    irkit.save(prepare(Graph((x,), (norm(),))), tmp_path / "given.onnx")
    arguments = ["optimize", str(tmp_path / "given.onnx"), "-o", str(tmp_path / "made.onnx")]
    said = CliRunner().invoke(app, [*arguments, "--rules", "default-norms"])
    assert said.exit_code == 0, said.output
    assert "Sqrt" in ops(irkit.load(tmp_path / "made.onnx"))
    said = CliRunner().invoke(app, [*arguments, "--rules", "default-atention"])
    assert said.exit_code == 1 and "near it: attention" in said.output
    listed = CliRunner().invoke(app, ["rules", "norms"], env={"COLUMNS": "160"})
    assert listed.exit_code == 0 and "layer_norm" in listed.output and "attention" not in listed.output
    assert "LayerNormalization" in listed.output and "real" in listed.output
    every = CliRunner().invoke(app, ["rules", "--families"], env={"COLUMNS": "160"})
    assert every.exit_code == 0 and all(name in every.output for name in families(all_rules(2)))
    assert "contrib" in every.output
    assert CliRunner().invoke(app, ["rules", "nrms"]).exit_code == 1
