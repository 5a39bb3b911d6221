"""Models that take another number out of their data at other sizes, counted alike: each way keeps its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError

Use = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def as_length(data: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """So many columns."""
    return y[:, : data.sum().item()]


def as_expanded(data: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A tensor that hangs on no other."""
    return torch.zeros(2, 1).expand(2, int(data.sum().item())) + 1


def as_range(data: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A range of places."""
    return y[:, torch.arange(data.max().item())]


def as_factor(data: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A float."""
    return y * data.double().mean().item()


def as_rounded(data: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A float that is rounded."""
    return y[:, : int(data.double().sum().item() / 2)]


def as_places(data: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What a mask leaves."""
    return y[0, : torch.masked_select(data, data > 1).shape[0]]


def as_two(data: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two numbers."""
    return y[:, data.min().item() : data.max().item()]


def as_truth(data: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A truth value that becomes a number."""
    return y + int((data.sum() > 5).item())


USES = (as_length, as_expanded, as_range, as_factor, as_rounded, as_places, as_two, as_truth)
ASKED: dict[str, Callable[[int], bool]] = {
    "not one": lambda n: n != 1, "more than three": lambda n: n > 3, "some": lambda n: n > 0,
}  # fmt: skip


def model_of(use: Use, asks: Callable[[int], bool], also: bool) -> Callable[..., Any]:
    """A model that takes a number of one or of another tensor, as a size decides; `also` another one between."""

    def model(x: torch.Tensor, one: torch.Tensor, other: torch.Tensor, y: torch.Tensor) -> Any:
        if asks(x.shape[0]):
            return use(one, y), x * 2
        between = y[0, : other.min().item()] if also else y[0]
        return use(other, y) + (between.sum() if also else 0), x * 2

    return model


def calls() -> Iterator[tuple[torch.Tensor, ...]]:
    """Arguments of other sizes and data."""
    y = torch.arange(27.0).reshape(3, 9)
    for n, (one, other) in itertools.product((5, 4, 2, 1, 0), (([1, 2], [2, 4]), ([3, 1], [2, 2]), ([0, 6], [1, 2]))):
        yield torch.ones(n, 2), torch.tensor(one), torch.tensor(other), y


def refuse_wrong(model: Callable[..., Any], data: list[int], **how: Any) -> None:
    """Fails where a program of the model, captured with such data beside `[1, 2]`, answers a call otherwise than it."""
    y = torch.arange(27.0).reshape(3, 9)
    args = (torch.ones(5, 2), torch.tensor([1, 2]), torch.tensor(data), y)
    program = irkit.to_onnx(model, args, dynamic_shapes=({0: "n"}, None, None, None), **how)
    taken = 0
    for given in calls():
        try:
            found = program(*given)
        except IrkitError:
            continue
        for mine, theirs in zip(found, model(*given), strict=True):
            assert mine.shape == theirs.shape, given
            assert torch.allclose(mine, theirs), given
        taken += 1
    assert taken


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("also", [False, True])
@pytest.mark.parametrize("asked", [*ASKED])
@pytest.mark.parametrize("use", USES)
def test_numbers_of_other_ways_are_their_own(use: Use, asked: str, also: bool, rewrite: bool) -> None:
    for data in ([2, 3], [2, 1]):  # other numbers in the example, and equal ones
        refuse_wrong(model_of(use, ASKED[asked], also), data, capture="direct", rewrite=rewrite)


@pytest.mark.parametrize("use", [as_length, as_range, as_rounded])
def test_numbers_of_other_ways_are_their_own_by_torch_export(use: Use) -> None:
    for data in ([2, 3], [2, 1]):
        refuse_wrong(model_of(use, ASKED["not one"], False), data, capture="torch.export")


def test_what_a_way_requires_of_its_number_is_asked_of_that() -> None:
    model = model_of(as_expanded, ASKED["not one"], False)
    args = (torch.ones(5, 2), torch.tensor([1, 2]), torch.tensor([2, 3]), torch.ones(3, 9))
    program = irkit.to_onnx(model, args, dynamic_shapes=({0: "n"}, None, None, None), rewrite=True)
    _, one, other, y = args
    assert program(torch.ones(1, 2), -one, other, y)[0].shape == (2, 5)
    assert program(torch.ones(3, 2), one, -other, y)[0].shape == (2, 3)
    for refused in ((torch.ones(1, 2), one, -other, y), (torch.ones(3, 2), -one, other, y)):
        with pytest.raises((IrkitError, RuntimeError)):
            program(*refused)


def test_a_condition_on_data_that_is_never_true_does_not_tell_that_ways_agree() -> None:
    def model(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        large = k.sum() > 5 if x.shape[0] != 1 else k.max() > 5
        return x * 2 if large else x

    args = (torch.ones(5, 2), torch.tensor([1, 2]))
    program = irkit.to_onnx(model, args, dynamic_shapes=({0: "n"}, None))
    given = torch.ones(1, 2), torch.tensor([-9, 6])
    try:
        found = program(*given)
    except IrkitError:
        return
    assert torch.equal(found, model(*given))
