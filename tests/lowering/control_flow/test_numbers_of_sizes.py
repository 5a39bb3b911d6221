"""Plain numbers that a model makes of sizes: lists of the numbers in a tensor, repeated lists, elements of a shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from tests.lowering.control_flow.test_functions import same


def elements_of_a_shape(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[1:].numel()) * x.size().numel()


def zeros_of_a_batch(x: Tensor) -> Tensor:
    return x + torch.tensor([0.0] * x.shape[0])[:, None, None] + torch.tensor([2] * x.shape[2])


def sizes_of_images(x: Tensor) -> Any:
    sizes = [(x.shape[1], x.shape[2])] * x.shape[0]
    total = torch.zeros(())
    for h, w in sizes:
        total = total + x[0, :h, :w].sum()
    return total, torch.tensor(sizes), len(sizes) * x


def kinds_of_numbers(x: Tensor) -> Tensor:
    return torch.tensor([(x.shape[1], 0.5, True)] * x.shape[2])


SHAPES = ({0: "b", 1: "h", 2: "w"},)
SIZES = ((2, 4, 3), (1, 1, 1), (3, 2, 5))


@pytest.mark.parametrize("model", [elements_of_a_shape, zeros_of_a_batch, sizes_of_images, kinds_of_numbers])
def test_numbers_of_sizes_vary(model: Callable[..., Any]) -> None:
    program = irkit.to_onnx(model, (torch.rand(SIZES[0]),), dynamic_shapes=SHAPES, rewrite=True)
    for size in SIZES:
        x = torch.rand(size)
        same(program(x), model(x))


def weighted_grids(grids: Tensor) -> Any:
    total = torch.zeros((), dtype=torch.int64)
    for (t, h, w), merge in zip(grids.tolist(), torch.tensor([2]).expand(len(grids)).tolist(), strict=False):
        places = torch.arange(h)[:, None] * torch.arange(w)
        blocks = places.reshape(h // merge, merge, w // merge, merge).transpose(1, 2).flatten()
        total = total + (blocks * torch.arange(h * w)).sum() * t
    return total, torch.tensor(grids.tolist())


def padded_grids(grids: Tensor) -> Tensor:
    found = []
    for t, h, w in grids.tolist():
        places = torch.arange(t * h * w).reshape(t, h, w)
        padded = torch.nn.functional.pad(places, (0, 4 - w % 4, 0, 4 - h % 4), value=-1)
        found.append((padded * torch.arange(padded.shape[2])).sum())
    return torch.stack(found)


GRIDS = ([[1, 4, 4], [2, 4, 6]], [[1, 2, 2]], [[3, 2, 4], [1, 6, 2], [0, 4, 4], [2, 8, 2]])


@pytest.mark.parametrize("model", [weighted_grids, padded_grids])
def test_a_loop_goes_over_the_grids_of_images(model: Callable[..., Any]) -> None:
    program = irkit.to_onnx(model, (torch.tensor(GRIDS[0]),), dynamic_shapes=({0: "n"},), rewrite=True)
    for grids in GRIDS:
        same(program(torch.tensor(grids)), model(torch.tensor(grids)))
    with pytest.raises(irkit.errors.IrkitError):
        program(torch.tensor([[1, 4, -4]]))


def test_blocks_that_do_not_fit_are_refused() -> None:
    program = irkit.to_onnx(weighted_grids, (torch.tensor(GRIDS[0]),), dynamic_shapes=({0: "n"},), rewrite=True)
    with pytest.raises(irkit.errors.IrkitError):
        program(torch.tensor([[1, 4, 4], [1, 3, 4]]))


def doubled(x: Tensor) -> Any:
    return torch.tensor([each * 2 for each in x.tolist()]), torch.tensor(x.tolist())


@pytest.mark.parametrize("kind", [torch.float32, torch.int32, torch.int64])
def test_lists_of_numbers_become_tensors_again(kind: torch.dtype) -> None:
    program = irkit.to_onnx(doubled, (torch.tensor([1, 2, 3], dtype=kind),), dynamic_shapes=({0: "n"},), rewrite=True)
    for numbers in ([5], [1, -2, 0, 7]):
        x = torch.tensor(numbers, dtype=kind)
        same(program(x), doubled(x))


def ones_of_a_batch(x: Tensor) -> Tensor:
    return torch.tensor([1] * x.shape[0])


def test_a_tensor_of_no_integers_is_refused_whose_type_torch_would_not_know() -> None:
    program = irkit.to_onnx(ones_of_a_batch, (torch.rand(2),), dynamic_shapes=({0: "n"},), rewrite=True)
    same(program(torch.rand(5)), ones_of_a_batch(torch.rand(5)))
    with pytest.raises(irkit.ContractError, match="n is 0"):
        program(torch.rand(0))


def last_of_rows(x: Tensor) -> Tensor:
    rows = []
    for row in x:
        rows.append(row)
    return rows.pop() * x.shape[1:].numel()


def test_elements_are_counted_also_where_loops_stay_as_they_are() -> None:
    shapes = ({0: torch.export.Dim.AUTO, 1: "h"},)
    program = irkit.to_onnx(last_of_rows, (torch.rand(2, 3, 2),), dynamic_shapes=shapes, rewrite=True)
    x = torch.rand(2, 5, 2)
    same(program(x), last_of_rows(x))
    with pytest.raises(irkit.ContractError):
        program(torch.rand(3, 5, 2))


def filled_rows(x: Tensor, times: Tensor) -> Tensor:
    """Rows repeated and written into zeros of a size that data tells, as speech models do."""
    found = torch.zeros(x.shape[0], int(times.sum(1).max()), x.shape[2])
    for i, (row, counts) in enumerate(zip(x, times, strict=False)):
        repeated = torch.repeat_interleave(row, counts, dim=0)
        found[i, : repeated.shape[0]] = repeated
    return found


def test_a_loop_asks_of_its_own_numbers_and_those_around_it() -> None:
    def given(*times: list[int]) -> tuple[Tensor, Tensor]:
        return torch.rand(len(times), len(times[0]), 3), torch.tensor(times)

    shapes = ({0: "b", 1: "t"}, {0: "b", 1: "t"})
    program = irkit.to_onnx(filled_rows, given([1, 2], [0, 3]), dynamic_shapes=shapes, rewrite=True)
    for args in (given([1, 2, 0]), given([5], [2], [3]), given([0, 0], [1, 0])):
        same(program(*args), filled_rows(*args))


def outputs_without_weights(x: Tensor) -> Any:
    """Two lists as attention keeps them, one of them of None."""
    outputs, weights = [], []
    for row in x:
        outputs.append(row * 2)
        weights.append(None)
    weights.append(None)
    kept = None if weights[0] is None else tuple(weights)
    return torch.stack(outputs) if kept is None else x, torch.ones(len(weights))


def pairs_of_nothing(x: Tensor) -> Tensor:
    found, total = [], torch.zeros(())
    for _ in x:
        found.append(("left", None))
        found.append(("left", None))
    for side, nothing in found:
        total = total + (x.shape[1] if nothing is None and side == "left" else 100)
    return total


@pytest.mark.parametrize("model", [outputs_without_weights, pairs_of_nothing])
def test_a_loop_may_make_lists_of_what_is_no_tensor(model: Callable[..., Any]) -> None:
    program = irkit.to_onnx(model, (torch.rand(2, 3),), dynamic_shapes=({0: "n"},), rewrite=True)
    for count in (1, 2, 5):
        x = torch.rand(count, 3)
        same(program(x), model(x))


def joined_nothing(x: Tensor) -> Tensor:
    found = []
    for _ in x:
        found.append(None)
    return torch.stack(found)


def test_what_is_no_tensor_is_not_joined() -> None:
    with pytest.raises(irkit.errors.IrkitError):
        irkit.to_onnx(joined_nothing, (torch.rand(2, 3),), dynamic_shapes=({0: "n"},), rewrite=True)


def extremes_of_lists(x: Tensor) -> Any:
    sums = [row.sum() for row in x]
    most = max([place + 1 for place in (x[:, 0] * 4).long().tolist()])
    few = min(len(row) + number for number, row in enumerate(x))
    return max(each * 2 for each in sums), torch.ones(most), torch.ones(few), x * max(each for each in (3, 5))


def test_the_greatest_and_least_of_a_list_are_computed() -> None:
    program = irkit.to_onnx(extremes_of_lists, (torch.rand(2, 3),), dynamic_shapes=({0: "n"},), rewrite=True)
    for count in (1, 2, 5):
        x = torch.rand(count, 3)
        same(program(x), extremes_of_lists(x))
    with pytest.raises(irkit.errors.IrkitError):
        program(torch.rand(0, 3))
