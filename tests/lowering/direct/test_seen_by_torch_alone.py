"""What of torch sees a model beside its tensors, and what direct capture answers of it, or refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import irkit
from lowering.errors import CaptureError, LoweringError

Function = Callable[[torch.Tensor], Any]


class Doubling(TorchDispatchMode):
    """Doubles every sine below autograd."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        return found * 2 if func is torch.ops.aten.sin.default else found


def doubled(x: torch.Tensor) -> torch.Tensor:
    with Doubling():
        return torch.sin(x) + torch.cos(x)


def written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    before = y._version
    y.add_(1)
    y[0:1].mul_(2)
    return y + (y._version - before)


@pytest.mark.parametrize("capture", ["direct", "torch.export", "auto"])
def test_a_mode_of_the_models_is_refused(capture: Any) -> None:
    """Operators are met above it: what it made of them was lost."""
    with pytest.raises(CaptureError, match="TorchDispatchMode"):
        irkit.to_onnx(doubled, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture=capture)


def test_a_count_of_writes_is_told_by_torch_export() -> None:
    """A tensor that is traced directly was never written."""
    given: Any = {"dynamic_shapes": ({0: "n"},)}
    with pytest.raises(LoweringError, match="how often a tensor was written"):
        irkit.to_onnx(written, (torch.randn(4, 3),), capture="direct", **given)
    program = irkit.to_onnx(written, (torch.randn(4, 3),), **given)
    assert program.report.capture.startswith("torch.export")
    for size in (4, 2, 5):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), written(x))


def shared(x: torch.Tensor) -> torch.Tensor:
    y = copy.copy(x * 2)
    z = copy.copy(y)
    z[0:1] = 5
    return y + z + (1 if y is z else 2)


def apart(x: torch.Tensor) -> torch.Tensor:
    y = copy.deepcopy(x)
    y[0:1] = 5
    return x + y


@pytest.mark.parametrize("function", [shared, apart])
def test_copies_of_tensors_share_their_memory_as_in_eager(function: Function) -> None:
    program = irkit.to_onnx(function, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (4, 2, 5):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), function(x.clone()))
