"""Nodes that repeat others are read once: what is taken over from the first of them, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import irkit
from irkit import dims
from irkit.core.ir import Graph, Value
from irkit.errors import LoadError
from irkit.onnx.reading.repeats import Repeats
from irkit.rewriting.numbering import share
from tests.support.onnx_models import FLOAT, INT64, make, model_of


def layers(count: int) -> Any:
    """A model of equal layers: sizes computed, heads split off and put back, an activation."""
    nodes, x = [], "x"
    for i in range(count):
        names = ("s", "b", "four", "eight", "to", "h", "t", "r", "u", "all", "back", "y")
        s, b, four, eight, to, h, t, r, u, all_, back, y = (f"{n}{i}" for n in names)
        nodes += [
            make("Shape", [x], [s]),
            make("Gather", [s, "zero"], [b], axis=0),
            make("Constant", [], [four], value_ints=[4]),
            make("Constant", [], [eight], value_ints=[-1, 8]),
            make("Concat", [b, four, eight], [to], axis=0),
            make("Reshape", [x, to], [h]),
            make("Transpose", [h], [t], perm=[0, 2, 1, 3]),
            make("Relu", [t], [r]),
            make("Transpose", [r], [u], perm=[0, 2, 1, 3]),
            make("Concat", [b, "minus"], [all_], axis=0),
            make("Reshape", [u, all_], [back]),
            make("Add", [back, "bias"], [y]),
        ]
        x = y
    initializers = {"zero": np.array([0]), "minus": np.array([4, -1]), "bias": np.ones(32, np.float32)}
    return model_of(nodes, [("x", ["n", 4, 32])], [x], initializers=initializers)


def rows(graph: Graph) -> list[tuple[Any, ...]]:
    """What there is to a graph: operators, operands by place, attributes, types, origins, in order. Leaves, which are
    one value where they are equal and the nodes are compared, stand by what they hold."""
    leaves: dict[Value | None, Any] = {
        v: (v.op, repr(v.attributes), repr(v.type), None if v.blob is None else v.blob.array.tobytes())
        for v in graph.order
        if v.op in ("Constant", "ShapeVector") and not v.inputs
    }
    rest = [v for v in graph.order if v not in leaves]
    place = {None: None} | {v: i for i, v in enumerate(rest)} | leaves
    return [(v.op, [place[x] for x in v.inputs], repr(v.attributes), repr(v.type), v.origin) for v in rest]


def test_layers_are_as_they_were_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = irkit.load(layers(3))
    assert repr(graph.results[0].type) == "f32[n, 4, 32]"
    shared = [v for v in graph.order if v.op == "Transpose"]
    assert len(shared) == 6 and shared[0].type is shared[2].type and shared[0].attributes is shared[2].attributes
    monkeypatch.setattr(Repeats, "remember", lambda *_: None)
    alone = irkit.load(layers(3))
    assert rows(alone) == rows(graph) and share(alone) == share(graph)
    once = [v for v in alone.order if v.op == "Transpose"]
    assert once[0].type is not once[2].type


def test_every_node_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that come with ONNX with each node written twice, with the memo and without."""
    compared = 0
    for path in sorted(Path(onnx.__file__).parent.glob("backend/test/data/*/*/model.onnx")):
        model = onnx.load(path)
        if len(model.graph.node) > 200:
            continue
        for node in list(model.graph.node):
            copy = model.graph.node.add()
            copy.CopyFrom(node)
            copy.output[:] = [f"{name}_again" if name else "" for name in node.output]
        for output in list(model.graph.output):
            model.graph.output.add().CopyFrom(output)
            model.graph.output[-1].name += "_again"
        try:
            twice = irkit.load(model)
        except LoadError:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(Repeats, "remember", lambda *_: None)
            alone = irkit.load(model)
        if "?" not in str(alone):
            assert rows(alone) == rows(twice), path
            compared += 1
    assert compared > 100


def test_unknown_sizes_of_two_nodes_are_two() -> None:
    nodes = [make("NonZero", ["x"], ["a"]), make("NonZero", ["x"], ["b"])]
    first, second = irkit.load(model_of(nodes, [("x", ["n", 3])], ["a", "b"])).results
    assert dims.is_fresh(first.shape[1]) and dims.same(first.shape[1], second.shape[1]) is None


