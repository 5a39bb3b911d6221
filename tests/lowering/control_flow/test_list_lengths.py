"""How long a list is, asked in the loop on data that makes it grow; and lists that grow in several loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import IrkitError
from tests.lowering.control_flow.test_functions import same

SIZES = (4, 1, 7)


def in_the_test(x: Tensor) -> Tensor:
    found, done = [x[0]], torch.zeros(3, dtype=torch.bool)
    while not done.all() and len(found) < 6:
        found.append(found[-1] * 1.5)
        done = done | (found[-1].abs() > 3)
    return torch.stack(found)


def at_the_end_of_a_round(x: Tensor) -> tuple[Tensor, int]:
    found = []
    while True:
        x = x * 1.25
        found.append(x)
        if len(found) >= 6 or (x.abs() > 3).any():
            break
    return torch.stack(found), len(found)


def computed_with(x: Tensor) -> Tensor:
    found: list[Any] = []
    for row in x:
        if len(found) % 2 == 0:
            found.append(row * len(found))
        else:
            found.append(row + len(found))
    return torch.stack(found)


def place_in_a_table(x: Tensor) -> tuple[Tensor, int]:
    table = torch.arange(300.0).reshape(100, 3)
    found, last = [x[0], x[0]], x[0]
    while last.sum() < 200:
        last = last.abs() + table[len(found)]
        found += [last, last * 2]
    return torch.stack(found), len(found)


def empty_at_first(x: Tensor) -> Tensor:
    found: list[Any] = []
    for row in x:
        before = found[-1] if found else row * 0
        found.append(before + row)
    return torch.stack(found)


def not_empty(x: Tensor) -> Tensor:
    found: list[Any] = []
    for row in x:
        if not found or row.sum() > 0:
            found.append(row)
        else:
            found.append(found[-1])
    return torch.stack(found)


def of_unequal_lengths(x: Tensor) -> tuple[Tensor, int]:
    found = []
    for i in range(x.shape[0]):
        found.append(x[: i + 1].sum(0)[None].expand(i + 1, 3) * len(found))
    return torch.cat(found), len(found)


def of_two_lists(x: Tensor) -> tuple[Tensor, Tensor]:
    one: list[Any] = []
    other: list[Any] = []
    while len(one) + 2 * len(other) < x.shape[0]:
        one.append(x[0] + len(other))
        other.append(x[0] * len(one))
    return torch.stack(one), torch.stack(other)


def in_a_loop_within(x: Tensor) -> Tensor:
    found: list[Any] = []
    for _ in range(x.shape[0]):
        inner: list[Any] = []
        for row in x:
            inner.append(row * len(inner) + len(found))
        found.append(torch.stack(inner).sum(0))
    return torch.stack(found)


def read_by_number(x: Tensor) -> tuple[Tensor, Tensor]:
    found, last = [x[0]], x[0]
    while last.abs().sum() < 30:
        last = last * 1.5 + 0.1 * found[-1]
        found.append(last)
        if len(found) > 12:
            break
    doubled: list[Any] = []
    while len(doubled) < len(found):
        doubled.append(found[len(doubled)] * 2)
    return torch.stack(found), torch.stack(doubled)


def in_several_loops(x: Tensor) -> tuple[Tensor, int]:
    found = [x[0]]
    for row in x:
        found.append(row)
    for row in x:
        found.append(row * len(found))
    for i in range(3):
        found.append(x[0] * i)
    for row in x:
        if row.sum() < 1:
            found.append(row * 2)
        else:
            found.append(found[-1])
    return torch.stack(found), len(found)


def known_from_before_both(x: Tensor) -> Tensor:
    found: list[Any] = []
    other = found
    for row in x:
        found.append(row)
    for row in x:
        found.append(row * 2)
    return torch.stack(other)


def other_name_between(x: Tensor) -> Tensor:
    found: list[Any] = []
    for row in x:
        found.append(row)
    other = found
    for row in x:
        found.append(row * 2)
    return torch.stack(other)


MODELS = [
    in_the_test, at_the_end_of_a_round, computed_with, place_in_a_table, empty_at_first, not_empty, of_unequal_lengths,
    of_two_lists, in_a_loop_within, read_by_number, in_several_loops, known_from_before_both,
    other_name_between,
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda each: each.__name__)
def test_the_length_of_a_list_is_as_in_eager(model: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    program = irkit.to_onnx(model, (torch.rand(4, 3),), dynamic_shapes=({0: "n"},), rewrite=True, capture="direct")
    for size in SIZES:
        for times in (0.1, 1.0, 4.0):
            x = torch.rand(size, 3) * times
            same(model(x), program(x))


def other_name_within(x: Tensor) -> Tensor:
    found: list[Any] = []
    for row in x:
        found.append(row)
    other = found
    for row in x:
        found.append(row * len(other))
    return torch.stack(found)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (other_name_within, "is used by another name"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_lists_that_cannot_be_followed_are_refused_with_their_line(model: Callable[..., Any], said: str) -> None:
    with pytest.raises(IrkitError, match=said) as told:
        irkit.to_onnx(model, (torch.rand(4, 3),), dynamic_shapes=({0: "n"},), rewrite=True, capture="direct")
    assert "test_list_lengths.py" in told.value.source
