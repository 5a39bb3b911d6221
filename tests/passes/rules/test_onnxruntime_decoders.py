"""Decoders: what attention keeps inside, and the rules into ONNX Runtime's own operators, each checked by numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import irkit
from irkit import dims
from irkit.build import op, shape_vector
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, tensor
from irkit.evaluation.interpreter import evaluate
from irkit.verification.laws import verify
from passes import optimize, prepare
from passes.preparing.fuse import fuse
from passes.rules.onnxruntime.decoders import DECODERS, cross_attention
from passes.targets import target_of

CONTRIB = target_of("onnxruntime-cpu+com.microsoft")


def attentions(graph: Graph) -> list[Value]:
    return [v for v in graph.order if v.op == "Attention"]


def positions(x: Value, axis: int, start: Any = 0) -> Value:
    """The places along an axis of x, from `start` on."""
    size = op.Squeeze(op.Shape(x, start=axis, end=axis + 1), [0])
    return op.Range(start, op.Add(size, start), 1)


def decoder(*, causal: bool = True, padding: bool = True, heads: int = 4, shared: int = 2, shift: int = 0) -> Graph:
    """Two layers over caches, whose mask lets see what is not padding and, if causal, not after the query."""
    batch, seq = dims.symbol("batch"), dims.symbol("seq")
    x = param(tensor("f32", "batch", "seq", 4 * heads))
    ones = param(tensor("i64", "batch", "past + seq"))
    caches = [[param(tensor("f32", "batch", shared, "past", 4)) for _ in range(2)] for _ in range(2)]
    past = op.Squeeze(op.Shape(caches[0][0], start=2, end=3), [0])
    queries = op.Unsqueeze(positions(x, 1, op.Add(past, shift)), [0, 1, 3])
    keys = op.Unsqueeze(positions(ones, 1), [0, 1, 2])
    rows = op.Expand(op.Unsqueeze(positions(x, 0), [1, 2, 3]), shape_vector((batch, 1, 1, ones.shape[1])))
    every = op.Expand(keys, shape_vector((batch, 1, 1, ones.shape[1])))
    places = op.Concat(op.Unsqueeze(rows, [4]), op.Unsqueeze(every, [4]), axis=-1)
    seen = op.GatherND(op.Cast(ones, to=DType.BOOL), places)
    mask = op.LessOrEqual(keys, queries)
    if padding:
        mask = op.And(mask, seen) if causal else op.Expand(seen, shape_vector((batch, 1, seq, ones.shape[1])))
    rng = np.random.default_rng(0)

    def apart(value: Value, count: int) -> Value:
        return op.Transpose(op.Reshape(value, shape_vector((batch, seq, count, 4))), perm=[0, 2, 1, 3])

    hidden, results = x, []
    for cache in caches:
        weights = [rng.standard_normal((4 * heads, 4 * n)).astype(np.float32) / 4 for n in (heads, shared, shared)]
        counts = (heads, shared, shared)
        q, k, v = (apart(op.MatMul(hidden, w), n) for w, n in zip(weights, counts, strict=True))
        joined = [op.Concat(old, new, axis=2) for old, new in zip(cache, (k, v), strict=True)]
        found = op.Transpose(op.Attention(q, *joined, mask), perm=[0, 2, 1, 3])
        hidden = op.Add(hidden, op.Reshape(found, shape_vector((batch, seq, 4 * heads))))
        results += joined
    return Graph((x, ones, *(c for cache in caches for c in cache)), (hidden, *results))


def fed(graph: Graph, **sizes: int) -> list[np.ndarray]:
    """Random content; of integers, ones with some zeros in front, as padding to the left has them."""
    rng = np.random.default_rng(2)
    found = []
    for each in graph.params:
        shape = [dims.evaluate(d, sizes) for d in each.shape]
        if each.dtype.is_integer:
            array = np.ones(shape, np.int64)
            array[:1, : shape[1] // 3] = 0
        else:
            array = rng.standard_normal(shape).astype(np.float32)
        found.append(array)
    return found


def on_runtime(graph: Graph, feeds: list[np.ndarray], target: Any) -> list[np.ndarray]:
    import onnxruntime

    data = irkit.to_proto(prepare(graph, target)).SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return list(session.run(None, {i.name: x for i, x in zip(session.get_inputs(), feeds, strict=True)}))


SIZES = ({"batch": 2, "seq": 3, "past": 5}, {"batch": 1, "seq": 1, "past": 7}, {"batch": 2, "seq": 4, "past": 0})


@pytest.mark.parametrize("heads, shared", [(4, 2), (2, 2), (2, 1)])
@pytest.mark.parametrize("padding", [True, False])
def test_a_causal_mask_is_made_by_attention_and_the_rest_of_it_stays(heads: int, shared: int, padding: bool) -> None:
    before = decoder(heads=heads, shared=shared, padding=padding)
    after = verify(optimize(verify(before)))
    found = attentions(after)
    assert [v.attribute("is_causal") for v in found] == [1, 1]
    assert (found[0].inputs[3] is None) is not padding
    assert found[0].inputs[3] is found[1].inputs[3]
    assert not {"GatherND", "Range", "LessOrEqual", "And", "Concat"} & {v.op for v in after.order}
    for sizes in SIZES:
        feeds = fed(before, **sizes)
        expected = evaluate(before, feeds)
        for actual in (evaluate(after, feeds), on_runtime(after, feeds, "onnxruntime-cpu")):
            for a, b in zip(expected, actual, strict=True):
                assert compare(a, b, rtol=1e-4, atol=1e-4) is None


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_mask_that_is_nearly_causal_stays(shift: int) -> None:
    after = optimize(decoder(shift=shift))
    assert [v.attribute("is_causal") for v in attentions(after)] == [None, None]


def test_padding_alone_stays_a_mask() -> None:
    before = decoder(causal=False)
    after = verify(optimize(before))
    assert [v.attribute("is_causal") for v in attentions(after)] == [None, None]
    feeds = fed(before, **SIZES[0])
    for a, b in zip(evaluate(before, feeds), evaluate(after, feeds), strict=True):
        assert compare(a, b, rtol=1e-4, atol=1e-4) is None


@pytest.mark.parametrize("each", DECODERS, ids=lambda each: each.name)
def test_both_sides_of_a_rule_are_equal(each: irkit.Rule) -> None:
    assert irkit.check_rule(each, 15).fired == 15


def test_queries_to_the_keys_of_an_encoder_need_no_axis_of_heads() -> None:
    batch, seq = dims.symbol("batch"), dims.symbol("seq")
    x = param(tensor("f32", "batch", "seq", 16))
    k, v = (param(tensor("f32", "batch", 2, "source", 8)) for _ in range(2))
    queries = op.Transpose(op.Reshape(x, shape_vector((batch, seq, 2, 8))), perm=[0, 2, 1, 3])
    found = op.Transpose(op.Attention(queries, k, v), perm=[0, 2, 1, 3])
    graph = Graph((x, k, v), (op.Reshape(found, shape_vector((batch, seq, 16))),))
    after = verify(irkit.rewrite(graph, cross_attention))
    assert [v.op for v in after.order if v.inputs] == ["com.microsoft::MultiHeadAttention"]
    for sizes in ({"batch": 2, "seq": 3, "source": 5}, {"batch": 1, "seq": 1, "source": 1}):
        feeds = fed(graph, **sizes)
        for a, b in zip(evaluate(graph, feeds), on_runtime(after, feeds, CONTRIB), strict=True):
            assert compare(a, b, rtol=1e-4, atol=1e-4) is None


def test_what_was_fused_runs_at_every_size() -> None:
    before = decoder()
    after = fuse(optimize(before), CONTRIB)
    for sizes in SIZES:
        feeds = fed(before, **sizes)
        for a, b in zip(evaluate(before, feeds), on_runtime(after, feeds, CONTRIB), strict=True):
            assert compare(a, b, rtol=1e-4, atol=1e-4) is None


@pytest.mark.parametrize("low", [-3.4028235e38, 3.4028235e38])
def test_masks_at_the_ends_of_floats_are_right_with_caches(low: float) -> None:
    """A query all of whose keys have the largest penalty takes the mean of all values, cached ones among them."""
    q, k, v = (param(tensor("f32", "batch", "seq", 16)) for _ in range(3))
    old = [param(tensor("f32", "batch", 2, "past", 8)) for _ in range(2)]
    seen = param(tensor("f32", "batch", 1, "seq", "seq + past"))
    mask = op.Clip(seen, np.float32(low), np.float32(0)) if low < 0 else op.Clip(seen, np.float32(0), np.float32(low))
    found = irkit.call("Attention", [q, k, v, mask, *old], {"q_num_heads": 2, "kv_num_heads": 2}, outputs=3)
    graph = Graph((q, k, v, seen, *old), tuple(found))
    feeds = fed(graph, batch=2, seq=3, past=2)
    feeds[3] = np.zeros_like(feeds[3])
    feeds[3][:, :, 0], feeds[3][:, :, 1, 1:] = low, low
    expected = irkit.evaluate(graph, feeds)
    values = np.concatenate([feeds[5], feeds[2].reshape(2, 3, 2, 8).transpose(0, 2, 1, 3)], axis=2)
    np.testing.assert_allclose(expected[0][:, 0], values.mean(axis=2).reshape(2, 16), atol=1e-5)
    for target in ("onnxruntime-cpu", "onnxruntime-cpu+com.microsoft"):
        for one, two in zip(expected, on_runtime(graph, feeds, target), strict=True):
            np.testing.assert_allclose(two, one, atol=2e-5, rtol=2e-5)
