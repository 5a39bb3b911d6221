"""Bodies of control flow made from Python functions: closed, with their captures, and carried sizes that change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.ir import Graph, Value, param
from irkit.core.types import Sequence, Tensor, tensor
from irkit.core.vocabulary import PARAM
from irkit.core.walk import post_order
from irkit.errors import TypeRuleError
from irkit.nodes.bodies import closed, entries, made_by, trace


def x(*shape: Any, dtype: str = "f32") -> Value:
    """A parameter."""
    return param(tensor(dtype, *shape))


def assert_closed(body: Graph) -> None:
    """The results reach no parameter but the body's own."""
    assert {v for v in post_order(body.results) if v.op == PARAM} <= set(body.params)


def node(results: tuple[Value, ...]) -> Value:
    """The control-flow operator that results come from; its bodies are closed, its captures the last operands."""
    (owner,) = {r.inputs[0] for r in results}
    assert owner is not None
    count = owner.attribute("captures")
    for body in owner.bodies:
        assert_closed(body)
        given = owner.inputs[len(owner.inputs) - count :]
        taken = body.params[len(body.params) - count :]
        assert [v.type for v in taken] == [v.type for v in given if v is not None]
    return owner


# ---------------------------------------------------------------------------------------------- closing


def test_closed_captures_what_does_not_depend_on_the_parameters() -> None:
    outer, own = x("n", 3), x("n", 3)
    shared = op.Relu(outer)
    graph, captures = closed([own], [op.Add(op.Mul(own, 2.0), shared), own])
    assert captures == (shared,)
    assert len(graph.params) == 2 and graph.params[0] is own
    assert_closed(graph)


def test_closed_captures_a_result_that_is_an_outer_value() -> None:
    outer, own = x(3), x(3)
    graph, captures = closed([own], [outer])
    assert captures == (outer,)
    assert graph.results == (graph.params[1],)


def test_closed_keeps_constants_and_draws_inside() -> None:
    own = x(3)
    graph, captures = closed([own], [op.Add(own, op.RandomNormal(shape=[3])), const(1.0)])
    assert captures == ()
    assert {v.op for v in graph.order} == {PARAM, "RandomNormal", "Add", "Constant"}


def test_closing_a_large_outer_graph_is_linear() -> None:
    outer = x(3)
    parts = [outer := op.Relu(outer) for _ in range(3000)]
    own = x(3)
    result = own
    for part in parts:
        result = op.Add(result, part)
    _, captures = closed([own], [result])
    assert len(captures) == 3000


def test_two_calls_tell_what_a_body_made_from_what_it_found() -> None:
    found = op.Relu(x(3))

    def body(own: Value) -> Value:
        return op.Add(op.Exp(own), op.Neg(found))

    first, second = (trace(body, [tensor("f32", 3)], ()) for _ in range(2))
    inside = made_by(first, second)
    assert {v.op for v in inside} == {PARAM, "Exp", "Neg", "Add"}
    assert entries(second.results, inside) == (found,)


# ---------------------------------------------------------------------------------------------- If


def test_if_captures_outer_values_and_keeps_the_work_of_branches_inside() -> None:
    cond, v = x(dtype="bool"), x("n", 4)
    outer = op.Relu(v)
    results = op.If(cond, then_branch=lambda: op.Exp(outer), else_branch=lambda: op.Add(v, 1.0))
    owner = node(results)
    assert owner.inputs == (cond, outer, v)
    assert [[u.op for u in body.order if u.op != PARAM] for body in owner.bodies] == [["Exp"], ["Constant", "Add"]]
    assert results[0].type == tensor("f32", "n", 4)


def test_if_merges_sizes_that_differ_into_unknown_ones() -> None:
    cond, v = x(dtype="bool"), x("n", 4)
    (merged,) = op.If(cond, then_branch=lambda: v, else_branch=lambda: op.Concat(v, v, axis=0))
    assert merged.shape[1] == 4 and dims.is_fresh(merged.shape[0])


