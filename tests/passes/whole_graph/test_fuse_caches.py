"""Attention with its cache's update inside: it fires where nothing else needs the parts, and the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

from irkit import dims
from irkit.build import op, shape_vector
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.evaluation.interpreter import evaluate
from irkit.verification.laws import verify
from passes import optimize
from passes.legal.legalize import legalize
from passes.targets import target_of
from passes.whole_graph.fuse_caches import fuse_caches


def decoder(shared: int = 2, *, layers: int = 1, extra: bool = False) -> Graph:
    """A decoder of attention alone, over a cache, with query heads that share key heads."""
    batch, seq, past = (dims.symbol(name) for name in ("batch", "seq", "past"))
    x = param(tensor("f32", "batch", "seq", 16))
    mask = param(tensor("bool", "batch", 1, "seq", "past + seq"))
    params, results, hidden = [x, mask], [], x

    def heads(value: Value, count: int) -> Value:
        return op.Transpose(op.Reshape(value, shape_vector((batch, seq, count, 4))), perm=[0, 2, 1, 3])

    rng = np.random.default_rng(0)
    for _ in range(layers):
        cache = [param(tensor("f32", "batch", shared, "past", 4)) for _ in range(2)]
        weights = [rng.standard_normal((16, 4 * n)).astype(np.float32) / 4 for n in (4, shared, shared)]
        q, k, v = (heads(op.MatMul(hidden, w), n) for w, n in zip(weights, (4, shared, shared), strict=True))
        joined = [op.Concat(old, new, axis=2) for old, new in zip(cache, (k, v), strict=True)]
        found = op.Transpose(op.Attention(q, *joined, mask, scale=0.5), perm=[0, 2, 1, 3])
        hidden = op.Add(hidden, op.Reshape(found, shape_vector((batch, seq, 16))))
        params, results = [*params, *cache], [*results, *joined]
        if extra:
            results.append(op.Relu(joined[0]))
    del past
    return Graph(tuple(params), (hidden, *results))


def feeds(graph: Graph, batch: int, seq: int, past: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    sizes = {"batch": batch, "seq": seq, "past": past}
    shapes = [[dims.evaluate(d, sizes) for d in p.shape] for p in graph.params]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    arrays[1] = np.tril(np.ones(shapes[1], dtype=bool), past)
    return arrays


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_one_attention_stands_for_the_update_and_the_numbers_stay(shared: int) -> None:
    before = verify(decoder(shared, layers=3))
    after = verify(fuse_caches(before))
    assert "Concat" not in {v.op for v in after.order}
    assert sum(v.op == "Attention" for v in after.order) == 3
    assert fuse_caches(after) is after
    for sizes in ((2, 3, 5), (1, 1, 4), (2, 2, 0)):
        given = feeds(before, *sizes)
        for expected, actual in zip(evaluate(before, given), evaluate(after, given), strict=True):
            assert compare(expected, actual, rtol=1e-5, atol=1e-5) is None


def test_it_declines_where_joined_keys_are_used_elsewhere() -> None:
    graph = decoder(extra=True)
    assert fuse_caches(graph) is graph


@pytest.mark.parametrize("opset", [18, 22, 23, 26])
def test_it_is_legal_at_every_opset(opset: int) -> None:
    before = decoder(layers=2)
    target = target_of("onnxruntime-cpu", opset)
    after = legalize(optimize(before), target)
    assert not list(verify(after).order) or all(not target.problem(v) for v in after.order if v.op == "Attention")
    given = feeds(before, 2, 3, 5)
    for expected, actual in zip(evaluate(before, given), evaluate(after, given), strict=True):
        assert compare(expected, actual, rtol=1e-4, atol=1e-5) is None
