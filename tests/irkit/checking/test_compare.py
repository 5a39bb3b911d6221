"""`irkit.compare`: what is a difference, and what is not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from irkit.checking.comparison import TOLERANCES, compare, tolerance
from irkit.core.types import DType

F = np.float32


def f32(*values: float) -> np.ndarray:
    """A vector of float32."""
    return np.array(values, dtype=F)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (f32(1, 2), f32(1, 2)),
        (f32(1, 2), f32(1, 2.00001)),
        (f32(np.nan, np.inf, -np.inf), f32(np.nan, np.inf, -np.inf)),
        (f32(0.0), f32(-0.0)),
        ([f32(1), None, {"a": np.arange(3)}], (f32(1), None, {"a": np.arange(3)})),
        (np.zeros((0, 3), F), np.zeros((0, 3), F)),
        (np.array("a", object), np.array("a", object)),
        (np.array([1 + 2j], np.complex64), np.array([1 + 2.00001j], np.complex64)),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0078125], ml_dtypes.bfloat16)),
        (3, 3),
        ((), []),
    ],
)
def test_same(expected: Any, actual: Any) -> None:
    assert compare(expected, actual) is None


@pytest.mark.parametrize(
    ("expected", "actual", "says"),
    [
        (f32(1), np.array([1.0]), "f32"),
        (f32(1), np.array(1, F), "shape"),
        (np.zeros((0, 3), F), np.zeros((3, 0), F), "shape"),
        (f32(1, np.nan), f32(1, 2), "NaN"),
        (f32(1, 2), f32(np.nan, 2), "NaN"),
        (f32(np.inf), f32(-np.inf), "infinities"),
        (f32(np.inf), f32(3e38), "infinities"),
        (f32(1, 2), f32(1, 2.001), "1 of 2"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2"),
        (np.array([True]), np.array([False]), "1 of 1"),
        (np.array(["a"], object), np.array(["b"], object), "1 of 1"),
        (np.array([1 + 2j]), np.array([1 - 2j]), "differ"),
        ([f32(1)], [f32(1), f32(1)], "1 result"),
        ([f32(1)], f32(1), "list"),
        (None, f32(1), "nothing"),
        ({"a": 1}, {"b": 1}, "keys"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "['a'][1]"),
    ],
)
def test_different(expected: Any, actual: Any, says: str) -> None:
    found = compare(expected, actual)
    assert found is not None
    assert says in str(found)


def test_the_worst_element_is_named() -> None:
    expected = np.ones((2, 3), F)
    actual = expected.copy()
    actual[0, 1], actual[1, 2] = 1.01, 1.5
    found = compare(expected, actual)
    assert found is not None and found.index == (1, 2)
    assert found.max_abs == pytest.approx(0.5) and found.max_rel == pytest.approx(0.5)
    assert compare(expected, actual, atol=1.0) is None


def test_tolerances_given_replace_those_of_the_type_but_never_loosen_integers() -> None:
    assert compare(np.array([1]), np.array([2]), rtol=10, atol=10) is not None
    assert compare(f32(1), f32(1.00001), rtol=0, atol=0) is not None
    assert tolerance("f32", atol=0).rtol == TOLERANCES[DType.FLOAT].rtol


def test_float32_is_held_to_1e_4_or_better() -> None:
    assert TOLERANCES[DType.FLOAT].rtol <= 1e-4 and TOLERANCES[DType.FLOAT].atol <= 1e-4
