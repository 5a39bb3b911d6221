"""Type promotion against torch's own, over every pair of element types in every pair of categories."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import sympy
import torch

from irkit import dims
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor
from irkit.evaluation.interpreter import evaluate
from lowering.errors import Unsupported
from lowering.records.types import DTYPES
from lowering.tensors.promotion import is_truth, number_dtype, promote, promote_types, result_dtype, scalar

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support")
NUMBERS: list[Any] = [True, 3, 2.5, 1 + 2j]
KINDS = [d for d in DTYPES if d is not torch.float8_e8m0fnu]


def torch_result(*operands: Any) -> DType | None:
    """What torch promotes to; None where it refuses, or where ONNX has no such type."""
    try:
        return DTYPES.get(torch.result_type(*operands))
    except RuntimeError:
        return None


def ours(*operands: Any) -> DType | None:
    """What irkit promotes to; None where it refuses."""
    try:
        return result_dtype(*operands)
    except Unsupported:
        return None


def operand(dtype: torch.dtype, rank: int) -> tuple[torch.Tensor, Value]:
    """A tensor of that rank, and a value of the same type: COMPLEX32, the type of pairs, is of no parameter."""
    shape = (2,) * rank
    value = param(Tensor(DType.FLOAT, shape)).with_type(Tensor(DTYPES[dtype], shape))
    return torch.zeros(shape, dtype=dtype), value


@pytest.mark.parametrize("left_rank", [0, 1])
@pytest.mark.parametrize("right_rank", [0, 1])
def test_result_dtype_of_two_tensors_is_torchs(left_rank: int, right_rank: int) -> None:
    wrong = []
    for a, b in itertools.product(KINDS, KINDS):
        (ta, va), (tb, vb) = operand(a, left_rank), operand(b, right_rank)
        if torch_result(ta, tb) is not ours(va, vb):
            wrong.append((a, b, torch_result(ta, tb), ours(va, vb)))
    assert wrong == []


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("number", NUMBERS)
def test_result_dtype_of_a_tensor_and_a_number_is_torchs(rank: int, number: Any) -> None:
    for kind in KINDS:
        tensor, value = operand(kind, rank)
        assert ours(value, number) is torch_result(tensor, number), kind
        assert ours(number, value) is torch_result(number, tensor), kind


def test_result_dtype_of_numbers_is_torchs() -> None:
    for a, b in itertools.product(NUMBERS, NUMBERS):
        assert ours(a, b) is torch_result(a, b)


def test_result_dtype_of_three_categories_together() -> None:
    for a, b, number in itertools.product(
        [torch.int8, torch.float32, torch.bool], [torch.int64, torch.float64], NUMBERS
    ):
        (ta, va), (tb, vb) = operand(a, 1), operand(b, 0)
        assert result_dtype(va, vb, number) is DTYPES[(ta + tb + number).dtype]


def test_promote_is_symmetric_and_keeps_equal_types() -> None:
    for a, b in itertools.product(DTYPES.values(), DTYPES.values()):
        assert promote_types(a, a) is a
        try:
            assert promote_types(a, b) is promote_types(b, a)
        except Unsupported:
            with pytest.raises(Unsupported):
                promote_types(b, a)


def test_symbolic_numbers_are_numbers_of_their_kind() -> None:
    n = dims.symbol("n")
    assert number_dtype(n + 1) is DType.INT64
    assert number_dtype(n / 2) is DType.FLOAT
    assert number_dtype(sympy.Float(0.5) * n) is DType.FLOAT
    assert number_dtype(n > 2) is DType.BOOL and is_truth(n > 2)


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (300, DType.UINT8, 44), (-1, DType.UINT8, 255), (2**40, DType.INT32, 0), (2.9, DType.INT32, 2),
        (True, DType.FLOAT, 1.0), (float("inf"), DType.FLOAT16, float("inf")), (2**63, DType.UINT64, 2**63),
    ],
)  # fmt: skip
def test_scalar_wraps_and_truncates_as_torch_does(number: Any, dtype: DType, expected: Any) -> None:
    made = scalar(number, dtype)
    assert made.dtype is dtype and made.shape == ()
    assert made.blob is not None and made.blob.array.item() == expected


N = dims.symbol("n")


@pytest.mark.parametrize(
    ("expr", "dtype", "expected"),
    [
        (N + 1, DType.INT64, 6), (N * N, DType.FLOAT, 25.0), (N / 2, DType.FLOAT, 2.5),
        (sympy.sqrt(N), DType.DOUBLE, 5**0.5), (1 / sympy.sqrt(N), DType.DOUBLE, 5**-0.5),
        (sympy.Float(0.25) * N - 1, DType.DOUBLE, 0.25), (N > 4, DType.BOOL, True),
        (sympy.And(N > 4, N < 5), DType.BOOL, False), (sympy.exp(N), DType.DOUBLE, float(np.exp(5))),
    ],
)  # fmt: skip
def test_a_symbolic_scalar_is_computed_from_the_size(expr: Any, dtype: DType, expected: Any) -> None:
    x = param(Tensor(DType.FLOAT, (N,)))
    value = scalar(expr, dtype)
    graph = Graph((x,), (value,))
    (found,) = evaluate(graph, [np.zeros(5, np.float32)])
    assert found.dtype == dtype.numpy and found.shape == ()
    assert found == pytest.approx(expected)


def test_promoted_casts_tensors_and_makes_numbers_constants() -> None:
    a, b = promote(param(Tensor(DType.INT32, (2,))), 1.5)
    assert (a.dtype, b.dtype, b.shape) == (DType.FLOAT, DType.FLOAT, ())
    c, d = promote(param(Tensor(DType.INT32, (2,))), param(Tensor(DType.INT64, ())))
    assert (c.dtype, d.dtype) == (DType.INT32, DType.INT32)
