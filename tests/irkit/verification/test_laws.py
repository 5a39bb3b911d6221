"""The numbered laws: each can be broken, each breach is named, and what is lawful passes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import irkit
from irkit import (
    Graph,
    Port,
    Signature,
    Value,
    VerifyError,
    const,
    fresh,
    item,
    op,
    param,
    shape_vector,
    symbol,
    tensor,
)
from irkit import verify as verified
from irkit.core.attributes import freeze
from irkit.core.types import DType, Tensor, Tuple
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from tests.support.timing import spent

X = tensor("f32", "batch", 64)


def value(
    op_: str, *inputs: Value | None, type: irkit.Type = X, bodies: tuple[Graph, ...] = (), **given: object
) -> Value:
    """A value that nobody checked."""
    return Value(op_, inputs, freeze(given), bodies, type)


def law_of(graph: Graph, **options: object) -> int:
    """The law that the graph breaks; 0 for none."""
    try:
        verified(graph, **options)  # type: ignore[arg-type]
    except VerifyError as error:
        found = re.match(r"law (\d)", error.what)
        if found is None or not error.hint:
            raise
        return int(found[1])
    return 0


def unmade(params: tuple[Value, ...], results: tuple[Value, ...], **fields: object) -> Graph:
    """A graph that `Graph` may refuse to make, as a slip inside of irkit might leave it."""
    made, whole = object.__new__(Graph), Graph((), ())
    given = {"params": params, "results": results, "symbols": whole.symbols, "signature": whole.signature, **fields}
    for name, found in {"name": "graph", **given}.items():
        object.__setattr__(made, name, found)
    return made


def of(result: Value, *params: Value, **fields: object) -> Graph:
    return unmade(params, (result,), **fields)


x, y = param(X), param(X)
flag, number = param(tensor("bool")), param(tensor("i64"))
pair = op.TopK(x, [2])
relu = Graph((inner := param(X),), (op.Relu(inner),), name="body")
constant_body = Graph((), (const(1.0),))
other = symbol("other")

BREACHES = {
    "one operand too many": (1, of(value("Relu", x, x), x)),
    "one operand too few": (1, of(value("Add", x), x)),
    "a required operand left out": (1, of(value("Add", None, x), x)),
    "an operand left out at the end": (1, of(value("Clip", x, None), x)),
    "no such operator": (1, of(value("Rellu", x), x)),
    "too many results": (1, of(item(value("Relu", x, type=Tuple((X, X))), 0), x)),
    "a body where none is": (1, of(value("Relu", x, bodies=(relu,)), x)),
    "If with one body": (1, of(value("If", flag, type=Tuple((X,)), bodies=(relu,), captures=0), flag)),
    "an operand of a constant": (1, of(value(CONSTANT, x, value=np.zeros(2)), x)),
    "an item of nothing": (1, of(value(ITEM, index=0))),
    "an attribute that there is not": (2, of(value("Relu", x, alpha=1.0), x)),
    "an attribute of another kind": (2, of(value("Softmax", x, axis=1.0), x)),
    "an attribute that no f32 holds": (2, of(value("LeakyRelu", x, alpha=0.1), x)),
    "an attribute that must be given": (2, of(value("Cast", x), x)),
    "attributes out of order": (2, of(Value("Gemm", (x, x), (("transB", 1), ("transA", 0)), (), X), x)),
    "a constant without a blob": (2, of(Value(CONSTANT, (), (("value", 1),), (), X))),
    "an own operator's attribute": (2, of(value(SHAPE_VECTOR, sizes=(1,), type=tensor("i64", 1)))),
    "another dimension": (3, of(value("Relu", x, type=tensor("f32", "batch", 65)), x)),
    "another rank": (3, of(value("Relu", x, type=tensor("f32", "batch")), x)),
    "another element type": (3, of(value("Relu", x, type=tensor("f64", "batch", 64)), x)),
    "another kind of type": (3, of(value("Relu", x, type=irkit.Sequence(X)), x)),
    "element types that differ": (3, of(value("Add", x, op.Cast(x, to=11)), x)),
    "an element type that is not allowed": (3, of(value("And", x, x), x)),
    "shapes that do not broadcast": (3, of(value("Add", x, const(np.zeros(63, np.float32))), x)),
    "a constant of another type": (3, of(value(CONSTANT, value=np.zeros(2)))),
    "a vector of another length": (3, of(value(SHAPE_VECTOR, dims=(symbol("batch"),), type=tensor("i64", 2)), x)),
    "an item of one value": (3, of(value(ITEM, x, index=0), x)),
    "an item that there is not": (3, of(value(ITEM, pair[0].inputs[0], index=2), x)),
    "a call of another type": (3, of(value(CALL, x, bodies=(relu,), type=tensor("f32", 3)), x)),
    "a foreign parameter": (4, unmade((x,), (op.Add(x, y),))),
    "a parameter twice": (4, unmade((x, x), (x,))),
    "a parameter that is none": (4, unmade((op.Relu(x),), (x,))),
    "a body that reaches out": (4, of(value(CALL, x, bodies=(unmade((inner,), (op.Add(inner, y),)),)), x, y)),
    "a call with too few operands": (5, of(value(CALL, bodies=(relu,)))),
    "a call with another type": (5, of(value(CALL, number, bodies=(relu,)), number)),
    "a capture of another type": (
        3, of(value("If", flag, number, bodies=(relu, relu), type=Tuple((X,)), captures=1), flag, number),
    ),
    "no captures": (5, of(value("If", flag, bodies=(constant_body,) * 2, type=Tuple((tensor("f32"),))), flag)),
    "a size below zero": (6, of(x, Value(PARAM, (), (), (), Tensor(DType.FLOAT, (-1,))), x)),
    "an unbound symbol of a vector": (6, of(shape_vector((other, 2)), x)),
    "an unbound unknown of a vector": (6, of(shape_vector((fresh(), 2)), x)),
    "an unbound symbol of a type": (6, of(value("Relu", x, type=tensor("f32", "other", 64)), x)),
    "a vector in a body": (6, of(value(CALL, bodies=(Graph((), (shape_vector((other,)),)),), type=tensor("i64", 1)))),
    "two symbols of one name": (6, of(x, x, param(Tensor(DType.FLOAT, (symbol("batch", signed=True),))))),
    "names for some parameters": (7, of(x, x, y, signature=Signature((Port("x"),)))),
    "two parameters of one name": (7, of(x, x, y, signature=Signature((Port("x"), Port("x"))))),
    "two results of one name": (7, Graph((x,), (x, x), signature=Signature((), (Port("y", "output"),) * 2))),
    "a result with the role of a parameter": (7, of(x, x, signature=Signature((), (Port("y", "input"),)))),
    "a state that binds nothing": (7, of(x, x, signature=Signature((Port("x"),), (Port("y", "state", "z"),)))),
    "a state of another type": (
        7, of(op.Cast(x, to=11), x, signature=Signature((Port("x", "state"),), (Port("y", "state", "x"),))),
    ),
    "a state that binds no name": (7, of(x, x, signature=Signature((Port("x"),), (Port("y", "state"),)))),
    "several values as a result": (8, unmade((x,), (pair[0].inputs[0],))),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("name", BREACHES)
def test_each_law_can_be_broken(name: str) -> None:
    law, graph = BREACHES[name]
    assert law_of(graph) == law


def test_every_law_is_broken_by_some_test() -> None:
    assert {law for law, _ in BREACHES.values()} | {9} == set(range(1, 10))


def test_vocabulary_holds_in_bodies_too() -> None:
    graph = of(irkit.call_graph(relu, op.Add(x, 1.0)), x)
    assert law_of(graph, vocabulary={"Add", "Relu", CALL}) == 0
    assert law_of(graph, vocabulary={"Add", CALL}) == 9
    assert law_of(graph, vocabulary={"Relu", CALL}) == 9
    assert law_of(of(x, x), vocabulary=()) == 0
    assert law_of(of(pair[1], x), vocabulary={"TopK"}) == 0


def test_an_error_shows_the_line_the_origin_and_what_to_try() -> None:
    wrong = value("Relu", op.Neg(x), type=tensor("f32", 3, 3)).with_origin(
        irkit.Origin(source="net.py:3", module="a.b")
    )
    with pytest.raises(VerifyError) as caught:
        verified(of(op.Abs(wrong), x))
    error = caught.value
    assert error.what == "law 3 (types) is broken: the type is f32[3, 3], and inference says f32[batch, 64]"
    assert error.source == "net.py:3 a.b"
    lines = error.ir.split("\n")
    assert lines[2] == "%2: f32[3, 3] = Relu(%1)  # net.py:3 a.b"
    assert lines[3] == "^" * len("%2: f32[3, 3] = Relu(%1)")
    assert error.hint


# ---------------------------------------------------------------------------------------------- what is lawful


def test_the_very_graph_is_returned() -> None:
    graph = of(op.Relu(x), x)
    assert verified(graph) is graph


def test_a_type_may_say_more_than_inference_knows() -> None:
    found = op.NonZero(x)
    named = found.with_type(Tensor(DType.INT64, (2, symbol("u0"))))
    assert law_of(of(op.Neg(named), x)) == 0
    assert law_of(of(op.Reshape(named, shape_vector((symbol("u0"), 2), named)), x)) == 0
    assert law_of(of(op.Reshape(named, shape_vector((symbol("u0"), 2))), x)) == 6  # bound, but not by an operand
    table = Graph((), ()).symbols.set("u1", irkit.Range())
    known_range = value("Relu", x, type=tensor("f32", "u1", 64))
    assert law_of(of(known_range, x)) == 6
    assert law_of(of(known_range, x, symbols=table)) == 0


def test_unknown_sizes_agree_with_anything() -> None:
    z = param(Tensor(DType.FLOAT, (fresh(), 64)))
    assert law_of(of(value("Relu", z, type=Tensor(DType.FLOAT, (fresh(), 64))), z)) == 0
    assert law_of(of(value("Relu", z, type=tensor("f32", 3, 64)), z)) == 0
    assert law_of(of(value("Relu", z, type=tensor("f32", 3, 63)), z)) == 3


def test_operators_that_irkit_does_not_know_may_be_anything() -> None:
    unknown = value("mylib::op", x, None, type=Tuple((X, irkit.Sequence(X))), what=(1, "a"))
    assert law_of(of(item(unknown, 1), x)) == 0
    assert law_of(of(item(value("mylib::op", y, type=Tuple((X,))), 0), x)) == 4


def test_sizes_of_the_graph_around_are_known_in_a_body() -> None:
    body = Graph((inner := param(tensor("f32", 64)),), (op.Expand(inner, shape_vector((symbol("batch"), 64))),))
    assert law_of(of(irkit.call_graph(body, param(tensor("f32", 64))), x)) == 4
    z = param(tensor("f32", 64))
    assert law_of(of(irkit.call_graph(body, z), z, x)) == 0
    assert law_of(of(irkit.call_graph(body, z), z)) == 6
    assert law_of(body) == 6  # alone, it does not know


def test_scalars_bind_symbols() -> None:
    vector = shape_vector((symbol("n"), 2), scalars={symbol("n"): number})
    assert law_of(of(op.ConstantOfShape(vector), number)) == 0


def test_control_flow_built_from_functions_is_lawful() -> None:
    found = op.If(flag, then_branch=lambda: op.Relu(x), else_branch=lambda: op.Add(x, y))
    last, sums = op.Loop(number, None, x, body=lambda i, go, v: (go, op.Add(v, y), op.ReduceSum(v, [1], keepdims=0)))
    scanned = op.Scan(
        const(np.zeros(64, np.float32)), x, num_scan_inputs=1, body=lambda s, e: (op.Add(s, e), op.Neg(e))
    )
    found = found[0] if isinstance(found, tuple) else found
    assert law_of(Graph((x, y, flag, number), (found, last, sums, *scanned))) == 0


def test_a_shared_body_is_visited_once() -> None:
    z, result = param(X), None
    result = z
    for _ in range(2000):
        result = irkit.call_graph(relu, result)
    nested = Graph((z,), (result,))
    for _ in range(20):
        z = param(X)
        nested = Graph((z,), (irkit.call_graph(nested, irkit.call_graph(nested, z)),))
    with spent() as cost:
        verified(nested)
    assert cost.seconds < 2


def test_ten_thousand_operators_take_less_than_a_second() -> None:
    result = x
    for _ in range(2500):
        result = op.Reshape(op.Mul(op.Relu(op.Add(result, x)), 2.0), shape_vector((symbol("batch"), 64)))
    graph = of(result, x)
    seconds = []
    for _ in range(3):
        with spent() as cost:
            verified(graph)
        seconds.append(cost.seconds)
    assert min(seconds) < 1


def test_an_operator_that_onnx_has_not_is_told_with_one_near_it() -> None:
    graph = irkit.parse("input %x: f32[2]\n%0: f32[2] = Reluu(%x)\nreturn %0")
    with pytest.raises(irkit.VerifyError, match=r"ONNX has no operator Reluu: did you mean Relu\?"):
        irkit.verify(graph)
    with pytest.raises(irkit.GraphError, match="no value called 'Relu'") as caught:
        _ = graph["Relu"]
    assert "Reluu" in caught.value.hint
