"""What ONNX Runtime fails on where a tensor has no elements, against numpy and against the evaluator."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from pyrsistent import pmap

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.core.ir import Graph, param
from irkit.core.types import DType, Tensor, tensor
from irkit.dims import Range
from irkit.evaluation.interpreter import evaluate
from irkit.onnx.sessions import session
from passes import optimize
from passes.legal.legalize import legalize
from passes.preparing.prepare import prepare
from passes.targets import target_of

N, B = dims.symbol("n"), dims.symbol("b")
CPU = target_of("onnxruntime-cpu")


def sums(direction: int = 0) -> Graph:
    """(totals, the sums so far) of rows: (b,), (b, n)."""
    start, rows = param(Tensor(DType.FLOAT, (B,))), param(Tensor(DType.FLOAT, (B, N)))

    def step(total: Any, row: Any) -> tuple[Any, Any]:
        after = op.Add(total, row)
        return after, after

    found = op.Scan(
        start,
        rows,
        body=step,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
        scan_input_directions=[direction],
    )
    return Graph((start, rows), found)


def ran(graph: Graph, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results on ONNX Runtime."""
    runner = session(legalize(graph, CPU))
    return list(runner.run(dict(zip(runner.inputs, arrays, strict=True))))


@pytest.mark.parametrize("direction", (0, 1))
@pytest.mark.parametrize(("b", "n"), ((2, 3), (2, 0), (0, 3), (0, 0), (1, 1)))
def test_a_scan_over_any_size(b: int, n: int, direction: int) -> None:
    graph = sums(direction)
    start, rows = np.arange(b, dtype=np.float32), np.arange(b * n, dtype=np.float32).reshape(b, n)
    total, found = ran(graph, start, rows)
    turned = rows[:, ::-1] if direction else rows
    np.testing.assert_array_equal(total, start + rows.sum(1))
    np.testing.assert_array_equal(found, start[:, None] + np.cumsum(turned, 1))
    for ours, theirs in zip(evaluate(graph, [start, rows]), (total, found), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_scan_over_nothing_is_no_scan() -> None:
    start, rows = param(Tensor(DType.FLOAT, (2,))), param(Tensor(DType.FLOAT, (0, 2)))
    total, found = op.Scan(start, rows, body=lambda s, r: (op.Add(s, r), op.Mul(s, 2.0)), num_scan_inputs=1)
    made = legalize(Graph((start, rows), (total, found)), CPU)
    assert not any(v.op in ("Scan", "If") for v in made.order)
    given = np.array([1, 2], np.float32), np.zeros((0, 2), np.float32)
    last, stacked = ran(Graph((start, rows), (total, found)), *given)
    np.testing.assert_array_equal(last, given[0])
    assert stacked.shape == (0, 2)


def test_what_is_known_to_be_there_stays_as_it_is() -> None:
    graph = sums()
    known = Graph(graph.params, graph.results, pmap({"n": Range(1, None), "b": Range(1, None)}))
    assert legalize(known, CPU) is known
    assert legalize(graph, target_of("onnx")) is graph


def test_a_graph_is_treated_once() -> None:
    made = legalize(sums(), CPU)
    assert sum(v.op == "If" for v in made.order) == 1
    assert legalize(made, CPU) is made
    assert sum(v.op == "If" for v in optimize(made).order) == 1


@pytest.mark.parametrize("b", (0, 1, 3))
def test_a_transposed_batch_times_a_matrix(b: int) -> None:
    x, w = param(Tensor(DType.FLOAT, (B, 4, 3))), const(np.arange(8, dtype=np.float32).reshape(4, 2))
    graph = Graph((x,), (op.MatMul(op.Transpose(x, perm=(0, 2, 1)), w),))
    given = np.arange(b * 12, dtype=np.float32).reshape(b, 4, 3)
    np.testing.assert_array_equal(ran(graph, given)[0], given.transpose(0, 2, 1) @ np.arange(8.0).reshape(4, 2))


@pytest.mark.parametrize("b", (0, 2))
def test_one_computed_dimension_beside_one_that_may_be_0(b: int) -> None:
    """ONNX Runtime makes a -1 of a single computed dimension, which is not told by a tensor without elements."""
    x, y = param(Tensor(DType.FLOAT, (B, 5 * N))), param(Tensor(DType.FLOAT, (B, N)))
    made = op.Add(op.Reshape(x, shape_vector((B, 5, N))), op.Unsqueeze(y, np.array([1])))
    graph = Graph((x, y), (made,), pmap({"n": Range(1, None), "b": Range(0, None)}))
    given = np.arange(b * 20, dtype=np.float32).reshape(b, 20), np.ones((b, 4), np.float32)
    np.testing.assert_array_equal(ran(graph, *given)[0], given[0].reshape(b, 5, 4) + 1)


PRODUCTS = (
    ((B, 3, 4), (4,)), ((2, 3, N), (N,)), ((N,), (B, N, 5)), ((3, 4), (B, 4, 5)), ((1, 3, 4), (B, 4, 5)),
    ((2, B, 3, 4), (2, 1, 4, 5)), ((B, 1, 3, 4), (2, 4, 5)), ((B, 3, 4), (4, 5)), ((B, 3, 4), (B, 4, 5)),
    ((B, 3, 4), (1, 4, 5)), ((3, N), (2, N, 5)), ((1, 3, N), (B, N, 5)),
)  # fmt: skip


@pytest.mark.parametrize("size", (0, 1, 3))
@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_products_of_any_number_of_matrices(shapes: Any, size: int) -> None:
    left, right = (param(Tensor(DType.FLOAT, shape)) for shape in shapes)
    graph = Graph((left, right), (op.MatMul(left, right),))
    sizes: dict[Any, int] = {B: size, N: 2 * size}
    arrays = [
        np.random.default_rng(0).normal(size=[sizes[d] if d in sizes else int(d) for d in shape]).astype(np.float32)
        for shape in shapes
    ]
    (found,) = ran(graph, *arrays)
    np.testing.assert_allclose(found, np.matmul(*arrays), rtol=1e-5, atol=1e-6)
    assert found.shape == np.matmul(*arrays).shape


def test_products_that_meet_no_empty_batch_stay_as_they_are() -> None:
    left, right = param(Tensor(DType.FLOAT, (B, 3, 4))), param(Tensor(DType.FLOAT, (4, 5)))
    product = op.MatMul(left, right)
    assert [v.op for v in legalize(Graph((left, right), (product,)), CPU).order if v.op != "Param"] == ["MatMul"]


@pytest.mark.parametrize("equation", ("ijk,mnk->ij", "bhwc,hkc->bhwk", "ii->i", "ij,jk,kl->il"))
def test_sums_of_products_of_any_size(equation: str) -> None:
    """Einsum of nothing ends the process of ONNX Runtime, so zeros are put in its place."""
    terms = equation.partition("->")[0].split(",")
    letters = sorted(set("".join(terms)))
    operands = [param(Tensor(DType.FLOAT, tuple(map(dims.symbol, term)))) for term in terms]
    graph = Graph(tuple(operands), (op.Einsum(*operands, equation=equation),))
    made = legalize(graph, CPU)
    assert sum(v.op == "If" for v in made.order) == 1 and legalize(made, CPU) is made
    runner = session(made)
    for empty in (*letters, ""):
        arrays = [np.ones([0 if c == empty else 2 for c in term], np.float32) for term in terms]
        (found,) = runner.run(dict(zip(runner.inputs, arrays, strict=True)))
        np.testing.assert_array_equal(found, np.einsum(equation, *arrays))


def test_sums_of_products_of_known_sizes_stay() -> None:
    operands = [param(Tensor(DType.FLOAT, shape)) for shape in ((2, 3), (3, 3))]
    graph = Graph(tuple(operands), (op.Einsum(*operands, equation="ij,kk->ik"),))
    assert legalize(graph, CPU) is graph


@pytest.mark.parametrize("k", (0, "k"))
@pytest.mark.parametrize("name", ("MatMulInteger", "QLinearMatMul"))
def test_integer_products_of_nothing_are_zero(name: str, k: Any) -> None:
    """ONNX Runtime's kernels leave in the result what memory held."""
    a, b = param(tensor("u8", 2, k)), param(tensor("u8", k, 3))
    half, quarter, eighth = np.float32(0.5), np.float32(0.25), np.float32(0.125)
    made = (
        op.MatMulInteger(a, b)
        if name == "MatMulInteger"
        else op.QLinearMatMul(a, half, np.uint8(3), b, quarter, np.uint8(1), eighth, np.uint8(7))
    )
    graph = Graph((a, b), (made,))
    (found,) = ran(graph, np.zeros((2, 0), np.uint8), np.zeros((0, 3), np.uint8))
    assert (found == (0 if name == "MatMulInteger" else 7)).all() and found.shape == (2, 3)
    if k:
        arrays = [np.arange(4, dtype=np.uint8).reshape(2, 2), np.arange(6, dtype=np.uint8).reshape(2, 3)]
        np.testing.assert_array_equal(ran(graph, *arrays)[0], evaluate(graph, arrays)[0])
        once = legalize(graph, CPU)
        assert legalize(once, CPU) is once


@pytest.mark.parametrize("rows", ((3, 2), ("n", 2)))
def test_products_of_nothing_are_zero_with_what_is_added(rows: Any) -> None:
    """ONNX Runtime's default optimizations make a Gemm of rank 2 of it, by a Reshape to (-1, 0) that fails."""
    a, b = param(tensor("f32", *rows, 0)), param(tensor("f32", 0, 2))
    graph = Graph((a, b), (op.Add(op.MatMul(a, b), const(np.array([1.0, -1.0], np.float32))),))
    (found,) = ran(graph, np.zeros((3, 2, 0), np.float32), np.zeros((0, 2), np.float32))
    np.testing.assert_array_equal(found, np.broadcast_to(np.array([1.0, -1.0], np.float32), (3, 2, 2)))


@pytest.mark.parametrize("n", (0, 1, 3))
def test_rows_of_any_length_are_normalized(n: int) -> None:
    x = param(Tensor(DType.FLOAT, (2, N)))
    scale = op.Expand(const(np.float32(1)), shape_vector([N]))
    array = np.arange(2 * n, dtype=np.float32).reshape(2, n)
    (found,) = ran(Graph((x,), (op.LayerNormalization(x, scale),)), array)
    (told,) = evaluate(Graph((x,), (op.LayerNormalization(x, scale),)), [array])
    np.testing.assert_allclose(found, told, rtol=1e-5, atol=1e-6)
    assert found.shape == (2, n)


@pytest.mark.parametrize("m", (0, 1, 3))
def test_a_row_becomes_none(m: int) -> None:
    x = param(Tensor(DType.FLOAT, (1, N)))
    nothing = op.Expand(x, shape_vector([0, N]))
    graph = optimize(Graph((x,), (op.Reshape(op.Add(nothing, const(np.float32(1))), [-1]),)))
    (found,) = ran(graph, np.ones((1, m), np.float32))
    assert found.shape == (0,)


ROUNDS = ("i64",), ("bool",), ("f32", "n", 2)


@pytest.mark.parametrize("kind", ["both", "number", "condition"])
def test_a_loop_of_no_rounds_has_rows_of_their_size(kind: str) -> None:
    """ONNX Runtime, which has seen no row, takes a size that varies for 0."""
    most, flag, x = (param(tensor(*each)) for each in ROUNDS)
    last, rows = op.Loop(
        None if kind == "condition" else most,
        True if kind == "number" else flag,
        np.float32(1),
        body=lambda i, c, s: (op.Less(s, 3.0) if kind == "condition" else c, op.Add(s, 1.0), op.Mul(x, s)),
    )
    graph = Graph((most, flag, x), (last, rows))
    graph = attrs.evolve(graph, symbols=graph.symbols.set("n", Range(0)))
    ready = prepare(graph)
    assert prepare(ready) is ready or len(prepare(ready)) == len(ready)
    runs = session(ready)
    for count in (-1, 0, 1, 3):
        for holds in (True, False):
            for size in (0, 1, 4):
                fed = [np.array(count), np.array(holds), np.ones((size, 2), np.float32)]
                for found, expected in zip(runs.run(fed), evaluate(graph, fed), strict=True):
                    np.testing.assert_array_equal(found, expected)
                    assert np.shape(found) == np.shape(expected)
