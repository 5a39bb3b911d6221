"""Values and graphs: immutable, closed, compared by structure, without depth."""

from __future__ import annotations

import gc
import pickle
import sys
import weakref
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import irkit
from irkit import (
    Graph,
    GraphError,
    Origin,
    Port,
    Range,
    Signature,
    TypeRuleError,
    Value,
    evaluate,
    item,
    op,
    param,
    tensor,
)
from irkit.core.ir import substitute
from irkit.ops import stubs
from irkit.ops.schemas import names, spec
from tests.support.draws import TIMES
from tests.support.timing import spent

X = tensor("f32", "batch", 64)


def small() -> Graph:
    x, y = param(X), param(X)
    total = op.Add(op.Relu(x), y)
    values, places = op.TopK(total, [2])
    signature = Signature((Port("x"), Port("y")), (Port("v", "output"), Port("p", "output")))
    return Graph((x, y), (values, places), Graph((), ()).symbols.set("batch", Range(1, 8)), signature, "small")


def test_order_is_params_then_operands_before_users() -> None:
    graph = small()
    order = graph.order
    assert order[:2] == graph.params
    place = {v: i for i, v in enumerate(order)}
    assert all(place[i] < place[v] for v in order for i in v.inputs if i is not None)
    assert len(order) == len(set(order))
    assert len(graph) == 3
    assert repr(graph) == "<Graph small: 2 params, 3 operators, 2 results>"
    assert graph.order is graph.order


def test_users_lists_each_user_once() -> None:
    x = param(X)
    square = op.Mul(x, x)
    graph = Graph((x,), (square,))
    assert graph.users[x] == (square,)
    assert graph.users[square] == ()


def test_nothing_can_be_set() -> None:
    graph = small()
    subjects: list[Any] = [
        graph, graph.results[0], graph.signature, graph.signature.params[0], Origin(), Range(), X,
        irkit.Fact("guard", ""), irkit.blob([1.0]),
    ]  # fmt: skip
    for subject in subjects:
        for name in [a.name for a in attrs.fields(type(subject))]:
            with pytest.raises(AttributeError):
                setattr(subject, name, None)
        with pytest.raises(AttributeError):
            subject.something_new = 1
    with pytest.raises(TypeError):
        graph.symbols["n"] = Range()  # type: ignore[index]


def test_equality_is_of_structure() -> None:
    assert small() == small()
    assert hash(small()) == hash(small())
    assert small() is not small() and small().results[0] is not small().results[0]
    assert small() != "graph"
    a = small()
    assert a.with_results(a.results) is a
    assert a.with_results(a.results[:1]) != a


def test_values_are_compared_by_identity_and_repr_is_shallow() -> None:
    x = param(X)
    assert op.Relu(x) != op.Relu(x)
    value = x
    for _ in range(60):
        value = op.Add(value, value)  # 2 ** 60 paths
    assert repr(value) == "<f32[batch, 64] Add>"
    graph = Graph((x,), (value,))
    assert len(graph) == 60
    assert len(str(graph).split("\n")) == 64
    assert irkit.verify(pickle.loads(pickle.dumps(graph))) == graph


def test_a_value_is_pickled_with_its_graph_only() -> None:
    with pytest.raises(TypeError, match="pickle the graph"):
        pickle.dumps(small().results[0])
    again = pickle.loads(pickle.dumps(small()))
    assert (again, again.signature, again.symbols, again.name) == (small(), small().signature, small().symbols, "small")


def test_substitute_replaces_every_use() -> None:
    graph = small()
    relu = next(v for v in graph.order if v.op == "Relu")
    swapped = substitute(graph, {relu: op.Abs(graph.params[0])})
    assert [v.op for v in swapped.order if v.op in ("Relu", "Abs")] == ["Abs"]
    assert substitute(graph, {}) is graph
    with pytest.raises(GraphError, match="types differ"):
        substitute(graph, {relu: param(tensor("f32", 3))})


