"""Encoders and vision models in ONNX Runtime's own operators: what becomes what, and the same numbers at every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import irkit
import passes
from irkit import const, dims, op, param, tensor
from irkit.checking.rules import check_rule
from irkit.core.ir import Graph, Value
from irkit.core.walk import post_order
from irkit.rewriting.face import explain
from irkit.rewriting.rules import Rule
from passes.preparing.fuse import fuse, hold
from passes.rules.constants import transposed_constant
from passes.rules.onnxruntime.encoders import ENCODERS, HELD
from passes.targets import target_of

ORT = target_of("onnxruntime-cpu+com.microsoft")
PLAIN = target_of("onnxruntime-cpu")
RULES = {r.name: r for r in ENCODERS + HELD}
LEAVES = ("Param", "Constant", "Item", "ShapeVector")


def weight(*shape: int, seed: int = 0) -> Value:
    """A constant of that shape, of numbers around 0."""
    return const((np.random.default_rng(seed).standard_normal(shape) * 0.3).astype(np.float32))


def graph_of(*results: Value) -> Graph:
    return Graph(tuple(v for v in post_order(results) if v.op == "Param"), results)


def ops(graph: Graph) -> list[str]:
    """The operators of a graph, without the name of the domain."""
    return [v.op.rpartition("::")[2] for v in graph.order if v.op not in LEAVES]


def on_ort(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    data = irkit.to_proto(graph).SerializeToString()
    run = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    found: Any = run.run(None, {i.name: a for i, a in zip(run.get_inputs(), arrays, strict=True)})
    return found


def agree(graph: Graph, *shapes: list[tuple[int, ...]]) -> list[str]:
    """The operators of the graph for ONNX Runtime with its own domain, which computes what irkit's evaluator does."""
    fused = passes.prepare(passes.optimize(graph), ORT)
    irkit.verify(fused)
    plain = passes.prepare(passes.optimize(graph), PLAIN)
    assert not any("::" in v.op for v in plain.order)
    for seed, each in enumerate(shapes):
        rng = np.random.default_rng(seed)
        arrays: list[Any] = [
            rng.standard_normal(shape).astype(p.dtype.numpy)
            if p.dtype.is_float
            else (np.arange(shape[-1]) <= rng.integers(shape[-1], size=shape[:-1])[..., None]).astype(p.dtype.numpy)
            for shape, p in zip(each, graph.params, strict=True)
        ]
        expected = irkit.evaluate(graph, arrays)
        for one, two, three in zip(expected, on_ort(fused, arrays), on_ort(plain, arrays), strict=True):
            assert one.dtype == two.dtype == three.dtype
            np.testing.assert_allclose(two, one, atol=2e-5, rtol=2e-5)
            np.testing.assert_allclose(three, one, atol=2e-5, rtol=2e-5)
    return ops(fuse(passes.optimize(graph), ORT))


@pytest.mark.parametrize("rule", ENCODERS + HELD, ids=lambda r: r.name)
def test_both_sides_of_the_rule_are_equal(rule: Rule) -> None:
    check_rule(rule, 10)


def test_rules_say_what_they_do() -> None:
    assert all("->" in r.doc for r in RULES.values()) and len(RULES) == len(ENCODERS + HELD)


# ---------------------------------------------------------------------------------------------- attention


def layer(mask: Any = None, *, biases: bool = True, separate: bool = True, **given: Any) -> Graph:
    """An encoder's attention over f32[batch, length, 12], with three heads."""
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(tensor("f32", batch, length, 12))
    if separate:
        made = [op.MatMul(x, weight(12, 12, seed=i)) for i in range(3)]
        made = [op.Add(m, weight(12, seed=9 + i)) for i, m in enumerate(made)] if biases else made
    else:
        whole = op.MatMul(x, weight(12, 36))
        made = list(op.Split(op.Add(whole, weight(36, seed=2)) if biases else whole, axis=-1, num_outputs=3))
    extra = [] if mask is None else [mask(batch, length)]
    attributes = {"q_num_heads": 3, "kv_num_heads": 3, **given}
    found = irkit.call("Attention", [*made, *extra], attributes)
    results = (op.MatMul(found, weight(12, 12, seed=4)),)
    wanted = [v for v in post_order(results) if v.op == "Param"]
    return Graph((x, *(v for v in wanted if v is not x)), results)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("given", [{}, {"scale": 0.3}, {"is_causal": 1}])
