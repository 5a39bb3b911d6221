"""Random numbers by their statistics; dropout by what it keeps; factories by shape and element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.converters.harness import check, lowered, run_onnx

SIZE = 20_000


def drawn(function: Callable[..., Any], *args: Any, symbolic: bool = False) -> list[np.ndarray]:
    """One draw on ONNX Runtime."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return run_onnx(lowered(function, *args, symbolic=symbolic).graph, tensors)


MOMENTS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "rand_like": (torch.rand_like, 0.5, 12**-0.5),
    "randn_like": (torch.randn_like, 0.0, 1.0),
    "rand": (lambda x: torch.rand(x.shape[0]), 0.5, 12**-0.5),
    "randn": (lambda x: torch.randn(x.shape[0]), 0.0, 1.0),
    "randint": (lambda x: torch.randint(-2, 3, x.shape).float(), 0.0, 2**0.5),
    "normal": (lambda x: torch.normal(x + 3, 2.0), 3.0, 2.0),
    "normal_in_place": (lambda x: x.clone().normal_(1.0, 0.5), 1.0, 0.5),
    "uniform_in_place": (lambda x: x.clone().uniform_(), 0.5, 12**-0.5),
    "bernoulli": (lambda x: torch.bernoulli(x + 0.3), 0.3, 0.21**0.5),
    "bernoulli_in_place": (lambda x: x.clone().bernoulli_(0.3), 0.3, 0.21**0.5),
    "exponential": (lambda x: x.clone().exponential_(2.0), 0.5, 0.5),
    "dropout": (lambda x: F.dropout(x + 1, 0.25, True), 1.0, (1 / 3) ** 0.5),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_mean_and_deviation(name: str, symbolic: bool) -> None:
    function, mean, deviation = MOMENTS[name]
    (numbers,) = drawn(function, torch.zeros(SIZE), symbolic=symbolic)
    assert numbers.shape == (SIZE,) and numbers.dtype == np.float32
    assert abs(numbers.mean() - mean) < 6 * deviation / SIZE**0.5
    assert abs(numbers.std() - deviation) < 0.05


def test_two_draws_differ_and_one_draw_is_used_twice() -> None:
    first, second = drawn(lambda x: (torch.rand_like(x), torch.rand_like(x)), torch.zeros(100))
    assert (first != second).any()
    kept, mask = drawn(lambda x: torch.native_dropout(x, 0.5, True), torch.ones(1000))
    assert mask.dtype == np.bool_ and 0.3 < mask.mean() < 0.7
    np.testing.assert_array_equal(kept, np.where(mask, np.float32(2), np.float32(0)))


def test_a_permutation_holds_every_number_once() -> None:
    (numbers,) = drawn(lambda x: torch.randperm(x.shape[0]), torch.zeros(50), symbolic=True)
    assert numbers.dtype == np.int64 and sorted(numbers) == list(range(50))


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_draws_by_weight(replacement: bool) -> None:
    weights = torch.tensor([0.0, 1.0, 3.0]).repeat(4000, 1)
    (places,) = drawn(lambda w: torch.multinomial(w, 2, replacement), weights)
    assert places.shape == (4000, 2) and places.dtype == np.int64
    assert abs((places[:, 0] == 2).mean() - 0.75) < 0.05 and not (places == 0).any()
    assert replacement or (places[:, 0] != places[:, 1]).all()


def test_multinomial_of_one_row() -> None:
    (places,) = drawn(lambda w: torch.multinomial(w, 3), torch.ones(5))
    assert len(set(places.tolist())) == 3


@pytest.mark.filterwarnings("ignore")
def test_dropout_is_the_identity_outside_of_training() -> None:
    for function in (F.dropout, F.dropout2d, F.alpha_dropout, F.feature_alpha_dropout):
        check(lambda x, f=function: f(x, 0.5, False), torch.randn(2, 3, 4, 4))


@pytest.mark.filterwarnings("ignore")
def test_dropout_of_features_drops_whole_channels() -> None:
    (numbers,) = drawn(lambda x: F.dropout2d(x, 0.5, True), torch.ones(8, 16, 3, 3))
    flat = numbers.reshape(128, 9)
    assert (flat == flat[:, :1]).all() and 0 < (flat[:, 0] == 0).sum() < 128