def test_items_and_shapes_are_asked_of_the_right_types() -> None:
    source = small().results[0].inputs[0]
    assert source is not None
    assert item(source, 1).dtype is irkit.DType.INT64
    for index in (-1, 2):
        with pytest.raises(GraphError, match="no result number"):
            item(source, index)
    with pytest.raises(GraphError, match="no result number"):
        item(param(X), 0)
    with pytest.raises(GraphError, match="has no shape"):
        _ = source.shape
    with pytest.raises(GraphError, match="no element type"):
        _ = source.dtype
    assert param(X).rank == 2


def test_bodies_of_other_symbols_are_not_shared() -> None:
    """Equal bodies (up to names) that speak of different symbols around them are not one."""
    vectors = [Graph((), (irkit.shape_vector((irkit.symbol(name),)),)) for name in ("a", "b")]
    assert vectors[0] == vectors[1]
    calls = [irkit.call_graph(body) for body in vectors]
    x, y = param(tensor("f32", "a")), param(tensor("f32", "b"))
    first, other, again = irkit.share(Graph((x, y), (*calls, irkit.call_graph(vectors[0])))).results
    assert first is again and first is not other
    graphs = [Graph((x, y), (call,)) for call in calls]
    assert graphs[0] != graphs[1]
    assert (
        irkit.share(Graph((x, y), tuple(calls))).results[0] is not irkit.share(Graph((x, y), tuple(calls))).results[1]
    )


# ---------------------------------------------------------------------------------------------- the digest


def test_the_digest_ignores_names_origins_and_identity() -> None:
    graph = small()
    other_names = attrs.evolve(graph, name="other", signature=Signature())
    text = str(graph).replace("batch", "rows").replace("%x", "%q")
    assert graph == other_names == irkit.parse(text)
    x, y = param(X), param(X)
    relu = op.Relu(x).with_origin(Origin(source="elsewhere.py:1"))
    again = Graph((x, y), op.TopK(op.Add(relu, y), [2]), graph.symbols)
    assert again == graph


def edits() -> dict[str, str]:
    """Texts that differ from that of `small` in one place, which matters."""
    text = str(small())
    return {
        "operator": text.replace("Relu", "Abs"),
        "operand": text.replace("Relu(%x)", "Relu(%y)"),
        "operand order": text.replace("Add(%0, %y)", "Add(%y, %0)"),
        "constant": text.replace("Constant [2]", "Constant [3]"),
        "constant type": text.replace("%2: i64[1] = Constant [2]", "%2: i32[1] = Constant [2]"),
        "attribute": text.replace("TopK(%1, %2)", "TopK(%1, %2) {axis = 0}"),
        "attribute kind": text.replace("TopK(%1, %2)", "TopK(%1, %2) {axis = 0.0}"),
        "element type": text.replace("f32[batch, 64] = Relu", "f64[batch, 64] = Relu"),
        "dimension": text.replace("f32[batch, 64] = Relu", "f32[batch, 65] = Relu"),
        "symbol": text.replace("input %y: f32[batch, 64]", "input %y: f32[rows, 64]"),
        "symbol's sign": text.replace("in [1, 8]", "in [1, 8] signed"),
        "range": text.replace("in [1, 8]", "in [0, 8]"),
        "no range": text.replace("  symbol batch in [1, 8]\n", ""),
        "item": text.replace("{index = 0}", "{index = 1}"),
        "results' order": text.replace("return %4 as v", "return %5 as v").replace("return %5 as p", "return %4 as p"),
        "one result less": text.replace("\n  return %5 as p", ""),
        "one parameter more": text.replace("  %0:", "  input %z: f32[]\n  %0:", 1),
        "an operand left out": text.replace("Add(%0, %y)", "Add(%0, _)"),
    }


@pytest.mark.parametrize("edit", edits())
def test_the_digest_notices_every_other_edit(edit: str) -> None:
    text = edits()[edit]
    assert text != str(small())
    assert irkit.parse(text) != small()