def test_attention_holds_its_projections(biases: bool, separate: bool, given: dict[str, Any]) -> None:
    graph = layer(biases=biases, separate=separate, **given)
    assert agree(graph, [(2, 5, 12)], [(1, 1, 12)], [(3, 9, 12)]) == ["Attention", "MatMul"]


def added(batch: Any, length: Any) -> Value:
    return param(tensor("f32", 1, 1, length, length))


def by_head(batch: Any, length: Any) -> Value:
    return op.Tanh(param(tensor("f32", batch, 3, length, length)))


def matrix(batch: Any, length: Any) -> Value:
    return param(tensor("f32", length, length))


def padding(batch: Any, length: Any) -> Value:
    seen = op.Cast(param(tensor("i64", batch, length)), to=irkit.DType.BOOL)
    return op.Where(op.Unsqueeze(seen, [1, 2]), 0.0, float(np.finfo(np.float32).min))


@pytest.mark.parametrize(
    ("mask", "shape"),
    [
        (added, lambda b, n: (1, 1, n, n)), (by_head, lambda b, n: (b, 3, n, n)), (matrix, lambda b, n: (n, n)),
        (padding, lambda b, n: (b, n)),
    ],
)  # fmt: skip
def test_masks_come_along(mask: Any, shape: Any) -> None:
    sizes = [(2, 5), (1, 1), (3, 4)]
    found = agree(layer(mask), *([(b, n, 12), shape(b, n)] for b, n in sizes))
    assert found.count("Attention") == 1 and found.count("MatMul") == 1


def test_an_attention_that_is_none_of_those_stays() -> None:
    rule = RULES["packed_attention"]

    def declines(graph: Graph) -> bool:
        (value,) = [v for v in graph.order if v.op == "Attention"]
        return not explain(rule, value, graph).applies

    assert not declines(layer())
    assert declines(layer(softcap=2.0))
    assert declines(layer(lambda b, n: param(tensor("bool", b, 1, 1, n)))), "a row of a mask may be False throughout"
    assert declines(layer(lambda b, n: param(tensor("f32", b, 1, 1, n)))), "the mask has one row for all queries"
    assert declines(layer(lambda b, n: param(tensor("f32", b, 3, n, n)))), "some heads may see no key, and others some"
    batch = dims.symbol("batch")
    x, y = (param(tensor("f32", batch, 5, 12)) for _ in range(2))
    q, k, v = (op.MatMul(s, weight(12, 12, seed=i)) for i, s in enumerate((x, y, y)))
    assert declines(graph_of(irkit.call("Attention", [q, k, v], {"q_num_heads": 3, "kv_num_heads": 3})))
    k, v = (op.MatMul(x, weight(12, 4, seed=i)) for i in range(2))
    assert declines(graph_of(irkit.call("Attention", [q, k, v], {"q_num_heads": 3, "kv_num_heads": 1})))
    twice = op.MatMul(x, weight(12, 12))
    made = irkit.call("Attention", [twice, q, q], {"q_num_heads": 3, "kv_num_heads": 3})
    assert declines(graph_of(made, twice))


def test_joined_weights_are_named_after_what_they_hold() -> None:
    x = param(tensor("f32", "batch", 5, 12))
    parts = [
        op.MatMul(x, const(np.ones((12, 12), np.float32), name=f"layers.0.self.{n}.weight")) for n in ("q", "k", "v")
    ]
    fused = fuse(graph_of(irkit.call("Attention", parts, {"q_num_heads": 3, "kv_num_heads": 3})), ORT)
    (found, bias) = [v.blob for v in fused.order if v.blob is not None]
    assert found.name == "layers.0.self.q+k+v.weight" and found.shape == (12, 36)
    assert bias.shape == (36,) and not bias.array.any(), "ONNX Runtime crashes without a bias"


# ---------------------------------------------------------------------------------------------- weights as they lie


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_large_weights_are_written_as_they_lie(dtype: str) -> None:
    rng, ends = np.random.default_rng(0), []
    held = [const(rng.standard_normal(s).astype(f"float{dtype[1:]}"), name=str(s)) for s in ((140, 130), (8, 130))]
    x, row = param(tensor(dtype, "batch", "length", 130)), param(tensor(dtype, 130))
    for weight in held:
        ends += [op.MatMul(x, transposed_constant(weight)), op.MatMul(row, transposed_constant(weight))]
    graph = Graph((x, row), tuple(ends))
    for shape in ((2, 3, 130), (1, 1, 130), (0, 3, 130), (2, 0, 130)):
        agree(graph, [shape, (130,)])
    after = hold(graph, ORT)
    large = [v for v in after.order if v.op.endswith("FusedMatMul")]
    taken = [v.inputs[1].blob for v in large if v.inputs[1] is not None]
    assert taken == [held[0].blob], "the first alone: the others are small, or of a vector"
    assert hold(graph, PLAIN) is graph and hold(after, ORT) == after and hold(graph, ORT, rules="-held_weight") == graph


