"""Converters of `lowering.aten.attention.moe` against eager torch."""

from __future__ import annotations

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  defines transformers::grouped_mm_fallback

import irkit
from tests.lowering.aten.oracle import check


@pytest.mark.parametrize("ends", [[2, 2, 7], [0, 7, 7], [7, 7, 7], [3, 5, 7]])
def test_groups_of_rows(ends: list[int]) -> None:
    """Groups of any length, empty ones among them; the number of rows is a symbol."""
    rows, matrices, offsets = torch.randn(7, 4), torch.randn(3, 4, 5), torch.tensor(ends, dtype=torch.int32)
    check(
        torch.ops.transformers.grouped_mm_fallback,
        rows,
        matrices,
        offsets,
        dynamic_shapes=[{0: "rows"}, {}, {}],
        others=[(torch.randn(9, 4), matrices, torch.tensor([1, 6, 9], dtype=torch.int32))],
    )


@pytest.mark.parametrize("ends", [[2, 4, 6], [0, 0, 0], [1, 8, 8], [3, 3, 8]])
def test_rows_and_columns_that_no_group_covers_are_zero(ends: list[int]) -> None:
    """torch leaves there what the memory held, and transformers zeros."""
    offs, last = torch.tensor(ends, dtype=torch.int32), ends[-1]
    a, b, experts = (torch.randn(shape).bfloat16() for shape in ((8, 16), (16, 8), (3, 16, 16)))

    def product(x: torch.Tensor, y: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.grouped_mm(x, y, offs=offs)

    rows = irkit.to_onnx(product, (a, experts, offs), dynamic_shapes=({0: "n"}, None, None))(a, experts, offs)
    torch.testing.assert_close(rows[:last], product(a, experts, offs)[:last])
    columns = irkit.to_onnx(product, (experts, b, offs))(experts, b, offs)
    torch.testing.assert_close(columns[:, :last], product(experts, b, offs)[:, :last])
    assert not rows[last:].any() and not columns[:, last:].any()
    inner = irkit.to_onnx(product, (b, a, offs))(b, a, offs)  # what no group covers is in no sum
    torch.testing.assert_close(inner, product(b, a, offs))
    f32 = [each.float() for each in (a, experts)]
    fallback = torch.ops.transformers.grouped_mm_fallback
    whole = irkit.to_onnx(lambda x, y, o: fallback(x, y, o), (*f32, offs))(*f32, offs)
    torch.testing.assert_close(whole, fallback(*f32, offs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ends", [[2, 4, 9], [4, 2, 8], [-1, 2, 8]])
def test_groups_beyond_the_rows_are_refused(ends: list[int]) -> None:
    """torch does not look, and reads what lies beyond."""
    a, experts = torch.randn(8, 16).bfloat16(), torch.randn(3, 16, 16).bfloat16()
    offs = torch.tensor([2, 4, 8], dtype=torch.int32)

    def product(x: torch.Tensor, y: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.grouped_mm(x, y, offs=offs)

    program = irkit.to_onnx(product, (a, experts, offs), dynamic_shapes=({0: "n"}, None, None))
    torch.testing.assert_close(program(a, experts, offs), product(a, experts, offs))
    with pytest.raises(irkit.ContractError, match="the groups of grouped_mm end in order"):
        program(a, experts, torch.tensor(ends, dtype=torch.int32))


def test_groups_that_counts_add_up_to_need_no_check() -> None:
    def product(x: torch.Tensor, y: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.grouped_mm(x, y, offs=counts.cumsum(0).int())

    given = torch.randn(8, 16).bfloat16(), torch.randn(3, 16, 16).bfloat16(), torch.tensor([2, 2, 4])
    assert irkit.to_onnx(product, given).checks == ()
