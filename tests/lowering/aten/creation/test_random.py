"""Random numbers by their statistics; dropout by what it keeps; factories by shape and element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import irkit
from irkit.doors.to_onnx import to_onnx
from passes import seeded
from tests.lowering.aten.harness import check, lowered, run_onnx

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
    "random_in_place": (lambda x: x.clone().random_(7), 3.0, 2.0),
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool"])
def test_random_draws_up_to_what_its_type_holds(dtype: str) -> None:
    kind = getattr(torch, dtype)
    (numbers,) = drawn(lambda x: x.clone().random_(), torch.zeros(SIZE, dtype=kind))
    theirs = torch.zeros(SIZE, dtype=kind).random_().numpy()
    assert numbers.dtype == theirs.dtype and numbers.min() >= 0
    largest = 1 if dtype == "bool" else 2 / torch.finfo(kind).eps if kind.is_floating_point else torch.iinfo(kind).max
    scaled = numbers.astype(np.float64) / largest
    assert 0.98 < scaled.max() <= 1 and abs(scaled.mean() - 0.5) < 6 * 0.5 / SIZE**0.5


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


# ---------------------------------------------------------------------------------------------- seeds


class Draws(torch.nn.Module):
    """Two draws of each kind, and one in the body of a loop."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        choice = torch.multinomial(x.abs() + 1, 50, True)
        return torch.rand_like(x), torch.rand_like(x), torch.randn_like(x), F.dropout(x + 1, 0.5, True), choice


