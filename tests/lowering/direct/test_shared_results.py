"""Results that share memory with what is written, at some sizes only: at these a view, and a copy at the example's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from tests.support.same_results import right_answers


def contiguous(x: Tensor) -> Any:
    y = x * 1
    z = y.t().contiguous()
    z.mul_(2)
    return y, z


def reshaped(x: Tensor) -> Any:
    y = (x * 1).t()
    z = y.reshape(-1)
    z.mul_(2)
    return y, z


def raveled(x: Tensor) -> Any:
    y = x * 1
    y.swapaxes(0, 1).ravel().add_(1)
    return y


def base_written(x: Tensor) -> Any:
    y = x * 1
    z = y.t().reshape(-1)
    y.add_(1)
    return z


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("model", [contiguous, reshaped, raveled, base_written], ids=lambda each: each.__name__)
def test_a_copy_that_is_a_view_at_other_sizes_is_right_or_refused(model: Callable[..., Any], rewrite: bool) -> None:
    shapes = ({0: "a", 1: "c"},)
    program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=shapes, capture="direct", rewrite=rewrite)
    sizes = ((3, 4), (5, 2), (1, 6), (6, 1), (1, 1), (0, 3))
    assert right_answers(program, model, [(torch.rand(each),) for each in sizes]) >= 2


COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x.t().contiguous(),
    "reshape": lambda x: x.t().reshape(x.shape[1], x.shape[0]),
    "flatten": lambda x: x.t()[..., None].flatten(1),
}
"""What makes of a matrix another one, which is a view of it where it has one row or one column."""
DERIVED = tuple(product(COPIES, COPIES, ("of one another", "of one tensor"), ("of its own", "of the input")))


@pytest.mark.parametrize(("written", "read"), [(0, 2), (2, 0), (1, 2), (2, 1)])
@pytest.mark.parametrize(("one", "other", "way", "base"), DERIVED)
def test_copies_of_copies_and_of_one_tensor_may_be_one(
    one: str, other: str, way: str, base: str, written: int, read: int
) -> None:
    """Two that may each be a view of a third one may be views of each other."""

    def model(x: Tensor) -> Any:
        y = x * 2 if base == "of its own" else x
        first = COPIES[one](y)
        every = y, first, COPIES[other](first if way == "of one another" else y)
        every[written].add_(1)
        return every[read]

    shapes = ({0: "a", 1: "c"},)
    program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=shapes, capture="direct")
    sizes = ((3, 4), (5, 2), (1, 6), (6, 1), (1, 1))
    assert right_answers(program, model, [(torch.rand(each),) for each in sizes]) >= 2
