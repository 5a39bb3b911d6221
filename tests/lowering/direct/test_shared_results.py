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


aten = torch.ops.aten
UNSAID: dict[str, Callable[[Tensor], Tensor]] = {
    "unsafe_split": lambda x: torch.unsafe_split(x, 2)[0],
    "unsafe_split_with_sizes": lambda x: aten.unsafe_split_with_sizes.default(x, [1, x.shape[0] - 1])[1],
    "unsafe_chunk": lambda x: torch.unsafe_chunk(x, 2)[0],
    "_unsafe_view": lambda x: aten._unsafe_view.default(x, [x.shape[0] * 4]),
    "_reshape_alias": lambda x: aten._reshape_alias.default(x, [x.shape[0] * 2, 2], [2, 1]),
    "_reshape_alias of other strides": lambda x: aten._reshape_alias.default(x, [4, x.shape[0]], [1, 4]),
    "lift": lambda x: aten.lift.default(x),
    "native_channel_shuffle": lambda x: torch.native_channel_shuffle(x[None, :, :, None], 1),
}
"""Operators that share the memory of what they are given, or do not, other than their schemas say."""


@pytest.mark.parametrize("kind", UNSAID)
@pytest.mark.parametrize("written", ["result", "argument"])
def test_memory_is_shared_as_it_is_in_eager_whatever_schemas_say(kind: str, written: str) -> None:
    def model(x: Tensor) -> Any:
        y = x * 1
        z = UNSAID[kind](y)
        (z if written == "result" else y).mul_(3)
        return y, z

    program = irkit.to_onnx(model, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},), capture="direct")
    assert right_answers(program, model, [(torch.rand(size, 4),) for size in (3, 4, 5, 2, 1)]) >= 2
