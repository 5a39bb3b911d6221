"""Lists to which a branch on data in a loop on data appends: they gain what the branch appends that is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError


def numbers(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        if test > 2:
            found.append(1.0)
        else:
            found.append(2.0)
    return torch.tensor(found)


def tensors(x: Any, tests: Any) -> Any:
    found: list[Any] = []
    for i, test in enumerate(tests):
        if test > 2:
            found.append((x.sum(0), i))
        else:
            found.append((x.sum(0) + test, 7))
    return torch.stack([each * number for each, number in found])


def unequal(x: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        if test > 2:
            found.append(x[:1])
        else:
            found.append(x[:test] + 1)
    return torch.cat(found)


def several(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        found.append(0.0)
        if test > 2:
            if test > 3:
                found.append(found[-1] + 1)
                found += [7.0]
            else:
                found.extend([3.0, 6.0])
        else:
            found.append(2.0)
            found.append(4.0)
    return torch.tensor(found)


@pytest.mark.parametrize("model", [numbers, tensors, unequal, several])
def test_a_list_gains_what_the_branch_appends_that_is_taken(model: Callable[..., Any]) -> None:
    example = torch.rand(6, 2), torch.tensor([1, 2, 3])
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True, capture="direct")
    for tests in ([4, 1, 3, 1], [5], [0, 0]):
        inputs = torch.rand(7, 2), torch.tensor(tests)
        torch.testing.assert_close(program(*inputs), model(*inputs))


def one_way_only(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        if test > 2:
            continue
        found.append(1.0)
    return torch.tensor(found)


def at_the_front(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for test in tests:
        if test > 2:
            found.insert(0, 1.0)
        else:
            found.insert(0, 2.0)
    return torch.tensor(found)


def by_another_name(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    last: list[Any] = []
    for test in tests:
        if test > 2:
            found.append(1.0)
            last = found
        else:
            found.append(2.0)
            last = found
    return torch.tensor(last)


def in_a_loop_within(_: Any, tests: Any) -> Any:
    found: list[Any] = []
    for _each in tests:
        for _other in tests:
            found.append(1.0)
    return torch.tensor(found)


@pytest.mark.parametrize("model", [one_way_only, at_the_front, by_another_name, in_a_loop_within])
def test_a_list_that_a_round_makes_longer_in_other_ways_is_refused(model: Callable[..., Any]) -> None:
    with pytest.raises(IrkitError):
        irkit.to_onnx(
            model, (torch.rand(6, 2), torch.tensor([1, 3, 2])), dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True
        )