def test_the_digest_does_not_depend_on_the_names_of_symbols() -> None:
    shapes = [("{0} + 2*{1}", "{0}", "{1}"), ("{0}", "max({0}, {1})"), ("{0} // {1} + {2}", "{2}"), ("{0}*{1} + {0}",)]
    for dims in shapes:
        graphs = []
        for chosen in (("a", "b", "c"), ("z", "y", "x"), ("m", "z", "a")):
            x = param(tensor("f32", *(d.format(*chosen) for d in dims)))
            graphs.append(Graph((x,), (op.Relu(x),)))
        assert graphs[0] == graphs[1] == graphs[2]


def test_attributes_of_different_kinds_never_look_alike() -> None:
    kinds: list[Any] = [1, 1.0, "1", b"1", (1,), ("1",), (), irkit.symbol("s0"), "s0", tensor("f32"), "f32[]", ((1,),)]
    found = {Graph((), (Value("a::b", (), (("x", kind),), (), X),)).digest for kind in kinds}
    assert len(found) == len(kinds)


# ---------------------------------------------------------------------------------------------- construction


def test_construction_refuses_what_onnx_refuses() -> None:
    x = param(X)
    free: Any = op
    for wrong in (
        lambda: free.Relu(x, x),
        lambda: free.Relu(x, alpha=1),
        lambda: free.Rellu(x),
        lambda: op.Add(x, op.Cast(x, to=11)),
        lambda: op.Add(x, np.zeros(63, np.float32)),
        lambda: free.Cast(x),
        lambda: free.Softmax(x, axis="one"),
        lambda: op.And(x, x),
    ):
        with pytest.raises(TypeRuleError):
            wrong()


def test_what_users_write_is_taken_or_refused_in_words() -> None:
    x = param(X)
    assert Graph([x], [op.Relu(x)]) == Graph((x,), (op.Relu(x),))
    assert irkit.shape_vector(["batch", 4]).attribute("dims") == (irkit.symbol("batch"), 4)
    for wrong, said in (((-1,), "a size cannot be -1"), (("n n",), "not a dimension")):
        with pytest.raises(irkit.DimensionError, match=said):
            tensor("f32", *wrong)
    with pytest.raises(TypeRuleError, match="there is no element type 'f33'"):
        tensor("f33", 1)
    with pytest.raises(TypeRuleError, match="cannot be str"):
        op.Relu("x")


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("i64", 0.5),
        ("u8", -1),
        ("i8", 128),
        ("i64", [1, 2.5]),
        ("bool", 2),
        ("i32", float("nan")),
        ("f32", 1j),
        ("f32", "a"),
    ],
)
def test_numbers_that_the_other_operand_cannot_hold_are_refused(kind: str, number: Any) -> None:
    with pytest.raises(TypeRuleError, match="operand 1 is"):
        op.Equal(param(tensor(kind, "n")), number)


def test_a_custom_operator_has_the_type_that_the_caller_states(tmp_path: Path) -> None:
    x = irkit.param(irkit.tensor("f32", "n", 4))
    y = irkit.custom("mylib::SoftClamp", x, None, [1.0, 2.0], type=x.type, limit=0.1, steps=[1, 2])
    first, second = irkit.custom("mylib::Split", y, type=irkit.Tuple((x.type, irkit.tensor("i64"))))
    graph = irkit.verify(irkit.Graph((x,), (first, second)))
    assert irkit.parse(graph.text()) == graph
    irkit.save(graph, tmp_path / "custom.onnx")
    assert irkit.load(tmp_path / "custom.onnx") == graph
    with pytest.raises(irkit.TypeRuleError, match="has no domain"):
        irkit.custom("SoftClamp", x, type=x.type)
    with pytest.raises(irkit.TypeRuleError, match="has a schema"):
        irkit.custom("Relu", x, type=x.type)


def test_numbers_take_the_element_type_of_the_other_operand() -> None:
    x = param(tensor("f16", "n"))
    assert op.Add(x, 1).inputs[1].dtype is irkit.DType.FLOAT16  # type: ignore[union-attr]
    assert op.Add(1.0, x).dtype is irkit.DType.FLOAT16
    assert op.Clip(x, None, 1).inputs[1] is None
    assert op.Clip(x, None, None).inputs == (x,)
    assert op.Gemm(*[param(tensor("f32", 2, 2)) for _ in range(2)], transA=0, alpha=1.0).attributes == ()


