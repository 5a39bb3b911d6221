"""What whole families of rules leave of graphs: parts, transposes, norms, rotary embeddings, activations, sequences."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import attrs
import numpy as np
import pytest
import torch
import transformers

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.core.walk import post_order
from irkit.evaluation.interpreter import evaluate
from irkit.verification.laws import verify
from lowering import lower
from passes import optimize


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def optimized(*results: Value, level: int = 2) -> Graph:
    """The graph of the results, optimized; both give the same numbers."""
    graph = Graph(tuple(v for v in post_order(results) if v.op == "Param"), results)
    after = optimize(graph, level=level)
    verify(after)
    assert optimize(after, level=level) is after
    rng = np.random.default_rng(0)
    sizes = {"n": 2, "m": 3, "b": 2, "s": 5}
    given = []
    for each in graph.params:
        shape = tuple(dims.evaluate(d, sizes) for d in each.shape)
        plain = rng.standard_normal(shape) if each.dtype.is_float else rng.integers(0, 2, shape)
        given.append(plain.astype(each.dtype.numpy))
    difference = compare(evaluate(graph, given), evaluate(after, given))
    assert difference is None, difference
    return after


def ops(*results: Value, level: int = 2) -> list[str]:
    after = optimized(*results, level=level)
    return [v.op for v in after.order if v.op not in ("Param", "Constant", "Item", "ShapeVector")]


# ---------------------------------------------------------------------------------------------- parts


def test_parts_join_only_in_order_and_without_gaps() -> None:
    x = value("n", 8)
    cut = [op.Slice(x, [a], [b], [1]) for a, b in ((0, 3), (3, 8), (4, 8))]
    assert ops(op.Concat(cut[0], cut[1], axis=1)) == []
    assert "Concat" in ops(op.Concat(cut[1], cut[0], axis=1)) and "Concat" in ops(op.Concat(cut[0], cut[2], axis=1))
    first, second, third = op.Split(x, np.array([2, 3, 3]), axis=1)
    assert ops(op.Concat(second, third, axis=1)) == ["Slice"]
    assert ops(op.Concat(first, second, third, axis=1)) == []


def test_a_slice_that_others_use_is_not_cut_again_from_the_whole() -> None:
    x = value("n", 12)
    part = op.Slice(x, [0], [8], [1])
    assert ops(op.Slice(part, [2], [4], [1])) == ["Slice"]
    assert Counter(ops(op.Relu(part), op.Slice(part, [2], [4], [1])))["Slice"] == 2


def test_slices_of_symbolic_sizes_are_cut_once_where_bounds_are_counted_from_the_front() -> None:
    x = value("n", "m")
    (found,) = optimized(op.Slice(op.Slice(x, [1], [9], [1]), [1], [4], [1])).results
    assert [v.blob.array.tolist() for v in found.inputs[1:3] if v is not None and v.blob is not None] == [[2], [5]]
    assert ops(op.Slice(op.Slice(x, [-3], [9], [1]), [1], [4], [1])) == ["Slice", "Slice"]


def test_a_slice_whose_size_a_condition_tells_is_left_in_between() -> None:
    x = value("n", 4)
    first = attrs.evolve(
        op.Slice(x, [0], [1], [0]), type=tensor("f32", 1, 4)
    )  # where a body knows that n is 1 at least
    graph = Graph((x,), (op.Slice(first, [0], [2], [1]),))
    after = optimize(graph)
    assert str(after.results[0].type) == "f32[1, 2]"
    assert [v.op for v in after.order].count("Slice") == 2


# ---------------------------------------------------------------------------------------------- transposes


def test_transposes_cancel_over_a_distance_only_where_that_pays() -> None:
    x, y = value("n", 3, 4, 5), value("n", 4, 5, 3)
    turned = op.Transpose(x, perm=(0, 2, 3, 1))
    far = op.Softmax(op.Clip(op.Add(op.Mul(turned, const(np.arange(3, dtype=np.float32))), 1.0), -1.0, 1.0), axis=1)
    assert "Transpose" not in ops(op.Transpose(far, perm=(0, 3, 1, 2)))
    assert Counter(ops(op.Transpose(op.Add(turned, y), perm=(0, 3, 1, 2))))["Transpose"] == 1
    assert Counter(ops(op.Transpose(op.Add(op.Softmax(y), y), perm=(0, 3, 1, 2))))["Transpose"] == 1


def test_a_transpose_that_others_need_stays() -> None:
    turned = op.Transpose(value("n", 3, 4), perm=(0, 2, 1))
    kept = op.Softmax(turned, axis=-1)
    assert Counter(ops(op.Transpose(kept, perm=(0, 2, 1)), kept, turned))["Transpose"] == 2


def test_transposes_pass_views_and_reductions() -> None:
    turned = op.Transpose(value("n", 6, 4), perm=(0, 2, 1))
    split = op.Reshape(turned, shape_vector((dims.symbol("n"), 4, 2, 3)))
    assert ops(op.Transpose(split, perm=(0, 2, 3, 1))) == ["Reshape"]
    least = op.ReduceMin(op.Exp(turned), [2], keepdims=0)
    assert "Transpose" not in ops(least)


# ---------------------------------------------------------------------------------------------- weights


def test_what_becomes_part_of_a_weight_keeps_its_name_and_is_read_late() -> None:
    weight = const(np.ones((4, 3, 1, 1), np.float32), name="conv.weight")
    made = op.Mul(op.Conv(value("n", 3, 6, 6), weight), const(np.arange(4, dtype=np.float32).reshape(4, 1, 1)))
    after = optimized(made)
    (found,) = [v.blob for v in after.order if v.blob is not None]
    assert found.name == "conv.weight" and np.array_equal(found.array[:, 0, 0, 0], np.arange(4))


def test_a_weight_that_others_use_is_left() -> None:
    weight = const(np.ones((4, 3, 1, 1), np.float32), name="conv.weight")
    x = value("n", 3, 6, 6)
    scaled = op.ConvTranspose(op.Conv(x, weight), weight)
    assert "Mul" in ops(op.Mul(scaled, 2.0), op.Conv(x, weight))


# ---------------------------------------------------------------------------------------------- norms


def test_norms_without_a_scale_and_in_other_spellings() -> None:
    x, w = value("n", "m", 8), value(8)
    spread = op.Add(op.ReduceMean(op.Mul(x, x), [-1]), 1e-5)
    for normed in (
        op.Mul(x, op.Pow(spread, -0.5)),
        op.Div(x, op.Sqrt(spread)),
        op.Mul(x, op.Sqrt(op.Reciprocal(spread))),
    ):
        assert ops(normed) == ["RMSNormalization"]
        assert ops(op.Mul(w, normed)) == ["RMSNormalization"]
    mean = op.ReduceMean(x, [-1])
    spread = op.Add(op.Sub(op.ReduceMean(op.Mul(x, x), [-1]), op.Mul(mean, mean)), 1e-3)
    assert ops(op.Div(op.Sub(x, mean), op.Sqrt(spread))) == ["LayerNormalization"]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_norms_computed_in_float32_are_narrow_norms(dtype: str) -> None:
    x, w, b = value("n", "m", 8, dtype=dtype), value(8, dtype=dtype), value(8, dtype=dtype)
    wide = op.Cast(x, to=1)
    to = x.dtype
    root = op.Sqrt(op.Add(op.ReduceMean(op.Mul(wide, wide), [-1]), 1e-5))
    assert ops(op.Mul(w, op.Cast(op.Div(wide, root), to=to))) == ["RMSNormalization"]
    gap = op.Sub(wide, op.ReduceMean(wide, [-1]))
    root = op.Sqrt(op.Add(op.ReduceMean(op.Mul(gap, gap), [-1]), 1e-5))
    assert ops(op.Add(op.Mul(op.Cast(op.Div(gap, root), to=to), w), b)) == ["LayerNormalization"]


def test_means_over_images_are_an_instance_norm() -> None:
    x = value("n", 3, "m", "m")
    gap = op.Sub(x, op.ReduceMean(x, [2, 3]))
    normed = op.Div(gap, op.Sqrt(op.Add(op.ReduceMean(op.Mul(gap, gap), [-1, -2]), 1e-3)))
    number = const(np.arange(1, 4, dtype=np.float32).reshape(3, 1, 1))
    assert ops(op.Add(op.Mul(normed, number), number)) == ["InstanceNormalization"]


# ---------------------------------------------------------------------------------------------- activations


def test_gelus_in_every_order() -> None:
    x = value("n", 8)
    erf, root = op.Erf(op.Mul(x, math.sqrt(0.5))), math.sqrt(2 / math.pi)
    tanh = op.Tanh(op.Mul(x, op.Add(op.Mul(op.Mul(x, x), 0.044715 * root), root)))
    for inner in (erf, tanh):
        forms = (
            op.Mul(x, op.Add(op.Mul(inner, 0.5), 0.5)),
            op.Add(op.Mul(op.Mul(x, 0.5), inner), op.Mul(x, 0.5)),
            op.Mul(op.Mul(x, op.Add(inner, 1.0)), 0.5),
        )
        assert [ops(form) for form in forms] == [["Gelu"]] * 3
    quick = op.Mul(op.Add(x, op.Mul(op.Mul(op.Mul(x, x), x), 0.044715)), 2 * root)
    assert ops(op.Mul(x, op.Sigmoid(quick))) == ["Gelu"]


def test_activations_of_comparisons() -> None:
    x = value("n", 8)
    positive = op.Greater(x, 0.0)
    assert ops(op.Where(positive, x, op.Mul(x, 0.1))) == ["LeakyRelu"] == ops(op.Max(x, op.Mul(x, 0.1)))
    assert ops(op.Where(positive, x, op.Mul(op.Sub(op.Exp(x), 1.0), 0.5))) == ["Elu"]
    assert ops(op.Where(positive, x, 0.0)) == ["ThresholdedRelu"] and ops(op.Max(x, op.Neg(x))) == ["Abs"]
    assert ops(op.Mul(x, op.Tanh(op.Log(op.Add(op.Exp(x), 1.0))))) == ["Mish"]
    assert "LeakyRelu" not in ops(op.Where(op.Less(x, 0.0), x, op.Mul(x, 0.1)))


# ---------------------------------------------------------------------------------------- products, scatters, sequences


def test_einsum_is_a_product_only_where_no_axis_broadcasts() -> None:
    x, y = value("n", 3, 4), value("n", 5, 4)
    assert Counter(ops(op.Einsum(x, y, equation="bij,bkj->bik")))["Einsum"] == 0
    assert ops(op.Einsum(x, value("m", 5, 4), equation="bij,ckj->bcik")) == ["Einsum"]


def test_scatters_of_some_rows_stay() -> None:
    x, y = value(3, 4), value(3, 4)
    assert ops(op.ScatterND(x, np.array([[0], [1], [2]]), y), level=1) == []
    assert ops(op.ScatterND(x, np.array([[0], [2], [1]]), y)) == ["ScatterND"]
    assert ops(op.ScatterND(x, np.array([[0], [1], [2]]), y, reduction="add")) == ["ScatterND"]


def test_sequences_of_known_length_are_values() -> None:
    x, y = value("n", 6), value("n", 2)
    parts = op.SequenceInsert(op.SplitToSequence(x, np.array(2), axis=1), y, np.array(1))
    assert ops(op.Relu(op.SequenceAt(parts, np.array(1)))) == ["Relu"]
    assert ops(op.ConcatFromSequence(op.SplitToSequence(x, np.array(2), axis=1), axis=1)) == []
    assert "SequenceAt" in ops(op.SequenceAt(parts, value(dtype="i64")))


@pytest.mark.parametrize("heads", (1, 3))
def test_heads_beside_each_other_are_rotated_by_one_operator(heads: int) -> None:
    x, angle = value("n", "s", heads, 8), op.Concat(*[value(1, "s", 1, 4)] * 2, axis=-1)
    turned = op.Concat(op.Neg(op.Slice(x, [4], [8], [3])), op.Slice(x, [0], [4], [3]), axis=-1)
    found = Counter(ops(op.Add(op.Mul(x, op.Cos(angle)), op.Mul(turned, op.Sin(angle)))))
    assert found["RotaryEmbedding"] == 1 and not set(found) & {"Neg", "Slice", "Concat", "Mul"}


# ---------------------------------------------------------------------------------------------- models

SMALL: dict[str, Any] = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48,
    "use_cache": False, "pad_token_id": 0, "eos_token_id": 0, "bos_token_id": 0,
}  # fmt: skip
ROTATED: dict[str, Any] = {
    "interleaved, of a half": lambda: transformers.GlmForCausalLM(
        transformers.GlmConfig(**SMALL, num_key_value_heads=2, head_dim=8)
    ),
    "interleaved": lambda: transformers.CohereForCausalLM(transformers.CohereConfig(**SMALL, num_key_value_heads=2)),
    "of a quarter": lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**SMALL)),
    "with norms that add 1": lambda: transformers.GemmaForCausalLM(
        transformers.GemmaConfig(**SMALL, num_key_value_heads=2, head_dim=8)
    ),
}


@pytest.mark.parametrize("name", ROTATED)
def test_rotary_embeddings_of_models_are_one_operator(name: str) -> None:
    model = ROTATED[name]().eval()
    graph = lower(model, (torch.randint(0, 64, (2, 7)),), dynamic_shapes=({0: "batch", 1: "length"},))
    after = optimize(graph)
    found = Counter(v.op for v in after.order)
    assert found["RotaryEmbedding"] == 2 and found["Attention"] == 1
    assert not {v.op for v in after.order} & {"Neg", "Slice", "Concat", "Softmax"}
    tokens = [np.random.default_rng(0).integers(0, 64, (3, 5))]
    difference = compare(evaluate(graph, tokens), evaluate(after, tokens))
    assert difference is None, difference
