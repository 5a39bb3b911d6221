"""Models that ask `torch.jit.is_tracing()`: the ways that they have for TorchScript's tracer ask nothing of sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import irkit


def is_traced() -> bool:
    """What a model asks: `torch.jit.is_tracing()`, which torch does not say that it exports."""
    asked: Any = torch.jit
    return asked.is_tracing()


class Positions(torch.nn.Module):
    """Positions for 4 x 4 patches, interpolated for images of other sides."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(1, 3, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not is_traced() and x.shape[-2] == 4 and x.shape[-1] == 4:
            return x + self.table
        return x + F.interpolate(self.table, size=x.shape[-2:], mode="bicubic", align_corners=False)


class OfTensors(torch.nn.Module):
    """What is a tensor to TorchScript's tracer is a number here: its way for that raises."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size: Any = x.shape[0]
        least = size.clamp(max=2) if is_traced() else min(x.shape[0], 2)
        return x[:least] * 2


class OtherNumbers(torch.nn.Module):
    """The way for the tracer takes no more sizes than the other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:
            return x * (3 if is_traced() else 2)
        return x


class OtherResults(torch.nn.Module):
    """The way for the tracer takes all sizes, and computes something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if is_traced():
            return x * 3
        return x * 2 if x.shape[0] < 4 else x


SIZES = {0: "n", 2: "high", 3: "wide"}


@pytest.mark.parametrize("side", [4, 5])
def test_the_way_for_the_tracer_is_taken_where_the_other_leaves_conditions(side: int) -> None:
    torch.manual_seed(0)
    program = irkit.to_onnx(Positions(), (torch.randn(2, 3, side, side),), dynamic_shapes=(SIZES,))
    assert program.report.capture == "traced directly"
    for high, wide in ((4, 4), (5, 5), (4, 7), (9, 3), (1, 1)):
        x = torch.randn(1, 3, high, wide)
        torch.testing.assert_close(program(x), program.reference(x), rtol=1e-5, atol=1e-6)
    assert any("torch.jit.trace" in note for note in program.report.notes)
    assert program.check()


def test_the_way_for_the_tracer_is_left_where_it_raises_or_takes_no_more_sizes() -> None:
    x = torch.randn(3, 4)
    for model in (OfTensors(), OtherNumbers()):
        program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "n"},))
        torch.testing.assert_close(program(x), model(x))
        assert not any("torch.jit.trace" in note for note in program.report.notes)


def test_the_way_for_the_tracer_is_left_where_its_results_are_others() -> None:
    program = irkit.to_onnx(OtherResults(), (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    assert program(x := torch.randn(3, 4)).equal(x * 2)
    assert "the model computes something else for torch.jit.trace" in program.report.notes
    with pytest.raises(irkit.IrkitError):
        program(torch.randn(4, 4))


def test_nothing_is_run_twice_where_sizes_do_not_vary() -> None:
    torch.manual_seed(0)
    program = irkit.to_onnx(Positions(), (torch.randn(2, 3, 4, 4),), dynamic_shapes=({0: "n"},))
    assert "Resize" not in str(program.graph) and not is_traced()
