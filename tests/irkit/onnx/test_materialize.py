"""Sizes written out: the right numbers for every assignment of the symbols, in the fewest nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from pyrsistent import pmap

import irkit
from irkit import dims, op
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.dims import Range
from irkit.errors import SerializeError
from irkit.evaluation.interpreter import evaluate
from irkit.onnx import sessions
from irkit.onnx.writing.materialize import has_vectors, materialize_dims

B, S, U = dims.symbol("batch"), dims.symbol("seq"), dims.symbol("u", signed=True)
SIZES = [(2, 3), (1, 1), (7, 10), (0, 5), (4, 0), (0, 0)]


def kinds(graph: Graph) -> list[str]:
    """The operators of the graph once its sizes are written out, in order."""
    return [v.op for v in materialize_dims(graph).order if v.op not in ("Param", "Constant", "Item")]


def agrees(graph: Graph, *feeds: Sequence[Any]) -> None:
    """The written graph gives what the symbolic one means, by the evaluator and on ONNX Runtime."""
    written = materialize_dims(graph)
    assert not has_vectors(written)
    model = irkit.to_proto(graph)
    onnx.checker.check_model(model, full_check=True)
    session = sessions.session(model)
    for given_ in feeds:
        expected = evaluate(graph, given_)
        assert irkit.compare(expected, evaluate(written, given_)) is None
        assert irkit.compare(expected, session.run(given_)) is None


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def counting(*shape: int) -> np.ndarray:
    return np.arange(math.prod(shape), dtype=np.float32).reshape(shape)


# ---------------------------------------------------------------------------------------------- expressions


def combine(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One operation on dimensions more."""
    positive = st.integers(1, 7)
    return st.one_of(
        st.builds(dims.add, parts, parts),
        st.builds(dims.sub, parts, parts),
        st.builds(dims.mul, parts, parts),
        st.builds(dims.floordiv, parts, positive),
        st.builds(dims.mod, parts, positive),
        st.builds(dims.ceildiv, parts, positive),
        st.builds(dims.maximum, parts, parts),
        st.builds(dims.minimum, parts, parts),
    )


EXPRESSIONS = st.recursive(st.one_of(st.sampled_from([B, S]), st.integers(-3, 5)), combine, max_leaves=6)


@given(st.lists(EXPRESSIONS, min_size=1, max_size=5))
def test_expressions_are_computed(sizes: list[Any]) -> None:
    x = param(tensor("f32", B, 3, S))
    graph = Graph((x,), (irkit.shape_vector(sizes), *(irkit.dim_scalar(d) for d in sizes[:2])))
    session = sessions.session(irkit.to_proto(graph))
    for b, s in SIZES:
        numbers = [dims.evaluate(d, {"batch": b, "seq": s}) for d in sizes]
        vector, *scalars = session.run([zeros(b, 3, s)])
        assert vector.tolist() == numbers
        assert [int(a) for a in scalars] == numbers[:2]


@pytest.mark.parametrize(
    "size",
    [
        B * (B + 1) / 2, B**3, dims.Floor(S * sympy.Rational(3, 2)), dims.Ceil(S / 3 + B / 2), dims.Round(S / 2),
        dims.Trunc((S - 7) / 3), dims.Floor(sympy.sqrt(S)), dims.Floor(sympy.Float(0.3) * S * B),
        dims.FloorDiv(S - 5, B + 1), dims.Mod(S - 9, 4), dims.Max(B, S, 4), dims.Floor(S / (B + 1)),
    ],
    ids=str,
)  # fmt: skip
def test_special_expressions(size: Any) -> None:
    size = dims.dim(size)
    x = param(tensor("f32", B, S))
    session = sessions.session(irkit.to_proto(Graph((x,), (irkit.shape_vector((size,)),))))
    for b, s in SIZES:
        assert session.run([zeros(b, s)])[0].tolist() == [dims.evaluate(size, {"batch": b, "seq": s})]


def test_a_symbol_in_a_linear_size_is_solved() -> None:
    x = param(tensor("f32", 2 * S + 1))
    graph = Graph((x,), (irkit.shape_vector((S, 3)),))
    assert kinds(graph) == ["Shape", "Sub", "Div", "Concat"]
    agrees(graph, [zeros(9)], [zeros(1)])