def test_random_draws_of_two_nodes_are_two() -> None:
    nodes = [make("RandomNormal", [], [name], shape=[2]) for name in "ab"]
    first, second = irkit.load(model_of(nodes, [], ["a", "b"])).results
    assert first is not second and first.type is second.type and (first.origin.node, second.origin.node) == ("a", "b")


def test_elements_tell_operands_apart() -> None:
    """Two shapes of one type, constant, computed and unknown."""
    nodes = [
        make("Reshape", ["x", "c"], ["c_"]), make("Reshape", ["x", "d"], ["d_"]),
        make("Concat", ["two", "six"], ["e"], axis=0), make("Concat", ["six", "two"], ["f"], axis=0),
        make("Cast", ["e"], ["g"], to=TensorProto.INT32), make("Cast", ["g"], ["h"], to=INT64),
        make("Cast", ["f"], ["i"], to=TensorProto.INT32), make("Cast", ["i"], ["j"], to=INT64),
        make("Reshape", ["x", "h"], ["h_"]), make("Reshape", ["x", "j"], ["j_"]),
        make("Reshape", ["x", "p"], ["p_"]), make("Reshape", ["x", "p"], ["q_"]),
    ]  # fmt: skip
    numbers = {"c": np.array([2, 6]), "d": np.array([6, 2]), "two": np.array([2]), "six": np.array([6])}
    inputs: list[Any] = [("x", [3, 4], FLOAT), ("p", [2], INT64)]
    model = model_of(nodes, inputs, ["c_", "d_", "h_", "j_", "p_", "q_"], initializers=numbers)
    c, d, h, j, p, q = irkit.load(model).results
    assert [v.shape for v in (c, d, h, j)] == [(2, 6), (6, 2), (2, 6), (6, 2)]
    assert all(dims.is_fresh(s) for s in (*p.shape, *q.shape)) and len({*p.shape, *q.shape}) == 4


def test_scales_are_read_where_they_are_few() -> None:
    nodes = [make("Resize", ["x", "", name], [f"{name}_"]) for name in ("a", "b")]
    scales = {"a": np.array([1, 1, 2, 2], np.float32), "b": np.array([1, 1, 3, 3], np.float32)}
    a, b = irkit.load(model_of(nodes, [("x", [1, 1, 4, 4])], ["a_", "b_"], initializers=scales)).results
    assert (a.shape, b.shape) == ((1, 1, 8, 8), (1, 1, 12, 12))


def test_equal_constants_are_one_value_called_after_the_first() -> None:
    nodes = [make("Constant", [], [n], value=helper.make_tensor("t", FLOAT, [2], [1.0, 2.0])) for n in "ab"]
    nodes += [make("Constant", [], ["c"], value=helper.make_tensor("t", FLOAT, [2], [1.0, -2.0]))]
    graph = irkit.load(model_of(nodes, [], ["a", "b", "c"]))
    a, b, c = graph.results
    assert a is b and a.origin.node == "a" and [port.name for port in graph.signature.results] == ["a", "b", "c"]
    assert c is not a and c.blob is not None and c.blob.array.tolist() == [1.0, -2.0]


def test_long_constants_are_a_value_each() -> None:
    large = helper.make_tensor("t", FLOAT, [2000], [1.0] * 2000)
    a, b = irkit.load(model_of([make("Constant", [], [n], value=large) for n in "ab"], [], ["a", "b"])).results
    assert a is not b and (a.origin.node, b.origin.node) == ("a", "b")


def test_bodies_take_over_from_the_graph_around_them() -> None:
    """The same node outside and inside of a branch, where its operand is a parameter of another size."""
    inner = helper.make_graph(
        [make("Transpose", ["t"], ["i"], perm=[1, 0]), make("Identity", ["i"], ["o"])], "b", [], [info("o")]
    )
    nodes = [
        make("Transpose", ["x"], ["t"], perm=[1, 0]),
        make("If", ["flag"], ["y"], then_branch=inner, else_branch=inner),
    ]
    graph = irkit.load(model_of(nodes, [("x", ["n", 3]), ("flag", [], TensorProto.BOOL)], ["y"]))
    assert repr(graph.results[0].type) == "f32[n, 3]"


def info(name: str) -> Any:
    """A result without a type."""
    return helper.make_empty_tensor_value_info(name)