def test_op_lists_every_operator_and_the_stub_is_current() -> None:
    assert set(names()) <= set(dir(op))
    assert op.Relu is op.Relu
    with pytest.raises(AttributeError):
        _ = op._private  # type: ignore[attr-defined]
    assert stubs.PATH.read_text(encoding="utf-8") == stubs.stub(), "run `python -m irkit.ops.stubs`"
    assert "def Gemm(self, A: Operand, B: Operand, C: Operand = None, /, *, alpha: float | None = 1.0," in stubs.stub()
    assert all(spec(name).name == name for name in names())


def test_the_public_names_are_there_and_torch_is_not() -> None:
    assert all(hasattr(irkit, name) for name in irkit.__all__)
    assert len(set(irkit.__all__)) == len(irkit.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = irkit.nothing


# ---------------------------------------------------------------------------------------------- depth


def chain(length: int) -> Graph:
    x = param(X)
    value = x
    for _ in range(length):
        value = Value("Relu", (value,), (), (), X)
    return Graph((x,), (value,), name="chain")


def survives(length: int) -> None:
    """Builds, walks, prints, pickles, hashes, rewrites, checks and frees a chain."""
    assert sys.getrecursionlimit() <= 10_000
    graph = chain(length)
    assert len(graph) == length
    assert len(graph.users) == length + 1
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    assert str(graph).count("\n") == length + 3
    irkit.verify(graph)
    swapped = substitute(graph, {graph.order[1]: op.Abs(graph.params[0])})
    assert swapped != graph
    assert irkit.share(graph) is graph
    watched = weakref.ref(graph.results[0])
    del graph, again, swapped
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize("length", [100_000, *([1_000_000] if TIMES > 1 else [])])
def test_a_deep_chain_needs_no_recursion(length: int) -> None:
    survives(length)


def test_the_cost_of_a_value_does_not_grow() -> None:
    def cost(length: int) -> float:
        with spent() as cost:
            graph = chain(length)
            _ = graph.digest
            str(graph)
        return cost.seconds / length

    few = min(cost(2_000) for _ in range(5))
    assert cost(50_000) < 4 * few


def test_replacements_that_lie_above_one_another() -> None:
    x = param(tensor("f32", 3))
    a = op.Tanh(x)
    b = op.Sigmoid(a)
    c = op.Relu(b)
    g = Graph((x,), (op.Add(c, a),))
    sine = op.Sin(x)
    assert substitute(g, {a: sine, b: op.Neg(a)}) == Graph((x,), (op.Add(op.Relu(op.Neg(sine)), sine),))
    cosine = op.Cos(a)  # a replacement may use what it replaces
    wrapped = substitute(g, {a: cosine, b: op.Exp(a), c: op.Mul(c, b)})
    exponential = op.Exp(cosine)
    assert wrapped == Graph((x,), (op.Add(op.Mul(op.Relu(exponential), exponential), cosine),))
    assert substitute(g, {a: a}) is g


def test_replacements_that_refer_to_one_another() -> None:
    x, y, z = (param(tensor("f32", 3)) for _ in range(3))
    a, b = op.Exp(x), op.Log(y)
    graph = Graph((x, y, z), (op.Sub(op.Sub(a, b), z),))
    assert substitute(graph, {x: y, y: x}) == Graph((x, y, z), (op.Sub(op.Sub(op.Exp(y), op.Log(x)), z),))
    turned = Graph((x, y, z), (op.Sub(op.Sub(op.Exp(y), op.Log(z)), x),))
    assert substitute(graph, {x: y, y: z, z: x}) == turned == substitute(graph, {z: x, y: z, x: y})
    assert substitute(substitute(graph, {a: b, b: a}), {a: b, b: a}) == graph != substitute(graph, {a: b, b: a})
    both = substitute(graph, {a: b, b: a, x: op.Neg(x), z: op.Neg(a)})  # they are still over what stands for x
    new = op.Exp(op.Neg(x))
    assert both == Graph((x, y, z), (op.Sub(op.Sub(b, new), op.Neg(b)),))
    assert substitute(graph, {x: y, y: z}) == Graph((x, y, z), (op.Sub(op.Sub(op.Exp(z), op.Log(z)), z),))


def test_replacements_in_a_circle_are_refused() -> None:
    x, y = param(tensor("f32", 3)), param(tensor("f32", 3))
    a = op.Exp(x)
    b = op.Log(a)
    for graph, swaps in (
        (Graph((x, y), (op.Sub(x, y),)), {x: op.Neg(y), y: op.Neg(x)}),
        (Graph((x,), (op.Sub(a, b),)), {a: b, b: a}),
        (Graph((x,), (op.Sub(a, b),)), {a: op.Neg(b), b: op.Neg(b)}),
        (Graph((x, y), (op.Sub(b, y),)), {y: a, x: y}),
    ):
        with pytest.raises(GraphError, match=r"refer to one another in a circle|one is computed from the other"):
            substitute(graph, swaps)


def test_a_replacement_that_is_made_of_what_uses_the_value() -> None:
    x = param(tensor("f32", 3))
    a = op.Exp(x)
    b = op.Relu(a)
    for results in ((op.Mul(b, a),), (op.Mul(a, b),), (b, a), (a, b)):
        new = op.Neg(b)
        above = op.Relu(new)
        old = {a: new, b: above}
        wanted = [op.Mul(*(old[v] for v in r.inputs if v is not None)) if r.op == "Mul" else old[r] for r in results]
        assert substitute(Graph((x,), results), {a: op.Neg(b)}) == Graph((x,), tuple(wanted))


@given(st.integers(0, 10**6))
def test_exchanging_values_is_exchanging_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    params = [param(tensor("f32", 2)) for _ in range(3)]
    values = list(params)
    for _ in range(6):
        chosen = [values[int(i)] for i in rng.integers(len(values), size=2)]
        values.append([op.Add, op.Sub, op.Mul, op.Max][int(rng.integers(4))](*chosen))
    graph = Graph(tuple(params), (values[-1], values[-2]))
    order = rng.permutation(3)
    feeds = [rng.standard_normal(2).astype(np.float32) for _ in params]
    swapped = substitute(graph, {params[i]: params[int(j)] for i, j in enumerate(order)})
    left, right = evaluate(swapped, feeds), evaluate(graph, [feeds[int(j)] for j in order])
    assert all(bool((a == b).all()) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(300, "i8"), (-129, "i8"), (-1, "u8"), (256, "u8"), (2**31, "i32"), (-1, "u64"), (8, "i4"), (16, "u4"),
     (1.5, "i64"), (float("nan"), "i32"), (1e30, "i64"), ([1, 2, 70000], "i16"), (np.array([2**63], np.uint64), "i64"),
     (np.array([-1]), "u32"), (np.float64("inf"), "u8")],
)  # fmt: skip
def test_a_constant_of_integers_refuses_what_its_type_does_not_hold(number: Any, dtype: str) -> None:
    with pytest.raises(TypeRuleError, match=f"cannot be {dtype}"):
        irkit.const(number, dtype)


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(127, "i8"), (-128, "i8"), (255, "u8"), (2**64 - 1, "u64"), (-(2**63), "i64"), (7, "i4"), (-8, "i4"), (15, "u4"),
     (3.0, "i64"), (True, "i8"), ([], "i8"), (np.array([2**63 - 1], np.uint64), "i64")],
)  # fmt: skip
def test_a_constant_of_integers_takes_what_its_type_holds(number: Any, dtype: str) -> None:
    value = irkit.const(number, dtype)
    assert value.blob is not None
    assert [int(each) for each in value.blob.array.ravel()] == [int(each) for each in np.ravel(np.array(number))]
