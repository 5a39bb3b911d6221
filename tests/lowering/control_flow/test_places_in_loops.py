"""Rows that a loop takes by its number, and parts as long as data says, are those of any number of rounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import irkit
from tests.support.written_functions import function_of


def smoothed(x: torch.Tensor) -> torch.Tensor:
    state, found = x[:, 0], torch.zeros_like(x)
    for step in range(x.shape[1]):
        state = 0.9 * state + 0.1 * x[:, step]
        if step > 1:
            state = state - x[:, step - 2]
        found[:, step] = state
    return found


def test_a_row_that_a_round_takes_is_bound_by_the_size_not_by_the_example() -> None:
    program = irkit.to_onnx(
        smoothed, (torch.rand(2, 5),), dynamic_shapes=({0: "batch", 1: "n"},), capture="direct", rewrite=True
    )
    for shape in ((2, 5), (1, 9), (7, 3), (3, 1), (0, 12)):
        x = torch.rand(shape)
        torch.testing.assert_close(program(x), smoothed(x))


def means(x: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
    found = []
    for row in range(x.shape[0]):
        length = int(torch.round(parts[row] * x.shape[1]))
        found.append(x[row, :length].sum(0))
    return torch.stack(found)


def beginning(x: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
    return x[:, : int(torch.round(parts[0] * x.shape[1]))]


@pytest.mark.parametrize("model", [means, beginning])
def test_a_length_of_data_is_made_an_integer(model: object) -> None:
    shapes = ({0: "batch", 1: "n"}, {0: "batch"})
    program = irkit.to_onnx(
        model, (torch.rand(2, 8), torch.tensor([1.0, 0.5])), dynamic_shapes=shapes, capture="direct", rewrite=True
    )
    for batch, n in (2, 8), (1, 9), (4, 30), (3, 1), (2, 0):
        args = torch.rand(batch, n), torch.rand(batch)
        torch.testing.assert_close(program(*args), model(*args))  # type: ignore[operator]


def of_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([part * part.mean() for part in x.split(4)])


def of_columns(x: torch.Tensor) -> torch.Tensor:
    found = []
    for number, part in enumerate(torch.split(x, 2, dim=1)):
        found.append(part * number + part.sum(1, keepdim=True))
    return torch.cat(found, 1)


@pytest.mark.parametrize("model", [of_rows, of_columns])
def test_a_loop_goes_over_the_parts_of_any_size(model: object) -> None:
    program = irkit.to_onnx(
        model, (torch.rand(3, 7),), dynamic_shapes=({0: "batch", 1: "n"},), capture="direct", rewrite=True
    )
    for shape in ((3, 7), (1, 10), (4, 1), (9, 2), (16, 0)):
        x = torch.rand(shape)
        torch.testing.assert_close(program(x), model(x))  # type: ignore[operator]


def doubled(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    for row in x:
        row.mul_(2)
    return x


def halved(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    for part in x.split(2):
        part.div_(2)
    return x


def test_a_round_that_writes_a_row_that_it_goes_over_is_refused() -> None:
    """The rows of a loop are copies, and those of eager are parts of the tensor."""
    with pytest.raises(irkit.errors.IrkitError, match="writes into an element of what it goes over"):
        irkit.to_onnx(doubled, (torch.rand(3, 7),), dynamic_shapes=({0: "batch"},), rewrite=True)


def test_a_round_that_writes_a_part_that_it_goes_over_is_for_as_many_as_the_example_has() -> None:
    program = irkit.to_onnx(halved, (torch.rand(3, 7),), dynamic_shapes=({0: "batch"},), rewrite=True)
    for batch in (3, 4):
        x = torch.rand(batch, 7)
        torch.testing.assert_close(program(x), halved(x))
    for batch in (2, 5):
        with pytest.raises(irkit.ContractError):
            program(torch.rand(batch, 7))


def of_a_list(x: torch.Tensor) -> torch.Tensor:
    rows, out = [x * 2, x + 1, x * x], x
    for i in range(x.shape[0]):
        out = out + rows[i % 3]
    return out


def of_lists_of_numbers(x: torch.Tensor) -> torch.Tensor:
    rows, weights, counts, out = (x, x * 2), [1.5, 2.25, 3.5], [3, 4], x
    for i in range(x.shape[0]):
        out = out + rows[-(i % 2)] * weights[i % 3] + counts[i % len(counts)]
    return out


def delayed(x: torch.Tensor) -> torch.Tensor:
    delays, buffer, place, delay, found = [0, 1, 3, 4, 2], torch.zeros(x.shape[0], 5), 0, 0, []
    for i in range(x.shape[1]):
        taken = int((place + delays[delay]) % 5)
        delay, place = (delay + 1) % 5, (place + 1) % 5
        found.append(x[:, i] + buffer[:, taken])
        buffer[:, place] = found[-1] * 0.4
    return torch.stack(found, 1)


def of_few(x: torch.Tensor) -> torch.Tensor:
    rows, out = [x * 2, x + 1], x
    for i in range(x.shape[0]):
        out = out + rows[i]
    return out


@pytest.mark.parametrize("model", [of_a_list, of_lists_of_numbers, delayed])
def test_an_element_of_a_list_is_that_of_the_rounds_number(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    names = {0: "batch", 1: "n"}
    program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=(names,), capture="direct", rewrite=True)
    for shape in ((3, 4), (1, 1), (7, 2), (2, 12), *([] if model is delayed else [(0, 3), (2, 0)])):
        x = torch.rand(shape)
        torch.testing.assert_close(program(x), model(x))


def test_a_place_beyond_a_list_is_refused_as_in_eager() -> None:
    program = irkit.to_onnx(of_few, (torch.rand(2, 4),), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for n in (0, 1, 2):
        torch.testing.assert_close(program(torch.ones(n, 4)), of_few(torch.ones(n, 4)))
    with pytest.raises(IndexError):
        of_few(torch.ones(3, 4))
    with pytest.raises((irkit.ContractError, irkit.EvaluateError)):
        program(torch.ones(3, 4))


OF_ROWS = (
    "x + (3 if any(row.sum() > 2 for row in x) else 1)", "x * (2 if any(row.sum().item() for row in x) else 1)",
    "x * (2 if any(i > 2 for i in range(x.shape[0])) else 1)", "x + any([row.max() > 0.5 for row in x])",
    "x + (3 if all((row < 0.9).all() for row in x) else 1)", "x + all(map(lambda row: row.sum() < 3, x))",
    "x + (3 if all([len(row) > i for i, row in enumerate(x)]) else 1)", "x + (2 if any(map(torch.max, x)) else 1)",
    "torch.stack(list(map(lambda row: row * 2, x)))",
    "torch.stack(tuple(map(lambda a, b: a * b, x, x + 1)))", "sum(map(torch.sum, x)) + x",
)  # fmt: skip


@pytest.mark.parametrize("text", OF_ROWS)
def test_what_is_made_of_all_rows_is_that_of_any_number_of_them(text: str) -> None:
    model = function_of(
        f"def model(x):\n    return {text}\n", f"of_rows_{abs(hash(text))}.py", "model", {"torch": torch}
    )
    shapes = ({0: "batch", 1: "n"},)
    program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=shapes, capture="direct", rewrite=True)
    for shape in ((3, 4), (1, 1), (7, 2), (2, 12), *([] if "map" in text else [(0, 3)])):
        for x in (torch.zeros(shape), *(torch.rand(shape) for _ in range(5))):
            torch.testing.assert_close(program(x), model(x))