def sessions(seed: int | None, opset: int | None = None) -> list[list[np.ndarray]]:
    """What two runs of one session give."""
    program = to_onnx(Draws(), (torch.zeros(500),), seed=seed, opset=opset)
    return [[t.numpy() for t in program(torch.zeros(500))] for _ in range(2)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opset", [None, 21])
def test_a_seed_makes_sessions_equal_and_runs_differ(opset: int | None) -> None:
    first, again, other, free = sessions(7, opset), sessions(7, opset), sessions(8, opset), sessions(None, opset)
    for run, repeated in zip(first, again, strict=True):
        for a, b in zip(run, repeated, strict=True):
            np.testing.assert_array_equal(a, b)
    for i in range(5):
        assert (first[0][i] != first[1][i]).any() and (first[0][i] != other[0][i]).any()
        assert (first[0][i] != free[0][i]).any()
    assert (first[0][0] != first[0][1]).any()  # two draws of one kind in one run


def test_each_draw_has_a_seed_of_its_own_in_bodies_too() -> None:
    x = irkit.param(irkit.tensor("f32", 4))
    part = irkit.param(irkit.tensor("f32", 4))
    body = irkit.Graph((part,), (irkit.op.Add(part, irkit.op.RandomUniformLike(part)),))
    once, twice = irkit.call_graph(body, x), irkit.call_graph(body, irkit.op.RandomNormalLike(x))
    graph = irkit.Graph((x,), (once, twice))
    made = seeded(graph, 3)
    inner = [v for call in made.order if call.bodies for v in call.bodies[0].order]
    seeds = [v.attribute("seed") for v in (*made.order, *inner) if v.op.startswith("Random")]
    assert len(seeds) == 3 and len(set(seeds)) == 3 and None not in seeds
    assert seeded(graph, 3) == made and seeded(graph, 4) != made and seeded(made, 3) == made
    plain = irkit.Graph((x,), (irkit.op.Relu(x),))
    assert seeded(plain, 3) is plain
    with pytest.raises(irkit.RewriteError, match="whole number"):
        seeded(graph, 0.5)  # pyright: ignore[reportArgumentType]


# ---------------------------------------------------------------------------------------------- distributions


def furthest(numbers: np.ndarray, share: Callable[[np.ndarray], np.ndarray]) -> float:
    """Kolmogorov's and Smirnov's statistic, scaled: the largest distance between the share of numbers below each one
    and what the distribution says, times the root of their count. It exceeds 2.2 once in 8,000 draws."""
    ordered = np.sort(numbers.astype(np.float64))
    below = np.arange(ordered.size) / ordered.size
    expected = share(ordered)
    distance = np.maximum(np.abs(below - expected), np.abs(below + 1 / ordered.size - expected))
    return float(distance.max() * ordered.size**0.5)


def normal_share(x: np.ndarray) -> np.ndarray:
    """The share of standard normal numbers below x."""
    return (torch.special.ndtr(torch.from_numpy(x))).numpy()


SHARES: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = {
    "uniform": (torch.rand_like, lambda x: x),
    "normal": (torch.randn_like, normal_share),
    "normal about 3": (lambda x: torch.normal(x + 3, 2.0), lambda x: normal_share((x - 3) / 2)),
    "exponential": (lambda x: x.clone().exponential_(2.0), lambda x: 1 - np.exp(-2 * x)),
    "uniform from f64": (lambda x: torch.rand_like(x, dtype=torch.float64), lambda x: x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SHARES)
def test_draws_follow_their_distribution(name: str) -> None:
    function, share = SHARES[name]
    program = to_onnx(Function(function), (torch.zeros(SIZE),), seed=11)  # with a seed the test cannot fail by chance
    first, second = (program(torch.zeros(SIZE)).numpy() for _ in range(2))
    assert furthest(first, share) < 2.2 and furthest(second, share) < 2.2
    for a, b in ((first, second), (first[:-1], first[1:])):  # of run and run, of neighbour and neighbour
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / SIZE**0.5
    assert furthest(first**2, share) > 2.2  # the statistic knows another distribution


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.filterwarnings("ignore")
def test_whole_numbers_are_drawn_evenly() -> None:
    program = to_onnx(Function(lambda x: torch.randint(0, 10, x.shape)), (torch.zeros(SIZE),), seed=5)
    counts = np.bincount(program(torch.zeros(SIZE)).numpy(), minlength=10)
    assert counts.size == 10
    assert ((counts - SIZE / 10) ** 2 / (SIZE / 10)).sum() < 33.7  # chi squared of 9 degrees: once in 10,000


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropout_keeps_mean_and_variance(function: Callable[..., torch.Tensor]) -> None:
    """Two values are put for two of the input: what is dropped, and what is kept, moved alike."""
    x = torch.randn(500, 400)
    program = to_onnx(Function(lambda x: function(x, 0.4, True)), (x,), seed=3)
    found = program(x)
    assert abs(found.mean()) < 0.02 and abs(found.var() - 1) < 0.03
    scale = 1 / ((1.7580993408473766**2 * 0.4 + 1) * 0.6) ** 0.5
    low = scale * 1.7580993408473766 * (0.4 - 1)
    dropped = torch.isclose(found, torch.tensor(low), atol=1e-6)
    assert abs(dropped.float().mean() - 0.4) < 0.01
    torch.testing.assert_close(found[~dropped], (x * scale + scale * 1.7580993408473766 * 0.4)[~dropped])
    everything = to_onnx(Function(lambda x: function(x, 1.0, True)), (x,))
    assert (everything(x) == 0).all()


@pytest.mark.filterwarnings("ignore")
def test_rrelu_draws_a_slope_for_each_element() -> None:
    x = torch.full((SIZE,), -2.0)
    program = to_onnx(Function(lambda x: F.rrelu(x, 0.25, 0.75, True)), (x,), seed=7)
    slopes = program(x).numpy() / -2
    assert slopes.min() >= 0.25 and slopes.max() < 0.75
    assert furthest(slopes, lambda s: (s - 0.25) * 2) < 2.2
    assert (program(-x) == 2).all()


def test_a_lower_limit_of_uniform_is_kept_for_any_size() -> None:
    program = to_onnx(lambda x: x.clone().uniform_(2, 3), (torch.zeros(40),), dynamic_shapes=({0: "n"},))
    drawn = program(torch.zeros(200))
    assert 2 <= drawn.min() < 2.2 and 2.8 < drawn.max() < 3
