"""Lists that a loop on data makes grow, looked at by other names: right, or refused, and never as they were before."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from lowering.records.disguised_lists import Disguised, disguise, undisguise
from tests.support.same_results import right_answers

Program = Callable[[Tensor, Tensor], Any]


def fill(given: list[Tensor], x: Tensor, n: Tensor) -> None:
    for _ in range(int(n)):
        given.append(x * 2)


def filled_by_a_function(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []
    fill(found, x, n)
    return x * len(found)


def summed_once_filled(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []
    fill(found, x, n)
    y = x
    for each in found:
        y = y + each
    return y


def held_by_another_list(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []
    names = [found]
    for _ in range(int(n)):
        found.append(x * 2)
    return x * len(names[0])


def truth_by_another_name(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []
    other = found
    for _ in range(int(n)):
        found.append(x * 2)
    return x + 1 if other else x - 1


def copied_by_another_name(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []
    names = (found,)
    for _ in range(int(n)):
        found.append(x * 2)
    return x * len([*names[0]]) + len(names[0].copy()) + len(names[0][:])


def put_together_by_another_name(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []
    names = {"found": found}
    for _ in range(int(n)):
        found.append(x * 2)
    return x * len([x, *names["found"]]) + len([x] + names["found"]) + len(names["found"] * 2)


def compared_by_another_name(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []
    names = [found]
    for _ in range(int(n)):
        found.append(x * 2)
    return x * int(names[0] == [])


def turned_round(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []
    for _ in range(int(n)):
        found.append(x * 2)
    return x * len(list(reversed(found))) + len(found * 2)


def default_of_a_function(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []

    def count(given: list[Tensor] = found) -> int:
        return len(given)

    for _ in range(int(n)):
        found.append(x * 2)
    return x * count()


PROGRAMS: tuple[Program, ...] = (
    filled_by_a_function, summed_once_filled, held_by_another_list, truth_by_another_name, copied_by_another_name,
    put_together_by_another_name, compared_by_another_name, turned_round, default_of_a_function,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_other_names_of_a_list_that_grew_find_what_it_became(program: Program) -> None:
    x = torch.randn(3)
    made = irkit.to_onnx(program, (x, torch.tensor(2)), dynamic_shapes=({0: "m"}, None), rewrite=True)
    torch.testing.assert_close(made(x, torch.tensor(2)), program(x, torch.tensor(2)))
    right_answers(made, program, [(x, torch.tensor(count)) for count in (0, 1, 5)])


def fill_by_elements(given: list[Tensor], x: Tensor, n: Tensor) -> None:
    for k in n.tolist():
        given.append(x * k)


def told_of_all_elements(x: Tensor, n: Tensor) -> Tensor:
    found: list[Tensor] = []
    names = [found]
    fill_by_elements(found, x, n)
    more = [x] + names[0]
    return x * len(found) + len(names[0].copy()) + len(more) + torch.stack(more).sum(0)


def test_a_list_that_gains_an_element_for_each_of_a_tensor_is_right_for_any_number() -> None:
    x, shapes = torch.randn(3), ({0: "m"}, {0: "k"})
    made = irkit.to_onnx(told_of_all_elements, (x, torch.arange(2)), dynamic_shapes=shapes, rewrite=True)
    assert right_answers(made, told_of_all_elements, [(x, torch.arange(count)) for count in (2, 0, 1, 5)]) == 4


class Keeping(torch.nn.Module):
    """A model with a list of its own, which a loop on data makes grow."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] = []

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        found = self.kept
        for _ in range(int(n)):
            found.append(x)
        return x + 1


def test_a_list_of_a_model_is_a_plain_one_afterwards() -> None:
    model = Keeping()
    kept = model.kept
    irkit.to_onnx(model, (torch.randn(3), torch.tensor(2)), rewrite=True)
    assert type(kept) is list
    assert model.kept is kept
    assert kept == []


class Three:
    """What answers for a list."""

    def answering(self, _: Any) -> list[int]:
        return [1, 2, 3]


def test_a_disguised_list_answers_as_another_and_is_a_plain_one_again() -> None:
    held: list[Any] = [Three()]
    other = held
    disguise(held)
    assert type(other) is Disguised
    assert (len(other), bool(other), [*other], other[1:], 2 in other) == (3, True, [1, 2, 3], [2, 3], True)
    assert (other + [4], [0] + other, other * 2) == ([1, 2, 3, 4], [0, 1, 2, 3], [1, 2, 3] * 2)  # noqa: RUF005
    assert other == [1, 2, 3] == copy.copy(other) == sorted(other) == copy.deepcopy(other)
    assert list(reversed(other)) == [3, 2, 1]
    undisguise(held)
    assert type(other) is list
    assert len(other) == 1


def test_disguised_lists_are_freed() -> None:
    gc.collect()
    before = sys.getrefcount(Disguised), sys.getrefcount(list)
    for _ in range(1000):
        held: list[Any] = [Three()]
        disguise(held)
        del held
    gc.collect()
    assert sys.getrefcount(Disguised) == before[0]
    assert abs(sys.getrefcount(list) - before[1]) < 100
