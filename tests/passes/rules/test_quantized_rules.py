"""Rules about weights that are integers: each fires, declines where it must, and the numbers agree on ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import irkit
import passes
from irkit import const, op, param, tensor
from irkit.core.ir import Graph, Value
from irkit.core.types import DType
from irkit.core.walk import post_order
from irkit.rewriting.rules import Rule
from passes.legal.runtime.biases import LARGE_BIASES
from passes.legal.runtime.integers import INTEGERS
from passes.quantization.biases import bias_of_integers
from passes.rules.weights.quantized import QUANTIZED, REAL_QUANTIZED

RULES = {rule.name: rule for rule in (*QUANTIZED, *REAL_QUANTIZED, *INTEGERS, *LARGE_BIASES, bias_of_integers)}
RNG = np.random.default_rng(0)


def integers(*shape: int, dtype: type[np.generic] = np.int8) -> Value:
    """A weight of integers."""
    return const(RNG.integers(0, 100, shape).astype(dtype), name="w")


def scales(*shape: int) -> Value:
    """Scales."""
    return const(RNG.uniform(0.1, 1, shape).astype(np.float32), name="s")


def graph_of(made: Value) -> Graph:
    return Graph(tuple(v for v in post_order((made,)) if v.op == "Param"), (made,))


def rewritten(made: Value, *names: str) -> Graph:
    """A value's graph after some rules."""
    return irkit.rewrite(graph_of(made), tuple(RULES[name] for name in names))


def fires(name: str, made: Value, *shapes: tuple[int, ...]) -> list[str]:
    """The operators after a rule, which changes the graph, and not its numbers, evaluated and on ONNX Runtime."""
    before, after = graph_of(made), rewritten(made, name)
    assert after != before, name
    irkit.verify(after)
    arrays = [(RNG.standard_normal(s) * 3).astype(p.dtype.numpy) for s, p in zip(shapes, before.params, strict=True)]
    (expected,) = irkit.evaluate(before, arrays)
    (mine,) = irkit.evaluate(after, arrays)
    np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-4)
    data = irkit.to_proto(passes.prepare(after)).SerializeToString()
    for level in (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    ):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 4
        run = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        names = [i.name for i in run.get_inputs()]
        (theirs,) = run.run(None, dict(zip(names, arrays, strict=True)))
        np.testing.assert_allclose(theirs, expected, rtol=1e-4, atol=1e-4)
    return [v.op for v in after.order if v.op not in ("Param", "Constant", "ShapeVector", "Item")]


def declines(name: str, made: Value) -> None:
    """A rule leaves a value's graph as it is."""
    before = graph_of(made)
    assert irkit.rewrite(before, (RULES[name],)) is before


X = param(tensor("f32", "n", 4))


def floats(q: Value) -> Value:
    return op.Cast(q, to=DType.FLOAT)


def test_a_weight_is_quantized_when_it_is_read() -> None:
    weight = const(RNG.normal(size=(4, 3)).astype(np.float32), name="w")
    made = op.QuantizeLinear(op.Mul(weight, 2.0), scales(3), const(np.zeros(3, np.int8)), axis=1)
    after = rewritten(made, "integers_of_weight")
    (found,) = after.results
    assert found.blob is not None and found.dtype is DType.INT8 and found.blob.name == "w.quantized"
    np.testing.assert_array_equal(found.blob.array, irkit.evaluate(graph_of(made), [])[0])
    declines("integers_of_weight", op.QuantizeLinear(X, np.float32(1), np.int8(0)))
    declines("integers_of_weight", op.QuantizeLinear(op.RandomNormal(shape=[3]), np.float32(1), np.int8(0)))


def test_a_weight_is_clipped_when_it_is_read() -> None:
    (found,) = rewritten(op.Clip(integers(4, 3), np.int8(10), np.int8(20)), "clip_of_integers").results
    assert found.blob is not None and found.blob.array.min() >= 10 and found.blob.array.max() <= 20
    declines("clip_of_integers", op.Clip(const(np.arange(3, dtype=np.float32), name="w"), 0.0, 1.0))
    declines("clip_of_integers", op.Clip(const(np.arange(3, dtype=np.int8)), np.int8(0), np.int8(1)))