def test_if_hides_the_symbols_that_a_branch_binds() -> None:
    cond, v = x(dtype="bool"), x("n")

    def branch() -> Value:
        places = op.NonZero(v)
        return places.with_type(Tensor(places.dtype, (1, dims.symbol("u0"))))

    (result,) = op.If(cond, then_branch=branch, else_branch=branch)
    assert result.shape[0] == 1 and dims.is_fresh(result.shape[1])


def test_if_keeps_the_symbols_that_a_shape_vector_takes_from_outside() -> None:
    cond = x(dtype="bool")
    size = dims.symbol("batch")

    def branch() -> Value:
        return op.Expand(0.0, shape_vector((size, 2)))

    (result,) = op.If(cond, then_branch=branch, else_branch=branch)
    assert result.type == tensor("f32", "batch", 2)


def test_if_refuses_branches_that_cannot_be_one() -> None:
    cond, v = x(dtype="bool"), x("n", 4)
    with pytest.raises(TypeRuleError, match="result 0 is a"):
        op.If(cond, then_branch=lambda: v, else_branch=lambda: op.Cast(v, to=7))
    with pytest.raises(TypeRuleError, match="1 result, and else_branch 2"):
        op.If(cond, then_branch=lambda: v, else_branch=lambda: (v, v))
    with pytest.raises(TypeRuleError, match="then_branch and else_branch"):
        call("If", [cond], {"then_branch": lambda: v})


def test_if_nested_in_if_captures_through_both() -> None:
    cond, v = x(dtype="bool"), x(4)

    def inner() -> Any:
        w = op.Neg(v)
        return op.If(cond, then_branch=lambda: op.Exp(w), else_branch=lambda: v)[0]

    owner = node(op.If(cond, then_branch=inner, else_branch=lambda: v))
    (deep,) = (u for u in owner.bodies[0].order if u.op == "If")
    assert_closed(deep.bodies[0])


# ---------------------------------------------------------------------------------------------- Loop


def test_loop_carries_and_stacks() -> None:
    v = x("n", 4)
    scale = op.Sigmoid(v)
    total, rows = op.Loop(5, True, v, body=lambda i, go, a: (True, op.Add(a, scale), op.ReduceSum(a, [0], keepdims=0)))
    owner = node((total, rows))
    assert owner.attribute("captures") == 1 and owner.inputs[-1] is scale
    assert total.type == tensor("f32", "n", 4)
    assert rows.type == tensor("f32", 5, 4)


def test_loop_generalizes_a_size_that_changes() -> None:
    v = x("n", 4)
    (grown,) = op.Loop(x(dtype="i64"), None, v, body=lambda i, go, a: (go, op.Concat(a, v, axis=0)))
    owner = node((grown,))
    taken = owner.bodies[0].params[2]
    assert dims.is_fresh(taken.shape[0]) and taken.shape[1] == 4
    assert dims.is_fresh(grown.shape[0]) and grown.shape[0] is not taken.shape[0]


def test_loop_generalizes_what_depends_on_a_size_that_changes() -> None:
    a, b = x(1), x(1)

    def body(i: Value, go: Value, a: Value, b: Value) -> Any:
        return go, op.Concat(a, a, axis=0), a  # b follows a one trip later

    for result in op.Loop(3, True, a, b, body=body):
        assert dims.is_fresh(result.shape[0])


def test_loop_trips_are_unknown_where_the_condition_can_end_it() -> None:
    v = x(4)
    (_, rows) = op.Loop(5, True, v, body=lambda i, go, a: (op.Less(i, 3), a, a))
    assert dims.is_fresh(rows.shape[0])
    (_, rows) = op.Loop(None, True, v, body=lambda i, go, a: (go, a, a))
    assert dims.is_fresh(rows.shape[0])


def test_loop_trips_may_be_symbolic() -> None:
    trips = op.Squeeze(shape_vector((dims.symbol("n"),)), [0])
    (_, rows) = op.Loop(trips, True, x(4), body=lambda i, go, a: (True, a, a))
    assert rows.type == tensor("f32", "n", 4)


