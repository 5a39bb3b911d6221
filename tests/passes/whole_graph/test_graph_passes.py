"""Passes over graphs with bodies: what moves out, what is dropped, what is written out; by structure and by numbers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from pyrsistent import pmap

from irkit.build import call, const, op, shape_vector
from irkit.core.blobs import Blob
from irkit.core.ir import Graph, Value, constant, param
from irkit.core.types import DType, Tensor, Tuple, tensor
from irkit.core.walk import post_order
from irkit.dims import Range
from irkit.errors import GraphError
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.load import load
from irkit.onnx.writing.models import to_proto
from irkit.rewriting.passes import Pass
from irkit.testing import assert_equivalent, typed_graphs
from irkit.verification.laws import verify
from passes import optimize
from passes.whole_graph import schedule as order_
from passes.whole_graph.decide import decide
from passes.whole_graph.hoist import hoist
from passes.whole_graph.share_contents import SAMPLE, share_contents
from passes.whole_graph.trim import trim


def x(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def graph(params: list[Value], *results: Value, **ranges: Range) -> Graph:
    return Graph(tuple(params), results, pmap(ranges))


def applied(pass_: Any, before: Graph) -> Graph:
    """The graph after the pass: well typed, equal by numbers, and settled."""
    after = pass_(before)
    verify(after)
    assert_equivalent(before, after)
    assert pass_(after) is after
    return after


def only(graph: Graph, op: str) -> Value:
    (found,) = [v for v in graph.order if v.op == op]
    return found


def inner(value: Value) -> list[str]:
    """The operators of the bodies."""
    return [v.op for body in value.bodies for v in body.order if v.op not in ("Param", "Constant", "Item")]


# ---------------------------------------------------------------------------------------------- trim


def test_unused_scan_results_and_what_is_carried_for_nothing_are_dropped() -> None:
    a, b, n = x(3), x(3), x(dtype="i64")

    def body(i: Value, go: Value, used: Value, idle: Value, feeds: Value) -> Any:
        return go, op.Add(used, feeds), op.Mul(idle, 2.0), op.Neg(feeds), op.Exp(used), op.Abs(idle)

    found = op.Loop(n, True, a, b, b, body=body)
    before = graph([a, b, n], found[0], found[3])
    loop = only(applied(trim, before), "Loop")
    assert isinstance(loop.type, Tuple) and len(loop.type.items) == 3 and sorted(inner(loop)) == ["Add", "Exp", "Neg"]


def test_a_carried_value_that_never_changes_is_captured() -> None:
    a, b, n = x("k", 3), x("k", 3), x(dtype="i64")
    found = op.Loop(n, True, a, b, body=lambda i, go, s, same: (go, op.Add(s, same), same))
    loop = only(applied(trim, graph([a, b, n], *found)), "Loop")
    assert loop.attribute("captures") == 1 and len(loop.inputs) == 4


def test_a_scan_keeps_the_axes_of_the_results_that_stay() -> None:
    a, rows = x(3), x("n", 3)
    given: Any = {"scan_output_axes": [0, 1, 1], "scan_output_directions": [0, 1, 0]}
    found = op.Scan(
        a, rows, num_scan_inputs=1, body=lambda s, r: (op.Add(s, r), op.Neg(r), op.Exp(r), op.Abs(r)), **given
    )
    scan = only(applied(trim, graph([a, rows], found[0], found[2])), "Scan")
    assert scan.attribute("scan_output_axes") == (1,) and scan.attribute("scan_output_directions") == (1,)


def test_branches_lose_the_results_that_nobody_uses() -> None:
    a, flag = x(3), x(dtype="bool")
    found = op.If(flag, then_branch=lambda: (op.Neg(a), op.Exp(a)), else_branch=lambda: (op.Abs(a), op.Sqrt(a)))
    after = applied(trim, graph([a, flag], found[1]))
    assert inner(only(after, "If")) == ["Exp", "Sqrt"]


def test_bodies_in_bodies_are_trimmed() -> None:
    a, flag, n = x(3), x(dtype="bool"), x(dtype="i64")

    def body(i: Value, go: Value, s: Value) -> Any:
        found = op.If(flag, then_branch=lambda: (op.Neg(s), op.Exp(s)), else_branch=lambda: (s, op.Sqrt(s)))
        return go, found[0]

    after = applied(trim, graph([a, flag, n], *op.Loop(n, True, a, body=body)))
    branch = next(v for v in only(after, "Loop").bodies[0].order if v.op == "If")
    assert inner(branch) == ["Neg"]


# ---------------------------------------------------------------------------------------------- hoist


def test_what_a_loop_computes_of_captures_alone_is_computed_before_it() -> None:
    a, w, n = x(3), x(3, 3), x(dtype="i64")
    found = op.Loop(n, True, a, body=lambda i, go, s: (go, op.MatMul(s, op.Tanh(op.Transpose(w)))))
    after = applied(hoist, graph([a, w, n], *found))
    assert inner(only(after, "Loop")) == ["MatMul"]
    assert [v.op for v in after.order if v.op in ("Tanh", "Transpose")] == ["Transpose", "Tanh"]


def test_what_may_fail_stays_in_a_loop_that_may_take_no_trip() -> None:
    a, index, n = x(3), x(dtype="i64"), x(dtype="i64")

    def loop(trips: Any) -> Graph:
        found = op.Loop(trips, True, a, body=lambda i, go, s: (go, op.Add(s, op.Gather(a, index))))
        return graph([a, index, n], *found)

    before = loop(n)
    assert hoist(before) is before
    assert inner(only(hoist(loop(5)), "Loop")) == ["Add"]
    feeds = [np.ones(3, np.float32), np.array(7), np.array(0)]
    np.testing.assert_array_equal(evaluate(before, feeds)[0], feeds[0])


def test_a_scan_over_a_size_that_is_never_0_takes_a_step() -> None:
    a, rows, index = x(3), x("n", 3), x(dtype="i64")
    found = op.Scan(a, rows, num_scan_inputs=1, body=lambda s, r: (op.Add(s, op.Mul(r, op.Gather(a, index))), r))
    assert inner(only(hoist(graph([a, rows, index], *found, n=Range(1, None))), "Scan")) == ["Mul", "Add"]
    free = graph([a, rows, index], *found)
    assert hoist(free) is free


def test_a_body_uses_what_the_graph_around_computes_already() -> None:
    a, b, flag = x("n"), x("n"), x(dtype="bool")
    root = op.Sqrt(op.Mul(a, b))
    found = op.If(flag, then_branch=lambda: op.Neg(op.Sqrt(op.Mul(a, b))), else_branch=lambda: op.Mul(a, b))
    before = graph([a, b, flag], *found, root)
    branches = only(hoist(before), "If")
    assert inner(branches) == ["Neg"] and only(optimize(before), "If").attribute("captures") == 2
    verify(hoist(before))


def test_what_both_branches_compute_is_computed_once() -> None:
    a, flag = x("n"), x(dtype="bool")
    found = op.If(flag, then_branch=lambda: op.Neg(op.Exp(op.Tanh(a))), else_branch=lambda: op.Sqrt(op.Exp(op.Tanh(a))))
    after = applied(hoist, graph([a, flag], *found))
    assert inner(only(after, "If")) == ["Neg", "Sqrt"] and only(after, "Exp").inputs[0] is only(after, "Tanh")
    lone = graph([a, flag], *op.If(flag, then_branch=lambda: op.Exp(a), else_branch=lambda: op.Sqrt(a)))
    assert hoist(lone) is lone


def test_random_draws_and_sizes_stay_inside() -> None:
    a, n = x("n", 3), x(dtype="i64")

    def body(i: Value, go: Value, s: Value) -> Any:
        noise = op.RandomNormalLike(a)
        return go, op.Add(s, op.Mul(noise, op.Cast(op.Squeeze(shape_vector(("n",)), [0]), to=1)))

    before = graph([a, n], *op.Loop(n, True, a, body=body))
    after = hoist(before)
    assert "RandomNormalLike" in inner(only(after, "Loop"))


def test_unknown_sizes_are_not_taken_out_of_a_body_that_two_loops_share() -> None:
    a, b = x(5), x(5)
    outer, total = param(a.type), param(Tensor(DType.FLOAT, ()))
    number, go = param(Tensor(DType.INT64, ())), param(Tensor(DType.BOOL, ()))
    places = op.NonZero(outer)
    count = op.Cast(op.ReduceSum(places, [0, 1], keepdims=0), to=1)
    body = Graph((number, go, total, outer), (go, op.Add(total, count)))
    loops = [call("Loop", [3, True, const(0.0), v], {"body": body, "captures": 1})[0] for v in (a, b)]
    before = graph([a, b], *loops)
    after = applied(hoist, before)
    assert all("NonZero" in inner(v) for v in after.order if v.op == "Loop")


# ---------------------------------------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("flag", "left"),
    [
        (lambda n: op.Greater(n, 0), ["Neg"]), (lambda n: op.Less(n, 1), ["Exp"]), (lambda n: op.Equal(n, 20), ["Exp"]),
        (lambda n: op.Not(op.GreaterOrEqual(n, 1)), ["Exp"]), (lambda n: op.LessOrEqual(n, 9), ["Neg"]),
        (lambda n: op.And(op.Greater(n, 0), op.Less(n, 10)), ["Neg"]),
        (lambda n: op.Greater(op.Sub(op.Mul(n, 2), n), 0), ["Neg"]),
        (lambda n: op.Greater(n, 5), ["If"]), (lambda n: op.Equal(n, 5), ["If"]),
    ],
)  # fmt: skip
def test_conditions_that_ranges_decide(flag: Any, left: list[str]) -> None:
    a = x("n")
    size = op.Squeeze(shape_vector(("n",)), [0])
    found = op.If(flag(size), then_branch=lambda: op.Neg(a), else_branch=lambda: op.Exp(a))
    after = optimize(graph([a], *found, n=Range(1, 9)))
    assert [v.op for v in after.order if v.op in ("Neg", "Exp", "If")] == left
    verify(after)


def test_conditions_are_decided_in_bodies() -> None:
    a, n = x("n"), x(dtype="i64")

    def body(i: Value, go: Value, s: Value) -> Any:
        size = op.Squeeze(shape_vector(("n",)), [0])
        return go, op.If(op.Greater(size, 0), then_branch=lambda: op.Neg(s), else_branch=lambda: op.Exp(s))[0]

    after = optimize(graph([a, n], *op.Loop(n, True, a, body=body), n=Range(1, None)))
    assert inner(only(after, "Loop")) == ["Neg"]
    assert decide(after) is after


# ---------------------------------------------------------------------------------------------- rules, and all together


def left(*results: Value, **ranges: Range) -> list[str]:
    """The operators of the results, optimized."""
    params = [v for v in post_order(results) if v.op == "Param"]
    after = applied(optimize, graph(params, *results, **ranges))
    return [v.op for v in after.order if v.op not in ("Param", "Constant", "Item", "ShapeVector")]


def test_loops_of_no_trip_and_of_one_are_written_out() -> None:
    a = x("n")
    body = lambda i, go, s: (op.Less(op.ReduceSum(s, keepdims=0), 9.0), op.Exp(s))  # noqa: E731
    assert left(*op.Loop(0, True, a, body=body)) == []
    assert left(*op.Loop(const(np.array(5)), False, a, body=body)) == []
    assert left(*op.Loop(1, True, a, body=body)) == ["Exp"]
    assert left(*op.Loop(2, True, a, body=body)) == ["Loop"]
    assert left(*op.Loop(2, True, a, body=lambda i, go, s: (go, op.Exp(s)))) == ["Exp", "Exp"]
    assert left(*op.Loop(100, True, a, body=lambda i, go, s: (go, op.Exp(s)))) == ["Loop"]


def test_scans_of_one_step_are_written_out() -> None:
    a, row, rows = x(3), x(1, 3), x("n", 3)
    step = lambda s, r: (op.Add(s, r), op.Exp(r))  # noqa: E731
    assert "Scan" not in left(*op.Scan(a, row, num_scan_inputs=1, body=step))
    assert left(*op.Scan(a, rows, num_scan_inputs=1, body=step)) == ["Scan"]


def test_equal_branches_are_one() -> None:
    a, flag = x("n"), x(dtype="bool")
    assert left(*op.If(flag, then_branch=lambda: op.Exp(a), else_branch=lambda: op.Exp(a))) == ["Exp"]
    assert left(*op.If(flag, then_branch=lambda: op.Exp(a), else_branch=lambda: op.Sqrt(a))) == ["If"]


def test_what_two_passes_must_do_in_turn_is_done_at_once() -> None:
    a, w, flag, n = x("k", 3), x(3, 3), x(dtype="bool"), x(dtype="i64")

    def body(i: Value, go: Value, s: Value, same: Value, idle: Value) -> Any:
        found = op.If(
            flag, then_branch=lambda: op.MatMul(s, op.Tanh(same)), else_branch=lambda: op.MatMul(s, op.Tanh(same))
        )
        return go, found[0], same, op.Exp(idle)

    found = op.Loop(n, True, a, w, a, body=body)
    after = applied(optimize, graph([a, w, flag, n], found[0], found[1]))
    assert inner(only(after, "Loop")) == ["MatMul"]


CALM: Any = list(HealthCheck)

CONTROLLED = ("If", "Loop", "Scan", "Add", "Mul", "Gather", "Reshape", "MatMul", "Concat")


@settings(max_examples=60, deadline=None, suppress_health_check=CALM)
@given(typed_graphs(6, ops=CONTROLLED))
@pytest.mark.parametrize("pass_", [trim, hoist, decide], ids=str)
def test_random_graphs_keep_their_meaning(pass_: Pass, before: Graph) -> None:
    after = pass_(before)
    verify(after)
    assert_equivalent(before, after, n=2)
    assert pass_(after) is after


@settings(max_examples=60, deadline=None, suppress_health_check=CALM)
@given(typed_graphs(6, ops=CONTROLLED))
def test_random_graphs_are_settled_after_one_run(before: Graph) -> None:
    after = optimize(before)
    verify(after)
    assert_equivalent(before, after, n=2, rtol=1e-3, atol=1e-3)
    assert optimize(Graph(after.params, after.results, after.symbols, after.signature)) == after


# ---------------------------------------------------------------------------------------------- contents


def blob_of(data: np.ndarray, reads: list[int], name: str = "") -> Value:
    """A constant that tells how often it is read."""

    def load() -> np.ndarray:
        reads.append(data.nbytes)
        return data

    return constant(Blob(DType.of(data.dtype), data.shape, load, name))


def blobs(graph: Graph) -> int:
    """How many initializers a graph would have."""
    return len(to_proto(graph).graph.initializer)


def test_equal_constants_are_held_once() -> None:
    data, reads = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32), []
    a, b, c = blob_of(data, reads), blob_of(data.copy(), reads), blob_of(-data, reads)
    u = x("n", 64)
    before = graph([u], op.MatMul(u, a), op.MatMul(u, b), op.MatMul(u, c))
    assert blobs(before) == 3
    after = applied(share_contents, before)
    assert blobs(after) == 2 and blobs(optimize(before)) == 2


def test_weights_of_two_names_stay_two_unless_asked() -> None:
    data = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    a, b = (const(data.copy(), name=name) for name in ("first.weight", "second.weight"))
    u = x("n", 64)
    before = graph([u], op.MatMul(u, a), op.MatMul(op.Neg(u), b))
    assert share_contents(before) is before
    after = share_contents(names=False)(before)
    assert [t.name for t in to_proto(after).graph.initializer] == ["first.weight"]
    assert_equivalent(before, after)


def test_bodies_share_with_the_graph_around() -> None:
    data = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    u, flag = x("n", 64), x(dtype="bool")
    found = op.If(
        flag, then_branch=lambda: op.MatMul(u, data.copy()), else_branch=lambda: op.Add(op.MatMul(u, data.copy()), u)
    )
    after = applied(share_contents, graph([u, flag], *found, op.MatMul(u, data)))
    assert blobs(after) == 1


def test_different_weights_are_not_read_in_full() -> None:
    rng, reads = np.random.default_rng(0), []
    shape = (2048, 512)
    values = [blob_of(rng.normal(size=shape).astype(np.float32).view(Counted), reads) for _ in range(6)]
    u = x("n", 2048)
    before = graph([u], op.Sum(*(op.MatMul(u, v) for v in values)))
    Counted.copied = 0
    assert share_contents(before) is before
    assert 0 < Counted.copied <= 6 * 4 * 3 * SAMPLE
    turned = blob_of(values[0].blob.load().T.copy().T.view(Counted), reads)  # type: ignore[union-attr]
    twice = graph([u], op.Sum(op.MatMul(u, values[0]), op.MatMul(u, turned)))
    assert blobs(share_contents(twice)) == 1


def test_weights_of_bodies_are_not_read() -> None:
    reads: list[int] = []
    weight = blob_of(np.ones((64, 64), np.float32), reads, "weight")
    u, n = x("n", 64), x(dtype="i64")
    found = op.Loop(n, True, u, body=lambda i, go, s: (go, op.Relu(op.MatMul(op.Identity(s), weight))))
    after = optimize(graph([u, n], *found))
    assert inner(only(after, "Loop")) == ["MatMul", "Relu"] and not reads


class Counted(np.ndarray):
    """An array that counts the bytes that are copied out of it."""

    copied = 0

    def tobytes(self, *args: Any) -> bytes:  # type: ignore[override]
        """The bytes, counted."""
        Counted.copied += self.nbytes
        return super().tobytes(*args)


def test_bits_and_not_numbers_are_compared() -> None:
    zeros, nans = np.zeros(1024, np.float32), np.full(1024, np.nan, np.float32)
    u = x(1024)
    assert blobs(share_contents(graph([u], op.Div(u, zeros.copy()), op.Div(u, -zeros)))) == 2
    assert blobs(share_contents(graph([u], op.Add(u, nans.copy()), op.Mul(u, nans.copy())))) == 1


# ---------------------------------------------------------------------------------------------- order


def lopsided(depth: int, *, turned: bool = False) -> Graph:
    """A sum at each level, of a large tensor that a parameter gives at once and of one that takes a deeper level."""
    a = x(64)
    y = op.Exp(a)
    for level in range(depth):
        large = op.Tile(op.Add(a, float(level + 2)), [16])
        deep = op.Tile(op.ReduceMax(y, [0]), [1024])
        y = op.Mul(deep, large) if turned else op.Mul(large, deep)
    return graph([a], y)


def peaks(found: Graph) -> tuple[int, int]:
    """Bytes alive at once, in the order of ONNX Runtime and in that of the file."""
    plan = order_.plan_of(found, {})
    places = range(len(plan.values))
    return order_.peak(plan, order_.executed(plan, places)), order_.peak(plan, places)


@pytest.mark.parametrize("runtime", [True, False])
def test_an_order_that_takes_less_memory_is_the_same_graph(runtime: bool) -> None:
    which = 0 if runtime else 1
    before = max((lopsided(6, turned=t) for t in (True, False)), key=lambda g: peaks(g)[which])
    after = order_.scheduled(before, onnxruntime=runtime)
    assert after is not before and after == before and after.digest == before.digest
    assert peaks(after)[which] < 0.8 * peaks(before)[which]
    assert order_.scheduled(after, onnxruntime=runtime) is after
    verify(after)
    assert_equivalent(before, after)
    assert load(to_proto(after)) == load(to_proto(before))
    again = order_.scheduled(before, onnxruntime=runtime)
    assert [n.name for n in to_proto(after).graph.node] == [n.name for n in to_proto(again).graph.node]


@settings(max_examples=60, deadline=None, suppress_health_check=CALM)
@given(typed_graphs(12, bodies=False))
def test_random_graphs_are_scheduled(before: Graph) -> None:
    after = order_.scheduled(before)
    assert set(after.order) == set(before.order) and after == before
    assert peaks(after)[0] <= peaks(before)[0]
    assert_equivalent(before, after, n=1)


def test_orders_that_are_none_are_refused() -> None:
    before = lopsided(2)
    with pytest.raises(GraphError, match="each of its values once"):
        before.arranged(before.order[:-1])
    with pytest.raises(GraphError, match="operands come before users"):
        before.arranged(reversed(before.order))
    assert before.arranged(before.order) == before


def test_onnx_runtime_takes_the_order_that_is_foreseen(tmp_path: Any) -> None:
    for found in (lopsided(4), order_.scheduled(lopsided(4))):
        options = onnxruntime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / "profile")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        proto = to_proto(found)
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        session.run(None, {session.get_inputs()[0].name: np.zeros(64, np.float32)})
        events = json.loads(Path(session.end_profiling()).read_text())
        ran = [e["name"].removesuffix("_kernel_time") for e in events if e["name"].endswith("_kernel_time")]
        plan = order_.plan_of(found, {})
        names = [n.name for n in proto.graph.node]
        assert ran == [names[i] for i in order_.executed(plan, range(len(plan.values)))]


# ---------------------------------------------------------------------------------------------- the page


def test_the_page_of_passes_names_each() -> None:
    page = (Path(__file__).parents[3] / "docs" / "understand" / "passes.md").read_text()
    modules = [
        importlib.import_module(f"passes.whole_graph.{name}")
        for name in (
            "decide",
            "hoist",
            "cancel_transposes",
            "merge_slices",
            "fuse_caches",
            "schedule",
            "share_contents",
            "trim",
        )
    ]
    named = {name for module in modules for name, found in vars(module).items() if isinstance(found, Pass)}
    functions = {
        "fuse", "group_products", "hold", "legalize", "materialize_dims", "rows", "seeded", "simplify", "steer",
        "to_precision",
    }  # fmt: skip
    assert {row.split("`")[1] for row in page.splitlines() if row.startswith("| `")} == named | functions
    steps: list[str] = []
    u = x(3)
    optimize(graph([u], op.Neg(u)), observe=lambda step: steps.append(step.name))
    assert any("merge_slices" in step for step in steps)


def test_what_a_run_learns_is_kept_on_what_it_returns_and_never_on_its_argument() -> None:
    x = param(tensor("f32", 3))
    given = Graph((x,), (op.Relu(op.Relu(x)),))
    after = optimize(given)
    assert after.settled and not given.settled
    assert optimize(after) is after
    clean = Graph((x,), (op.Relu(x),))
    known = optimize(clean)
    assert known == clean and known.settled and not clean.settled
    assert optimize(known) is known
    assert not after.with_results((op.Relu(op.Relu(after.results[0])),)).settled
