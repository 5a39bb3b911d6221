"""Names at the border: a total, deterministic function; public names exact; valid models whatever the hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import irkit
from irkit import op
from irkit.core.ir import Graph, Port, Signature, Value, constant, param
from irkit.core.origins import Origin
from irkit.core.types import tensor
from irkit.errors import SerializeError
from irkit.evaluation.interpreter import evaluate
from irkit.onnx import sessions
from irkit.onnx.writing.names import all_names, assign

HINTS = (
    "",
    "x",
    "y",
    "x_1",
    "y_1",
    "relu",
    "Relu",
    "Add",
    "weight",
    "größe",
    "名前",
    "a b",
    "\ud800",
    "Constant",
    "input",
)
"""Few, so that they collide: with each other, with operators, with suffixed names, with what a file cannot hold."""


def marked(value: Value, hint: str) -> Value:
    """The value with a hint for its name."""
    return value.with_origin(Origin(node=hint))


@st.composite
def hinted_graphs(draw: Callable[[Any], Any]) -> Graph:
    """Graphs of a few operators, some with several results or a body, with hints from `HINTS` everywhere."""
    hint = lambda: draw(st.sampled_from(HINTS))  # noqa: E731
    x, flag = marked(param(tensor("f32", 4)), hint()), marked(param(tensor("bool")), hint())
    pool = [x, *(constant(irkit.blob(np.arange(4.0) + i, "f32", name=hint().replace("\ud800", ""))) for i in range(2))]
    for _ in range(draw(st.integers(1, 6))):
        a, b = (pool[draw(st.integers(0, len(pool) - 1))] for _ in range(2))
        kind = draw(st.sampled_from(["Relu", "Add", "Split", "TopK", "If"]))
        if kind == "Relu":
            pool.append(marked(op.Relu(a), hint()))
        elif kind == "Add":
            pool.append(marked(op.Add(a, b), hint()))
        elif kind == "If":
            pool.append(branches(flag, a, b, hint))
        else:
            pool.append(of_several(op.Split(a, num_outputs=2) if kind == "Split" else op.TopK(a, [4]), hint))
    results = [pool[draw(st.integers(0, len(pool) - 1))] for _ in range(draw(st.integers(1, 4)))]
    names = draw(st.lists(st.sampled_from([h for h in HINTS if h.isprintable()][1:]), min_size=8, unique=True))
    params, ends = names[:2], names[2 : 2 + len(results)]
    ports = Signature(tuple(map(Port, params)), tuple(Port(n, "output") for n in ends))
    return Graph((x, flag), tuple(results), signature=ports, name=hint() or "graph")


def of_several(parts: tuple[Value, ...], hint: Callable[[], str]) -> Value:
    """A vector made of results of an operator that has several, which has a hint, as each result has."""
    owner = attrs.evolve(parts[0].inputs[0], origin=Origin(node=hint()))
    found = [marked(attrs.evolve(part, inputs=(owner,)), hint()) for part in parts]
    return found[0] if found[0].shape == (4,) else marked(op.Concat(*found, axis=0), hint())


def branches(flag: Value, a: Value, b: Value, hint: Callable[[], str]) -> Value:
    """An If whose branches capture both values, and give back a captured one."""
    first, second = (marked(param(a.type), hint()) for _ in range(2)), (marked(param(b.type), hint()) for _ in range(2))
    (p, q), (r, s) = zip(first, second, strict=True)
    then = Graph((p, q), (marked(op.Add(p, q), hint()),), name=hint())
    other = Graph((r, s), (s,), name=hint())
    (value,) = irkit.call("If", [flag, a, b], {"then_branch": then, "else_branch": other, "captures": 2})
    return marked(value, hint())


@given(hinted_graphs(), st.booleans())
def test_any_hints_give_a_valid_model_with_the_same_numbers(graph: Graph, flag: bool) -> None:
    model = irkit.to_proto(graph)
    onnx.checker.check_model(model, full_check=True)
    assert [i.name for i in model.graph.input] == [p.name for p in graph.signature.params]
    assert [o.name for o in model.graph.output] == [p.name for p in graph.signature.results]
    feeds = (np.array([3, -1, 2, 5], np.float32), np.array(flag))
    assert irkit.compare(evaluate(graph, feeds), sessions.run(model, feeds), rtol=0, atol=0) is None


@given(hinted_graphs())
def test_every_name_is_defined_once_and_twice_gives_the_same(graph: Graph) -> None:
    names = list(all_names(assign(graph)))
    assert len(names) == len(set(names))
    assert names == list(all_names(assign(graph)))
    assert irkit.to_proto(graph).SerializeToString() == irkit.to_proto(graph).SerializeToString()


def one_relu(output: str, hint: str = "relu", weight: str = "weight") -> Graph:
    """relu(x + w) + 1"""
    x = param(tensor("f32", 2))
    w = constant(irkit.blob(np.ones(2, np.float32), name=weight))
    value = marked(op.Relu(marked(op.Add(x, w), "add")), hint)
    last = marked(op.Add(value, 1.0), "last")
    return Graph((x,), (last,), signature=Signature((Port("x"),), (Port(output, "output"),)))


def test_output_names_win_over_inner_ones() -> None:
    model = irkit.to_proto(one_relu("relu")).graph
    assert [o.name for o in model.output] == ["relu"]
    assert [n.output[0] for n in model.node] == ["add", "relu_1", "relu"]
    model = irkit.to_proto(one_relu("weight")).graph
    assert [o.name for o in model.output] == ["weight"]
    assert [i.name for i in model.initializer if i.name.startswith("weight")] == ["weight_1"]


def test_weights_keep_their_names_over_inner_values() -> None:
    model = irkit.to_proto(one_relu("y", hint="weight")).graph
    assert "weight" in [i.name for i in model.initializer]
    assert [n.output[0] for n in model.node] == ["add", "weight_1", "y"]


def test_results_that_are_no_operators_get_an_identity() -> None:
    x = param(tensor("f32", 2))
    c = irkit.const(np.ones(2, np.float32), name="c")
    y = op.Relu(x)
    ports = Signature((Port("x"),), tuple(Port(n, "output") for n in ("a", "b", "c", "d")))
    model = irkit.to_proto(Graph((x,), (x, c, y, y), signature=ports))
    onnx.checker.check_model(model, full_check=True)
    assert [o.name for o in model.graph.output] == ["a", "b", "c", "d"]
    assert [n.op_type for n in model.graph.node] == ["Relu", "Identity", "Identity", "Identity"]
    got = sessions.run(model, [np.array([-1, 2], np.float32)])
    assert [a.tolist() for a in got] == [[-1, 2], [1, 1], [0, 2], [0, 2]]
    again = irkit.load(model)
    assert again.results[0] is again.params[0] and again.results[2] is again.results[3]


def test_one_item_taken_twice_has_one_name() -> None:
    x = param(tensor("f32", 4))
    first, second = op.Split(x, num_outputs=2)
    twin = irkit.item(first.inputs[0], 0)  # type: ignore[arg-type]
    graph = Graph((x,), (op.Add(first, twin), twin, second))
    model = irkit.to_proto(graph)
    onnx.checker.check_model(model, full_check=True)
    got = sessions.run(model, [np.array([1, 2, 3, 4], np.float32)])
    assert [a.tolist() for a in got] == [[2, 4], [1, 2], [3, 4]]


def test_inner_scopes_never_shadow() -> None:
    x, flag = param(tensor("f32", 2)), param(tensor("bool"))
    twice = Graph((p := param(x.type),), (marked(op.Relu(marked(op.Relu(p), "v")), "v"),))
    (a,) = irkit.call("If", [flag, x], {"then_branch": twice, "else_branch": twice, "captures": 1})
    graph = Graph((x, flag), (marked(op.Neg(a), "v"),))
    names = list(all_names(assign(graph)))
    assert len(names) == len(set(names))
    assert [n for n in names if n.startswith("v")] == ["v", "v_1", "v_2", "v_3"]  # two of each branch; Neg is an output
    onnx.checker.check_model(irkit.to_proto(graph), full_check=True)


def test_public_names_that_no_file_can_hold_are_refused() -> None:
    x = param(tensor("f32", 2))
    with pytest.raises(SerializeError, match="UTF-8"):
        irkit.to_proto(Graph((x,), (x,), signature=Signature((Port("\ud800"),))))


def test_public_names_given_twice_stay_with_the_first() -> None:
    x, y = param(tensor("f32", 2)), param(tensor("f32", 2))
    ports = Signature((Port("x"), Port("x")), (Port("x", "output"),))
    model = irkit.to_proto(Graph((x, y), (op.Add(x, y),), signature=ports)).graph
    assert [i.name for i in model.input] == ["x", "x_1"]
    assert [o.name for o in model.output] == ["x_2"]


def test_tied_weights_are_written_once_and_named_after_the_first() -> None:
    x = param(tensor("f32", 64))
    array, storage = np.ones(64, np.float32), object()
    tied = [irkit.Blob(irkit.DType.FLOAT, (64,), lambda: array, name, storage) for name in ("embed", "head")]
    graph = Graph((x,), (op.Add(op.Add(x, constant(tied[0])), constant(tied[1])),))
    assert [i.name for i in irkit.to_proto(graph).graph.initializer] == ["embed"]
