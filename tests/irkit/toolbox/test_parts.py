"""Parts of graphs cut out by name: what is between computes what it computed, and what cannot be cut is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from irkit import op
from irkit.core.types import Tuple
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.testing import random_feeds, typed_graphs
from irkit.toolbox.parts import extract_part, named_values


def chain() -> irkit.Graph:
    x, y = (irkit.param(irkit.tensor("f32", "n", 4)) for _ in range(2))
    total = op.Add(op.Exp(x), y)
    ports = irkit.Signature((irkit.Port("x"), irkit.Port("y")), (irkit.Port("z", "output"),))
    return irkit.Graph((x, y), (op.Relu(op.Neg(total)),), signature=ports)


def test_a_part_has_the_names_that_it_was_cut_by() -> None:
    part = extract_part(chain(), ["0"], ["2"])
    assert [port.name for port in part.signature.params] == ["0", "y"]
    assert [port.name for port in part.signature.results] == ["2"]
    assert [v.op for v in part.order if v.inputs] == ["Add", "Neg"]


def test_without_names_a_part_is_the_whole() -> None:
    graph = chain()
    assert extract_part(graph, [], []) == graph
    assert [v.op for v in extract_part(graph, [], ["1"]).order if v.inputs] == ["Exp", "Add"]
    assert [v.op for v in extract_part(graph, ["1"], []).order if v.inputs] == ["Neg", "Relu"]


def test_names_of_a_file_are_found(tmp_path: Path) -> None:
    irkit.save(chain(), tmp_path / "m.onnx")
    graph = irkit.load(tmp_path / "m.onnx")
    names = named_values(graph)
    assert {"x", "y", "z"} <= names.keys() and names["z"] is graph.results[0]
    assert extract_part(graph, ["Add"], ["z"]).params[0].type == names["Add"].type


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        (["w"], [], "no value called 'w'"),
        ([], ["nothing"], "no value called 'nothing'"),
        (["3"], ["1"], "no output needs '3'"),
    ],
)
def test_what_cannot_be_cut_is_refused(inputs: list[str], outputs: list[str], said: str) -> None:
    with pytest.raises(irkit.GraphError, match=said):
        extract_part(chain(), inputs, outputs)


@settings(max_examples=20)
@given(typed_graphs(6, symbolic=False), st.integers(0, 999))
def test_a_part_computes_what_the_whole_computes(graph: irkit.Graph, seed: int) -> None:
    inner = [v for v in graph.order if v.op not in (PARAM, CONSTANT) and not isinstance(v.type, Tuple)]
    if not inner:
        return
    rng = np.random.default_rng(seed)
    start = inner[int(rng.integers(len(inner)))]
    try:
        found = irkit.trace(graph, random_feeds(graph, {}, rng))
    except irkit.EvaluateError:  # data that an operator does not take
        return
    names = {value: name for name, value in named_values(graph).items() if name.startswith("%")}
    try:
        part = extract_part(graph, [names[start]], [])
    except irkit.GraphError as error:
        assert "no output needs" in str(error)
        return
    values = [start, *(v for i, v in enumerate(graph.params) if f"x{i}" in {p.name for p in part.signature.params})]
    draws = any(v.op.startswith(("Random", "Bernoulli", "Multinomial", "Dropout")) for v in part.order)
    results = irkit.evaluate(part, [found[v] for v in values])
    assert draws or irkit.compare([found[v] for v in graph.results], list(results), rtol=0, atol=0) is None