def test_layers_of_a_model_take_weights_as_torch_holds_them() -> None:
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, norm_first=True).eval()
    dims = {0: "batch", 1: "length"}
    program = irkit.to_onnx(model, (torch.randn(2, 3, 128),), dynamic_shapes=(dims,), target=ORT)
    assert "MatMul" not in ops(program.ready) and program.check(n=3)
    stored = {t.name: tuple(t.dims) for t in program.proto.graph.initializer}
    assert stored["linear1.weight"] == (256, 128) and stored["linear2.weight"] == (128, 256)


# ---------------------------------------------------------------------------------------------- convolutions


def convolved(**given: Any) -> tuple[Value, Value]:
    x = param(tensor("f32", "batch", 3, 8, 8))
    return x, op.Conv(x, weight(4, 3, 3, 3), weight(4), pads=[1, 1, 1, 1], **given)


@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid"])
def test_convolutions_end_with_activations(activation: str) -> None:
    x, made = convolved(strides=[2, 2])
    graph = Graph((x,), (getattr(op, activation)(made),))
    assert agree(graph, [(2, 3, 8, 8)], [(1, 3, 8, 8)]) == ["FusedConv"]


def test_what_a_convolution_may_end_with() -> None:
    x, made = convolved()
    assert agree(Graph((x,), (op.Relu(made), op.Neg(made))), [(1, 3, 8, 8)]) == ["Conv", "Relu", "Neg"]
    wide = param(tensor("f64", "batch", 3, 8, 8))
    half = op.Relu(op.Conv(wide, np.ones((4, 3, 3, 3))))
    assert ops(fuse(graph_of(half), ORT)) == ["Conv", "Relu"]


def test_a_sum_goes_into_a_convolution_where_it_is_not_slower() -> None:
    """ONNX Runtime's own layout of images fuses the sum better; without a runtime to ask it is taken."""
    x, made = convolved()
    z = param(made.type)
    graph = Graph((x, z), (op.Relu(op.Add(made, z)),))
    assert agree(graph, [(2, 3, 8, 8), (2, 4, 8, 8)]) == ["Conv", "Add", "Relu"]
    assert ops(fuse(graph, target_of("onnx+com.microsoft"))) == ["FusedConv"]
    row = param(tensor("f32", 4, 1, 1))
    assert not explain(RULES["conv_sum"], op.Add(made, row)).applies


# --------------------------------------------------------------------------------------------- products and activations


def test_activations_take_their_bias() -> None:
    x = param(tensor("f32", "n", "m", 8))
    total = op.Add(x, weight(8))
    assert agree(Graph((x,), (op.Gelu(total),)), [(2, 3, 8)], [(1, 1, 8)]) == ["BiasGelu"]
    assert agree(Graph((x,), (op.Gelu(total, approximate="tanh"),)), [(2, 3, 8)]) == ["FastGelu"]
    assert agree(Graph((x,), (op.Swish(x, alpha=1.702),)), [(2, 3, 8)]) == ["QuickGelu"]
    assert agree(Graph((x,), (op.Gelu(op.Add(x, weight(1))),)), [(2, 3, 8)]) == ["Add", "Gelu"]
    assert agree(Graph((x,), (op.Gelu(op.Add(x, weight(3, 8))),)), [(2, 3, 8)]) == ["Add", "Gelu"]
    assert agree(Graph((x,), (op.Gelu(total), total)), [(2, 3, 8)]) == ["Add", "Gelu"]


def test_products_take_transposes_and_factors() -> None:
    a, b = param(tensor("f32", "n", 2, "m", 6)), param(tensor("f32", "n", 2, "k", 6))
    product = op.MatMul(a, op.Transpose(b, perm=(0, 1, 3, 2)))
    shapes = [[(2, 2, 3, 6), (2, 2, 5, 6)], [(1, 2, 1, 6), (1, 2, 1, 6)]]
    for result in (product, op.Mul(product, 0.25), op.Div(product, 3.0)):
        assert agree(Graph((a, b), (result,)), *shapes) == ["FusedMatMul"]
    rule = RULES["turned_product"]
    assert not explain(rule, op.MatMul(a, op.Transpose(weight(2, 5, 6), perm=(0, 2, 1)))).applies, "a weight"
    turned = op.Transpose(param(tensor("f32", 2, 6, "n", "k")), perm=(2, 0, 1, 3))
    assert not explain(rule, op.MatMul(a, turned)).applies, "more than the last two axes"


