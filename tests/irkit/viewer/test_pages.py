"""Pages of graphs: well-formed, loading nothing, with all that the graph has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import irkit
from irkit import op
from irkit.core.origins import Origin
from irkit.doors.cli import app
from irkit.viewer.contents import content_summary
from irkit.viewer.page import Page
from irkit.viewer.pages import graph_page
from tests.irkit.viewer.browser import document_after
from tests.irkit.viewer.pages import data_in
from tests.support.timing import spent

NASTY = "</script><!-- <b>&amp; \u2028 'quoted' \"twice\""


def small() -> irkit.Graph:
    """Two operators in modules, a weight, and texts that HTML minds."""
    x = irkit.param(irkit.tensor("f32", "batch", 4))
    w = irkit.const(np.arange(16, dtype=np.float32).reshape(4, 4))
    product = op.MatMul(x, w).with_origin(Origin("mm", "aten.mm", "layers.0.proj", "model.py:3 return x @ self.w"))
    done = op.Relu(product).with_origin(Origin("relu", "aten.relu", "layers.0", f"model.py:4 {NASTY}", ("a_rule",)))
    ports = irkit.Signature((irkit.Port("x"),), (irkit.Port("y", "output"),))
    return irkit.Graph((x,), (done,), signature=ports, name=NASTY)


def looped() -> irkit.Graph:
    """An If whose branches are graphs."""
    x, flag = irkit.param(irkit.tensor("f32", 3)), irkit.param(irkit.tensor("bool"))
    found = op.If(flag, then_branch=lambda: op.Relu(x), else_branch=lambda: op.Neg(x))
    return irkit.Graph((x, flag), found)


def long(count: int) -> irkit.Graph:
    """So many operators in layers of ten, one after the other, each with a weight."""
    x = value = irkit.param(irkit.tensor("f32", "batch", 8))
    weights = [irkit.const(np.full(8, i, np.float32)) for i in range(20)]
    for i in range(count):
        made = op.Add(value, weights[i % 20]) if i % 2 else op.Mul(value, x)
        module, line = f"layers.{i // 10}.part{i % 3}", f"model.py:{i % 50} x + y"
        value = made.with_origin(Origin(f"n{i}", "aten.add", module, line))
    return irkit.Graph((x,), (value,), name="long")


def rows_of(page: Page) -> dict[int, dict[str, Any]]:
    """The rows of the first graph of a page, by id, as mappings."""
    data = data_in(page.html)
    return {row[0]: dict(zip(data["columns"], row, strict=True)) for row in data["graphs"][0]["rows"]}


def test_page_is_one_file_and_its_data_come_back() -> None:
    graph = small()
    page = irkit.viz(graph)
    data = data_in(page.html)
    assert data == json.loads(json.dumps(page.data))
    texts, rows = data["texts"], rows_of(page)
    assert data["title"] == NASTY and NASTY not in page.html
    assert len(rows) == len(graph.order)
    relu = next(row for row in rows.values() if texts[row["op"]] == "Relu")
    product = rows[relu["inputs"][0]]
    assert texts[product["module"]] == "layers.0.proj" and texts[product["type"]] == "f32[batch, 4]"
    assert [texts[r] for r in relu["rules"]] == ["a_rule"] and NASTY in texts[relu["source"]]
    weight = data["contents"][rows[product["inputs"][1]]["constant"]]
    assert weight["shape"] == [4, 4] and sum(weight["bins"]) == 16 and weight["greatest"] == 15


def test_rows_of_bodies_tell_in_which_they_stand() -> None:
    data = data_in(irkit.viz(looped()).html)
    owners = {(body["word"], body["owner"]) for body in data["bodies"]}
    assert {word for word, _ in owners} == {"then", "else"} and len({owner for _, owner in owners}) == 1
    inside = {row[10] for row in data["graphs"][0]["rows"]}
    assert inside == {-1, 0, 1}


@pytest.mark.parametrize(
    "array",
    [
        np.array([], np.float32),
        np.array(1.5, np.float16),
        np.array([np.nan, np.inf, -np.inf]),
        np.array([np.finfo("f8").max, -np.finfo("f8").max]),
        np.array([True, False]),
        np.array([2**63 - 1, -(2**63)]),
        np.array(["a", "b"], object),
        np.array([1 + 2j], np.complex64),
        np.full(70000, 5e-324),
        np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)
def test_summary_of_any_content_is_finite_and_adds_up(array: np.ndarray) -> None:
    blob = irkit.const(array).blob
    assert blob is not None
    found = content_summary(blob)
    assert found["looked_at"] <= array.size and len(found["first"]) <= array.size
    if "bins" in found:
        assert sum(found["bins"]) + found["odd"] == found["looked_at"]
    data_in(irkit.viz(irkit.Graph((), (irkit.const(array),))).html)  # JSON has neither NaN nor infinities


def test_module_is_read_off_the_names_of_other_exporters() -> None:
    x = irkit.param(irkit.tensor("f32", 4))
    y = op.Relu(x).with_origin(Origin("/model/layers.0/act/Relu_output_0"))
    data = data_in(irkit.viz(irkit.Graph((x,), (y,))).html)
    assert "model.layers.0.act" in data["texts"]


def test_page_of_ten_thousand_nodes_is_made_at_once() -> None:
    graph = long(10_000)
    with spent() as cost:
        html = graph_page(graph).html
    assert cost.seconds < 3
    assert len(html) < 5_000_000


def test_what_is_no_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(irkit.GraphError, match="cannot be shown"):
        irkit.viz("model.onnx")
    with pytest.raises(irkit.IrkitError, match="cannot be written"):
        irkit.viz(small(), tmp_path / "absent" / "page.html")


def test_command_writes_a_page(tmp_path: Path) -> None:
    irkit.save(small(), tmp_path / "model.onnx")
    done = CliRunner().invoke(app, ["viz", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0 and "wrote" in done.output
    assert data_in((tmp_path / "page.html").read_text("utf-8"))["title"] == "model"


def test_page_in_a_browser_opens_searches_and_selects(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    irkit.viz(small(), page)
    found = document_after(page, "search=op:Relu&select=%251&tab=text&theme=dark", tmp_path / "profile")
    assert 'data-ready="' in found and 'data-theme="dark"' in found
    assert "1 hit" in found and "f32[batch, 4]" in found
    assert "a_rule" in found and "<b>&amp;" not in found.partition('id="details"')[2].partition("<script")[0]
