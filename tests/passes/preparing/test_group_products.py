"""Products in which a matrix is not copied for each row that meets it: which are laid out so, and what they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import irkit
import passes
from irkit import const, op, param, tensor
from irkit.build import shape_vector
from irkit.core.ir import Graph
from passes.preparing.group_products import GROUPING, group_products
from passes.targets import target_of


@pytest.mark.parametrize("rule", GROUPING, ids=lambda r: r.name)
def test_grouping_holds(rule: irkit.Rule) -> None:
    irkit.check_rule(rule)


def test_products_of_shared_heads_make_no_copies_of_them() -> None:
    """Attention with a sink is no ONNX Attention: its softmax has a column more than there are keys."""
    q, k = param(tensor("f32", "b", 6, "n", 4)), param(tensor("f32", "b", 2, "t", 4))
    wide = op.Expand(op.Unsqueeze(k, [2]), shape_vector((k.shape[0], 2, 3, *k.shape[2:]), k))
    every = op.Reshape(wide, shape_vector((k.shape[0], 6, *k.shape[2:]), k))
    sink = op.Expand(np.zeros((1, 6, 1, 1), "f4"), shape_vector((*q.shape[:3], 1), q))
    scores = op.Concat(op.MatMul(q, op.Transpose(every, perm=(0, 1, 3, 2))), sink, axis=3)
    shares = op.Softmax(op.Sub(scores, op.ReduceMax(scores, [3])), axis=3)
    graph = Graph((q, k), (op.MatMul(op.Slice(shares, [0], [-1], [3]), every),))
    after = passes.prepare(passes.optimize(graph))
    assert [v.op for v in after.order].count("Expand") == 1 and not any(v.op == "ReduceMax" for v in after.order)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype("f4") for s in ((2, 6, 3, 4), (2, 2, 5, 4))]
    np.testing.assert_allclose(irkit.evaluate(after, inputs)[0], irkit.evaluate(graph, inputs)[0], rtol=1e-5, atol=1e-6)


def test_rows_with_matrices_of_their_own_are_sorted_where_that_pays() -> None:
    rng = np.random.default_rng(0)
    for height, sorts in ((512, True), (16, False)):
        logits = param(tensor("f32", "n", 3))
        ids = op.Reshape(op.TopK(logits, [2])[1], [-1])
        weight = const((rng.standard_normal((3, height, 96)) / 8).astype("f4"))
        rows = op.Expand(op.Unsqueeze(x := param(tensor("f32", "n", 96)), [1, 3]), [1, 2, 1, 1])
        flat = op.Reshape(rows, [-1, 96, 1])
        graph = passes.optimize(Graph((logits, x), (op.MatMul(op.Gather(weight, ids), flat),)))
        after = passes.prepare(graph)
        assert any(v.op == "Split" for v in after.order) is sorts
        session = onnxruntime.InferenceSession(irkit.to_proto(after).SerializeToString())
        for count in (0, 1, 7):
            given = [rng.standard_normal((count, size)).astype("f4") for size in (3, 96)]
            feeds = dict(zip([each.name for each in session.get_inputs()], given, strict=True))
            found: Any = session.run(None, feeds)[0]
            np.testing.assert_allclose(found, irkit.evaluate(graph, given)[0], rtol=1e-4, atol=1e-5)


def test_rows_that_were_sorted_before_are_sorted_again_for_less() -> None:
    rng = np.random.default_rng(0)
    logits, x = param(tensor("f32", "n", 4)), param(tensor("f32", "n", 128))
    ids = op.Reshape(op.TopK(logits, [2])[1], [-1])
    up, down = (const((rng.standard_normal((4, *size)) / 16).astype("f4")) for size in ((512, 128), (128, 256)))
    rows = op.Reshape(op.Expand(op.Unsqueeze(x, [1, 3]), [1, 2, 1, 1]), [-1, 128, 1])
    a, b = op.Split(op.MatMul(op.Gather(up, ids), rows), axis=1, num_outputs=2, outputs=2)
    hidden = op.Mul(op.Mul(a, op.Sigmoid(a)), b)
    both = Graph((logits, x), (op.MatMul(op.Gather(down, ids), hidden),))
    alone = Graph((logits, x), (op.MatMul(op.Gather(down, ids), op.Concat(rows, rows, axis=1)),))
    counts = [[v.op for v in passes.prepare(passes.optimize(g)).order].count("Gemm") for g in (both, alone)]
    assert counts == [8, 0]
    given = [rng.standard_normal((5, size)).astype("f4") for size in (4, 128)]
    found = irkit.evaluate(passes.prepare(passes.optimize(both)), given)[0]
    np.testing.assert_allclose(found, irkit.evaluate(both, given)[0], rtol=1e-4, atol=1e-5)


def test_what_copies_no_matrix_comes_back_as_the_same_object() -> None:
    q, k = param(tensor("f32", "b", 6, "n", 4)), param(tensor("f32", "b", 2, "t", 4))
    plain = Graph((q,), (op.MatMul(q, np.eye(4, dtype="f4")),))
    assert group_products(plain, target_of("onnxruntime-cpu")) is plain
    wide = op.Expand(op.Unsqueeze(k, [2]), shape_vector((k.shape[0], 2, 3, *k.shape[2:]), k))
    every = op.Transpose(op.Reshape(wide, shape_vector((k.shape[0], 6, *k.shape[2:]), k)), perm=(0, 1, 3, 2))
    shared = Graph((q, k), (op.MatMul(q, every),))
    assert group_products(shared, target_of("onnx")) is shared
    done = group_products(shared, target_of("onnxruntime-cpu"))
    assert "Expand" not in [v.op for v in done.order] and group_products(done, target_of("onnxruntime-cpu")) is done