def test_gemm_ends_with_an_activation() -> None:
    x = param(tensor("f32", "n", 6))
    made = op.Gemm(x, weight(4, 6), weight(4), transB=1)
    assert agree(Graph((x,), (op.Tanh(made),)), [(3, 6)], [(1, 6)]) == ["FusedGemm"]


# ---------------------------------------------------------------------------------------------- models


def test_an_encoder_layer_is_nine_operators() -> None:
    batch, length = dims.symbol("batch"), dims.symbol("length")
    x = param(tensor("f32", batch, length, 12))
    q, k, v = (op.Add(op.MatMul(x, weight(12, 12, seed=i)), weight(12, seed=i)) for i in range(3))
    heads = [
        op.Transpose(op.Reshape(h, irkit.shape_vector((batch, length, 3, 4))), perm=(0, 2, 1, 3)) for h in (q, k, v)
    ]
    scores = op.Softmax(op.Mul(op.MatMul(heads[0], op.Transpose(heads[1], perm=(0, 1, 3, 2))), 0.5), axis=-1)
    scores = op.Where(op.IsNaN(scores), 0.0, scores)
    joined = op.Reshape(
        op.Transpose(op.MatMul(scores, heads[2]), perm=(0, 2, 1, 3)), irkit.shape_vector((batch, length, 12))
    )
    norm = (const(np.ones(12, np.float32)), weight(12))
    first = op.Add(op.Add(op.MatMul(joined, weight(12, 12, seed=5)), weight(12, seed=6)), x)
    hidden = op.Gelu(op.Add(op.MatMul(op.LayerNormalization(first, *norm), weight(12, 24)), weight(24)))
    second = op.Add(op.Add(op.MatMul(hidden, weight(24, 12)), weight(12, seed=7)), first)
    graph = Graph((x,), (op.LayerNormalization(second, *norm),))
    agree(graph, [(2, 5, 12)], [(1, 1, 12)], [(2, 7, 12)])
    assert ops(passes.prepare(passes.optimize(graph), ORT)) == [
        "Attention",
        "MatMul",
        "Sum",
        "LayerNormalization",
        "MatMul",
        "BiasGelu",
        "MatMul",
        "Sum",
        "LayerNormalization",
    ]


def test_projections_are_joined_where_a_mask_keeps_them_outside() -> None:
    def boolean(batch: Any, length: Any) -> Value:
        return op.Greater(param(tensor("f32", batch, 1, 1, length)), -1.5)

    sizes = [(2, 5), (1, 1), (3, 4)]
    found = agree(layer(boolean), *([(b, n, 12), (b, 1, 1, n)] for b, n in sizes))
    assert [each for each in found if each != "Greater"] == ["MatMul", "Add", "Split", "Attention", "MatMul"]


@pytest.mark.parametrize("low", [-3.4028235e38, 3.4028235e38, -1e30])
@pytest.mark.parametrize("mask", [added, by_head, matrix, padding])
def test_queries_all_of_whose_keys_have_the_largest_penalty_take_a_mean(mask: Any, low: float) -> None:
    """Scores are lost beside the ends of float32, so that all keys count alike: no zeros, and no NaN."""
    graph = layer(mask)
    held = graph.params[1]
    numbers = np.random.default_rng(0).standard_normal((2, 5, 12)).astype(np.float32)
    shape = tuple(dims.evaluate(d, {"batch": 2, "length": 5}) for d in held.shape)
    found = np.zeros(shape, held.dtype.numpy)
    if held.dtype.is_float:
        found[..., 0, :], found[..., 1, 1:] = low, low
    else:
        found[1] = 1
    (expected,) = irkit.evaluate(graph, [numbers, found])
    fused, plain = (passes.prepare(passes.optimize(graph), each) for each in (ORT, PLAIN))
    assert "Attention" in ops(fused) and np.isfinite(expected).all() and expected.any(axis=-1).all()
    for each in (fused, plain):
        np.testing.assert_allclose(on_ort(each, [numbers, found])[0], expected, atol=2e-5, rtol=2e-5)
