"""Converters of `lowering.aten.moe` against eager torch."""

from __future__ import annotations

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  defines transformers::grouped_mm_fallback

from tests.converters.oracle import check


@pytest.mark.parametrize("ends", [[2, 2, 7], [0, 7, 7], [7, 7, 7], [3, 5, 7]])
def test_groups_of_rows(ends: list[int]) -> None:
    """Groups of any length, empty ones among them; the number of rows is a symbol."""
    rows, matrices, offsets = torch.randn(7, 4), torch.randn(3, 4, 5), torch.tensor(ends, dtype=torch.int32)
    check(
        torch.ops.transformers.grouped_mm_fallback, rows, matrices, offsets, dynamic_shapes=[{0: "rows"}, {}, {}],
        others=[(torch.randn(9, 4), matrices, torch.tensor([1, 6, 9], dtype=torch.int32))],
    )  # fmt: skip