@pytest.mark.parametrize("shape", ((), (1,), (3,), (1, 3), (4, 1)))
def test_a_weight_times_its_scale_is_a_dequantized_one(shape: tuple[int, ...]) -> None:
    assert fires("scaled_integers", op.MatMul(X, op.Mul(floats(integers(4, 3)), scales(*shape))), (2, 4)) == [
        "DequantizeLinear",
        "MatMul",
    ]
    zero = const(RNG.integers(0, 9, shape).astype(np.int8), name="z")
    made = op.MatMul(X, op.Mul(op.Sub(floats(integers(4, 3)), floats(zero)), scales(*shape)))
    assert fires("scaled_integers_from_zero", made, (2, 4)) == ["DequantizeLinear", "MatMul"]


def test_a_weight_times_something_else_stays() -> None:
    declines("scaled_integers", op.MatMul(X, op.Mul(floats(integers(4, 3)), scales(4, 3))))
    declines("scaled_integers", op.Mul(floats(integers(3)), scales(4, 3)))
    declines("scaled_integers", op.Mul(floats(const(np.arange(3, dtype=np.int8))), scales(3)))
    declines("scaled_integers", op.Mul(op.Cast(integers(4, 3), to=DType.DOUBLE), const(np.ones(3))))
    zero = const(RNG.integers(0, 9, (4, 1)).astype(np.int8), name="z")
    declines("scaled_integers_from_zero", op.Mul(op.Sub(floats(integers(4, 3)), floats(zero)), scales(3)))


@pytest.mark.parametrize("shape", ((), (1,), (3,), (1, 3)))
def test_a_product_times_scales_is_one_of_a_dequantized_weight(shape: tuple[int, ...]) -> None:
    made = op.Mul(op.MatMul(X, floats(integers(4, 3))), scales(*shape))
    assert fires("scaled_product_of_integers", made, (2, 4)) == ["DequantizeLinear", "MatMul"]


def test_a_product_times_something_else_stays() -> None:
    product = op.MatMul(X, floats(integers(4, 3)))
    declines("scaled_product_of_integers", op.Mul(product, scales(2, 3)))
    declines("scaled_product_of_integers", op.Mul(product, scales(1, 1, 3)))
    declines("scaled_product_of_integers", op.Add(op.Mul(product, scales(3)), product))


@pytest.mark.parametrize("dtype", (np.int8, np.uint8))
def test_a_product_of_bytes_in_int32_is_one_of_bytes(dtype: type[np.generic]) -> None:
    x = op.Cast(op.Clip(X, 0.0, 9.0), to=DType.of(np.dtype(dtype)))
    made = op.MatMul(op.Cast(x, to=DType.INT32), op.Cast(integers(4, 3), to=DType.INT32))
    assert fires("product_of_bytes", made, (2, 4)) == ["Clip", "Cast", "MatMulInteger"]
    declines("product_of_bytes", op.MatMul(op.Cast(x, to=DType.INT64), op.Cast(integers(4, 3), to=DType.INT64)))
    declines("product_of_bytes", op.MatMul(op.Cast(X, to=DType.INT32), op.Cast(integers(4, 3), to=DType.INT32)))


def dynamic(scale: Value | None = None) -> Value:
    """Rows through integers by a scale that is computed."""
    own = op.Div(op.ReduceMax(op.Abs(X), keepdims=0), np.float32(127)) if scale is None else scale
    zero = const(np.int8(3))
    return op.DequantizeLinear(op.QuantizeLinear(X, own, zero), own, zero)


def test_a_product_of_rows_with_a_scale_of_their_own_is_one_of_integers() -> None:
    columns = op.DequantizeLinear(integers(4, 3), scales(3), axis=1)
    found = fires("product_of_dynamic", op.MatMul(dynamic(), columns), (2, 4))
    assert "MatMulInteger" in found and "DequantizeLinear" not in found
    turned = op.DequantizeLinear(integers(3, 4), scales(3), axis=0)
    found = fires("gemm_of_dynamic", op.Gemm(dynamic(), turned, scales(3), transB=1), (2, 4))
    assert "MatMulInteger" in found and "Gemm" not in found
    declines("product_of_dynamic", op.MatMul(dynamic(const(np.float32(0.1))), columns))
    declines("product_of_dynamic", op.MatMul(dynamic(), op.DequantizeLinear(integers(4, 3), scales(4), axis=0)))
    declines(
        "product_of_dynamic",
        op.MatMul(dynamic(), op.DequantizeLinear(integers(4, 3), scales(3), const(np.ones(3, np.int8)), axis=1)),
    )
    declines("gemm_of_dynamic", op.Gemm(dynamic(), turned, scales(3), transB=1, alpha=2.0))


