"""Converters of `lowering.aten.convolution.conv` against eager torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import irkit
from tests.lowering.aten.oracle import check, check_all, module_cases, op_cases

OPS = [
    "nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d", "nn.functional.conv_transpose1d",
    "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d", "nn.functional.unfold",
]  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_as_torch_samples_it(name: str) -> None:
    """OpInfo's samples in f32."""
    check_all(op_cases(name, torch.float32, 6))


MODULES = [
    "nn.Conv1d", "nn.Conv2d", "nn.Conv3d", "nn.ConvTranspose1d", "nn.ConvTranspose2d", "nn.ConvTranspose3d",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    """ModuleInfo's modules."""
    check_all(module_cases(name, 3))


IMAGE = [{0: Dim("batch"), 2: Dim("height", min=3), 3: Dim("width", min=3)}]


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.Conv2d(4, 6, 3, padding=1, stride=2),
        torch.nn.Conv2d(4, 6, (4, 3), padding="same", dilation=(1, 2)),
        torch.nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular", groups=2),
        torch.nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1),
        torch.nn.ConvTranspose2d(4, 6, (3, 2), stride=(3, 2), output_padding=(2, 1), groups=2),
        torch.nn.ConvTranspose2d(4, 6, 3, dilation=4, output_padding=3, padding=2),
        torch.nn.Unfold((2, 3), dilation=(2, 1), padding=1, stride=(1, 2)),
    ],
    ids=repr,
)
def test_images_of_any_size(model: torch.nn.Module) -> None:
    """Batch, height and width are symbols."""
    check(model, torch.randn(2, 4, 8, 9), dynamic_shapes=IMAGE, others=[(torch.randn(1, 4, 11, 7),)])


def test_lengths_of_any_size() -> None:
    """An even kernel with padding "same" puts one more zero at the end."""
    model = torch.nn.Conv1d(3, 4, 4, padding="same", dilation=3)
    shapes = [{0: Dim("batch"), 2: Dim("length", min=12)}]
    check(model, torch.randn(2, 3, 20), dynamic_shapes=shapes, others=[(torch.randn(1, 3, 31),)])


def test_without_batch() -> None:
    """Inputs may lack the batch axis."""
    check(torch.nn.Conv1d(4, 4, 3, groups=2), torch.randn(4, 8))
    check(torch.nn.ConvTranspose2d(4, 3, 3), torch.randn(4, 5, 6))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("batched", [False, True])
def test_kernels_of_any_length(batched: bool, dilation: int) -> None:
    """Padding "same" follows the length of the kernel, odd or even, with a batch and without."""

    def same(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv1d(x, w, None, 1, "same", dilation)

    def given(length: int, kernel: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn((2, 3, length) if batched else (3, length)), torch.randn(4, 3, kernel)

    x, w = given(9, 4)
    shapes = [dict.fromkeys(range(x.dim()), Dim.AUTO), dict.fromkeys(range(3), Dim.AUTO)]
    check(same, x, w, dynamic_shapes=shapes, others=[given(*n) for n in ((5, 3), (2, 5), (1, 1), (1, 2))])


def test_core_operator() -> None:
    """`convolution`, to which core ATen reduces all."""
    x, w, b = torch.randn(2, 4, 7, 8), torch.randn(6, 2, 3, 3), torch.randn(6)
    check(lambda x, w, b: torch.convolution(x, w, b, [2], [1], [1], False, [0], 2), x, w, b)
    w = torch.randn(4, 3, 3, 3)
    check(lambda x, w, b: torch.convolution(x, w, b, [2, 2], [1, 0], [1, 1], True, [1, 0], 2), x, w, b)


class Modulated(torch.nn.Module):
    """A convolution with weights of its own for each image, as of CondConv, StyleGAN's layers, and torchaudio's deltas:
    one of as many groups as there are images."""

    def __init__(self, axes: int, transposed: bool, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.convolved = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{axes}d")
        self.weight = torch.nn.Parameter(torch.randn(1, *((2, 3) if transposed else (3, 2)), *(3, 2, 4)[:axes]))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        batch = x.shape[0]
        weight = (self.weight * scale.reshape(-1, *[1] * (self.weight.dim() - 1))).flatten(0, 1)
        bias = scale[:, None].expand(-1, 3).flatten()
        made = self.convolved(x.reshape(1, -1, *x.shape[2:]), weight, bias, groups=batch, **self.options)
        return made.reshape(batch, -1, *made.shape[2:])


@pytest.mark.parametrize("transposed", [False, True], ids=["forward", "transposed"])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "stride": (3,)}], ids=str)
def test_groups_of_any_number(axes: int, transposed: bool, options: dict[str, Any]) -> None:
    """Windows or sums of windows of each group, at a batch of 1 and others, and where numbers are infinite."""
    options = {k: v if type(v) is int else v * axes for k, v in options.items()}
    model = Modulated(axes, transposed, **options).eval()

    def given(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(batch, 2, length, *(8, 9)[: axes - 1]), torch.randn(batch)

    program = irkit.to_onnx(model, given(2, 9), dynamic_shapes=({0: "b", 2: "n"}, {0: "b"}))
    for batch, length in ((2, 9), (1, 7), (5, 12)):
        x, scale = given(batch, length)
        x[:, 0, 1] = float("inf")
        torch.testing.assert_close(program(x, scale), model(x, scale), rtol=1e-4, atol=1e-5, equal_nan=True)


def test_windows_of_any_size_in_groups_of_any_number_are_refused() -> None:
    def convolved(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv1d(x, w, groups=x.shape[1])

    shapes = ({1: "g", 2: "n"}, {0: "g", 2: "k"})
    with pytest.raises(irkit.IrkitError, match="windows of a size that is a number"):
        irkit.to_onnx(convolved, (torch.randn(1, 3, 9), torch.randn(3, 1, 4)), dynamic_shapes=shapes)
