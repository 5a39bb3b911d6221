"""Sizes that a condition ties: none of them is small without the others, and what torch requires of small ones holds
for all together."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import irkit
from tests.fuzz import tied_sizes
from tests.support.draws import drawn

Model = Callable[..., torch.Tensor]
NM, N, M = {0: "n", 1: "m"}, {0: "n"}, {0: "m"}


def square(then: Callable[[torch.Tensor], torch.Tensor]) -> Model:
    def model(x: torch.Tensor) -> torch.Tensor:
        return then(x) if x.shape[0] == x.shape[1] else x

    return model


def where_lengths(
    test: Callable[[int, int], bool], then: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> Model:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return then(x, y) if test(x.shape[0], y.shape[0]) else x.sum()

    return model


def pooled(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool1d(x[None, None], 3)


def twice_as_long(then: Callable[[torch.Tensor], torch.Tensor]) -> Model:
    def model(x: torch.Tensor) -> torch.Tensor:
        return then(x) if x.shape[0] == 2 * x.shape[1] else x

    return model


def one_more(then: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Model:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return then(x, y) if x.shape[0] == y.shape[0] + 1 else x

    return model


MODELS: dict[str, tuple[Model, tuple[Any, ...], int]] = {
    "pooled": (square(lambda x: F.max_pool1d(x[None], 2)[0]), (torch.randn(4, 4),), 4),
    "unfolded": (square(lambda x: x.unfold(0, 3, 1)), (torch.randn(4, 4),), 3),
    "the greatest": (square(lambda x: x.argmax(0)), (torch.randn(4, 4),), 5),
    "pooled by three": (twice_as_long(lambda x: F.max_pool1d(x[None], 3)[0]), (torch.randn(8, 4),), 1),
    "a row": (twice_as_long(lambda x: x[1]), (torch.randn(8, 4),), 2),
    "convolved": (
        one_more(lambda x, y: F.conv1d(x[None, None], torch.ones(1, 1, 3))),
        (torch.ones(5), torch.ones(4)),
        3,
    ),
    "a maximum": (one_more(lambda x, y: y[:, None].max(0).values + x), (torch.ones(5), torch.ones(4)), 4),
    "longer": (where_lengths(lambda n, m: n > m, lambda x, y: pooled(x)), (torch.ones(6), torch.ones(4)), 15),
    "as long": (where_lengths(lambda n, m: n >= m, lambda x, y: pooled(x)), (torch.ones(4), torch.ones(4)), 15),
    "shorter": (where_lengths(lambda n, m: n < m, lambda x, y: pooled(y)), (torch.ones(1), torch.ones(5)), 15),
    "twice as long": (
        where_lengths(lambda n, m: n > 2 * m, lambda x, y: x.unfold(0, 4, 1)), (torch.ones(7), torch.ones(3)), 5
    ),
    "a multiple": (
        where_lengths(lambda n, m: m > 0 and n % m == 0, lambda x, y: pooled(x)), (torch.ones(4), torch.ones(4)), 8
    ),
    "the rest": (lambda x, y: pooled(x[y.shape[0] :]), (torch.ones(5), torch.ones(1)), 5),
    "added": (lambda x: F.max_pool1d((x + x.t())[None], 2)[0], (torch.randn(4, 4),), 4),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_what_eager_refuses_of_sizes_that_are_tied_is_refused(name: str) -> None:
    model, example, least = MODELS[name]
    shapes = (NM,) if len(example) == 1 else (N, M)
    program = irkit.to_onnx(model, example, dynamic_shapes=shapes, capture="direct")
    taken = 0
    for n, m in itertools.product(range(7), repeat=2):
        given = (torch.randn(n, m),) if len(example) == 1 else (torch.randn(n), torch.randn(m))
        try:
            found = program(*given)
        except irkit.errors.IrkitError:
            continue
        taken += 1
        torch.testing.assert_close(found, model(*given))
    assert taken >= least


def test_sizes_between_those_that_are_refused_are_taken() -> None:
    """Four rows are those of one codebook each: that many, and multiples of it."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 4, x.shape[-1]).sum(1)

    program = irkit.to_onnx(model, (torch.randn(8, 7),), dynamic_shapes=(NM,))
    for rows in (4, 8, 12):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(program(x), model(x))
    for rows in (1, 2, 3, 5, 6, 7, 9):
        with pytest.raises(irkit.ContractError):
            program(torch.randn(rows, 5))


@pytest.mark.parametrize("seed", drawn("tied sizes", range(2000), 12, (1323, 1423, 2_390_087)))
def test_random_conditions_on_two_sizes_are_right_or_refused(seed: int) -> None:
    assert tied_sizes.faults(seed) == []


@pytest.mark.parametrize(
    "then",
    [lambda x: x.unfold(-2, 2, 1), lambda x: x.unfold(0, 3, 1), lambda x: F.avg_pool1d(x.t(), 2), lambda x: x[2] * 2],
)
def test_a_size_that_is_tied_to_two_others_is_asked_for_with_each(then: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.numel() == 0:
            return x
        return then(x.sin() if x.shape[0] >= y.shape[0] else x.cos())

    program = irkit.to_onnx(model, (torch.randn(4, 4), torch.randn(4)), dynamic_shapes=(NM, {0: "p"}), capture="direct")
    for n, m, p in itertools.product((0, 1, 2, 3, 5), (1, 3), range(4)):
        given = torch.randn(n, m), torch.randn(p)
        try:
            found = program(*given)
        except irkit.errors.IrkitError:
            continue
        torch.testing.assert_close(found, model(*given))
