"""Models that ask for their sizes by int() and len(), which keep them where the model cannot be captured otherwise."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import irkit
from tests.lowering.capture.groups import in_groups


class Padded(torch.nn.Module):
    """Pads as convolutions of TensorFlow do, and takes the number of images by len."""

    def forward(self, x: torch.Tensor) -> Any:
        rows, columns = int(x.shape[-2]), int(x.shape[-1] / 2)
        images = len(x)
        steps = [len([rows, columns]), int("3", base=10), isinstance(rows, int)]
        padded = F.pad(x, (0, rows % 4, 0, rows // 2))
        return padded.reshape(images, rows + rows // 2, -1), x[:, :columns].reshape(images, -1), steps


def test_int_and_len_keep_sizes():
    shapes = ({0: "n", 1: "h", 2: "w"},)
    program = irkit.to_onnx(Padded(), (torch.randn(2, 8, 6),), dynamic_shapes=shapes, capture="torch.export")
    assert program.check(n=5)
    assert "int() and len() keep sizes" in program.report.capture
    outputs = [shape for _, shape in program.report.outputs]
    assert outputs[0].startswith("f32[n, ") and outputs[1].startswith("f32[n, ")


def test_modules_have_their_own_names_afterwards():
    irkit.to_onnx(Padded(), (torch.randn(2, 8, 6),), dynamic_shapes=({0: "n"},), capture="torch.export")
    names = vars(sys.modules[__name__])
    assert "len" not in names and "int" not in names and len is builtins.len


def test_what_needs_a_number_is_refused_as_before():
    def rounds(x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(x.shape[0])):
            x = x + 1
        return x

    with pytest.raises(irkit.IrkitError, match="dimension 0 of 'x' was to vary as 'n', and the model works for 3 only"):
        irkit.to_onnx(rounds, (torch.randn(3),), dynamic_shapes=({0: "n"},))


class Packed(torch.nn.Module):
    """Lays rows out by the group that each is of, by code of another module than the model's own."""

    def forward(self, x: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
        return in_groups(x, group, 3)


@pytest.mark.parametrize("sorted_groups", [[0, 0, 1, 1, 1, 2, 2], [0, 1, 2], [0, 0, 0, 0, 2]])
def test_int_of_a_number_in_data_keeps_it(sorted_groups: list[int]):
    """Also in functions that stand in another module than the model's classes."""
    x, group = torch.randn(5, 4), torch.tensor([0, 0, 1, 2, 2])
    program = irkit.to_onnx(Packed(), (x, group), dynamic_shapes=({0: "rows"}, {0: "rows"}), capture="direct")
    other = torch.tensor(sorted_groups)
    given = torch.randn(len(other), 4), other
    assert torch.equal(program(*given), Packed()(*given))
    assert "int" not in vars(sys.modules[in_groups.__module__])
