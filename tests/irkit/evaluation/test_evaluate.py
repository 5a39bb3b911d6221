"""The evaluator: feeds, dimension symbols, control flow, sequences, and the errors that say what is wrong."""

from __future__ import annotations

import weakref
from typing import Any

import attrs
import numpy as np
import pytest
from pyrsistent import pmap

from irkit import dims
from irkit.build import call, call_graph, const, op, shape_vector
from irkit.core.ir import Graph, Port, Signature, Value, param
from irkit.core.origins import Origin
from irkit.core.types import DType, Optional, Sequence, Tensor, tensor
from irkit.dims import Range, symbol
from irkit.errors import EvaluateError
from irkit.evaluation.interpreter import apply, evaluate, trace
from irkit.evaluation.kernels.table import KERNELS

F, I = np.float32, np.int64  # noqa: E741


def zeros(*shape: int) -> np.ndarray:
    """Zeros of float32."""
    return np.zeros(shape, F)


def graph_of(*params: Value, results: Any, **more: Any) -> Graph:
    """A graph with those parameters and one or several results."""
    return Graph(params, results if isinstance(results, tuple) else (results,), **more)


# ---------------------------------------------------------------------------------------------- feeds


def two_params() -> Graph:
    """a f32[batch, 3], b f32[batch, seq] -> concatenated"""
    a, b = param(tensor("f32", "batch", 3)), param(tensor("f32", "batch", "seq"))
    ports = Signature((Port("a"), Port("b")), (Port("y"),))
    return graph_of(a, b, results=op.Concat(a, b, axis=1), signature=ports)


def test_feeds_go_by_position_name_or_parameter() -> None:
    graph = two_params()
    x, y = np.ones((2, 3), F), np.ones((2, 1), F)
    by_value = dict(zip(graph.params, (x, y), strict=True))
    for feeds in ([x, y], {"a": x, "b": y}, {"b": y, "a": x}, by_value):
        (found,) = evaluate(graph, feeds)
        assert found.shape == (2, 4) and found.dtype == F