def test_a_bias_is_integers_of_the_steps_of_the_sums() -> None:
    image = param(tensor("f32", "n", 3, 5, 5))
    step, zero = const(np.float32(0.05)), const(np.uint8(7))
    rows = op.DequantizeLinear(op.QuantizeLinear(image, step, zero), step, zero)
    for scale in (scales(4), scales()):
        weight = op.DequantizeLinear(integers(4, 3, 2, 2), scale, axis=0)
        bias = const(RNG.normal(size=4).astype(np.float32), name="b")
        after = rewritten(op.Conv(rows, weight, bias), "bias_of_integers")
        held = [v for v in after.order if v.blob is not None and v.dtype is DType.INT32]
        assert len(held) == 1 and held[0].blob is not None and held[0].blob.name == "b.quantized"
        x = RNG.standard_normal((2, 3, 5, 5)).astype(np.float32)
        (expected,), (found,) = irkit.evaluate(graph_of(op.Conv(rows, weight, bias)), [x]), irkit.evaluate(after, [x])
        assert np.abs(found - expected).max() <= 0.05 * float(scale.blob.array.max()) / 2 * 1.01  # type: ignore[union-attr]
    weight = op.DequantizeLinear(integers(4, 3, 2, 2), scales(4), axis=0)
    declines("bias_of_integers", op.Conv(rows, weight, const(np.full(4, 1e30, np.float32), name="b")))
    declines("bias_of_integers", op.Conv(image, weight, const(np.ones(4, np.float32), name="b")))
    wrong = op.DequantizeLinear(integers(4, 3, 2, 2), scales(3), axis=1)
    declines("bias_of_integers", op.Conv(rows, wrong, const(np.ones(4, np.float32), name="b")))


def test_a_bias_beyond_32_bits_of_steps_stands_behind() -> None:
    """ONNX Runtime makes integers of biases in float32 itself: they ended at 2^31, so that channels lost theirs."""
    step, zero = const(np.float32(0.05)), const(np.uint8(7))

    def rows(*shape: int | str) -> Value:
        return op.DequantizeLinear(op.QuantizeLinear(param(tensor("f32", *shape)), step, zero), step, zero)

    least = const(np.array([0.01, 1e-12, 0.02, 1e-11], np.float32))
    bias = const(np.array([0.5, 1.5, -2.5, 3.5], np.float32))
    columns, turned = op.DequantizeLinear(integers(3, 4), least), op.DequantizeLinear(integers(4, 3), least, axis=0)
    kernel = op.DequantizeLinear(integers(4, 3, 2, 2), least, axis=0)
    whole = op.DequantizeLinear(const(np.full(4, 2**31 - 9, np.int32)), const(np.full(4, 0.05, np.float32)), axis=0)
    ones = op.DequantizeLinear(integers(3, 4), const(np.ones(4, np.float32)))
    for root, shape, name in (
        (op.Gemm(rows("n", 3), columns, bias, beta=2.0), (2, 3), "large_bias"),
        (op.Gemm(rows("n", 3), turned, bias, transB=1), (2, 3), "large_bias"),
        (op.Gemm(rows("n", 3), ones, whole), (2, 3), "large_bias"),
        (op.Conv(rows("n", 3, 4, 4), kernel, bias), (2, 3, 4, 4), "large_bias"),
        (op.Add(op.MatMul(rows("n", 3), columns), bias), (2, 3), "large_sum"),
    ):
        assert "Sub" in fires(name, root, shape)
        ended = op.DequantizeLinear(op.QuantizeLinear(root, step, zero), step, zero)
        graph, x = graph_of(ended), RNG.standard_normal(shape).astype(np.float32)
        session = onnxruntime.InferenceSession(
            irkit.to_proto(passes.prepare(graph)).SerializeToString(), providers=["CPUExecutionProvider"]
        )
        (expected,), (found,) = irkit.evaluate(graph, [x]), session.run(None, {session.get_inputs()[0].name: x})
        assert np.abs(found - expected).max() <= 0.0501
    few = const(np.full(4, 2, np.float32))
    declines("large_bias", op.Gemm(rows("n", 3), ones, few))
    declines("large_sum", op.Add(op.MatMul(rows("n", 3), ones), few))
    declines("large_bias", op.Gemm(rows("n", 3), columns, const(np.ones((1, 4), np.float32))))


def through(low: int | None = None) -> Value:
    """Numbers through int8, and a Clip where an end is given."""
    step, zero = const(np.float32(0.05)), const(np.int8(-7))
    small = op.QuantizeLinear(X, step, zero)
    small = small if low is None else op.Clip(small, np.int8(low), np.int8(127))
    return op.DequantizeLinear(small, step, zero)


