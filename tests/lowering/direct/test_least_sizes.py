"""The least sizes that the conditions of a graph leave: they stand in its ranges, and nodes are fewer for them."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import irkit
from lowering.errors import LoweringError


class Narrowing(torch.nn.Module):
    """Two convolutions, each of which leaves fewer places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv1d(1, 2, 10, stride=5), torch.nn.Conv1d(2, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.relu(self.first(x)))


def test_the_least_size_is_read_off_the_conditions_of_a_model() -> None:
    torch.manual_seed(0)
    model, x = Narrowing(), torch.randn(2, 1, 60)
    program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "batch", 2: "length"},))
    assert program.graph.symbols["length"].lo == 20
    torch.testing.assert_close(program(torch.ones(3, 1, 20)), model(torch.ones(3, 1, 20)))
    with pytest.raises(irkit.IrkitError, match="length"):
        program(torch.ones(3, 1, 19))


def both(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    """Two conditions that hold for no batch of size 0 only together."""
    if x.shape[1] == 0 or x.numel() > 0:
        x = x + 1
    return x.reshape(x.shape[0], -1, 4) if x.shape[1] > 0 else x[:1].expand(2, -1)


def test_a_size_that_conditions_refuse_together_is_left_out() -> None:
    x = torch.randn(3, 8)
    program = irkit.to_onnx(both, (x, torch.zeros(1)), dynamic_shapes=({0: "batch", 1: "width"}, None))
    assert program.graph.symbols["batch"].lo == 1
    for batch, width in ((1, 4), (5, 12)):
        given = torch.randn(batch, width)
        torch.testing.assert_close(program(given, torch.zeros(1)), both(given, torch.zeros(1)))
    with pytest.raises((irkit.IrkitError, LoweringError), match="batch"):
        program(torch.zeros(0, 8), torch.zeros(1))


class Biased(torch.nn.Module):
    """Scores with the last columns of a table of biases added, as ALiBi has them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(16.0)[None])

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        table: torch.Tensor = self.table  # pyright: ignore[reportAssignmentType]
        return scores + table[:, max(0, table.shape[1] - scores.shape[-1]) :]


def test_a_table_is_cut_without_a_maximum_where_the_sum_says_that_it_is_long_enough() -> None:
    model, scores = Biased(), torch.randn(3, 5)
    program = irkit.to_onnx(model, (scores,), dynamic_shapes=({0: "rows", 1: "columns"},))
    for columns in (1, 5, 16):
        given = torch.randn(2, columns)
        torch.testing.assert_close(program(given), model(given))
    assert "Max" not in {value.op for value in program.ready.order}
    with pytest.raises(irkit.IrkitError, match="columns"):
        program(torch.randn(2, 17))


def test_a_size_that_another_may_not_exceed_has_no_least_number() -> None:
    def model(places: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(9).scatter_add_(0, places, x)

    example = (torch.arange(4), torch.randn(6))
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}))
    for n, m in ((0, 0), (0, 3), (1, 1), (2, 3), (3, 3), (5, 8)):
        given = torch.arange(n), torch.randn(m)
        torch.testing.assert_close(program(*given), model(*given))
    for n, m in ((1, 0), (3, 2), (7, 6)):
        with pytest.raises(irkit.ContractError):
            program(torch.arange(n), torch.randn(m))
