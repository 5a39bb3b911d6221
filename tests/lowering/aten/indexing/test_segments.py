"""Reductions of segments, chunks laid beside one another, and histograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lowering.aten.harness import check, check_sizes, difference

NAN = float("nan")


def reduced(data: torch.Tensor, reduce: str, **given: Any) -> torch.Tensor:
    """torch's own, whose name has an underscore before it."""
    return torch._segment_reduce(data, reduce, unsafe=True, **given)


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@settings(max_examples=6, deadline=None)
@given(
    sizes=st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=2, max_size=2), rest=st.integers(1, 2)
)
def test_segments(reduce: str, initial: float | None, sizes: list[list[int]], rest: int) -> None:
    """Segments of any length along the second axis, the same number in each row; NaN where an element is."""
    lengths = torch.tensor(sizes)
    data = torch.randn(2, int(lengths.sum(1).max()) + 1, rest)
    data[0, :1] = NAN
    check(lambda x, n: reduced(x, reduce, lengths=n, axis=1, initial=initial), data, lengths)
    offsets = torch.cat((torch.zeros(2, 1, dtype=torch.int64), lengths.cumsum(1)), 1)
    check(lambda x, n: reduced(x, reduce, offsets=n, axis=1, initial=initial), data, offsets)


def test_segments_of_other_sizes() -> None:
    cases = [(torch.randn(n, 3), torch.tensor(lengths)) for n, lengths in ((5, [2, 3]), (7, [1, 4, 2]), (4, [4, 0, 0]))]
    check_sizes(lambda x, n: reduced(x, "mean", lengths=n), *cases)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_one_segment_or_none_of_any_size(reduce: str) -> None:
    """One length beside any number of elements, and segments of nothing."""
    sizes = ((5, [2, 0, 3]), (1, [1]), (4, [4]), (0, [0]), (0, [0, 0]), (1, [0, 1]))
    cases = [(torch.randn(n), torch.tensor(lengths)) for n, lengths in sizes]
    check_sizes(lambda x, n: reduced(x, reduce, lengths=n, initial=1.0), *cases)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_chunks_of_other_sizes(dim: int) -> None:
    sizes = [((4, 6, 5), (4, 6, 5)), ((8, 6, 5), (8, 6, 5)), ((3, 7, 2), (3, 7, 2))]
    cases = [tuple(map(torch.randn, pair)) for pair in sizes]
    check_sizes(lambda a, b: torch.ops.aten._chunk_cat.default([a, b], dim, 3), *cases)
    check(lambda a, b: torch.ops.aten._chunk_cat.default([a, b], 0, 2), torch.randn(5, 3), torch.randn(2, 3))


EDGES = torch.tensor([-3.0, 0.0, 0.25, 3.0])
HISTOGRAMS: dict[str, Callable[..., Any]] = {
    "of_the_range": lambda x: torch.histogram(x, 5), "of_parts": lambda x: torch.histogram(x, 4, range=(-0.5, 1.0)),
    "of_one_number": lambda x: torch.histogram(x * 0 + 3, 3), "of_edges": lambda x: torch.histogram(x, EDGES / 3),
    "of_no_width": lambda x: torch.histogram(x, 3, range=(1.0, 1.0)),
    "of_whole_numbers": lambda x: torch.histogram(x.round(), 4),
    "density": lambda x: torch.histogram(x, EDGES, density=True),
    "weights": lambda x: torch.histogram(x, 5, weight=x.exp()), "points": lambda x: torch.histogramdd(x, [3, 4]),
    "not_a_number": lambda x: torch.histogram(torch.cat((x.flatten(), x.new_full((3,), NAN))), EDGES),
    "weighted_points": lambda x: torch.histogramdd(x, [3, 4], weight=x[..., 0].exp(), density=True),
    "points_in_parts": lambda x: torch.histogramdd(x.reshape(-1, 5, 2), [3, 4], range=[-1.0, 1.0, 0.0, 2.0]),
    "points_between_edges": lambda x: torch.histogramdd(x, [EDGES, EDGES[1:] * 2]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(name: str) -> None:
    """torch traces these with fixed sizes only."""
    empty = [] if name in ("density", "weighted_points") else [torch.zeros(0, 2)]
    for x in (torch.randn(20, 2), torch.randn(5, 2) * 2, *empty):
        assert difference(HISTOGRAMS[name], x) is None
