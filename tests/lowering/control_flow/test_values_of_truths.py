"""`and` and `or` of what data tells give one of the two, as in Python; and what a function that a branch calls changes
in variables around it, or in global ones, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import IrkitError

EXAMPLE = (torch.arange(6.0), torch.tensor([2, 3]))
SHAPES = ({0: "a"}, {0: "b"})


def numbers(x: Tensor, n: Tensor) -> Any:
    first = n[0] and n[-1]
    second = n[0] or n[-1]
    return x * first + second, first, second


def sums(x: Tensor, n: Tensor) -> Any:
    return x.sum() and n.float().mean(), x.sum() or n.float().mean()


def flags(x: Tensor, n: Tensor) -> Any:
    return n[0] > 1 and n[-1] > 2, n[0] > 1 or n[-1] > 2, not (n[0] > 1 and n[-1])


def asked_by_an_expression(x: Tensor, n: Tensor) -> Any:
    return x + 1 if n[0] and x.sum() else x - 1


@pytest.mark.parametrize("function", [numbers, sums, flags, asked_by_an_expression], ids=lambda each: each.__name__)
def test_and_and_or_give_one_of_their_values(function: Callable[..., Any]) -> None:
    program = irkit.to_onnx(function, EXAMPLE, dynamic_shapes=SHAPES, rewrite=True)
    for x in (torch.arange(6.0), torch.zeros(3)):
        for given in ([2, 3], [0, 5], [-3], [4, 0]):
            n = torch.tensor(given)
            for one, other in zip(as_tuple(program(x, n)), as_tuple(function(x, n)), strict=True):
                torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other))


def as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_one_of_two_types_is_refused() -> None:
    def model(x: Tensor, n: Tensor) -> Any:
        return x * (x.sum() and n[0])

    with pytest.raises(IrkitError, match="float32"):
        irkit.to_onnx(model, EXAMPLE, dynamic_shapes=SHAPES, rewrite=True)


def counted(x: Tensor, n: Tensor) -> Any:
    count = 0

    def more() -> Tensor:
        nonlocal count
        count += 1
        return x * count

    y = more() if n[0] > 1 else more() + more()
    return y * count


SEEN = [0]
LAST = 0


def kept_in_a_list(x: Tensor, n: Tensor) -> Any:
    SEEN[0] = 0
    if n[0] > 1:
        SEEN[0] = 3
    return x * SEEN[0]


def keep(number: int) -> None:
    global LAST  # noqa: PLW0603
    LAST = number


def kept_by_a_function(x: Tensor, n: Tensor) -> Any:
    keep(0)
    if n[0] > 1:
        keep(3)
    return x * LAST


@pytest.mark.parametrize("function", [counted, kept_in_a_list, kept_by_a_function], ids=lambda each: each.__name__)
def test_what_a_called_function_changes_around_it_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(IrkitError, match=r"changes .* in what it calls"):
        irkit.to_onnx(function, EXAMPLE, dynamic_shapes=SHAPES, rewrite=True)
    assert LAST == 0 and SEEN == [0]
