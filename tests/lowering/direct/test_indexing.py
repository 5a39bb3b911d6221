"""Indexing with places, and numbers of places, that the data tells."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from lowering.direct.examples import Examples


def loops_weighed(edges: torch.Tensor, weights: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    found = start.clone()
    loops = edges[0] == edges[1]
    found[edges[0][loops]] = weights[loops]
    return found


EDGES = ([[0, 1, 2], [0, 2, 1]], [[0, 1, 2], [0, 1, 1]], [[0, 1, 2], [1, 2, 1]], [[3, 0, 2, 2], [3, 0, 2, 1]])


@pytest.mark.parametrize("example", EDGES)
def test_as_many_values_as_places_are_written_one_among_them(example: list[list[int]]):
    """torch asks of the values whether their first axis is 1 long, which means nothing where it is broadcast."""
    shapes = ({1: "edges"}, {0: "edges"}, {0: "nodes"})
    given = torch.tensor(example), torch.rand(len(example[0])), torch.rand(4)
    program = irkit.to_onnx(loops_weighed, given, dynamic_shapes=shapes, capture="direct")
    assert not program.report.guards
    for edges in EDGES:
        args = torch.tensor(edges), torch.rand(len(edges[0])), torch.rand(6)
        assert torch.equal(program(*args), loops_weighed(*args))


class Written(torch.nn.Module):
    """Writes values into a place of a tensor."""

    def __init__(self, place: Any) -> None:
        super().__init__()
        self.place = place

    def forward(self, x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[self.place] = value
        return x


@pytest.mark.parametrize(
    ("place", "values"),
    [
        (0, (1, 4)), (0, (1,)), ((0, 1), (1,)), ((0, 1), (1, 1)), (slice(1, 3), (1, 4)), (slice(1, 3), (2, 4)),
        (slice(None), (1, 1)), (torch.tensor([0, 2]), (1, 4)), (torch.tensor([0, 2]), (2, 1)), (None, (3, 4)),
    ],
)  # fmt: skip
def test_values_with_axes_of_one_element_are_written_where_they_fit(place: Any, values: tuple[int, ...]):
    """As many rows as the example has, for a place with fewer axes than the values too."""
    x, value = torch.randn(3, 4), torch.randn(values)
    program = irkit.to_onnx(Written(place), (x, value), dynamic_shapes=({}, {0: "n"}), specialization="report")
    assert torch.equal(program(x, value), Written(place)(x, value))
    report = program.check(3)
    assert report, report


def by_rows(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    found = torch.zeros_like(x)
    for number, (start, stop) in enumerate(pairwise(ends)):
        found[start:stop] = x[start:stop] * (number + 1)
    return found


def test_tensors_are_ends_of_slices():
    """torch makes a number of each, which is the example's."""
    given = torch.randn(5, 3), torch.tensor([0, 4, 4, 5])
    program = irkit.to_onnx(by_rows, given, dynamic_shapes=({0: "rows"}, {}), capture="direct")
    for rows, ends in (5, [0, 1, 2, 5]), (7, [0, 7, 7, 7]), (1, [0, 0, 0, 1]), (0, [0, 0, 0, 0]), (4, [-4, -3, -1, 4]):
        args = torch.randn(rows, 3), torch.tensor(ends)
        assert torch.equal(program(*args), by_rows(*args))


def test_lists_of_places_hold_numbers_that_vary():
    def marked(x: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, columns = zip(*places, strict=True)
        found = x.clone()
        found[rows, columns] = -1.0
        return found, x[:, [x.shape[1] - 1, 0]]

    places = torch.tensor([[1, 0], [0, 2], [3, 1]])
    program = irkit.to_onnx(marked, (torch.rand(4, 3), places), dynamic_shapes=({1: "n"}, None), capture="direct")
    for n, others in ((3, places), (1, places * torch.tensor([1, 0])), (6, places + torch.tensor([0, 3]))):
        x = torch.rand(4, n)
        for one, other in zip(program(x, others), marked(x, others), strict=True):
            assert torch.equal(one, other)


WEIGHT = torch.randn(4, 3, 5)


def of_a_weight(places: torch.Tensor) -> tuple[torch.Tensor, ...]:
    written = WEIGHT.clone()
    written[places.max()] = 0.0
    return WEIGHT[places.max()], WEIGHT[places.min(), 1:, places.min()], WEIGHT[: places.max()], written


def test_tensors_are_places_and_ends_in_weights():
    """torch makes a number of each, which is the example's."""
    program = irkit.to_onnx(of_a_weight, (torch.tensor([1, 3, 2]),), dynamic_shapes=({0: "n"},), capture="direct")
    for places in [0, 2], [-1], [2, 2, 1, 0], [-3, 3]:
        given = torch.tensor(places)
        for one, other in zip(program(given), of_a_weight(given), strict=True):
            assert torch.equal(one, other)
    with pytest.raises(irkit.ContractError):
        program(torch.tensor([4]))


class Routed(torch.nn.Module):
    """Takes the rows that a product chooses, as mixtures of experts do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        rows = self.inner(x).sum(1).argsort()
        return x[rows][kept] + x[rows, 0][kept].unsqueeze(1)


def test_places_that_a_model_computes_are_not_computed_as_it_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of what is taken is that of the places, whichever these are; and torch takes nothing of no rows."""
    asked: list[str] = []
    once = Examples.of
    monkeypatch.setattr(Examples, "of", lambda self, value: asked.append(value.op) or once(self, value))
    model = Routed().eval()
    given = torch.randn(5, 4), torch.tensor([0, 2])
    program = irkit.to_onnx(model, given, dynamic_shapes=({0: "rows"}, {0: "kept"}), capture="direct")
    assert not set(asked) & {"MatMul", "Gemm", "TopK", "Item"}
    for rows, kept in ((5, [0, 2]), (7, [6, 1, 1]), (1, [0]), (3, []), (0, [])):
        x, places = torch.randn(rows, 4), torch.tensor(kept, dtype=torch.int64)
        torch.testing.assert_close(program(x, places), model(x, places), rtol=1e-4, atol=1e-4)


def test_constant_places_that_the_example_does_not_have_are_refused() -> None:
    with pytest.raises((IrkitError, IndexError), match=r"out of bounds|not among"):
        irkit.to_onnx(lambda x: x[[0, 5]], (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture="direct")


def ends_written(x: torch.Tensor) -> torch.Tensor:
    z, n = x.clone(), x.shape[0]
    z[[0, n - 1]] = 5.0
    z[[n // 2]] += 1
    return z


LISTED: dict[str, Any] = {
    "the ends": lambda x: x[[0, x.shape[0] - 1]],
    "beside a slice": lambda x: x[[x.shape[0] // 2, -1], 1:],
    "written": ends_written,
}


@pytest.mark.parametrize("name", LISTED)
def test_a_list_of_places_that_sizes_tell_leaves_the_size_to_vary(name: str) -> None:
    function = LISTED[name]
    program = irkit.to_onnx(function, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (5, 7, 2, 1):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), function(x))


def test_a_list_of_lists_of_places_is_a_tuple_as_in_eager() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[[[0, x.shape[0] - 1], [x.shape[0] - 1, 0]]]

    with pytest.raises(IndexError):
        function(torch.randn(5, 3))
    with pytest.raises(IrkitError, match="out of bounds"):
        irkit.to_onnx(function, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), capture="direct")
