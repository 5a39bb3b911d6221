"""Loops over what was found, whose count only data tells: len, min and max of it, and branches on the count."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import irkit


def pasted_row(row: Tensor, place: Tensor, width: int) -> Tensor:
    """A row stretched to a place, as far as that is within the width."""
    count = max(int(place[1] - place[0]), 1)
    row = torch.nn.functional.interpolate(row[None, None], size=count, mode="linear")[0, 0]
    whole = torch.zeros(width)
    first = max(place[0], 0)
    last = min(place[1], width)
    whole[first:last] = row[first - place[0] : last - place[0]]
    return whole


def pasted(rows: Tensor, places: Tensor, image: Tensor) -> Tensor:
    width = image.shape[0]
    found = [pasted_row(row, place, width) for row, place in zip(rows, places, strict=True)]
    if len(found) > 0:
        return torch.stack(found)
    return rows.new_empty((0, width))


SIZES = ({0: "n"}, {0: "n"}, {0: "width"})


def test_len_and_extremes_are_computed_where_int_keeps_sizes() -> None:
    places = torch.tensor([[2, 9], [-3, 4], [5, 40]])
    program = irkit.to_onnx(pasted, (torch.rand(3, 4), places, torch.rand(20)), dynamic_shapes=SIZES, rewrite=True)
    for width, pairs in ((20, [[3, 4]]), (7, [[-5, 12], [0, 7], [6, 9], [2, 5]]), (30, []), (1, [[0, 1]])):
        given = torch.rand(len(pairs), 4), torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2), torch.rand(width)
        torch.testing.assert_close(program(*given), pasted(*given))


def decoded(x: Tensor) -> Tensor:
    found = x[x[:, 0] > 0]
    count = found.shape[0]
    if count > 0:
        found = found.reshape(count, -1, 2)
    return found * 2


def test_a_count_that_decides_between_two_ranks_is_a_condition() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 0.0, 0.0], [2.0, 1.0, 5.0, 7.0]])
    program = irkit.to_onnx(decoded, (x,), dynamic_shapes=({0: "n"},), rewrite=True)
    for other in (x[:1], torch.cat([x, x + 1, -x]), torch.rand(9, 4)):
        torch.testing.assert_close(program(other), decoded(other))
    for none in (-x.abs(), x[:0]):
        with pytest.raises(irkit.ContractError):
            program(none)


def test_a_count_that_decides_in_an_expression_is_a_condition_too() -> None:
    def chosen(x: Tensor) -> Tensor:
        found = x[x > 0]
        return (found.reshape(-1, 1) if found.shape[0] != 0 else found) + 1

    program = irkit.to_onnx(chosen, (torch.tensor([1.0, -1.0]),), dynamic_shapes=({0: "n"},), rewrite=True)
    for other in (torch.tensor([3.0]), torch.arange(-2.0, 5.0)):
        torch.testing.assert_close(program(other), chosen(other))
    with pytest.raises(irkit.ContractError):
        program(torch.tensor([-1.0]))
