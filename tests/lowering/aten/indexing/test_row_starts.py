"""Where rows begin among sorted row numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit


@pytest.mark.parametrize("out_int32", [False, True])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("size", [1, 4])
def test_row_starts_are_those_of_torch(size: int, dtype: torch.dtype, out_int32: bool):
    """For no numbers, rows that have none, and as many numbers as a call has; torch fixes how many rows there are."""

    def starts(rows: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._convert_indices_from_coo_to_csr(rows, size, out_int32=out_int32)

    example = (torch.zeros(3, dtype=dtype),)
    program = irkit.to_onnx(starts, example, dynamic_shapes=({0: "numbers"},), capture="direct")

    @settings(max_examples=20)
    @given(st.lists(st.integers(0, size - 1)))
    def agrees(rows: list[int]):
        args = (torch.tensor(sorted(rows), dtype=dtype),)
        found, expected = program(*args), starts(*args)
        assert found.dtype is expected.dtype and torch.equal(found, expected)

    agrees()