def test_a_symbol_in_a_sum_with_others_that_are_known_is_solved() -> None:
    x, y = param(tensor("f32", B)), param(tensor("f32", 2 * S + dims.floordiv(B + 1, 2), 3))
    session = sessions.session(irkit.to_proto(Graph((x, y), (irkit.shape_vector((S, B)),))))
    for b, s in SIZES:
        assert session.run([zeros(b), zeros(2 * s + (b + 1) // 2, 3)])[0].tolist() == [s, b]


def test_what_stands_in_a_shape_is_not_computed() -> None:
    x = param(tensor("f32", B, S, dims.floordiv(S + 3, 2)))
    assert kinds(Graph((x,), (irkit.shape_vector((dims.floordiv(S + 3, 2),)),))) == ["Shape"]


def test_a_symbol_that_nothing_binds_is_an_error() -> None:
    x = param(tensor("f32", B))
    with pytest.raises(SerializeError, match="nothing binds the dimension seq"):
        materialize_dims(Graph((x,), (op.Expand(x, irkit.shape_vector((S, B))),)))


def test_a_graph_without_vectors_is_itself() -> None:
    x = param(tensor("f32", B))
    graph = Graph((x,), (op.Relu(x),))
    assert materialize_dims(graph) is graph


# ---------------------------------------------------------------------------------------------- Reshape

RESHAPES: list[tuple[tuple[Any, ...], tuple[Any, ...], list[str]]] = [
    ((B, S, 64), (B, S, 8, 8), ["Reshape"]),  # 0 0 8 8
    ((B, S, 8, 8), (B, S, 64), ["Reshape"]),
    ((B, S, 64), (B * S, 64), ["Reshape"]),  # -1 64
    ((B, 4, S), (4 * B, S), ["Shape", "Mul", "Concat", "Reshape"]),  # either may be 0, and neither stands in place
    ((B, S), (B * S,), ["Reshape"]),
    ((B, S), (S, B), ["Shape", "Concat", "Reshape"]),
    ((B, S, 6), (B, 2 * S, 3), ["Shape", "Concat", "Reshape"]),
]


@pytest.mark.parametrize(("shape", "target", "ops"), RESHAPES, ids=str)
def test_reshape_for_every_size(shape: Any, target: Any, ops: list[str]) -> None:
    x = param(tensor("f32", *shape))
    graph = Graph((x,), (op.Reshape(x, irkit.shape_vector(target)),))
    numbers = [tuple(dims.evaluate(d, {"batch": b, "seq": s}) for d in shape) for b, s in SIZES]
    agrees(graph, *([counting(*n)] for n in numbers))
    if len(ops) == 1:
        assert kinds(graph) == ops


@given(st.data())
def test_reshape_property(data: Any) -> None:
    """Any regrouping of the factors of a size, with ranges that do or do not allow 0, is right for all sizes."""
    factors = data.draw(st.lists(st.sampled_from([B, S, 2, 3]), min_size=1, max_size=4))
    shape = grouped(data.draw, factors)
    order = data.draw(st.permutations(factors))
    target = grouped(data.draw, order)
    low = data.draw(st.sampled_from([0, 1]))
    ranges = pmap({"batch": Range(low, None), "seq": Range(low, None)})
    x, every = param(tensor("f32", *shape)), param(tensor("f32", B, S))
    value = op.Reshape(op.Relu(x), irkit.shape_vector(target), allowzero=1)
    graph = Graph((x, every), (value,), ranges)
    session = sessions.session(irkit.to_proto(graph))
    for b, s in SIZES:
        if min(b, s) < low:
            continue
        size = {"batch": b, "seq": s}
        got = session.run([counting(*(dims.evaluate(d, size) for d in shape)), zeros(b, s)])[0]
        assert got.shape == tuple(dims.evaluate(d, size) for d in target)


def grouped(draw: Callable[[Any], Any], factors: Sequence[Any]) -> tuple[Any, ...]:
    """The factors multiplied together in runs."""
    found: list[Any] = []
    for factor in factors:
        if found and draw(st.booleans()):
            found[-1] = dims.mul(found[-1], factor)
        else:
            found.append(factor)
    return tuple(found)


def test_ranges_without_zero_allow_minus_one() -> None:
    x = param(tensor("f32", B, 4, S))
    value = op.Reshape(x, irkit.shape_vector((4 * B, S)))
    graph = Graph((x,), (value,), pmap({"batch": Range(1, None), "seq": Range(1, None)}))
    assert kinds(graph) == ["Shape", "Concat", "Reshape"]  # -1, seq


# ---------------------------------------------------------------------------------------------- other operators


def test_expand_leaves_what_is_there() -> None:
    x, y = param(tensor("f32", B, 1, S)), param(tensor("f32", S))
    assert kinds(Graph((x,), (op.Expand(x, irkit.shape_vector((B, 4, S))),))) == ["Expand"]
    assert kinds(Graph((x, y), (op.Expand(y, irkit.shape_vector((B, 1, S))),))) == ["Shape", "Expand"]
    graph = Graph((x, y), (op.Expand(y, irkit.shape_vector((B, 2, S))), op.Expand(x, irkit.shape_vector((B, 4, S)))))
    agrees(graph, *([counting(b, 1, s), counting(s)] for b, s in SIZES))


def test_runs_of_a_shape_are_taken_whole() -> None:
    x = param(tensor("f32", 5, B, S, 7))
    assert kinds(Graph((x,), (irkit.shape_vector((B, S)),))) == ["Shape"]
    assert kinds(Graph((x,), (irkit.shape_vector((5, B, S, 7)),))) == ["Shape"]
    assert kinds(Graph((x,), (irkit.shape_vector((S, 7, 2)),))) == ["Shape", "Concat"]


def test_one_expression_is_computed_once() -> None:
    x = param(tensor("f32", B, S))
    wide = op.ConstantOfShape(irkit.shape_vector((2 * S, 3)))
    tall = op.ConstantOfShape(irkit.shape_vector((3, 2 * S)))
    found = kinds(Graph((x,), (wide, tall, irkit.dim_scalar(2 * S), irkit.dim_scalar(2 * S))))
    assert sorted(found) == ["Concat", "Concat", "ConstantOfShape", "ConstantOfShape", "Mul", "Shape", "Squeeze"]


def test_operands_of_every_kind() -> None:
    x = param(tensor("f32", B, S))
    end, start = irkit.shape_vector((S,)), irkit.shape_vector((dims.floordiv(S, 2),))
    graph = Graph(
        (x,),
        (
            op.Slice(x, start, end, [1]),
            op.Tile(x, irkit.shape_vector((1, S))),
            op.Range(const(0), irkit.dim_scalar(S), const(1)),
            op.Pad(x, irkit.shape_vector((0, S, 0, 1))),
            op.Split(x, irkit.shape_vector((dims.floordiv(S, 2), S - dims.floordiv(S, 2))), axis=1)[1],
            op.Cast(irkit.shape_vector((B, S)), to=1),
        ),
    )
    agrees(graph, [counting(2, 3)], [counting(1, 4)])


def const(number: int) -> Value:
    return irkit.const(number, "i64")


def test_parameters_come_before_inner_values() -> None:
    x, y = param(tensor("f32", B, 4)), param(tensor("f32", 4, S))
    inner = op.MatMul(x, y)
    written = materialize_dims(Graph((x, y), (op.ConstantOfShape(irkit.shape_vector((S,))), inner)))
    shapes = [v for v in written.order if v.op == "Shape"]
    assert [v.inputs[0] for v in shapes] == [y]
    whole = materialize_dims(Graph((x, y), (inner, op.Expand(op.ReduceMax(inner), irkit.shape_vector((B, S))))))
    assert [v.inputs[0].op for v in whole.order if v.op == "Shape"] == ["MatMul"]  # type: ignore[union-attr]


def test_data_dependent_sizes_come_from_their_operand() -> None:
    x = param(tensor("f32", S))
    found = op.NonZero(x)
    count = found.shape[1]
    twice = irkit.shape_vector((2 * count,), found)
    graph = Graph((x,), (op.ConstantOfShape(twice), op.Range(const(0), irkit.dim_scalar(count, found), const(1))))
    agrees(graph, [np.array([1, 0, 2], np.float32)], [zeros(4)])


def test_the_content_of_a_scalar_is_a_size() -> None:
    n = param(tensor("i64"))
    vector = irkit.shape_vector((U + 2, 3), scalars={U: n})
    scalar = op.Squeeze(irkit.shape_vector((U,), scalars={U: n}), [0])
    graph = Graph((n,), (op.ConstantOfShape(vector), op.Add(scalar, 1)))
    assert "Squeeze" not in kinds(graph)
    session = sessions.session(irkit.to_proto(graph))
    assert [a.tolist() for a in session.run([np.array(-1)])] == [[[0, 0, 0]], 0]


# ---------------------------------------------------------------------------------------------- bodies


def test_bodies_ask_outside_for_what_they_do_not_bind() -> None:
    flag, x = param(tensor("bool")), param(tensor("f32", B, S))
    then = Graph((), (op.ConstantOfShape(irkit.shape_vector((B, 2 * S))),))
    other = Graph((), (op.Expand(1.0, irkit.shape_vector((B, 2 * S))),))
    (value,) = irkit.call("If", [flag], {"then_branch": then, "else_branch": other, "captures": 0})
    graph = Graph((flag, x), (value,))
    written = materialize_dims(graph)
    (chosen,) = [v for v in written.order if v.op == "If"]
    assert len(chosen.inputs) == 1 + chosen.attribute("captures") == 3
    agrees(graph, *([np.array(f), zeros(b, s)] for f in (True, False) for b, s in SIZES))


def test_bodies_read_the_shapes_of_their_own_parameters() -> None:
    flag, x = param(tensor("bool")), param(tensor("f32", B, S))
    p, q = param(x.type), param(x.type)
    then = Graph((p,), (op.Reshape(op.Relu(p), irkit.shape_vector((S * B,))),))
    other = Graph((q,), (op.Range(0.0, op.Cast(irkit.dim_scalar(S * B), to=1), 1.0),))
    (value,) = irkit.call("If", [flag, x], {"then_branch": then, "else_branch": other, "captures": 1})
    graph = Graph((flag, x), (value,))
    (chosen,) = [v for v in materialize_dims(graph).order if v.op == "If"]
    assert chosen.attribute("captures") == 1
    agrees(graph, *([np.array(f), counting(b, s)] for f in (True, False) for b, s in SIZES))


def test_sizes_pass_through_two_bodies() -> None:
    x, trips, flag = param(tensor("f32", B, S)), param(tensor("i64")), param(tensor("bool"))
    i, go, total, inner_flag = param(trips.type), param(flag.type), param(tensor("f32")), param(flag.type)
    then = Graph((), (op.ReduceSum(op.Expand(1.0, irkit.shape_vector((S, 3))), keepdims=0),))
    other = Graph((), (irkit.const(1.0),))
    (step,) = irkit.call("If", [inner_flag], {"then_branch": then, "else_branch": other, "captures": 0})
    body = Graph((i, go, total, inner_flag), (go, op.Add(total, step)))
    (final,) = irkit.call("Loop", [trips, None, irkit.const(0.0), flag], {"body": body, "captures": 1})
    graph = Graph((x, trips, flag), (final,))
    agrees(graph, *([zeros(2, 5), np.array(t), np.array(f)] for t in (0, 3) for f in (True, False)))


def test_a_carried_size_that_changes_is_read_inside() -> None:
    x, trips = param(tensor("f32", S)), param(tensor("i64"))
    i, go, carried = param(trips.type), param(tensor("bool")), param(tensor("f32", dims.symbol("inner")))
    longer = op.Expand(op.ReduceSum(carried), irkit.shape_vector((dims.symbol("inner") + 1,)))
    body = Graph((i, go, carried), (go, longer))
    (final,) = irkit.call("Loop", [trips, None, x], {"body": body, "captures": 0})
    agrees(Graph((x, trips), (final,)), [np.ones(3, np.float32), np.array(2)])
