"""Results that share memory with what is written, at some sizes only: at these a view, and a copy at the example's."""

from __future__ import annotations

from collections.abc import Callable
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