def test_loop_keeps_a_random_draw_from_outside_outside() -> None:
    draw = op.RandomNormal(shape=[4])
    owner = node(op.Loop(3, True, x(4), body=lambda i, go, a: (go, op.Add(a, draw))))
    assert draw in owner.inputs
    owner = node(op.Loop(3, True, x(4), body=lambda i, go, a: (go, op.Add(a, op.RandomNormal(shape=[4])))))
    assert owner.attribute("captures") == 0


def test_loop_numbers_take_the_element_type_of_what_they_carry() -> None:
    results = op.Loop(3, True, const(0.5, "f64"), body=lambda i, go, a: (True, 1))
    assert results[0].type == tensor("f64")


def test_loop_refuses_another_element_type_or_rank() -> None:
    with pytest.raises(TypeRuleError, match="comes back as"):
        op.Loop(3, True, x(4), body=lambda i, go, a: (go, op.Cast(a, to=7)))
    with pytest.raises(TypeRuleError, match="comes back as"):
        op.Loop(3, True, x(4), body=lambda i, go, a: (go, op.Unsqueeze(a, [0])))
    with pytest.raises(TypeRuleError, match="gives back 1 value"):
        op.Loop(3, True, x(4), body=lambda i, go, a: go)


def test_loop_fills_an_empty_sequence() -> None:
    v = x("n", 4)
    (found,) = op.Loop(3, True, op.SequenceEmpty(), body=lambda i, go, s: (go, op.SequenceInsert(s, v)))
    assert found.type == Sequence(tensor("f32", "n", 4))
    assert op.ConcatFromSequence(found, axis=1).shape[0] == dims.symbol("n")


# ---------------------------------------------------------------------------------------------- Scan, SequenceMap


def test_scan_over_another_axis() -> None:
    start, v = x(4), x(3, "t", 4)
    last, all_ = op.Scan(
        start,
        v,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[-1],
        body=lambda s, e: (op.Add(s, op.ReduceSum(e, [0], keepdims=0)), e),
    )
    node((last, all_))
    assert last.type == tensor("f32", 4)
    assert all_.type == tensor("f32", 3, 4, "t")


def test_scan_refuses_sequences_of_other_lengths() -> None:
    with pytest.raises(TypeRuleError, match="lengths of the sequences"):
        op.Scan(x(3), x(4), num_scan_inputs=2, body=lambda a, b: op.Add(a, b))


def test_sequence_map_takes_sequences_apart() -> None:
    many, one = op.SequenceConstruct(x("n"), x("m")), x(1)
    (found,) = op.SequenceMap(many, one, body=lambda e, w: op.Concat(e, w, axis=0))
    node((found,))
    assert isinstance(found.type, Sequence) and found.type.element.rank == 1  # type: ignore[union-attr]


# ---------------------------------------------------------------------------------------------- what bodies may return


def test_bodies_may_give_back_arrays_and_lists() -> None:
    (a, b) = op.If(x(dtype="bool"), then_branch=lambda: [np.zeros(3, np.float32), 1], else_branch=lambda: (x0, 2))
    assert a.type == tensor("f32", 3) and b.type == tensor("i64")


x0 = x(3)


def test_bodies_may_not_give_back_nothing() -> None:
    with pytest.raises(TypeRuleError, match="NoneType"):
        op.If(x(dtype="bool"), then_branch=lambda: None, else_branch=lambda: None)


def test_graphs_are_taken_as_they_are() -> None:
    cond, v = x(dtype="bool"), x("n")
    own = param(v.type)
    body = Graph((own,), (op.Exp(own),))
    branches = {"then_branch": body, "else_branch": body}
    (result,) = call("If", [cond, v], {**branches, "captures": 1})
    assert result.type == v.type
    with pytest.raises(TypeRuleError, match="takes 1 parameter, and is given 0"):
        call("If", [cond], branches)
    with pytest.raises(TypeRuleError, match="is given a"):
        call("If", [cond, x(3, 4)], {**branches, "captures": 1})