def test_activations_of_int8_go_through_uint8_on_onnx_runtime() -> None:
    assert fires("unsigned_activations", through(), (2, 4)) == ["QuantizeLinear", "DequantizeLinear"]
    after = rewritten(through(), "unsigned_activations")
    assert {v.dtype for v in after.order if v.op == "QuantizeLinear"} == {DType.UINT8}
    assert fires("unsigned_activations_within", through(-127), (2, 4)) == ["QuantizeLinear", "Clip", "DequantizeLinear"]
    for x in (np.array([[np.inf, -np.inf, np.nan, 0.0]], np.float32), np.zeros((0, 4), np.float32)):
        for low in (None, -100):
            (expected,) = irkit.evaluate(graph_of(through(low)), [x])
            name = "unsigned_activations" if low is None else "unsigned_activations_within"
            np.testing.assert_array_equal(irkit.evaluate(rewritten(through(low), name), [x])[0], expected)
    step, zero = const(np.float32(0.05)), const(np.uint8(1))
    declines("unsigned_activations", op.DequantizeLinear(op.QuantizeLinear(X, step, zero), step, zero))
    ranked, zeros = scales(4), const(np.zeros(4, np.int8))
    declines("unsigned_activations", op.DequantizeLinear(op.QuantizeLinear(X, ranked, zeros), ranked, zeros))
    elsewhere = passes.prepare(graph_of(through()), "openvino")
    assert {v.dtype for v in elsewhere.order if v.op == "QuantizeLinear"} == {DType.INT8}


@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "i16", "u16"])
@pytest.mark.parametrize("count", [1, 3, 17, 64])
def test_what_is_no_number_is_quantized_to_the_least_integer_as_on_onnx_runtime(dtype: str, count: int) -> None:
    """ONNX says nothing of it; without it a rule from int8 to uint8 would change what NaN becomes."""
    x, kind = param(tensor("f32", count)), DType.of(dtype)
    zero = const(np.array(5).astype(kind.numpy))
    graph = Graph((x,), (op.Cast(op.QuantizeLinear(x, np.float32(0.5), zero), to=DType.INT32),))
    (mine,) = irkit.evaluate(graph, [np.full(count, np.nan, np.float32)])
    data = irkit.to_proto(passes.prepare(graph)).SerializeToString()
    run = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (theirs,) = run.run(None, {run.get_inputs()[0].name: np.full(count, np.nan, np.float32)})
    np.testing.assert_array_equal(mine, theirs)
    assert set(mine.tolist()) == {0 if dtype[0] == "u" else -(2 ** (kind.bits - 1))}


def test_a_weight_with_scales_of_rows_is_computed() -> None:
    """ONNX Runtime takes the scales for those of columns, once products of integers are fused, and fails."""
    step, zero = const(np.float32(0.05)), const(np.uint8(7))
    rows = op.DequantizeLinear(op.QuantizeLinear(X, step, zero), step, zero)
    made = op.MatMul(rows, op.DequantizeLinear(integers(4, 3), scales(4), axis=0))
    small = op.QuantizeLinear(made, step, zero)
    data = irkit.to_proto(passes.prepare(graph_of(op.DequantizeLinear(small, step, zero)))).SerializeToString()
    run = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    (found,) = run.run(None, {run.get_inputs()[0].name: x})
    (expected,) = irkit.evaluate(graph_of(op.DequantizeLinear(small, step, zero)), [x])
    assert np.abs(found - expected).max() <= 0.0501
    assert "Mul" in fires("product_of_scaled_rows", made, (2, 4))
    declines("product_of_scaled_rows", op.MatMul(X, op.DequantizeLinear(integers(4, 3), scales(3), axis=1)))
    declines("product_of_scaled_rows", op.MatMul(X, op.DequantizeLinear(integers(4, 3), scales(), axis=0)))


def test_casts_of_weights_are_not_folded() -> None:
    made = op.MatMul(X, floats(integers(4, 3)))
    assert "Cast" in [v.op for v in passes.optimize(graph_of(made)).order]
    table = op.MatMul(X, floats(const(np.ones((4, 3), np.int8))))
    assert "Cast" not in [v.op for v in passes.optimize(graph_of(table)).order]


def test_each_rule_has_a_sample_on_which_it_fires() -> None:
    def fires_once(rule: Rule) -> bool:
        made = (rule.sample(np.random.default_rng(seed)) for seed in range(20))  # type: ignore[misc]
        return any(irkit.rewrite(graph_of(each), (rule,)) != graph_of(each) for each in made)

    assert [rule.name for rule in RULES.values() if not fires_once(rule)] == []
