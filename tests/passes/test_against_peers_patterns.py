"""Small graphs, one for each pattern that other optimizers of ONNX know, and the nodes that they leave of them.

The bound of a graph is the least number of nodes that onnxslim, onnxsim, onnxscript (its optimizer with its rules for
ONNX Runtime, com.microsoft left out) or ONNX Runtime's basic level leave. irkit must leave no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from irkit import dims
from irkit.build import const, op
from irkit.checking.comparison import compare
from irkit.core.ir import Graph, Value, param
from irkit.core.types import tensor
from irkit.core.walk import post_order
from irkit.evaluation.interpreter import evaluate
from irkit.verification.laws import verify
from passes import optimize

N, M = dims.symbol("n"), dims.symbol("m")


@attrs.frozen
class Case:
    """A graph and the number of nodes that the best of the others leaves of it."""

    build: Callable[[], Any]
    bound: int

    @property
    def name(self) -> str:
        return self.build.__name__


CASES: list[Case] = []


def leaves(bound: int) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """The function under it builds a graph of which the best of the others leaves so many nodes."""

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        CASES.append(Case(build, bound))
        return build

    return register


def value(*shape: Any, dtype: str = "f32") -> Value:
    return param(tensor(dtype, *shape))


def weight(*shape: int) -> Value:
    rng = np.random.default_rng(math.prod(shape))
    return const(rng.standard_normal(shape).astype(np.float32))


def graph_of(build: Callable[[], Any]) -> Graph:
    results = build()
    results = results if isinstance(results, tuple) else (results,)
    return Graph(tuple(v for v in post_order(results) if v.op == "Param"), results)


def nodes(graph: Graph) -> list[str]:
    return [v.op for v in graph.order if v.op not in ("Param", "Constant", "Item", "ShapeVector")]


def feeds(graph: Graph, sizes: dict[str, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    found = []
    for each in graph.params:
        shape = tuple(dims.evaluate(d, sizes) for d in each.shape)
        plain = rng.standard_normal(shape) if each.dtype.is_float else rng.integers(0, 2, shape)
        found.append(plain.astype(each.dtype.numpy))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_more_nodes_are_left_than_by_others(case: Case) -> None:
    before = graph_of(case.build)
    after = optimize(before)
    verify(after)
    assert optimize(after) is after
    found = nodes(after)
    assert len(found) <= case.bound, found
    for n, m in ((2, 3), (1, 4)):
        given = feeds(before, {"n": n, "m": m})
        difference = compare(evaluate(before, given), evaluate(after, given))
        assert difference is None, difference


def test_there_is_a_case_for_each_pattern() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 90


# ---------------------------------------------------------------------------------------------- nothing to do


@leaves(0)
def identity_and_dropout() -> Any:
    x = value("n", 4)
    return op.Identity(op.Dropout(x))


@leaves(0)
def neutral_numbers() -> Any:
    x = value("n", 4)
    return op.Div(op.Mul(op.Sub(op.Add(x, 0.0), 0.0), 1.0), 1.0)


@leaves(0)
def views_that_change_nothing() -> Any:
    x = value("n", 4)
    y = op.Reshape(op.Flatten(op.Transpose(op.Expand(x, [1, 1]), perm=(0, 1))), [0, 4])
    return op.Slice(op.Tile(op.Pad(y, [0, 0, 0, 0]), [1, 1]), [0], [2**62], [1])


@leaves(0)
def concat_and_split_of_one() -> Any:
    x = value("n", 4)
    return op.Split(op.Concat(x, axis=0), num_outputs=1)


@leaves(1)
def idempotent_operators() -> Any:
    return op.Relu(op.Relu(op.Relu(value("n", 4))))


@leaves(2)
def common_subexpressions() -> Any:
    x = value("n", 4)
    return op.Add(op.Exp(x), op.Exp(x))


@leaves(0)
def casts_that_change_nothing() -> Any:
    x = value("n", 4)
    return op.Cast(op.Cast(x, to=1), to=1)


@leaves(1)
def two_casts() -> Any:
    return op.Cast(op.Cast(value("n", 4, dtype="f16"), to=1), to=7)


@leaves(0)
def branch_of_a_constant() -> Any:
    x = value("n", 4)
    return op.If(np.array(True), then_branch=lambda: op.Identity(x), else_branch=lambda: op.Neg(x))


@leaves(1)
def consecutive_log_softmax() -> Any:
    return op.Log(op.Softmax(value("n", 4), axis=-1))


# ---------------------------------------------------------------------------------------------- views


@leaves(1)
def reshape_of_reshape() -> Any:
    return op.Reshape(op.Reshape(value("n", 4, 6), [0, 24]), [0, 6, 4])


@leaves(0)
def reshape_of_squeeze() -> Any:
    x = value("n")
    return op.Reshape(op.Squeeze(op.Unsqueeze(x, [0]), [0]), [-1])


@leaves(1)
def unsqueeze_of_unsqueeze() -> Any:
    return op.Unsqueeze(op.Unsqueeze(value("n", 4), [0]), [3])


@leaves(1)
def squeeze_of_squeeze() -> Any:
    return op.Squeeze(op.Squeeze(value(1, "n", 1, 4), [0]), [1])


@leaves(1)
def flatten_and_reshape() -> Any:
    return op.Reshape(op.Flatten(value("n", 4, 6)), [-1, 3, 8])


@leaves(1)
def reshape_as_another() -> Any:
    x, y = value("n", 4, 6), value("n", 8, 3)
    sizes = op.Shape(y)
    parts = [op.Unsqueeze(op.Gather(sizes, i), [0]) for i in range(3)]
    return op.Reshape(x, op.Concat(*parts, axis=0))


@leaves(1)
def concat_into_reshape() -> Any:
    x = value("n", "m", 24)
    size = op.Unsqueeze(op.Gather(op.Shape(x), 0), [0])
    return op.Reshape(x, op.Concat(size, np.array([-1]), np.array([6]), np.array([4]), axis=0))


@leaves(1)
def slice_of_a_shape() -> Any:
    x, y = value("n", "m", 24), value(1, 1, 24)
    return op.Expand(y, op.Concat(op.Slice(op.Shape(x), [0], [2], [0]), np.array([24]), axis=0))


@leaves(1)
def expand_before_an_addition() -> Any:
    x, y = value("n", 4), value(1, 4)
    return op.Add(op.Expand(y, op.Shape(x)), x)


@leaves(1)
def expand_before_a_product() -> Any:
    x = value("n", "m", 4)
    return op.Mul(x, op.Expand(weight(4), op.Shape(x)))


@leaves(1)
def expand_before_where() -> Any:
    x, y = value("n", 4), value("n", 4, dtype="bool")
    return op.Where(y, x, op.Expand(const(np.float32(-1e9)), op.Shape(x)))


@leaves(1)
def expand_before_a_comparison() -> Any:
    x = value("n", 4)
    return op.Less(op.Expand(value(4), op.Shape(x)), x)


@leaves(1)
def constant_of_shape_cast() -> Any:
    x = value("n", 4)
    return op.Cast(op.ConstantOfShape(op.Shape(x), value=np.array([1.0], np.float32)), to=7)


# ---------------------------------------------------------------------------------------------- transposes


@leaves(0)
def transposes_that_cancel() -> Any:
    return op.Transpose(op.Transpose(value("n", 3, 4), perm=(0, 2, 1)), perm=(0, 2, 1))


@leaves(1)
def transpose_of_transpose() -> Any:
    return op.Transpose(op.Transpose(value("n", 3, 4, 5), perm=(0, 2, 1, 3)), perm=(0, 2, 3, 1))


@leaves(1)
def transpose_as_a_reshape() -> Any:
    return op.Transpose(value("n", 1, 4), perm=(1, 0, 2))


@leaves(1)
def transposes_around_relu() -> Any:
    return op.Transpose(op.Relu(op.Transpose(value("n", 3, 4), perm=(0, 2, 1))), perm=(0, 2, 1))


@leaves(1)
def transposes_around_an_addition() -> Any:
    x, y = value("n", 3, 4), value("n", 3, 4)
    turned = (op.Transpose(v, perm=(0, 2, 1)) for v in (x, y))
    return op.Transpose(op.Add(*turned), perm=(0, 2, 1))


@leaves(1)
def transposes_around_a_vector_of_biases() -> Any:
    turned = op.Transpose(value("n", 3, 4, 5), perm=(0, 2, 3, 1))
    return op.Transpose(op.Add(turned, weight(3)), perm=(0, 3, 1, 2))


@leaves(1)
def transposes_around_softmax() -> Any:
    turned = op.Transpose(value("n", 3, 4), perm=(0, 2, 1))
    return op.Transpose(op.Softmax(turned, axis=-1), perm=(0, 2, 1))


@leaves(1)
def transposes_around_a_mean() -> Any:
    turned = op.Transpose(value("n", 3, 4, 5), perm=(0, 2, 3, 1))
    return op.Transpose(op.ReduceMean(turned, [1, 2]), perm=(0, 3, 1, 2))


@leaves(1)
def transposes_around_concat() -> Any:
    turned = [op.Transpose(v, perm=(0, 2, 3, 1)) for v in (value("n", 3, 4, 5), value("n", 2, 4, 5))]
    return op.Transpose(op.Concat(*turned, axis=-1), perm=(0, 3, 1, 2))


@leaves(1)
def transposes_around_split() -> Any:
    turned = op.Transpose(value("n", 4, 4, 5), perm=(0, 2, 3, 1))
    parts = op.Split(turned, axis=-1, num_outputs=2)
    return tuple(op.Transpose(part, perm=(0, 3, 1, 2)) for part in parts)


@leaves(1)
def transposes_around_pad() -> Any:
    turned = op.Transpose(value("n", 4, 4, 5), perm=(0, 2, 3, 1))
    return op.Transpose(op.Pad(turned, [0, 1, 1, 0, 0, 1, 1, 0]), perm=(0, 3, 1, 2))


@leaves(1)
def transposes_around_slice() -> Any:
    turned = op.Transpose(value("n", 4, 4, 5), perm=(0, 2, 3, 1))
    return op.Transpose(op.Slice(turned, [0], [2], [3]), perm=(0, 3, 1, 2))


@leaves(1)
def transposes_around_unsqueeze() -> Any:
    turned = op.Transpose(value("n", 3, 4), perm=(0, 2, 1))
    return op.Transpose(op.Unsqueeze(turned, [1]), perm=(0, 1, 3, 2))


@leaves(1)
def transposes_around_squeeze() -> Any:
    turned = op.Transpose(value("n", 1, 3, 4), perm=(0, 1, 3, 2))
    return op.Transpose(op.Squeeze(turned, [1]), perm=(0, 2, 1))


@leaves(1)
def transposes_around_a_splitting_reshape() -> Any:
    turned = op.Transpose(value(2, 6, 4), perm=(0, 2, 1))
    return op.Transpose(op.Reshape(turned, [2, 4, 2, 3]), perm=(0, 2, 3, 1))


@leaves(1)
def transpose_into_gemm() -> Any:
    return op.Gemm(op.Transpose(value(4, "n")), op.Transpose(value(6, 4)))


@leaves(1)
def transpose_and_reduce_away() -> Any:
    return op.ReduceMean(op.Transpose(value("n", 3, 4, 5), perm=(0, 2, 3, 1)), [1, 2], keepdims=0)


# ------------------------------------------------------------------------------ slices, splits, gathers, concatenations


@leaves(1)
def slices_of_other_axes() -> Any:
    return op.Slice(op.Slice(value("n", 4, 6), [1], [3], [1]), [0], [5], [2])


@leaves(1)
def slices_of_the_same_axis() -> Any:
    return op.Slice(op.Slice(value("n", 10), [2], [8], [1]), [1], [4], [1])


@leaves(1)
def slices_that_are_a_split() -> Any:
    x = value("n", 8)
    return op.Slice(x, [0], [4], [1]), op.Slice(x, [4], [8], [1])


@leaves(0)
def split_and_concat() -> Any:
    x = value("n", 8)
    return op.Concat(*op.Split(x, axis=1, num_outputs=2), axis=1)


@leaves(0)
def slices_and_concat() -> Any:
    x = value("n", 8)
    return op.Concat(op.Slice(x, [0], [3], [1]), op.Slice(x, [3], [8], [1]), axis=1)


@leaves(1)
def concat_of_concat() -> Any:
    x, y, z = value("n", 2), value("n", 3), value("n", 4)
    return op.Concat(op.Concat(x, y, axis=1), z, axis=-1)


@leaves(1)
def concat_of_nothing() -> Any:
    x, y = value(1, 2), value(1, 3)
    return op.Concat(x, const(np.zeros((1, 0), np.float32)), y, axis=1)


@leaves(1)
def slice_of_concat() -> Any:
    x, y = value("n", 2), value("n", 3)
    return op.Relu(op.Slice(op.Concat(x, y, axis=1), [0], [2], [1]))


@leaves(2)
def split_of_concat() -> Any:
    x, y = value("n", 2), value("n", 3)
    a, b = op.Split(op.Concat(x, y, axis=1), np.array([2, 3]), axis=1)
    return op.Relu(a), op.Exp(b)


@leaves(1)
def gather_of_gather() -> Any:
    return op.Gather(op.Gather(value(8, "n"), np.array([4, 2, 0])), np.array([0, 2]))


@leaves(3)
def gathers_that_are_a_split() -> Any:
    x = value("n", 3, 4)
    return tuple(op.Gather(x, np.array(i), axis=1) for i in range(3))


# ---------------------------------------------------------------------------------------------- convolutions


def image(channels: int = 3) -> Value:
    return value("n", channels, 8, 8)


@leaves(1)
def pad_into_conv() -> Any:
    return op.Conv(op.Pad(image(), [0, 0, 1, 1, 0, 0, 1, 1]), weight(4, 3, 3, 3))


@leaves(1)
def pad_into_pool() -> Any:
    padded = op.Pad(image(), [0, 0, 1, 1, 0, 0, 1, 1])
    return op.AveragePool(padded, kernel_shape=(3, 3), count_include_pad=1)


@leaves(1)
def pad_with_padding_into_conv() -> Any:
    return op.Conv(op.Pad(image(), [0, 0, 1, 0, 0, 0, 0, 1], 0.0), weight(4, 3, 3, 3), pads=[1, 1, 1, 1])


@leaves(1)
def batch_norm_into_conv() -> Any:
    made = op.Conv(image(), weight(4, 3, 3, 3), pads=[1, 1, 1, 1])
    return op.BatchNormalization(made, weight(4), weight(4), weight(4), const(np.full(4, 0.5, np.float32)))


@leaves(1)
def batch_norm_into_conv_transpose() -> Any:
    made = op.ConvTranspose(image(), weight(3, 4, 3, 3))
    return op.BatchNormalization(made, weight(4), weight(4), weight(4), const(np.full(4, 0.5, np.float32)))


@leaves(1)
def batch_norm_into_gemm() -> Any:
    made = op.Gemm(value("n", 6), weight(6, 4))
    return op.BatchNormalization(made, weight(4), weight(4), weight(4), const(np.full(4, 0.5, np.float32)))


@leaves(1)
def bias_after_conv() -> Any:
    return op.Add(op.Conv(image(), weight(4, 3, 3, 3)), const(np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)))


@leaves(1)
def factor_after_conv() -> Any:
    return op.Mul(op.Conv(image(), weight(4, 3, 3, 3)), const(np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1)))


@leaves(1)
def affine_after_conv() -> Any:
    return op.Add(op.Mul(op.Conv(image(), weight(4, 3, 3, 3)), 2.0), 0.5)


@leaves(1)
def affine_before_conv() -> Any:
    return op.Conv(op.Add(op.Mul(image(), 2.0), 0.5), weight(4, 3, 3, 3))


@leaves(1)
def bias_of_zeros() -> Any:
    return op.Conv(image(), weight(4, 3, 3, 3), const(np.zeros(4, np.float32)))


# ---------------------------------------------------------------------------------------------- products


@leaves(1)
def matmul_and_bias() -> Any:
    return op.Add(op.MatMul(value("n", 6), weight(6, 4)), weight(4))


@leaves(1)
def gemm_and_bias() -> Any:
    return op.Add(op.Gemm(value("n", 6), weight(6, 4)), weight(4))


@leaves(1)
def gemm_and_factor() -> Any:
    return op.Mul(op.Gemm(value("n", 6), weight(6, 4), weight(4)), 2.0)


@leaves(1)
def gemm_factors_and_bias() -> Any:
    return op.Add(op.Mul(op.Gemm(value("n", 6), weight(6, 4)), weight(4)), weight(4))


@leaves(1)
def product_of_a_product() -> Any:
    return op.MatMul(op.MatMul(value("n", "m", 6), weight(6, 64)), weight(64, 3))


@leaves(1)
def reshapes_around_a_product() -> Any:
    x, y = value(2, 3, 4, 5), value(2, 3, 5, 6)
    made = op.MatMul(op.Reshape(x, [6, 4, 5]), op.Reshape(y, [6, 5, 6]))
    return op.Reshape(made, [2, 3, 4, 6])


@leaves(1)
def einsum_that_is_a_product() -> Any:
    return op.Einsum(value("n", 3, 4), value("n", 4, 5), equation="bij,bjk->bik")


# ---------------------------------------------------------------------------------------------- reductions


@leaves(1)
def reduce_and_unsqueeze() -> Any:
    return op.Unsqueeze(op.ReduceSum(value("n", 4), [1], keepdims=0), [1])


@leaves(1)
def reduce_and_squeeze() -> Any:
    return op.Squeeze(op.ReduceMean(value("n", 4), [1]), [1])


@leaves(1)
def reduce_of_reduce() -> Any:
    return op.ReduceSum(op.ReduceSum(value("n", 4, 5), [1]), [2])


@leaves(1)
def sum_of_squares() -> Any:
    x = value("n", 4)
    return op.ReduceSum(op.Mul(x, x), [1])


# ---------------------------------------------------------------------------------------------- clips


@leaves(1)
def relu_of_clip() -> Any:
    return op.Relu(op.Clip(value("n"), -1.0, 2.0))


@leaves(1)
def clip_of_relu() -> Any:
    return op.Clip(op.Relu(value("n")), None, 2.0)


@leaves(1)
def clip_of_clip() -> Any:
    return op.Clip(op.Clip(value("n"), -1.0, 2.0), 0.0, 3.0)


@leaves(1)
def max_of_max() -> Any:
    return op.Max(op.Max(value("n"), 1.0), 2.0)


@leaves(1)
def min_of_min() -> Any:
    return op.Min(op.Min(value("n"), 1.0), 2.0)


@leaves(1)
def max_of_min() -> Any:
    return op.Max(op.Min(value("n"), 3.0), -1.0)


@leaves(1)
def min_of_max() -> Any:
    return op.Min(op.Max(value("n"), -1.0), 3.0)


@leaves(1)
def hard_swish() -> Any:
    x = value("n", 4)
    return op.Div(op.Mul(x, op.Clip(op.Add(x, 3.0), 0.0, 6.0)), 6.0)


@leaves(1)
def hard_sigmoid() -> Any:
    x = value("n", 4)
    return op.Div(op.Clip(op.Add(x, 3.0), 0.0, 6.0), 6.0)


@leaves(1)
def hard_swish_of_hard_sigmoid() -> Any:
    x = value("n", 4)
    return op.Mul(x, op.HardSigmoid(x, alpha=1 / 6, beta=0.5))


# ---------------------------------------------------------------------------------------------- scatters


@leaves(0)
def scatter_of_everything() -> Any:
    x, y = value("n", 4), value("n", 4)
    places = op.Range(0, op.Gather(op.Shape(x), 0), 1)
    return op.ScatterND(x, op.Unsqueeze(places, [-1]), y)


@leaves(0)
def scatter_of_every_constant_row() -> Any:
    return op.ScatterND(value(3, 4), np.array([[0], [1], [2]]), value(3, 4))


# ---------------------------------------------------------------------------------------------- activations and norms


@leaves(1)
def gelu_of_erf() -> Any:
    x = value("n", 4)
    return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, math.sqrt(2))), 1.0)), 0.5)


@leaves(1)
def gelu_of_tanh() -> Any:
    x = value("n", 4)
    inner = op.Mul(op.Add(x, op.Mul(op.Pow(x, 3.0), 0.044715)), math.sqrt(2 / math.pi))
    return op.Mul(op.Mul(x, 0.5), op.Add(op.Tanh(inner), 1.0))


def deviations(x: Value) -> Value:
    return op.Sub(x, op.ReduceMean(x, [-1]))


@leaves(1)
def layer_norm() -> Any:
    gap = deviations(value("n", "m", 8))
    normed = op.Div(gap, op.Sqrt(op.Add(op.ReduceMean(op.Pow(gap, 2.0), [-1]), 1e-5)))
    return op.Add(op.Mul(normed, weight(8)), weight(8))


@leaves(1)
def layer_norm_by_reciprocals() -> Any:
    gap = deviations(value("n", "m", 8))
    root = op.Reciprocal(op.Sqrt(op.Add(op.ReduceMean(op.Mul(gap, gap), [-1]), 1e-5)))
    return op.Mul(op.Mul(gap, root), weight(8))


@leaves(1)
def rms_norm() -> Any:
    x = value("n", "m", 8)
    root = op.Sqrt(op.Add(op.ReduceMean(op.Pow(x, 2.0), [-1]), 1e-6))
    return op.Mul(op.Mul(x, op.Reciprocal(root)), weight(8))


@leaves(1)
def rms_norm_computed_wide() -> Any:
    x = value("n", "m", 8, dtype="f16")
    wide = op.Cast(x, to=1)
    root = op.Sqrt(op.Add(op.ReduceMean(op.Mul(wide, wide), [-1]), 1e-6))
    normed = op.Cast(op.Mul(wide, op.Reciprocal(root)), to=10)
    return op.Mul(const(np.ones(8, np.float16) * np.float16(0.5)), normed)


def halves(x: Value, size: int) -> tuple[Value, Value]:
    return op.Slice(x, [0], [size], [3], [1]), op.Slice(x, [size], [2**63 - 1], [3], [1])


def rotated(x: Value, cos: Value, sin: Value, size: int) -> Value:
    low, high = halves(x, size)
    return op.Add(op.Mul(x, cos), op.Mul(op.Concat(op.Neg(high), low, axis=-1), sin))


def tables() -> tuple[Value, Value]:
    angles = value("n", "m", 4)
    both = op.Concat(angles, angles, axis=-1)
    return op.Unsqueeze(op.Cos(both), [1]), op.Unsqueeze(op.Sin(both), [1])


@leaves(3)
def rotary_embedding() -> Any:
    return rotated(value("n", 2, "m", 8), *tables(), 4)


@leaves(5)
def partial_rotary_embedding() -> Any:
    x = value("n", 2, "m", 12)
    low = op.Slice(x, [0], [8], [3], [1])
    high = op.Slice(x, [8], [2**63 - 1], [3], [1])
    return op.Concat(rotated(low, *tables(), 4), high, axis=-1)
