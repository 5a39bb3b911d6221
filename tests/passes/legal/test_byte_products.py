"""Products of bytes are what arithmetic says on every processor: ONNX Runtime adds two products of unsigned and signed
bytes in 16 bits where a processor has AVX2 and no VNNI."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import irkit
import passes
from irkit import Graph, Value, const, op, param, tensor
from irkit.onnx.writing.models import to_proto
from passes.legal.runtime.byte_products import SMALL

KINDS = {"u8": np.uint8, "i8": np.int8}
LEVELS = (
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
)


def ends(rng: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    """Bytes near both ends of what their type holds."""
    limits = np.iinfo(KINDS[kind])
    return rng.choice(np.array([limits.max, limits.max - 1, limits.max, limits.min], KINDS[kind]), shape)


def matrix_integer(rng: np.random.Generator, x: Value, kind: str) -> Value:
    return op.MatMulInteger(x, const(ends(rng, kind, 64, 16), name="w"), const(np.zeros((), x.dtype.numpy)))


def matrix_linear(rng: np.random.Generator, x: Value, kind: str) -> Value:
    w, point = const(ends(rng, kind, 64, 16), name="w"), KINDS[kind](0)
    return op.QLinearMatMul(x, np.float32(1), np.uint8(0), w, np.float32(1), point, np.float32(1 << 13), np.uint8(128))


def floats(rng: np.random.Generator, x: Value, kind: str) -> Value:
    w = op.DequantizeLinear(const(ends(rng, kind, 64, 16), name="w"), np.ones(16, np.float32), axis=1)
    made = op.Gemm(op.DequantizeLinear(x, np.float32(1), np.uint8(3)), w)
    return op.DequantizeLinear(
        op.QuantizeLinear(made, np.float32(1 << 13), np.uint8(128)), np.float32(1), np.uint8(128)
    )


PRODUCTS = {"MatMulInteger": matrix_integer, "QLinearMatMul": matrix_linear, "Gemm of floats": floats}


def run(graph: Graph, x: np.ndarray, level: Any) -> np.ndarray:
    """What ONNX Runtime gives for the file of a graph that is fitted to it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    model = to_proto(passes.prepare(graph, "onnxruntime-cpu"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


@pytest.mark.parametrize("level", LEVELS, ids=["plain", "optimized"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_products_of_matrices_keep_every_sum(product: str, kind: str, level: Any) -> None:
    rng = np.random.default_rng(3)
    x = param(tensor("u8", "n", 64))
    graph = Graph((x,), (PRODUCTS[product](rng, x, kind),))
    given = ends(rng, "u8", 5, 64)
    (expected,) = irkit.evaluate(graph, [given])
    np.testing.assert_array_equal(run(graph, given, level), expected)


@pytest.mark.parametrize("level", LEVELS, ids=["plain", "optimized"])
@pytest.mark.parametrize("groups", (1, 2, 8))
@pytest.mark.parametrize(("given", "kind"), [("u8", "i8"), ("u8", "u8"), ("i8", "u8"), ("i8", "i8")])
def test_convolutions_keep_every_sum(given: str, kind: str, groups: int, level: Any) -> None:
    rng = np.random.default_rng(5)
    x = param(tensor(given, "n", 8, 7, 7))
    weights = const(ends(rng, kind, 16, 8 // groups, 3, 3), name="w")
    graph = Graph((x,), (op.ConvInteger(x, weights, group=groups),))
    numbers = ends(rng, given, 2, 8, 7, 7)
    (expected,) = irkit.evaluate(graph, [numbers])
    np.testing.assert_array_equal(run(graph, numbers, level), expected)


@pytest.mark.parametrize("level", LEVELS, ids=["plain", "optimized"])
@pytest.mark.parametrize("groups", (1, 2, 8))
def test_convolutions_of_floats_keep_every_sum(groups: int, level: Any) -> None:
    rng = np.random.default_rng(7)
    x = param(tensor("u8", "n", 8, 7, 7))
    held = const(ends(rng, "i8", 16, 8 // groups, 3, 3), name="w")
    scales = (2.0 ** rng.integers(-2, 1, 16)).astype(np.float32)
    made = op.Conv(
        op.DequantizeLinear(x, np.float32(1), np.uint8(5)), op.DequantizeLinear(held, scales, axis=0), group=groups
    )
    step = np.float32(1 << 13)
    graph = Graph((x,), (op.QuantizeLinear(made, step, np.uint8(128)),))
    numbers = ends(rng, "u8", 2, 8, 7, 7)
    (expected,) = irkit.evaluate(graph, [numbers])
    gap = np.abs(run(graph, numbers, level).astype(int) - expected.astype(int))
    assert gap.max() <= 1  # which side a half is rounded to


def test_weights_that_cannot_saturate_and_computed_ones() -> None:
    x = param(tensor("u8", "n", 64))
    rng = np.random.default_rng(9)
    small = const(rng.integers(-SMALL, SMALL + 1, (64, 4)).astype(np.int8), name="w")
    graph = Graph((x,), (op.MatMulInteger(x, small),))
    assert passes.prepare(graph, "onnxruntime-cpu") is graph
    other = param(tensor("i8", 64, 4))
    both = Graph((x, other), (op.MatMulInteger(x, other),))
    made = passes.prepare(both, "onnxruntime-cpu")
    given = [ends(rng, "u8", 3, 64), ends(rng, "i8", 64, 4)]
    for one, two in zip(irkit.evaluate(made, given), irkit.evaluate(both, given), strict=True):
        np.testing.assert_array_equal(one, two)
    assert all(
        v.inputs[1].dtype.short == "u8" for v in made.order if v.op == "MatMulInteger" and v.inputs[1] is not None
    )


def test_weights_alone_stay_signed() -> None:
    x = param(tensor("f32", "n", 64))
    w = op.DequantizeLinear(const(ends(np.random.default_rng(1), "i8", 64, 4), name="w"), np.float32(0.1))
    graph = Graph((x,), (op.MatMul(x, w),))
    assert passes.prepare(graph, "onnxruntime-cpu") is graph


@pytest.mark.parametrize("turned", (0, 1))
def test_weights_in_float32_are_no_bytes_of_the_runtimes_own(turned: int) -> None:
    rng = np.random.default_rng(11)
    x = param(tensor("f32", "n", 16))
    weights = const(rng.standard_normal((32, 16) if turned else (16, 32)).astype(np.float32), name="w")
    step, point = np.float32(0.05), np.uint8(131)
    small = op.DequantizeLinear(op.QuantizeLinear(x, step, point), step, point)
    made = op.Gemm(small, weights, rng.standard_normal(32).astype(np.float32), transB=turned)
    graph = Graph((x,), (op.DequantizeLinear(op.QuantizeLinear(made, np.float32(0.2), point), np.float32(0.2), point),))
    given = (rng.standard_normal((64, 16)) * 3).astype(np.float32)
    plain, optimized = (run(graph, given, level) for level in LEVELS)
    gap = np.abs(optimized - plain)
    assert gap.max() <= 0.2001 and (gap > 0.01).mean() < 0.01  # one step, where a sum lies between two


KERNELS: dict[str, Any] = {
    "Conv": lambda x, w, b: op.Conv(x, w, b),
    "Conv without a bias": lambda x, w, b: op.Conv(x, w),
    "Conv and Add": lambda x, w, b: op.Add(op.Conv(x, w), b.reshape(-1, 1, 1)),
    "Add and Conv": lambda x, w, b: op.Add(b.reshape(-1, 1, 1), op.Conv(x, w)),
    "ConvTranspose": lambda x, w, b: op.ConvTranspose(x, w.transpose(1, 0, 2, 3), b),
    "Conv and Relu": lambda x, w, b: op.Relu(op.Conv(x, w, b)),
    "Conv and Clip": lambda x, w, b: op.Clip(op.Conv(x, w), np.float32(0), np.float32(6)),
    "Conv and MaxPool": lambda x, w, b: op.MaxPool(op.Conv(x, w, b), kernel_shape=[2, 2]),
    "one kernel": lambda x, w, b: op.Conv(x, w[:1], b[:1]),
    "one kernel without a bias": lambda x, w, b: op.Conv(x, w[:1]),
}


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
def test_kernels_in_float32_are_no_bytes_of_the_runtimes_own(kind: str, signed: bool) -> None:
    rng = np.random.default_rng(12)
    x = param(tensor("f32", "n", 8, 9, 9))
    w, b = rng.standard_normal((16, 8, 3, 3)).astype(np.float32), rng.standard_normal(16).astype(np.float32)
    step, point = np.float32(0.05), np.int8(3) if signed else np.uint8(131)
    small = op.DequantizeLinear(op.QuantizeLinear(x, step, point), step, point)
    made = op.QuantizeLinear(KERNELS[kind](small, w, b), np.float32(0.5), point)
    graph = Graph((x,), (op.DequantizeLinear(made, np.float32(0.5), point),))
    given = (rng.standard_normal((2, 8, 9, 9)) * 3).astype(np.float32)
    plain, optimized = (run(graph, given, level) for level in LEVELS)
    gap = np.abs(optimized - plain)
    assert gap.max() <= 0.5001 and (gap > 0.01).mean() < 0.005  # one step, where a sum lies between two