@pytest.mark.parametrize(
    ("feeds", "says"),
    [
        ([zeros(2, 3)], "2 parameters, and was fed 1"),
        ({"a": zeros(2, 3)}, "nothing is fed to the parameters 'b'"),
        ({"a": zeros(2, 3), "c": zeros(2, 1)}, "no parameter 'c'"),
        ([zeros(2, 3), np.zeros((2, 1))], "'b' is fed f64[2, 1], where its type is f32[batch, seq]"),
        ([zeros(2, 3), zeros(2)], "'b' is fed f32[2], where its type is f32[batch, seq]"),
        ([zeros(2, 4), zeros(2, 1)], "'a' is fed f32[2, 4], where its type is f32[batch, 3]"),
        ([zeros(2, 3), zeros(5, 1)], "but batch is 2 by dimension 0 of the parameter 'a'"),
        ([zeros(2, 3), [zeros(2)]], "'b' makes batch = 1"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(feeds: Any, says: str) -> None:
    with pytest.raises(EvaluateError) as error:
        evaluate(two_params(), feeds)
    assert says in str(error.value)


def test_numbers_can_be_fed_to_scalars() -> None:
    x = param(tensor("f32"))
    (found,) = evaluate(graph_of(x, results=op.Add(x, 1.0)), [2])
    assert found.dtype == F and found == 3


def test_expressions_of_sizes_are_solved_whatever_the_order() -> None:
    n, m = symbol("n"), symbol("m")
    both, double, single = (param(Tensor(DType.FLOAT, (d,))) for d in (n * m, 2 * n + 1, m))
    graph = graph_of(both, double, single, results=shape_vector((n, m, n * m)))
    assert evaluate(graph, [zeros(6), zeros(5), zeros(3)])[0].tolist() == [2, 3, 6]
    with pytest.raises(EvaluateError, match=r"number 1 is 4, which is not of the form 2\*n \+ 1"):
        evaluate(graph, [zeros(6), zeros(4), zeros(3)])
    with pytest.raises(EvaluateError, match="dimension 0 of the parameter number 0 is 7"):
        evaluate(graph, [zeros(7), zeros(5), zeros(3)])
    with pytest.raises(EvaluateError, match="cannot be that small"):
        n_plus_two = param(Tensor(DType.FLOAT, (n + 2,)))
        evaluate(graph_of(n_plus_two, results=n_plus_two), [zeros(1)])


def test_ranges_hold() -> None:
    x = param(tensor("f32", "n"))
    graph = graph_of(x, results=op.Abs(x), symbols=pmap({"n": Range(2, 4)}))
    assert evaluate(graph, [zeros(4)])[0].shape == (4,)
    for size in (1, 5):
        with pytest.raises(EvaluateError, match=r"outside its range \[2, 4\]"):
            evaluate(graph, [zeros(size)])


def test_fresh_symbols_are_each_their_own() -> None:
    x, y = (param(Tensor(DType.FLOAT, (dims.fresh(),))) for _ in range(2))
    assert evaluate(graph_of(x, y, results=op.Concat(x, y, axis=0)), [zeros(2), zeros(3)])[0].shape == (5,)


# ---------------------------------------------------------------------------------------------- sizes


def test_shape_vectors_are_numbers_under_the_binding() -> None:
    b, s = symbol("b"), symbol("s")
    x = param(tensor("f32", "b", "s"))
    graph = graph_of(x, results=op.Reshape(x, shape_vector((dims.floordiv(dims.mul(b, s), 2), 2))))
    assert evaluate(graph, [np.arange(12, dtype=F).reshape(3, 4)])[0].shape == (6, 2)


def test_data_dependent_symbols_are_bound_by_computed_shapes() -> None:
    x = param(tensor("i64", "n"))
    found = op.NonZero(x)
    count = found.shape[1]
    graph = graph_of(x, results=(found, shape_vector((count, 2 * count), found)))
    assert evaluate(graph, [np.array([1, 0, 3])])[1].tolist() == [2, 4]


def test_data_dependent_symbols_are_bound_by_the_content_of_scalars() -> None:
    n = symbol("u0")
    x = param(tensor("i64"))
    sizes = shape_vector((n, 2), scalars={n: x})
    graph = graph_of(x, results=op.Expand(const(1.5), sizes))
    assert evaluate(graph, [np.array(3)])[0].shape == (3, 2)


def test_a_symbol_that_nothing_binds_is_an_error() -> None:
    with pytest.raises(EvaluateError, match="nothing binds a symbol of the dimension u0"):
        evaluate(graph_of(results=shape_vector((symbol("u0"),))), [])


# ---------------------------------------------------------------------------------------------- results against types


def test_a_kernel_that_contradicts_the_type_is_an_error() -> None:
    x = param(tensor("f32", "n", 2))
    y = op.Abs(x).with_origin(Origin(source="model.py:7"))
    for wrong, says in [(x.shape, "f64"), ((5, 2), "f32[5, 2]"), ((4,), "f32[4]")]:
        kind = np.float64 if says == "f64" else F

        def kernel(node: Value, a: np.ndarray, shape: Any = wrong, kind: Any = kind) -> np.ndarray:
            return np.zeros([d if isinstance(d, int) else 3 for d in shape], kind)

        with pytest.raises(EvaluateError) as error:
            evaluate(graph_of(x, results=y), [zeros(3, 2)], kernels={**KERNELS, "Abs": kernel})
        text = str(error.value)
        assert "Abs: the result is " + says in text and "f32[n, 2]" in text and "model.py:7" in text


def test_an_operator_without_kernel_and_a_failing_one_are_named() -> None:
    x = param(tensor("i64", 2))
    graph = graph_of(x, results=op.Gather(const([1.0, 2.0]), x))
    with pytest.raises(EvaluateError, match="no kernel for Gather"):
        evaluate(graph, [np.array([0, 1])], kernels={})
    with pytest.raises(EvaluateError, match="Gather: an index is out of range"):
        evaluate(graph, [np.array([0, 2])])


def test_one_operator_can_be_applied_alone() -> None:
    x = param(tensor("f32", 3))
    (node,) = (v for v in op.TopK(x, np.array([2]))[0].inputs if v is not None)
    values, indices = apply(node, [np.array([1, 3, 2], F), np.array([2])])
    assert values.tolist() == [3, 2] and indices.tolist() == [1, 2]


# ---------------------------------------------------------------------------------------------- watching, memory, depth


def test_trace_gives_every_value_and_every_calls_back() -> None:
    x = param(tensor("f32", "n"))
    y = op.Abs(x)
    graph = graph_of(x, results=op.Add(y, 1.0))
    found = trace(graph, [np.array([-1, 2], F)])
    assert set(found) == set(graph.order) and found[y].tolist() == [1, 2]
    seen: list[Value] = []
    evaluate(graph, [zeros(2)], every=lambda value, _: seen.append(value))
    assert seen == list(graph.order)


def test_values_are_freed_after_their_last_use() -> None:
    x = param(tensor("f32", 8))
    y = x
    for _ in range(6):
        y = op.Add(y, 1.0)
    alive: list[int] = []
    kept: list[Any] = []

    def watch(value: Value, result: Any) -> None:
        kept.append(weakref.ref(result))
        alive.append(sum(1 for ref in kept if ref() is not None and ref().shape == (8,)))

    evaluate(graph_of(x, results=y), [zeros(8)], every=watch)
    assert max(alive) <= 3  # the feed, which the caller holds, an operand and a result


def test_a_deep_chain_is_no_recursion() -> None:
    x = param(tensor("f32"))
    y = x
    for _ in range(20_000):
        y = op.Neg(y)
    assert evaluate(graph_of(x, results=y), [np.float32(3)])[0] == 3


# ---------------------------------------------------------------------------------------------- control flow


def test_call_binds_the_symbols_of_the_body_anew_each_time() -> None:
    p = param(tensor("f32", "n"))
    body = graph_of(p, results=op.Reshape(p, shape_vector((symbol("n"), 1))))
    x, y = param(tensor("f32", "a")), param(tensor("f32", "b"))
    graph = graph_of(x, y, results=(untyped_call(body, x, "a"), untyped_call(body, y, "b")))
    first, second = evaluate(graph, [zeros(2), zeros(3)])
    assert first.shape == (2, 1) and second.shape == (3, 1)


def untyped_call(body: Graph, operand: Value, size: str) -> Value:
    """A call whose result has the caller's symbol."""
    return call_graph(body, operand).with_type(tensor("f32", size, 1))


def test_a_body_may_speak_of_the_symbols_around_it() -> None:
    x, cond = param(tensor("f32", "n", 2)), param(tensor("bool"))
    (flat,) = op.If(
        cond,
        then_branch=lambda: op.Reshape(x, shape_vector((symbol("n") * 2,))),
        else_branch=lambda: op.Expand(const(7.0), shape_vector((symbol("n") * 2,))),
    )
    graph = graph_of(x, cond, results=flat)
    assert evaluate(graph, [zeros(3, 2), np.array(True)])[0].tolist() == [0] * 6
    assert evaluate(graph, [zeros(3, 2), np.array(False)])[0].tolist() == [7] * 6


def test_loop_carries_stacks_and_stops() -> None:
    trip, start = param(tensor("i64")), param(tensor("f32"))

    def body(i: Value, going: Value, total: Value) -> Any:
        grown = op.Add(total, op.Cast(i, to=DType.FLOAT))
        return op.Less(grown, 10.0), grown, op.Mul(grown, 2.0)

    total, history = op.Loop(trip, None, start, body=body)
    graph = graph_of(trip, start, results=(total, history))
    last, all_ = evaluate(graph, [np.array(4), F(0)])
    assert last == 6 and all_.tolist() == [0, 2, 6, 12]
    last, all_ = evaluate(graph, [np.array(100), F(0)])
    assert last == 10 and len(all_) == 5
    last, all_ = evaluate(graph, [np.array(0), F(3)])
    assert last == 3 and all_.shape == (0,) and all_.dtype == F


def test_loop_without_a_trip_count_runs_on_its_condition() -> None:
    x = param(tensor("i64"))
    (found,) = evaluate(
        graph_of(x, results=op.Loop(None, True, x, body=lambda i, c, n: (op.Less(n, 20), op.Mul(n, 2)))[0]),
        [np.array(3)],
    )
    assert found == 48


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_scan_along_any_axis_in_either_direction(steps: int) -> None:
    state, x, weight = param(tensor("f32", 2)), param(tensor("f32", 2, "t")), param(tensor("f32", 2))

    def body(h: Value, column: Value) -> Any:
        h = op.Add(op.Mul(h, weight), column)  # weight is captured
        return h, h

    last, history = op.Scan(
        state,
        x,
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_input_directions=[1],
        scan_output_axes=[1],
        scan_output_directions=[1],
    )
    columns, w = np.arange(2 * steps, dtype=F).reshape(2, steps), np.array([2, 3], F)
    found = evaluate(graph_of(state, x, weight, results=(last, history)), [np.ones(2, F), columns, w])
    h, seen = np.ones(2, F), []
    for t in reversed(range(steps)):
        h = h * w + columns[:, t]
        seen.insert(0, h)
    assert np.array_equal(found[0], h)
    assert np.array_equal(found[1], np.stack(seen, axis=1) if seen else np.zeros((2, 0), F))


def test_nested_bodies_capture_from_two_levels_up() -> None:
    x, n = param(tensor("f32")), param(tensor("i64"))

    def body(i: Value, going: Value, total: Value) -> Any:
        even = op.Equal(op.Mod(i, 2), 0)
        (step,) = op.If(even, then_branch=lambda: op.Add(total, x), else_branch=lambda: op.Mul(total, x))
        return True, step

    (total,) = op.Loop(n, None, const(1.0), body=body)
    assert evaluate(graph_of(x, n, results=total), [F(3), np.array(3)])[0] == (1 + 3) * 3 + 3


# ---------------------------------------------------------------------------------------------- sequences, optionals


def test_sequences_are_lists() -> None:
    x = param(tensor("f32", "n", 2))
    pieces = op.SplitToSequence(x, axis=0, keepdims=1)
    longer = op.SequenceInsert(pieces, op.SequenceAt(pieces, np.array(0)))
    graph = graph_of(x, results=(longer, op.SequenceLength(longer), op.ConcatFromSequence(longer, axis=0)))
    sequence, count, joined = evaluate(graph, [np.arange(6, dtype=F).reshape(3, 2)])
    assert isinstance(sequence, list) and count == 4 and joined[:, 0].tolist() == [0, 2, 4, 0]


def test_sequences_and_optionals_can_be_fed() -> None:
    s = param(Sequence(tensor("f32", dims.fresh())))
    assert evaluate(graph_of(s, results=op.SequenceAt(s, np.array(-1))), [[zeros(2), zeros(3)]])[0].shape == (3,)
    with pytest.raises(EvaluateError, match="is fed"):
        evaluate(graph_of(s, results=op.SequenceLength(s)), [[np.zeros(2)]])
    o = param(Optional(tensor("f32", 2)))
    graph = graph_of(o, results=op.OptionalHasElement(o))
    assert evaluate(graph, [None])[0] == np.False_ and evaluate(graph, [zeros(2)])[0] == np.True_
    with pytest.raises(EvaluateError, match="the optional is empty"):
        evaluate(graph_of(o, results=op.OptionalGetElement(o)), [None])


def test_sequence_map_runs_its_body_on_each_element() -> None:
    x, y = param(tensor("f32", 3, 2)), param(tensor("f32", 1, 2))
    pieces = op.SplitToSequence(x, axis=0, keepdims=1)
    mapped = call("SequenceMap", [pieces], {"body": lambda piece: op.Add(piece, y)})
    mapped = mapped[0] if isinstance(mapped, tuple) else mapped
    (found,) = evaluate(graph_of(x, y, results=mapped), [np.ones((3, 2), F), np.ones((1, 2), F)])
    assert [piece.tolist() for piece in found] == [[[2, 2]]] * 3


# ---------------------------------------------------------------------------------------------- strings, numbers


def test_strings_are_objects() -> None:
    x = param(tensor("str", "n"))
    graph = graph_of(x, results=(op.Equal(x, np.array("a", object)), op.StringConcat(x, x)))
    same, joined = evaluate(graph, [np.array(["a", "b"])])
    assert same.tolist() == [True, False] and joined.tolist() == ["aa", "bb"] and joined.dtype == object


def test_no_warning_leaves_the_evaluator() -> None:
    """Dividing by zero, overflow, empty means: results, not warnings (warnings are errors in this suite)."""
    x = param(tensor("f32", "n"))
    y = op.Div(op.Exp(op.Mul(x, 1000.0)), op.Sub(x, x))
    graph = graph_of(x, results=(y, op.ReduceMean(x), op.Cast(y, to=DType.FLOAT16)))
    evaluate(graph, [np.ones(2, F)])
    evaluate(graph, [zeros(0)])


def test_feeds_are_never_written() -> None:
    x = param(tensor("f32", 4))
    fed = np.arange(4, dtype=F)
    fed.flags.writeable = False
    graph = graph_of(x, results=op.ScatterElements(x, np.array([0]), np.array([9.0], F)))
    assert evaluate(graph, [fed])[0].tolist() == [9, 1, 2, 3]


def test_the_evaluator_keeps_nothing_between_runs() -> None:
    x = param(tensor("f32", "n"))
    graph = graph_of(x, results=op.Add(x, x))
    assert [evaluate(graph, [zeros(n)])[0].shape for n in (2, 5, 0)] == [(2,), (5,), (0,)]
    assert attrs.evolve(graph, name="other") == graph
