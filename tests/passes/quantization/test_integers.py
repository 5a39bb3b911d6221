"""Numbers as integers: how far each may be off, what is packed where, and rounding that makes up for itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from irkit.core.types import DType
from passes.quantization.integers import ends_of, gptq, in_blocks, packed_bytes, scaled_rows

KINDS = [(DType.INT4, True), (DType.UINT4, False), (DType.INT8, True), (DType.UINT8, False)]
NUMBERS = st.floats(-(2.0**99), 2.0**99, width=32) | st.sampled_from((0.0, -0.0, 1e-45, -1e-38, 3.4e38, -3.4e38))


@given(st.data(), st.sampled_from(KINDS), st.integers(1, 3), st.integers(1, 40), st.sampled_from((None, 16, 32)))
def test_nothing_is_further_off_than_half_a_step(data, kind, rows, columns, block):
    dtype, symmetric = kind
    numbers = data.draw(st.lists(NUMBERS, min_size=rows * columns, max_size=rows * columns))
    matrix = np.array(numbers, np.float32).reshape(rows, columns)
    found = scaled_rows(matrix, dtype, symmetric=symmetric, block=block)
    low, high = ends_of(dtype, symmetric=symmetric)
    assert found.integers.min() >= low
    assert found.integers.max() <= high
    assert np.isfinite(found.scales).all()
    step = np.abs(found.scales.astype(np.float64))[..., None]
    # -8 to 7 has one number less on the side that the largest number is not on, and a zero point is itself rounded.
    slack = 1.0 if not symmetric or low != -high else 0.5
    off = np.abs(
        (found.integers - found.zeros[..., None]) * found.scales[..., None].astype(np.float64)
        - in_blocks(matrix, block)
    )
    assert (off <= step * (slack + 1e-5) + 1e-45).all()


@pytest.mark.parametrize("kind", KINDS)
def test_zero_stays_zero(kind):
    dtype, symmetric = kind
    matrix = np.array([[0.0, 3.0, 5.0, 0.0], [0.0, -2.0, -7.0, 0.0], [0.0, 0.0, 0.0, 0.0]], np.float32)
    found = scaled_rows(matrix, dtype, symmetric=symmetric, block=None).numbers[:, 0, :]
    assert (found[matrix == 0] == 0).all()


def test_search_is_never_worse():
    rng = np.random.default_rng(0)
    matrix = rng.standard_t(3, (8, 256)).astype(np.float32)
    errors = [
        np.square(
            scaled_rows(matrix, DType.INT4, symmetric=True, block=32, search=search).numbers.reshape(8, 256) - matrix
        ).sum()
        for search in (False, True)
    ]
    assert errors[1] < errors[0]


def test_reduced_range_takes_seven_bits():
    matrix = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
    assert np.abs(scaled_rows(matrix, DType.INT8, symmetric=True, block=None, reduced=True).integers).max() == 63


def test_packed_puts_the_first_number_in_the_lower_half():
    assert packed_bytes(np.array([[1, 2, 3]]), 4).tolist() == [[0x21, 0x03]]
    assert packed_bytes(np.array([[1, 2, 3]]), 8).tolist() == [[1, 2, 3]]


def test_gptq_lowers_the_error_of_what_comes_out():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(6, 48))
    x = (rng.normal(size=(400, 6)) @ base + 0.1 * rng.normal(size=(400, 48))).astype(np.float32)
    weight = rng.normal(size=(20, 48)).astype(np.float32)
    plain = scaled_rows(weight, DType.UINT4, symmetric=False, block=32)
    better = gptq(weight, x.T.astype(np.float64) @ x, plain, ends_of(DType.UINT4, symmetric=False))
    errors = [np.linalg.norm(x @ (each.numbers.reshape(20, 64)[:, :48] - weight).T) for each in (plain, better)]
    assert errors[1] < 0.5 * errors[0]
    assert (better.numbers.reshape(20, 64)[:, 48:] == 0).all()
