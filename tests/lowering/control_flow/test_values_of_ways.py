"""What branches and loops take and give beside real tensors: complex ones, sets of numbers, and None."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit


def turned(x: torch.Tensor) -> torch.Tensor:
    z = torch.view_as_complex(x.reshape(x.shape[0], 4, 2))
    out = torch.zeros(x.shape[0], 4, dtype=torch.complex64)
    for row in range(z.shape[0]):
        out[row, :2] = z[row, :2] * z[row, 1:3]
    return torch.view_as_real(out)


def multiplied(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = torch.view_as_complex(x.reshape(x.shape[0], 4, 2))
    product = torch.ones(4, dtype=torch.complex64)
    found = [product]
    for row in z:
        product = product * row
        found.append(product)
    return torch.view_as_real(torch.stack(found)), torch.view_as_real(product)


def chosen(x: torch.Tensor) -> torch.Tensor:
    z = torch.view_as_complex(x.reshape(x.shape[0], 4, 2))
    z = z * 1j if x.sum() > 0 else z + 1
    return torch.view_as_real(z)


@pytest.mark.parametrize("model", [turned, multiplied, chosen])
def test_branches_and_loops_take_complex_tensors(model: Any) -> None:
    program = irkit.to_onnx(model, (torch.rand(3, 8),), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for n in (1, 3, 6):
        for x in (torch.rand(n, 8), -torch.rand(n, 8)):
            torch.testing.assert_close(program(x), model(x))


def lengths(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    found = [number + x.shape[1] for number in mask.sum(1).tolist()]
    return x + max(found) if len(set(found)) > 1 else x


def test_a_set_has_the_numbers_of_any_list() -> None:
    args, shapes = (torch.rand(2, 4), torch.tensor([[1, 0], [1, 1]])), ({0: "rows", 1: "n"}, {0: "rows"})
    program = irkit.to_onnx(lengths, args, dynamic_shapes=shapes, capture="direct", rewrite=True)
    for rows, n in ((2, 4), (1, 3), (5, 0), (3, 7)):
        for low in (0, 1):
            args = torch.rand(rows, n), torch.randint(low, 2, (rows, 2))
            torch.testing.assert_close(program(*args), lengths(*args))


def keyed(x: torch.Tensor) -> torch.Tensor:
    return x * {4: 1, 5: 2}.get(x.shape[0], 3) + len({x.shape[0], 4})


def test_a_size_in_a_set_or_dict_is_the_number_that_the_example_has() -> None:
    program = irkit.to_onnx(
        keyed, (torch.rand(4),), dynamic_shapes=({0: "n"},), capture="direct", specialization="report"
    )
    x = torch.rand(4)
    torch.testing.assert_close(program(x), keyed(x))
    with pytest.raises(irkit.ContractError):
        program(torch.rand(5))


def masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    kept = mask if mask.sum() < mask.numel() else None
    return x if kept is None else x * kept.sum()


def masked_below(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    kept = None
    if mask.sum() < mask.numel():
        kept = mask * 2
    return x if kept is None else x * kept.sum()


@pytest.mark.parametrize("model", [masked, masked_below])
def test_a_way_that_gives_none_is_kept_as_a_condition(model: Any) -> None:
    some, every = torch.tensor([1, 0]), torch.tensor([1, 1])
    for example, other in ((some, every), (every, some)):
        program = irkit.to_onnx(model, (torch.rand(3), example), capture="direct", rewrite=True)
        x = torch.rand(3)
        torch.testing.assert_close(program(x, example), model(x, example))
        with pytest.raises(irkit.ContractError, match="a truth value that the model asks for"):
            program(x, other)


def sorted_only(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    if index is not None and not torch.all(index[:-1] <= index[1:]):
        raise ValueError("the index is not sorted")
    total = x.new_zeros(x.shape[1])
    for place in index:
        if place >= x.shape[0]:
            raise IndexError("there is no such row")
        total = total + x[place]
    return total


def test_what_a_model_raises_for_some_data_is_a_condition() -> None:
    args, shapes = (torch.rand(4, 3), torch.tensor([0, 1, 3])), ({0: "rows"}, {0: "n"})
    program = irkit.to_onnx(sorted_only, args, dynamic_shapes=shapes, capture="direct", rewrite=True)
    for index in ([2], [0, 0, 1, 3, 3], []):
        args = torch.rand(4, 3), torch.tensor(index, dtype=torch.int64)
        torch.testing.assert_close(program(*args), sorted_only(*args))
    for index in ([1, 0], [0, 4]):
        with pytest.raises(irkit.errors.IrkitError):
            program(torch.rand(4, 3), torch.tensor(index))


def nothing_found(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Asks a size that data tells, and gives other element types where that is 0."""
    found = x[x > 0]
    if found.shape[0] == 0:
        return torch.full((1,), -1, dtype=torch.int32), x * 0
    rows = [row.abs() for row in x]
    return found.argmax()[None], torch.stack(rows)


def test_ways_by_a_size_that_data_tells_which_do_not_fit_are_a_condition() -> None:
    given, shapes = (torch.randn(3, 2),), ({0: "n"},)
    program = irkit.to_onnx(nothing_found, given, dynamic_shapes=shapes, capture="direct", rewrite=True)
    for x in (torch.randn(3, 2), torch.randn(8, 2), torch.ones(1, 2)):
        torch.testing.assert_close(program(x), nothing_found(x))
    for x in (-torch.ones(3, 2), torch.ones(0, 2)):
        with pytest.raises(irkit.ContractError):
            program(x)


class Table(torch.nn.Module):
    """Keeps a table, and makes a longer one where data asks for that."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Buffer(torch.arange(40.0))

    def long_enough(self, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        if table.size(0) >= x.size(0) * 2 - 1:
            return table
        return torch.arange(2.0 * x.size(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() < 0:
            x = x + 1
        x = x[x > 0]
        self.table = self.long_enough(x, self.table)
        return x * self.table[: x.size(0)]


def test_a_decision_that_gives_a_buffer_another_size_is_a_condition() -> None:
    program = irkit.to_onnx(Table(), (torch.rand(5),), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for x in (torch.rand(7), -torch.rand(9) * 0.2, torch.rand(0), torch.rand(1), torch.rand(20)):
        torch.testing.assert_close(program(x), Table()(x))
    with pytest.raises(irkit.ContractError, match="breaks what the model asserts"):
        program(torch.rand(21) + 1)
