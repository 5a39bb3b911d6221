"""Every rule of `passes`, both sides computed on random instances; and what each must and must not do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from irkit import dims
from irkit.build import const, op, shape_vector
from irkit.checking.rules import check_rule
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, tensor
from irkit.core.walk import post_order
from irkit.rewriting.face import Rule, explain
from irkit.verification.laws import verify
from passes import optimize
from passes.rules.arithmetic.casts import holds_all
from tests.support.draws import drawn
from tests.tables.rules import PAGE, RULES, page

SOME = drawn("rules", RULES, 180, key=lambda rule: rule.name)


@pytest.mark.parametrize("rule", SOME, ids=lambda rule: rule.name)
def test_both_sides_of_the_rule_are_equal(rule: Rule) -> None:
    assert check_rule(rule, 12).fired >= 3


def test_the_page_of_rules_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make rules`"


def test_rules_have_names_of_their_own_and_say_what_they_do() -> None:
    assert len({r.name for r in RULES}) == len(RULES)
    for each in RULES:
        assert "->" in each.doc, each.name


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def ops(*results: Value, level: int = 2) -> list[str]:
    """The operators that are left of the results, optimized."""
    params = tuple(v for v in post_order(results) if v.op == "Param")
    after = optimize(Graph(params, results), level=level)
    verify(after)
    assert optimize(after, level=level) is after
    return [v.op for v in after.order if v.op not in ("Param", "Constant", "Item", "ShapeVector")]


# ---------------------------------------------------------------------------------------------- algebra


def test_zero_is_dropped_only_where_the_sign_of_zero_allows() -> None:
    a = value("n")
    assert ops(op.Add(a, -0.0), level=1) == [] and ops(op.Sub(a, 0.0), level=1) == []
    assert ops(op.Add(a, 0.0), level=1) == ["Add"] and ops(op.Add(a, 0.0)) == []
    assert ops(op.Sub(a, -0.0), level=1) == ["Sub"]
    assert ops(op.Add(value("n", dtype="i64"), 0), level=1) == []


def test_what_broadcasts_is_kept() -> None:
    assert ops(op.Mul(value(4), np.ones((2, 1), np.float32))) == ["Mul"]
    assert ops(op.Where(np.array([[True], [True]]), value(3), value(1))) == ["Where"]


def test_weights_are_no_constants() -> None:
    weight = const(np.ones(4, np.float32), name="norm.weight")
    other = const(np.ones(4, np.float32), name="other.weight")
    assert ops(op.Mul(value("n", 4), weight)) == ["Mul"]
    a = value("n", 4)
    assert ops(op.Mul(a, weight), op.Mul(a, other)) == ["Mul", "Mul"]


def test_division_by_a_power_of_two_is_exact() -> None:
    a = value("n")
    assert ops(op.Div(a, 8.0), level=1) == ["Mul"] and ops(op.Div(a, 3.0), level=1) == ["Div"]
    assert ops(op.Div(value("n", dtype="i32"), np.int32(8)), level=1) == ["Div"]


def test_constants_merge_unless_they_overflow() -> None:
    a = value("n")
    assert ops(op.Mul(op.Mul(a, 2.0), 3.0)) == ["Mul"]
    assert ops(op.Mul(op.Mul(a, 1e30), 1e30)) == ["Mul", "Mul"]
    inner = op.Mul(a, 2.0)
    assert ops(op.Mul(inner, 3.0), inner) == ["Mul", "Mul"]


# ---------------------------------------------------------------------------------------------- sizes and views


def test_size_arithmetic_of_imported_graphs_folds_away() -> None:
    a = value("batch", "seq", 768)
    sizes = op.Shape(a)
    batch, seq = op.Gather(sizes, 0), op.Gather(sizes, 1)
    target = op.Concat(op.Unsqueeze(batch, [0]), op.Unsqueeze(seq, [0]), np.array([12]), np.array([-1]), axis=0)
    split = op.Reshape(a, target)
    assert ops(split) == ["Reshape"]
    (found,) = optimize(Graph((a,), (split,))).results
    assert found.shape == (dims.symbol("batch"), dims.symbol("seq"), 12, 64)
    half = op.Div(seq, 2)
    kept = op.Slice(a, [0], op.Unsqueeze(half, [0]), [1])
    assert ops(kept) == ["Slice"]
    assert optimize(Graph((a,), (kept,))).results[0].shape[1] == dims.minimum(
        dims.symbol("seq"), dims.floordiv(dims.symbol("seq"), 2)
    )


def test_data_dependent_sizes_keep_what_binds_them() -> None:
    a = value("n")
    places = op.NonZero(a)
    count = op.Gather(op.Shape(places), 1)
    g = optimize(Graph((a,), (op.Mul(count, 2),)))
    (vector,) = [v for v in g.order if v.op == "ShapeVector"]
    assert [v.op for v in vector.inputs if v is not None] == ["NonZero"]
    verify(g)


def test_views_of_views() -> None:
    a = value("n", 6)
    assert ops(op.Reshape(op.Reshape(a, [0, 2, 3]), [0, 6])) == []
    assert ops(op.Squeeze(op.Unsqueeze(a, [1]), [1])) == []
    assert ops(op.Unsqueeze(op.Unsqueeze(a, [0]), [0])) == ["Unsqueeze"]
    assert ops(op.Reshape(a, shape_vector((dims.symbol("n"), 1, 6)))) == ["Unsqueeze"]
    assert ops(op.Flatten(op.Unsqueeze(a, [2]))) == []


def test_a_view_is_not_merged_where_sizes_would_have_to_be_computed() -> None:
    n, m = dims.symbol("n"), dims.symbol("m")
    a = value("n", "m", 6)
    lead = op.Unsqueeze(op.Reshape(a, shape_vector((n, m, 2, 3))), [0])
    assert ops(lead) == ["Reshape", "Unsqueeze"]


def test_expand_before_an_operator_that_broadcasts() -> None:
    a, b = value(1, 4), value("n", 4)
    n = dims.symbol("n")
    assert ops(op.Add(op.Expand(a, shape_vector((n, 4))), b)) == ["Add"]
    assert ops(op.Sub(b, op.Expand(a, shape_vector((n, 4))))) == ["Sub"]
    assert ops(op.Add(op.Expand(a, [3, 4]), a)) == ["Expand", "Add"]


# ---------------------------------------------------------------------------------------------- casts


def test_two_casts_are_one_only_where_the_first_loses_nothing() -> None:
    half, whole, small = value("n", dtype="f16"), value("n"), value("n", dtype="i8")
    assert ops(op.Cast(op.Cast(half, to=1), to=10)) == []
    assert ops(op.Cast(op.Cast(whole, to=10), to=1)) == ["Cast", "Cast"]
    assert ops(op.Cast(op.Cast(small, to=1), to=7)) == ["Cast"]
    assert ops(op.Cast(op.Cast(small, to=1), to=2)) == ["Cast", "Cast"]  # f32 to u8 out of range is open, i8 wraps


def test_holds_all_agrees_with_numpy() -> None:
    kinds = [DType[n] for n in "FLOAT DOUBLE FLOAT16 INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 BOOL".split()]
    for small in kinds:
        for large in kinds:
            if small is not DType.BOOL and large is not DType.BOOL and not (small.is_integer and large.is_float):
                assert holds_all(small, large) == np.can_cast(small.numpy, large.numpy, "safe"), (small, large)
    assert not holds_all(DType.INT32, DType.FLOAT) and holds_all(DType.INT16, DType.FLOAT)
    assert not holds_all(DType.BFLOAT16, DType.FLOAT16) and not holds_all(DType.FLOAT16, DType.BFLOAT16)


# ---------------------------------------------------------------------------------------------- transposes


def test_transposes_meet_and_cancel() -> None:
    a = value("n", 3, "h", "w")
    there, back = (0, 2, 3, 1), (0, 3, 1, 2)
    turned = op.Transpose(a, perm=there)
    assert ops(op.Transpose(op.Relu(op.Mul(turned, 2.0)), perm=back)) == ["Mul", "Relu"]
    both = op.Add(op.Transpose(a, perm=there), op.Transpose(op.Abs(a), perm=there))
    assert sorted(ops(op.Transpose(both, perm=back))) == ["Abs", "Add"]


def test_a_transpose_of_ones_is_a_view() -> None:
    assert ops(op.Transpose(value("n", 1, 5), perm=(1, 0, 2))) == ["Reshape"]
    assert ops(op.Transpose(value("n", "m", 1), perm=(2, 0, 1))) == ["Transpose"]  # two sizes would be computed


def test_a_weight_is_seen_transposed_without_a_copy() -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    weight = const(data, name="linear.weight")
    a = value("n", "m", 4)
    g = optimize(Graph((a,), (op.MatMul(a, op.Transpose(weight, perm=(1, 0))),)))
    (found,) = [v for v in g.order if v.blob is not None]
    assert found.blob is not None and weight.blob is not None
    assert np.shares_memory(found.blob.array, weight.blob.array)
    assert np.array_equal(found.blob.array, data.T)
    tied = op.MatMul(a, op.Transpose(weight, perm=(1, 0)))
    assert "Transpose" in ops(tied, op.Gather(weight, value("k", dtype="i64")))


def test_matrices_become_gemm() -> None:
    a, b, c = value("n", 4), value(3, 4), value(3)
    assert ops(op.Add(op.MatMul(a, op.Transpose(b)), c)) == ["Gemm"]
    assert ops(op.Add(op.MatMul(a, op.Transpose(b)), value("n", 3))) == ["Gemm"]
    assert ops(op.Add(op.MatMul(value(1, 4), op.Transpose(b)), value(5, 3))) == ["Gemm", "Add"]
    assert ops(op.Add(op.MatMul(value(2, 4, dtype="i64"), value(4, 3, dtype="i64")), value(3, dtype="i64"))) == [
        "MatMul",
        "Add",
    ]


# ---------------------------------------------------------------------------------------------- fusions


def gelu_forms(a: Value) -> list[Value]:
    inner = op.Add(op.Erf(op.Div(a, math.sqrt(2))), 1.0)
    return [op.Mul(op.Mul(a, 0.5), inner), op.Mul(a, op.Mul(inner, 0.5)), op.Mul(op.Mul(inner, a), 0.5),
            op.Mul(0.5, op.Mul(a, op.Add(1.0, op.Erf(op.Mul(a, math.sqrt(0.5))))))]  # fmt: skip


def tanh_forms(a: Value) -> list[Value]:
    root = math.sqrt(2 / math.pi)
    cubed = op.Add(a, op.Mul(op.Pow(a, 3.0), 0.044715))
    slow = op.Mul(op.Mul(0.5, a), op.Add(op.Tanh(op.Mul(root, cubed)), 1.0))
    fast = op.Mul(op.Mul(a, root), op.Add(op.Mul(op.Mul(a, 0.044715), a), 1.0))
    return [slow, op.Mul(op.Mul(0.5, a), op.Add(1.0, op.Tanh(fast)))]


def test_activations_in_every_form() -> None:
    a = value("n", 8)
    assert [ops(form) for form in gelu_forms(a) + tanh_forms(a)] == [["Gelu"]] * 6
    assert ops(op.Mul(op.Sigmoid(a), a)) == ["Swish"]
    assert ops(op.Mul(a, op.Sigmoid(op.Mul(a, 1.702)))) == ["Swish"]
    assert ops(op.Mul(a, op.Sigmoid(value("n", 8)))) == ["Sigmoid", "Mul"]


@pytest.mark.parametrize("square", [lambda v: op.Mul(v, v), lambda v: op.Pow(v, 2.0)])
@pytest.mark.parametrize("root", [lambda a, s: op.Div(a, s), lambda a, s: op.Mul(a, op.Reciprocal(s))])
def test_norms_in_every_form(square: Any, root: Any) -> None:
    a, w, b = value("n", "m", 8), value(8), value(8)
    spread = op.Sqrt(op.Add(op.ReduceMean(square(a), [-1]), 1e-6))
    assert ops(op.Mul(w, root(a, spread))) == ["RMSNormalization"]
    gap = op.Sub(a, op.ReduceMean(a, [-1]))
    normed = root(gap, op.Sqrt(op.Add(op.ReduceMean(square(gap), [2]), 1e-5)))
    assert ops(op.Add(op.Mul(normed, w), b)) == ["LayerNormalization"]
    other = root(gap, op.Sqrt(op.Add(op.ReduceMean(square(gap), [1]), 1e-5)))
    assert "LayerNormalization" not in ops(op.Add(op.Mul(other, w), b))


def test_softmax_and_keepdims() -> None:
    a = value("n", 8)
    shifted = op.Exp(op.Sub(a, op.ReduceMax(a, [1])))
    assert ops(op.Div(shifted, op.ReduceSum(shifted, [-1]))) == ["Softmax"]
    assert ops(op.Squeeze(op.ReduceSum(a, [1]), [1])) == ["ReduceSum"]
    assert ops(op.Unsqueeze(op.ReduceMean(a, [1], keepdims=0), [1])) == ["ReduceMean"]


def test_clips_merge_only_where_they_meet() -> None:
    a = value("n")
    assert ops(op.Relu(op.Clip(a, -1.0, 6.0))) == ["Clip"] and ops(op.Clip(op.Relu(a), None, 6.0)) == ["Clip"]
    assert ops(op.Relu(op.Clip(a, -5.0, -1.0))) == ["Clip", "Relu"]
    assert ops(op.Clip(op.Clip(a, 0.0, 1.0), 2.0, 3.0)) == ["Clip"]


def test_attention_keeps_heads_in_the_last_axis() -> None:
    b, s = dims.symbol("b"), dims.symbol("s")

    def heads(x: Value, count: int) -> Value:
        return op.Transpose(op.Reshape(x, shape_vector((b, s, count, 8))), perm=(0, 2, 1, 3))

    def repeated(x: Value) -> Value:
        return op.Reshape(op.Expand(op.Unsqueeze(x, [2]), shape_vector((b, 2, 2, s, 8))), shape_vector((b, 4, s, 8)))

    q, k, v = value("b", "s", 32), value("b", "s", 16), value("b", "s", 16)
    found = op.Attention(heads(q, 4), repeated(heads(k, 2)), repeated(heads(v, 2)), is_causal=1)
    flat = op.Reshape(op.Transpose(found, perm=(0, 2, 1, 3)), shape_vector((b, s, 32)))
    assert ops(flat) == ["Attention"]
    angle = value("b", 1, "s", 4)
    cos, sin = (op.Concat(f, f, axis=-1) for f in (op.Cos(angle), op.Sin(angle)))
    turned = heads(q, 4)
    low, high = op.Slice(turned, [0], [4], [3]), op.Slice(turned, [4], [8], [3])
    rope = op.Add(op.Mul(turned, cos), op.Mul(op.Concat(op.Neg(high), low, axis=-1), sin))
    assert "RotaryEmbedding" in ops(rope) and "Neg" not in ops(rope)


def test_a_near_miss_is_explained() -> None:
    a = value("n", 8)
    gelu = next(r for r in RULES if r.name == "gelu")
    almost = op.Mul(op.Mul(a, 0.5), op.Add(op.Erf(op.Div(a, 1.5)), 1.0))
    found = explain(gelu, almost)
    assert not found.matched and found.reason == "found f32[] Constant 1.5, expected about 1.41421"
