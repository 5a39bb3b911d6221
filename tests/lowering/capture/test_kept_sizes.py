"""Models that ask for their sizes by int() and len(), which keep them where the model cannot be captured otherwise."""

from __future__ import annotations

import builtins
import math
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


class Resized(torch.nn.Module):
    """Resizes an image as detection models do: by its shorter side, to a multiple of 4."""

    def forward(self, x: torch.Tensor) -> Any:
        rows, columns = x.shape[-2:]
        factor = min(16 / min(x.shape[-2:]), 64 / max(rows, columns))
        resized = F.interpolate(x[None], scale_factor=factor, mode="nearest", recompute_scale_factor=True)[0]
        height = math.ceil(float(resized.shape[-2]) / 4) * 4
        padded = F.pad(resized, (0, 0, 0, height - resized.shape[-2]))
        return padded, max([min(rows, 5), 2]), isinstance(height, int), max(2, 3), len(min("b", "aa"))


def test_min_max_and_float_keep_sizes():
    """Whichever side of an image is the shorter one; the ratio of real numbers stays a condition."""
    model = Resized()
    program = irkit.to_onnx(model, (torch.randn(3, 8, 12),), dynamic_shapes=({1: "h", 2: "w"},), capture="direct")
    for shape in ((3, 12, 8), (3, 9, 9), (3, 31, 17), (3, 8, 32)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(irkit.ContractError, match="max"):
        program(torch.randn(3, 8, 40))
    assert not {"min", "max", "float"} & set(vars(sys.modules[__name__]))


def test_the_smallest_of_real_numbers_is_a_condition():
    """Dimensions have no minimum of these."""

    def nearer(x: torch.Tensor) -> torch.Tensor:
        return x[: int(torch.sym_min(x.shape[0] / 2, x.shape[1] / 3))]

    program = irkit.to_onnx(nearer, (torch.randn(4, 9),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    assert torch.equal(program(x := torch.randn(7, 12)), nearer(x))
    with pytest.raises(irkit.ContractError):
        program(torch.randn(8, 9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linspace_of_a_size_keeps_it(dtype: torch.dtype):
    """torch's own takes the number of steps as it is for the example."""

    def rows(x: torch.Tensor) -> Any:
        n, m = x.shape
        return torch.linspace(0.5, n - 0.5, n, dtype=dtype), torch.linspace(x.max(), n / 3, steps=m + 1, dtype=dtype)

    program = irkit.to_onnx(rows, (torch.randn(4, 3),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    for shape in ((4, 3), (1, 1), (9, 2), (101, 40)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), rows(x), rtol=1e-6, atol=1e-6)


def test_a_float_out_of_data_is_that_of_each_call():
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * 2 ** float(torch.tensor(x.shape[0] / 16).log2().round())

    program = irkit.to_onnx(scaled, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    for size in (1, 5, 16, 40, 200):
        assert torch.equal(program(x := torch.randn(size, 3)), scaled(x))


def test_an_argument_that_is_empty_has_no_sizes():
    class Optional(torch.nn.Module):
        def forward(self, x: torch.Tensor, more: dict[str, Any], others: list[Any]) -> torch.Tensor:
            return x * 2

    shapes = {"x": {0: "n"}, "more": {}, "others": []}
    given = {"x": torch.randn(4, 3), "more": {}, "others": []}
    assert irkit.to_onnx(Optional(), (), given, dynamic_shapes=shapes).check(n=2)
    with pytest.raises(irkit.IrkitError, match="speaks of 'y', and no input is called so"):
        irkit.to_onnx(Optional(), (), given, dynamic_shapes={**shapes, "y": {0: "n"}})
