"""Models that seed random numbers themselves: what they draw is the same in each call, and torch's state is kept."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import irkit


def seeded(x: torch.Tensor) -> torch.Tensor:
    """A projection by numbers from a seed, with several kinds of draws from one state."""
    torch.manual_seed(3)
    first, order, whole = torch.randn(4, 6), torch.randperm(6), torch.randint(0, 9, (6,))
    return x @ first[:, order] + whole + torch.rand_like(first).sum(0) + torch.bernoulli(torch.full((6,), 0.5))


def forked(x: torch.Tensor) -> torch.Tensor:
    """The same in a block that puts the state back, and a draw that hangs on no seed, of which nothing is left."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        weights = torch.rand(4, 2)
    return x @ weights + torch.rand(2) * 0


@pytest.mark.parametrize("model", [seeded, forked], ids=lambda model: model.__name__)
def test_numbers_from_a_seed_of_the_model_are_those_of_eager(model: Callable[..., torch.Tensor]) -> None:
    """In every call, at sizes that the example did not have."""
    program = irkit.to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    assert not any("drawn anew" in note for note in program.report.notes)
    for n in (3, 1, 0, 7):
        x = torch.randn(n, 4)
        for _ in range(2):
            torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("model", [seeded, forked], ids=lambda model: model.__name__)
def test_the_state_of_random_numbers_is_as_before(model: Callable[..., torch.Tensor]) -> None:
    """After a capture, with trials of small sizes."""
    before = torch.get_rng_state()
    irkit.to_onnx(model, (torch.randn(3, 4, generator=torch.Generator()),), dynamic_shapes=({0: "n"},))
    assert torch.equal(torch.get_rng_state(), before)


def varying(x: torch.Tensor) -> torch.Tensor:
    """As many numbers as there are rows."""
    torch.manual_seed(3)
    return x + torch.randn(x.shape)


def masked(x: torch.Tensor) -> torch.Tensor:
    """A draw that hangs on the data."""
    torch.manual_seed(3)
    return torch.bernoulli(x.sigmoid())


def generated(x: torch.Tensor) -> torch.Tensor:
    """Numbers from a generator."""
    return x + torch.rand(4, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("model", [varying, masked, generated], ids=lambda model: model.__name__)
def test_draws_that_no_constant_can_be_are_said(model: Callable[..., torch.Tensor]) -> None:
    """ONNX Runtime draws them anew, which a note says with the line."""
    program = irkit.to_onnx(model, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    (note,) = (note for note in program.report.notes if "drawn anew" in note)
    assert "test_seeds.py:" in note
    assert program(torch.zeros(5, 4)).shape == (5, 4)


@pytest.mark.parametrize("draw", [torch.rand_like, torch.nn.functional.dropout], ids=["rand_like", "dropout"])
def test_models_that_seed_nothing_have_no_note(draw: Callable[..., Any]) -> None:
    """Where the user seeded torch before, too."""
    torch.manual_seed(11)
    program = irkit.to_onnx(lambda x: draw(x) * 0, (torch.ones(3, 4),), capture="direct")
    assert not any("drawn anew" in note for note in program.report.notes)


def test_dropout_that_is_off_draws_nothing() -> None:
    """A seed before it needs no note."""

    def model(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return torch.nn.functional.dropout(x, 0.5, training=False) + torch.rand(4)

    program = irkit.to_onnx(model, (torch.ones(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    assert not any("drawn anew" in note for note in program.report.notes)
    torch.testing.assert_close(program(torch.zeros(2, 4)), model(torch.zeros(2, 4)))


SEEDED: dict[str, Any] = {
    "torch": (lambda x: torch.manual_seed(3) and x + torch.rand(3), "not from the seed of the model"),
    "dropout": (lambda x: torch.manual_seed(3) and F.dropout(x, 0.5), "not from the seed of the model"),
    "none": (lambda x: x + torch.rand(3), ""),
    "Python's": (lambda x: x * random.random(), "numbers of random are those"),
    "NumPy's": (lambda x: x * float(np.random.rand()), "numbers of numpy.random are those"),
}


@pytest.mark.parametrize("name", SEEDED)
def test_by_torch_export_a_seed_of_the_model_and_other_generators_are_told(name: str) -> None:
    """Torch's own generator, and the others, stand afterwards where they stood."""
    function, note = SEEDED[name]
    example = torch.randn(4, 3)
    before = torch.random.get_rng_state(), random.getstate()
    program = irkit.to_onnx(function, (example,), dynamic_shapes=({0: "n"},), capture="torch.export")
    told = [each for each in program.report.notes if "drawn" in each]
    assert (note in told[0] if note else not told) and len(told) == bool(note)
    assert torch.equal(torch.random.get_rng_state(), before[0]) and random.getstate() == before[1]
