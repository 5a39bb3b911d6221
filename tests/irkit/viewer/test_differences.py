"""What `irkit.diff` finds, in words, as data and on a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from typer.testing import CliRunner

import irkit
from irkit import op
from irkit.doors.cli import app
from passes import optimize
from tests.irkit.viewer.browser import document_after
from tests.irkit.viewer.pages import data_in
from tests.irkit.viewer.test_histories import from_elsewhere


def layer(
    slope: float = 0.1, shift: float = 0.0, name: str = "x", extra: bool = False, size: str = "n", kind: Any = op.Relu
) -> irkit.Graph:
    """A product with a weight, an activation, and perhaps one thing more."""
    x = irkit.param(irkit.tensor("f32", size, 4))
    weight = irkit.constant(attrs.evolve(irkit.blob(np.full((4, 4), 1.0 + shift, np.float32)), name="w"))
    h = op.LeakyRelu(kind(op.MatMul(x, weight)), alpha=slope)
    h = op.Exp(h) if extra else h
    ports = irkit.Signature((irkit.Port(name),), (irkit.Port("y", "output"),))
    return irkit.Graph((x,), (op.Neg(h),), signature=ports)


LEAKY, NEG = "f32[n, 4] = LeakyRelu(%1)", "f32[n, 4] = Neg"


@pytest.mark.parametrize("graph", [layer(), from_elsewhere()], ids=["layer", "branches"])
def test_equal_graphs_do_not_differ(graph: irkit.Graph) -> None:
    again = irkit.parse(str(graph), blobs=graph)
    found = irkit.diff(graph, again)
    assert not found and found.changes == () and "no difference" in str(found) and found.asdict()["equal"]
    assert not irkit.diff(graph, graph)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (layer(slope=0.5), [f"~ operator %2: {LEAKY} {{alpha = 0.1}} -> {LEAKY} {{alpha = 0.5}}"]),
        (layer(shift=0.25), ["~ weight %w: f32[4, 4] -> f32[4, 4], largest difference 0.25"]),
        (layer(extra=True), ["+ operator %3: f32[n, 4] = Exp(%2)", f"~ operator %3: {NEG}(%2) -> {NEG}(%3)"]),
        (layer(name="z"), ["- input x: f32[n, 4]", "+ input z: f32[n, 4]"]),
        (layer(kind=op.Sigmoid), ["- operator %1: f32[n, 4] = Relu(%0)", "+ operator %1: f32[n, 4] = Sigmoid(%0)"]),
        (layer(size="m"), ["~ input x: f32[n, 4] -> f32[m, 4]"]),
    ],
    ids=["attribute", "weight", "more", "name", "operator", "size"],
)  # fmt: skip
def test_differences_are_told_by_line(other: irkit.Graph, told: list[str]) -> None:
    found = irkit.diff(layer(), other, names=("a", "b"))
    assert found
    lines = [line.partition("  # ")[0] for line in str(found).splitlines()]
    assert lines[0] == f"a: 4 operators, b: {len(other)} operators"
    lines = [line.removesuffix(" over other operands") for line in lines]
    assert set(told) <= set(lines), str(found)


def test_difference_is_plain_data_too() -> None:
    found = irkit.diff(layer(), layer(extra=True))
    data = found.asdict()
    assert json.loads(found.json()) == data and data["operators"] == [4, 5]
    assert {each["kind"] for each in data["changes"]} == {"added", "changed"}
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        found.changes = ()  # type: ignore[misc]
    with pytest.raises(irkit.GraphError):
        irkit.diff(layer(), "b.onnx")


def test_page_has_both_sides_with_one_number_for_what_corresponds() -> None:
    graph = from_elsewhere()
    page = irkit.viz(irkit.diff(graph, optimize(graph)))
    data = data_in(page.html)
    one, other = ({row[0] for row in side["rows"]} for side in data["graphs"])
    assert data["kind"] == "difference" and one & other and one - other and other - one
    for side in data["graphs"]:
        rows = {row[0]: row for row in side["rows"]}
        assert all(i == -1 or i in rows for row in rows.values() for i in row[4])
    assert set(map(int, data["status"])) <= one & other


def test_command_tells_and_exits(tmp_path: Path) -> None:
    for name, graph in (("a.onnx", layer()), ("b.onnx", layer(extra=True))):
        irkit.save(graph, tmp_path / name)
    a, b, page = (str(tmp_path / name) for name in ("a.onnx", "b.onnx", "page.html"))
    same = CliRunner().invoke(app, ["diff", a, a])
    assert same.exit_code == 0 and "no difference" in same.output
    differ = CliRunner().invoke(app, ["diff", a, b, "--json", "-o", page])
    assert differ.exit_code == 1 and not json.loads(differ.output)["equal"]
    found = document_after(Path(page), "theme=dark", tmp_path / "profile")
    assert found.partition("<script")[0].count("<canvas") == 2 and "Exp" in found
