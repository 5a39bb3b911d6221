"""NaN in torch.mode and in unique(dim=...), where torch's own order is left to chance: held to laws, not to torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.export import Dim

import irkit

NAN, INF = float("nan"), float("inf")
ELEMENTS = st.sampled_from((NAN, NAN, INF, -INF, 0.0, -0.0, 1.0, 2.0))
SIZES = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


@st.composite
def tables(draw: Any) -> np.ndarray:
    """Up to seven rows of up to three elements, many of them NaN."""
    shape = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    return np.array(draw(st.lists(ELEMENTS, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))).reshape(shape)


def modes(x: torch.Tensor) -> Any:
    return torch.mode(x, 0)


def rows(x: torch.Tensor) -> Any:
    return torch.unique(x, dim=0, return_inverse=True, return_counts=True)


@pytest.fixture(scope="module", params=[torch.float32, torch.float64, torch.float16], ids=str)
def dtype(request: Any) -> Any:
    return request.param


@pytest.fixture(scope="module")
def mode_of(dtype: torch.dtype) -> Any:
    return irkit.to_onnx(modes, (torch.randn(4, 3).to(dtype),), dynamic_shapes=SIZES)


@pytest.fixture(scope="module")
def unique_of(dtype: torch.dtype) -> Any:
    return irkit.to_onnx(rows, (torch.randn(4, 3).to(dtype),), dynamic_shapes=SIZES)


@settings(max_examples=40, deadline=None)
@given(tables())
def test_the_most_frequent_number(mode_of: Any, dtype: torch.dtype, table: np.ndarray) -> None:
    values, places = mode_of(torch.tensor(table).to(dtype))
    for j, column in enumerate(table.T):
        numbers = column[~np.isnan(column)]
        if not numbers.size:
            assert torch.isnan(values[j]) and places[j] == 0
            continue
        different, counts = np.unique(numbers, return_counts=True)
        expected = different[np.argmax(counts)]
        assert values[j] == expected and places[j] == np.flatnonzero(column == expected)[-1]


@settings(max_examples=40, deadline=None)
@given(tables())
def test_different_rows_in_order(unique_of: Any, dtype: torch.dtype, table: np.ndarray) -> None:
    """Every row stands where the inverse says; rows with NaN stand alone; NaN comes after every number."""
    values, inverse, counts = unique_of(torch.tensor(table).to(dtype))
    kept = values.double().numpy()
    np.testing.assert_array_equal(kept[inverse.numpy()], table)
    assert np.bincount(inverse.numpy(), minlength=len(kept)).tolist() == counts.tolist()
    alone = np.isnan(table).any(1)
    together = {tuple(row + 0.0) for row in table[~alone]}
    assert len(kept) == alone.sum() + len(together)
    keys = [tuple(np.ravel([(np.isnan(v), 0.0 if np.isnan(v) else v) for v in row])) for row in kept]
    assert keys == sorted(keys)
