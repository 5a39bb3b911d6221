"""Lists that data leaves empty: what torch makes of them, sums of them, and what is said where neither can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from lowering.errors import CaptureError

ROWS: Any = ({0: "n"},)


def made(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([r for r in x[:, 0] if r > 1])


def made_of_a_type(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([r for r in x[:, 0] if r > 1], dtype=torch.float64)


def summed(x: torch.Tensor) -> torch.Tensor:
    return x + sum(r[0] for r in x if r[0] > 1)


@pytest.mark.parametrize(("function", "level"), [(made, 0.0), (made, 2.0), (made_of_a_type, 0.0), (summed, 2.0)])
def test_a_list_that_data_leaves_empty_is_eagers(function: Callable[..., Any], level: float) -> None:
    program = irkit.to_onnx(function, (torch.full((4, 3), level),), dynamic_shapes=ROWS, rewrite=True)
    for x in (torch.zeros(3, 3), torch.full((5, 3), 2.0), torch.tensor([[0.0], [3.0]]).expand(2, 3), torch.zeros(0, 3)):
        found, expected = program(x), function(x)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected)


def test_a_list_of_integers_must_have_some() -> None:
    example = torch.full((4, 3), 2)
    program = irkit.to_onnx(made, (example,), dynamic_shapes=ROWS, rewrite=True)
    assert torch.equal(program(example[:2]), made(example[:2]))
    with pytest.raises(IrkitError):  # float32[0] in eager
        program(example * 0)
    with pytest.raises(CaptureError, match=r"^torch\.tensor is given a list that data leaves empty"):
        irkit.to_onnx(made, (example * 0,), dynamic_shapes=ROWS, rewrite=True, capture="direct")


def test_what_a_comprehension_ends_before_is_told_in_a_sentence() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if any(x[i].sum() < 2 for i, r in enumerate(x, 1) if r[0] > 0) else x

    with pytest.raises(CaptureError, match="is rewritten to fails for the example, which eager takes: Gather") as told:
        irkit.to_onnx(function, (torch.ones(4, 1),), dynamic_shapes=ROWS, rewrite=True, capture="direct")
    assert "let what it computes work for each element" in str(told.value)


def test_a_sum_of_no_rows_is_told_in_a_sentence() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + sum(r for r in x if r.sum() > 1)

    program = irkit.to_onnx(function, (torch.ones(4, 3),), dynamic_shapes=ROWS, rewrite=True)
    torch.testing.assert_close(program(torch.ones(2, 3)), function(torch.ones(2, 3)))
    with pytest.raises(IrkitError, match="a loop over what data takes has no round for the example"):
        irkit.to_onnx(function, (torch.zeros(4, 3),), dynamic_shapes=ROWS, rewrite=True, capture="direct")


def test_a_sum_of_no_numbers_is_told_in_a_sentence() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + sum([x.shape[0] - i for i in range(0, x.shape[0], 2) if x[i].sum() > 0])

    program = irkit.to_onnx(function, (torch.ones(4, 3),), dynamic_shapes=ROWS, rewrite=True)
    torch.testing.assert_close(program(torch.ones(3, 3)), function(torch.ones(3, 3)))
    with pytest.raises(IrkitError, match="a loop over what data takes has no round for the example"):
        irkit.to_onnx(function, (torch.zeros(4, 3),), dynamic_shapes=ROWS, rewrite=True, capture="direct")
