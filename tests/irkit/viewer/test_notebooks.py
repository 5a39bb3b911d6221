"""What notebooks show: small pieces of well-formed HTML without scripts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import irkit
from tests.irkit.viewer.pages import Reader
from tests.irkit.viewer.test_differences import layer
from tests.irkit.viewer.test_histories import from_elsewhere
from tests.irkit.viewer.test_pages import NASTY, long, small


def pieces_of(html: str) -> str:
    """A piece of HTML that is well-formed, and has no scripts; without what a notebook would not show."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open and "<script" not in html and "<style" not in html
    return html


@pytest.mark.parametrize("graph", [small(), from_elsewhere(), irkit.Graph((), ())], ids=["small", "branches", "empty"])
def test_graph_is_its_text_in_colours(graph: irkit.Graph) -> None:
    html = pieces_of(graph._repr_html_())
    assert NASTY not in html
    for value in graph.order:
        assert f">{value.op}<" in html or value.op in ("Param",)
    if graph.order and graph.order[0].origin.module == "" and len(graph.order) < 20:
        assert "f32[batch, 4]" in html


def test_large_graph_is_folded_and_cut() -> None:
    html = pieces_of(long(10_000)._repr_html_())
    assert len(html) < 200_000 and html.count("<details") > 10
    assert "values more: irkit.viz(graph)" in html and "layers.1.part" in html


def test_large_constants_are_not_read() -> None:
    def load() -> np.ndarray:
        raise AssertionError("read")

    weight = irkit.constant(irkit.Blob(irkit.DType.FLOAT, (1000, 1000), load, name="w"))
    assert "w" in pieces_of(irkit.Graph((), (weight,))._repr_html_())


def test_program_report_and_difference_show_themselves() -> None:
    program = irkit.to_onnx(torch.nn.Linear(3, 4), (torch.randn(2, 3),))
    assert "captured by" in pieces_of(program.report._repr_html_())
    html = pieces_of(program._repr_html_())
    assert "Gemm" in html and "weights" in html and len(html) < 20_000
    assert "LeakyRelu" in pieces_of(irkit.diff(layer(), layer(slope=0.5))._repr_html_())
    assert pieces_of(irkit.viz(small())._repr_html_()).startswith("<iframe")
