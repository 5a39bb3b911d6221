"""Graphs applied to values, cut, at other sizes, with other names: what they compute stays, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from irkit import (
    ContractError,
    EvaluateError,
    Fact,
    Graph,
    GraphError,
    IrkitError,
    Origin,
    Port,
    Range,
    RewriteError,
    Signature,
    TypeRuleError,
    Value,
    evaluate,
    hole,
    op,
    p,
    param,
    tensor,
    verify,
)
from irkit.core.types import Tuple, same_types
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.testing import bindings, random_feeds, typed_graphs


def require_equal(found: Any, wanted: Any) -> None:
    """Both to the bit, element types and shapes included; sequences element by element."""
    if isinstance(wanted, np.ndarray):
        assert isinstance(found, np.ndarray) and found.dtype == wanted.dtype and found.shape == wanted.shape
        if wanted.dtype == object:
            assert found.tolist() == wanted.tolist()
        else:
            assert found.tobytes() == wanted.tobytes()
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            require_equal(a, b)
    else:
        assert found == wanted


def computed(graph: Graph, sizes: Mapping[str, int], seed: int) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """(feeds, results) of a graph; None where an operator does not take the data."""
    fed = random_feeds(graph, sizes, np.random.default_rng(seed))
    try:
        return fed, evaluate(graph, fed)
    except EvaluateError:
        return None


@settings(max_examples=30, deadline=None)
@given(typed_graphs(6), st.data(), st.integers(0, 99))
def test_a_graph_at_sizes_computes_what_it_computes_at_these_sizes(
    graph: Graph, data: st.DataObject, seed: int
) -> None:
    sizes = data.draw(bindings(graph))
    ran = computed(graph, sizes, seed)
    known = {s.name for v in graph.params for s in irkit_symbols(v)}
    if ran is None:
        return
    fixed = verify(graph.with_sizes(**{name: size for name, size in sizes.items() if name in known}))
    assert not any(irkit_symbols(v) for v in fixed.params)
    require_equal(evaluate(fixed, ran[0]), ran[1])
    if not known:
        assert fixed is graph


def irkit_symbols(value: Value) -> set[Any]:
    shape: tuple[Any, ...] = getattr(value.type, "shape", ())
    return {s for d in shape if not isinstance(d, int) for s in d.free_symbols}


@settings(max_examples=30, deadline=None)
@given(typed_graphs(6), st.data(), st.integers(0, 99))
def test_a_graft_computes_what_the_graph_computes(graph: Graph, data: st.DataObject, seed: int) -> None:
    ran = computed(graph, data.draw(bindings(graph)), seed)
    if ran is None:
        return
    params = tuple(param(v.type) for v in graph.params)
    found = graph.without_conditions()(*params)
    graft = verify(Graph(params, found if isinstance(found, tuple) else (found,), graph.symbols))
    require_equal(evaluate(graft, ran[0]), ran[1])
    for ours, theirs in zip(graft.results, graph.results, strict=True):
        assert same_types(ours.type, theirs.type) is not False


@settings(max_examples=30, deadline=None)
@given(typed_graphs(6), st.data(), st.integers(0, 99))
def test_two_parts_one_applied_to_the_other_are_the_whole(graph: Graph, data: st.DataObject, seed: int) -> None:
    ran = computed(graph, data.draw(bindings(graph)), seed)
    inner = [v for v in graph.order if v.op not in (PARAM, CONSTANT) and not isinstance(v.type, Tuple)]
    if ran is None or not inner or any(v.op.startswith(("Random", "Bernoulli", "Multinomial")) for v in graph.order):
        return
    middle = inner[seed % len(inner)]
    try:
        before, after = graph.cut(None, [middle]), graph.cut([middle])
    except IrkitError as error:  # its results do not need the value, or a size of it is bound by what is cut off
        assert "no output needs" in str(error) or "binds" in str(error)
        return
    outer = {port.name: v for port, v in zip(graph.signature.params, graph.params, strict=False)}
    outer |= {f"input_{i}": v for i, v in enumerate(graph.params)}
    bare, behind = before.without_conditions(), after.without_conditions()
    given_values = {port.name: outer[port.name] for port in before.signature.params}
    first = bare(**given_values) if before.params else bare()
    rest = {port.name: outer[port.name] for port in after.signature.params[1:]}
    try:
        found = behind(first, **rest)
    except TypeRuleError as error:  # a size that depends on data is another one in each part
        assert "cannot be told" in str(error)
        return
    whole = Graph(graph.params, found if isinstance(found, tuple) else (found,), graph.symbols)
    require_equal(evaluate(whole, ran[0]), ran[1])


# ---------------------------------------------------------------------------------------------- lookups


def named_graph() -> Graph:
    """Two layers, with the names of a model."""
    x = param(tensor("f32", "n", 4))

    def placed(value: Value, module: str, line: int) -> Value:
        return value.with_origin(Origin(value.op.lower(), "aten::own", module, f"nets/model.py:{line} y = f(x)"))

    y = x
    for i in range(2):
        weight = irkit.const(np.ones((4, 4), np.float32), name=f"layer.{i}.q_proj.weight")
        y = placed(y @ weight, f"layer.{i}.q_proj", 3)
        y = placed(op.Relu(y), f"layer.{i}", 4)
    return Graph((x,), (y,), signature=Signature((Port("x"),), (Port("y", "output"),)), name="net")


def test_values_are_found_by_every_name_that_they_have() -> None:
    graph = named_graph()
    first = graph.order[2]
    assert first.op == "MatMul" and graph.names[first] == "%0"
    for key in ("%0", "0", "layer.0.q_proj", "layer/0/q_proj"):
        assert graph[key] is first
    assert graph.value("x") is graph["%x"] is graph.params[0]
    assert graph["y"] is graph["%3"] is graph["layer.1"] is graph["layer"] is graph.results[0]
    assert graph["layer.1.q_proj.weight"].op == CONSTANT
    assert (
        [graph.names[v] for v in graph.find("MatMul")]
        == ["%0", "%2"]
        == [graph.names[v] for v in graph.find("model.py:3")]
    )
    assert graph.find("nets/model.py:4") == graph.find("Relu") and len(graph.find("aten::own")) == 4
    assert len(graph.find("y = f(x)")) == 4 and graph.find("layers") == ()
    for name, value in ((name, value) for value, name in graph.names.items()):
        assert graph.value(name) is value and f" {name}: " in str(graph)


@settings(max_examples=20, deadline=None)
@given(typed_graphs(5))
def test_the_names_in_the_text_are_those_that_are_taken(graph: Graph) -> None:
    text = graph.text()
    again = irkit.parse(text)
    for value, name in graph.names.items():
        assert graph.value(name) is value and f"{name}:" in text and again.value(name).op == value.op


def test_a_lookup_that_fails_tells_of_names_near_it() -> None:
    graph = named_graph()
    with pytest.raises(GraphError, match=r"no value called 'layer\.1\.k_proj'") as caught:
        graph["layer.1.k_proj"]
    assert "layer.1.q_proj" in caught.value.hint
    with pytest.raises(GraphError, match="'MatMul' tells of 2 values") as caught:
        graph["MatMul"]
    assert "%0: f32[n, 4] = MatMul" in caught.value.ir and "graph.value('%0')" in caught.value.hint
    with pytest.raises(GraphError, match="no value called '%17'"):
        graph.value("%17")
    with pytest.raises(TypeError):
        list(graph)  # type: ignore[call-overload]


# ---------------------------------------------------------------------------------------------- parts and names


def test_a_part_is_cut_by_names_modules_and_values() -> None:
    graph = named_graph()
    part = graph.cut(["layer.0"], [graph["%2"]])
    assert [v.op for v in part.order if v.inputs] == ["MatMul"] and part.params[0].type == tensor("f32", "n", 4)
    assert [q.name for q in part.signature.params + part.signature.results] == ["layer.0", "v2"]
    assert graph.cut() == graph and graph.cut(["x"]).params == graph.params
    with pytest.raises(GraphError, match="no output needs '3'"):
        graph.cut(["%3"], ["%0"])
    with pytest.raises(GraphError, match="is no value of the graph net"):
        graph.cut([param("f32[2]")])
    with pytest.raises(GraphError, match="is no list of values"):
        graph.cut("x")
    split = op.Split(graph["%3"], num_outputs=2, axis=1)
    several = Graph(graph.params, split)
    with pytest.raises(GraphError, match="an operator with several results"):
        several.cut([split[0].inputs[0]])  # type: ignore[list-item]


def test_names_are_changed() -> None:
    graph = named_graph()
    found = graph.rename({"layer.0.q_proj.weight": "w"}, x="tokens", y="logits")
    assert found == graph and found.value("tokens").op == PARAM and found["w"].op == CONSTANT
    assert found.signature.results[0].name == "logits" and graph.value("x").op == PARAM
    bare = Graph(graph.params, graph.results)
    assert bare.rename(input_0="a", output_0="b").signature == Signature((Port("a"),), (Port("b", "output"),))
    for names, what in (({"z": "a"}, "no value called 'z'"), ({"x": ""}, "'' is no name"), ({"x": 3}, "3 is no name")):
        with pytest.raises(GraphError, match=what):
            graph.rename(names)  # type: ignore[arg-type]
    two = irkit.function(lambda a, b: a + b, a="f32[2]", b="f32[2]")
    with pytest.raises(GraphError, match="two parameters would be called 'a'"):
        two.rename(b="a")
    state = Signature((Port("s", "state"),), (Port("t", "state", "s"),))
    kept = Graph(graph.params, graph.results, signature=state).rename(s="cache")
    assert verify(kept).signature.results[0].binds == "cache"


def test_calls_are_written_out_by_name() -> None:
    x = param("f32[n]")
    body, other = (
        irkit.function(op.Relu, X="f32[n]", name="first"),
        irkit.function(lambda x: -x, x="f32[n]", name="second"),
    )
    graph = Graph((x,), (irkit.call_graph(other, irkit.call_graph(body, x)),))
    assert [v.op for v in graph.inline().order if v.inputs] == ["Relu", "Neg"]
    assert [v.op for v in graph.inline("second").order if v.inputs] == ["Call", "Neg"]
    assert graph.inline().inline() == graph.inline()
    with pytest.raises(GraphError, match="calls no 'third'"):
        graph.inline("third")


def test_a_pattern_is_found_wherever_it_matches() -> None:
    x, w = param("f32[n, 4]"), irkit.const(np.ones((4, 4), np.float32))
    first = x @ w
    last = op.Relu(first) @ w
    graph = Graph((x,), (last, first))
    product = p.MatMul(hole("a"), irkit.pattern.const("w"))
    found = graph.matches(product)
    assert [m.root for m in found] == [first, last] and found[0].a is x and found[1].a.op == "Relu"
    assert graph.matches(p.MatMul(p.Relu(p.MatMul(hole("a"), hole("b")).once()), hole("c"))) == ()  # a result uses it
    assert graph.matches(p.Tanh(hole("a"))) == ()
    for wrong in ("MatMul", first, None):
        with pytest.raises(TypeRuleError, match="is not a pattern") as raised:
            graph.matches(wrong)
        assert "graph.find" in raised.value.hint
    with pytest.raises(GraphError, match="tells of no value"):
        graph[0]  # type: ignore[index]
    with pytest.raises(TypeRuleError, match="is a pattern") as raised:
        graph.replace(product, product)  # type: ignore[arg-type]
    assert "irkit.equation" in raised.value.hint


def test_expressions_are_replaced_at_one_go() -> None:
    x, y = hole("x"), hole("y")
    graph = irkit.function(lambda a, b: (a - b) * (b - a), a="f32[n]", b="f32[n]")
    found = graph.replace(p.Sub(x, y), lambda m: m.x + -m.y)
    assert sorted(v.op for v in found.order if v.inputs) == ["Add", "Add", "Mul", "Neg", "Neg"]
    assert found.find("replace") and graph.replace(p.Tanh(x), lambda m: m.x) is graph
    with pytest.raises(RewriteError):
        graph.replace(p.Sub(x, y), lambda m: m.x.cast("f64"))


# ---------------------------------------------------------------------------------------------- calls and sizes


def even() -> Graph:
    """A graph with conditions."""
    return irkit.function(
        lambda x: op.ReduceSum(x[::2], [0]), x="f32[n]", name="even", ranges={"n": Range(2, 8)}, facts=("n % 2 == 0",)
    )


GRAPH = irkit.function(lambda x, w: x @ w, x="f32[n, k]", w="f32[k, 3]", name="product")
REFUSED: dict[str, tuple[Callable[[], object], type[IrkitError], str]] = {
    "too many": (lambda: GRAPH(1, 2, 3), TypeRuleError, "takes 2 operands, and was given 3"),
    "too few": (lambda: GRAPH(param("f32[2, 4]")), TypeRuleError, "was not given w"),
    "an unknown name": (lambda: GRAPH(v=1), TypeRuleError, "no parameter 'v'"),
    "twice": (lambda: GRAPH(param("f32[2, 4]"), x=1), TypeRuleError, "the operand 'x' twice"),
    "another element type": (
        lambda: GRAPH(param("f64[2, 4]"), np.ones((4, 3), np.float32)), TypeRuleError, "takes a f32[n, k] as x",
    ),
    "another rank": (lambda: GRAPH(param("f32[2]"), np.ones((4, 3), np.float32)), TypeRuleError, "given a f32[2]"),
    "sizes that contradict": (
        lambda: GRAPH(param("f32[2, 5]"), np.ones((4, 3), np.float32)), TypeRuleError, "(with n = 2, k = 5)",
    ),
    "sizes that may differ": (
        lambda: GRAPH(param("f32[a, b]"), param("f32[c, 3]")), TypeRuleError, "cannot be told",
    ),
    "no value": (lambda: GRAPH(object(), object()), TypeRuleError, "is no value"),
    "a range": (lambda: even()(param("f32[10]")), ContractError, "n in [2, 8]"),
    "a condition": (lambda: even()(param("f32[3]")), ContractError, "n % 2 == 0"),
    "a condition left open": (lambda: even()(param("f32[m]")), GraphError, "nobody would see to it"),
    "a size of none": (lambda: even().with_sizes(m=3), GraphError, "has the size 'm'"),
    "a size out of range": (lambda: even().with_sizes(n=9), ContractError, "n in [2, 8]"),
    "a size that breaks a condition": (lambda: even().with_sizes(n=5), ContractError, "n % 2 == 0"),
    "no size": (lambda: even().with_sizes(n=-1), irkit.DimensionError, "a size cannot be -1"),
    "sizes that do not fit": (
        lambda: irkit.function(lambda a, b: a @ b, a="f32[2, n]", b="f32[m, 2]").with_sizes(n=3, m=4),
        TypeRuleError,
        "MatMul",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_does_not_take_is_refused(name: str) -> None:
    function, kind, what = REFUSED[name]
    with pytest.raises(kind) as caught:
        function()
    assert what in caught.value.what and caught.value.hint, str(caught.value)


def test_a_graph_is_a_function_of_values() -> None:
    x = param("f32[b, 4]")
    value = GRAPH(x, w=np.ones((4, 3), np.float32))
    assert isinstance(value, Value) and value.op == "MatMul" and value.type == tensor("f32", "b", 3)
    inner = irkit.function(lambda a: {"low": a - 1, "high": a + 1}, a="f32[k]")
    outer = irkit.function(lambda x: inner(inner(x)[1])[0] * inner(a=x)[0], x="f32[n]")
    (found,) = evaluate(verify(outer), [np.array([1.0, 4.0], np.float32)])
    np.testing.assert_array_equal(found, [0.0, 12.0])
    assert irkit.function(lambda x: GRAPH(x, np.ones((4, 3), np.float32)), x="f32[2, 4]").results[0].shape == (2, 3)
    loose = even().without_conditions()
    assert loose(param("f32[m]")).type == tensor("f32", 1) and not loose.symbols and not loose.signature.facts


def test_sizes_are_numbers_other_names_and_expressions() -> None:
    graph = even()
    fixed = graph.with_sizes(n=4)
    assert fixed.params[0].type == tensor("f32", 4) and not fixed.signature.facts and not fixed.symbols
    named = graph.with_sizes(n="rows")
    assert named.symbols["rows"] == Range(2, 8) and named.signature.facts == (Fact("relation", "rows % 2 == 0"),)
    half = verify(graph.with_sizes(n="2*half"))
    assert [f.text for f in half.signature.facts] == ["2 * half % 2 == 0", "2*half >= 2", "2*half <= 8"]
    assert half.params[0].type == tensor("f32", "2*half") and graph.with_sizes() is graph is graph.with_sizes(n="n")
    joined = irkit.function(lambda a, b: a + b, a="f32[n]", b="f32[m]")  # of a size that nothing is known of
    assert joined.with_sizes(m="n").results[0].type == tensor("f32", "n")
    assert joined.with_sizes(n=3, m=1).results[0].type == tensor("f32", 3)


def test_sizes_in_bodies_are_those_around() -> None:
    def body(x: Value, c: Value) -> Value:
        first = op.If(
            c,
            then_branch=lambda: op.Expand(x[:1], irkit.shape_vector(("2*n",), x)),
            else_branch=lambda: op.Concat(x, x, axis=0),
        )
        return first[0] + 1

    graph = verify(irkit.function(body, x="f32[n]", c="bool[]"))
    fixed = verify(graph.with_sizes(n=3))
    assert fixed.results[0].type == tensor("f32", 6)
    graft = verify(irkit.function(lambda y, c: graph(y[1:4], c), y="f32[m]", c="bool[]").with_sizes(m=5))
    x = np.array([5, 1, 2, 3, 9], np.float32)
    for chosen in (True, False):
        (wanted,) = evaluate(graph, [x[1:4], np.array(chosen)])
        for found in (evaluate(fixed, [x[1:4], np.array(chosen)]), evaluate(graft, [x, np.array(chosen)])):
            np.testing.assert_array_equal(found[0], wanted)
