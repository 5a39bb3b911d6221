"""Comprehensions over sizes as people write them: with several `for`, of generators, of pairs, summed from a start."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import IrkitError
from tests.lowering.control_flow.test_functions import same

SHAPES = ((4, 3), (1, 1), (2, 5), (7, 2), (0, 3), (3, 0))


def summed_from(x: Tensor) -> Any:
    return sum((x[i] * i for i in range(0, x.shape[0], 3)), torch.ones(x.shape[1]))


def summed_by_name(x: Tensor) -> Any:
    return sum((row * 2 for row in x), start=torch.ones(x.shape[1])), sum(x, torch.zeros(x.shape[1]))


def counted_from(x: Tensor) -> Any:
    return sum((i * i for i in range(x.shape[0])), 0.5) * x, x * sum((1 for row in x if row.sum() > 0), start=2)


def summed_lists(x: Tensor) -> Any:
    return sum([row.sin() for row in x], torch.ones(x.shape[1]))


def each_of_each(x: Tensor) -> Any:
    return torch.stack([x[i, j] * i - j for i in range(x.shape[0]) for j in range(x.shape[1])])


def each_of_some(x: Tensor) -> Any:
    return torch.stack([x[i, j] * i for i in range(x.shape[0]) for j in range(x.shape[1]) if x[i, j] > 0])


def several_of_each(x: Tensor) -> Any:
    return torch.stack([x[i] * j for i in range(x.shape[0]) for j in range(3)])


def each_of_several(x: Tensor) -> Any:
    return torch.stack([x[i] * j for j in range(3) for i in range(x.shape[0])])


def of_three(x: Tensor) -> Any:
    return torch.stack([x[i, j] * k for i in range(x.shape[0]) for j in range(x.shape[1]) for k in range(2)])


def greatest_of_each(x: Tensor) -> Any:
    return max(a.sum() * b.sum() for a in x for b in x)


def of_a_generator(x: Tensor) -> Any:
    return sum(row for row in (x[i] * i for i in range(x.shape[0]))), torch.stack([a + 1 for a in (b * 2 for b in x)])


def beside_a_generator(x: Tensor) -> Any:
    beside = torch.stack([a - b for a, b in zip((row * 2 for row in x), x, strict=False)])
    return beside, torch.stack([row * i for i, row in enumerate(row.cos() for row in x)])


def loop_over_a_generator(x: Tensor) -> Any:
    total = torch.zeros(x.shape[1])
    for row in (each for each in x if each.sum() > 0):
        total = total * 0.5 + row
    return total


def of_pairs(x: Tensor) -> Any:
    total = torch.zeros(x.shape[1])
    for a, b in itertools.pairwise(x):
        total = total * 0.5 + a * b
    return total, sum((a - b).abs().sum() for a, b in itertools.pairwise(x))


def named_as_python_does(x: Tensor) -> Any:
    def sum(rows: Any, start: float) -> Any:  # a user may
        return torch.stack([*rows]).mean(0) + start

    return sum([row * 2 for row in x], 1.0), sum([row * 2 for row in x], start=2.0)


@pytest.mark.parametrize(
    "function",
    [
        summed_from, summed_by_name, counted_from, summed_lists, each_of_each, each_of_some, several_of_each,
        each_of_several, of_three, greatest_of_each, of_a_generator, beside_a_generator, loop_over_a_generator,
        of_pairs,
    ],
)  # fmt: skip
def test_comprehensions_are_computed_at_any_size(function: Callable[[Tensor], Any]) -> None:
    torch.manual_seed(0)
    program = irkit.to_onnx(function, (torch.rand(4, 3),), dynamic_shapes=({0: "n", 1: "m"},), rewrite=True)
    right = 0
    for shape in SHAPES:
        for x in (torch.randn(shape), torch.randn(shape) + 1):
            try:
                found = program(x)
            except IrkitError:  # where eager refuses, or nothing is taken
                assert 0 in shape or shape == (1, 1)
                continue
            same(function(x), found)
            right += 1
    assert right >= 7


def test_a_function_of_another_name_is_called_as_it_is() -> None:
    x = torch.rand(4, 3)
    program = irkit.to_onnx(named_as_python_does, (x,), dynamic_shapes=({1: "m"},), rewrite=True)
    for width in (3, 1, 5):
        x = torch.rand(4, width)
        same(named_as_python_does(x), program(x))
