"""Functions of torch that take plain integers, called with sizes: the sizes vary, and each answer is eager's."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F

import irkit
from irkit import dims
from irkit.errors import IrkitError
from lowering.direct.expected import quotient

Function = Callable[[torch.Tensor], torch.Tensor]


def triangle(x: torch.Tensor, places: Callable[..., torch.Tensor], **more: int) -> torch.Tensor:
    """The elements of x.T @ x at the places of a triangle."""
    rows, columns = places(x.size(-1), x.size(-1), **more)
    return (x.mT @ x)[:, rows, columns]


OF_ROWS: dict[str, Function] = {
    "max_pool1d, whole": lambda x: F.max_pool1d(x, x.size(2)).squeeze(2),
    "max_pool1d, by name": lambda x: F.max_pool1d(input=x, kernel_size=x.size(2)),
    "torch.max_pool1d": lambda x: torch.max_pool1d(x, x.shape[-1]),
    "max_pool1d, halves": lambda x: F.max_pool1d(x, x.size(2) // 2 + 1),
    "avg_pool1d, stride": lambda x: F.avg_pool1d(x, kernel_size=x.size(-1), stride=x.size(-1)),
    "avg_pool1d, one window": lambda x: F.avg_pool1d(x, x.size(-1), 1),
    "lp_pool1d": lambda x: F.lp_pool1d(x.abs(), 2, x.size(-1)),
    "hann_window": lambda x: x * torch.hann_window(x.size(-1)),
    "hann_window of doubles": lambda x: x * torch.hann_window(x.size(-1), periodic=False, dtype=torch.float64),
    "hamming_window": lambda x: x * torch.hamming_window(x.size(-1), False, alpha=0.5),
    "bartlett_window": lambda x: x * torch.bartlett_window(x.size(-1)),
    "blackman_window": lambda x: x * torch.blackman_window(x.size(-1), dtype=torch.float32, device=x.device),
    "logspace": lambda x: x * torch.logspace(0, 1, x.size(-1)),
    "linspace": lambda x: x * torch.linspace(-1, 1, steps=x.size(-1)),
    "one_hot": lambda x: F.one_hot(torch.arange(x.size(2)), x.size(2) + 1),
    "triu_indices": lambda x: triangle(x, torch.triu_indices, offset=1),
    "triu_indices below": lambda x: triangle(x, torch.triu_indices, offset=-2),
    "tril_indices": lambda x: triangle(x, torch.tril_indices),
    "tril_indices far below": lambda x: triangle(x, torch.tril_indices, offset=-3),
    "tril_indices of no square": lambda x: torch.tril_indices(x.size(2), 4, offset=x.size(0)),
    "unfold": lambda x: x.unfold(2, x.size(2) // 2 + 1, 1),
    "unfold by a size": lambda x: x.unfold(2, 1, x.size(2)),
    "pad, circular": lambda x: F.pad(x, (x.size(2) // 2, 1), mode="circular"),
    "pad, circular by all": lambda x: F.pad(x, (0, x.size(2)), mode="circular"),
    "fftfreq": lambda x: x * torch.fft.fftfreq(x.size(-1)),
    "fftfreq by a distance": lambda x: x * torch.fft.fftfreq(x.size(-1), d=1 / x.size(-1), dtype=torch.float64),
    "rfftfreq": lambda x: x[..., : x.size(-1) // 2 + 1] * torch.fft.rfftfreq(x.size(-1), 0.5)[: x.size(-1)],
    "combinations": lambda x: torch.combinations(x[0, 0]),
    "combinations of three": lambda x: torch.combinations(torch.arange(x.size(2)), r=3),
    "combinations, repeated": lambda x: torch.combinations(x[0, 0], 2, with_replacement=True),
    "vander": lambda x: torch.vander(x[0, 0], x.size(0)),
    "vander, rising": lambda x: torch.vander((8 * x[0, 0]).int(), increasing=True),
    "as_tensor": lambda x: x * torch.as_tensor(x.size(0), dtype=torch.float32, device=x.device),
    "tensor": lambda x: x * torch.tensor([[x.size(0)], [x.size(2)], [1]]),
}
ROWS = ({0: "batch", 2: "n"},)


def answer(model: Function, x: torch.Tensor) -> torch.Tensor | None:
    """What a model gives; None where it refuses."""
    try:
        return model(x)
    except (RuntimeError, IndexError, IrkitError):
        return None


def compare(model: Function, program: irkit.Program, saved: Path, inputs: list[torch.Tensor]) -> None:
    """Holds a program, and its file in a bare ONNX Runtime, against eager: the same, or both refuse."""
    program.save(saved)
    session = onnxruntime.InferenceSession(saved, providers=["CPUExecutionProvider"])
    for x in inputs:
        expected, found = answer(model, x), answer(program, x)
        assert (expected is None) is (found is None), (x.shape, expected)
        if expected is None:
            continue
        (bare,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        for each in (found, torch.from_numpy(bare)):
            assert each is not None and each.dtype is expected.dtype
            torch.testing.assert_close(each, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", OF_ROWS)
def test_of_rows(name: str, tmp_path: Path) -> None:
    model = OF_ROWS[name]
    program = irkit.to_onnx(model, (torch.randn(2, 3, 6),), dynamic_shapes=ROWS)
    assert "directly" in str(program.report)
    inputs = [torch.randn(batch, 3, n) for batch in (1, 2, 3) for n in (6, 1, 2, 3, 5, 9)]
    compare(model, program, tmp_path / "model.onnx", inputs)


OF_IMAGES: dict[str, Function] = {
    "pixel_shuffle by the batch": lambda x: F.pixel_shuffle(x.repeat(1, 12, 1, 1), x.size(0)),
    "pixel_unshuffle by the batch": lambda x: F.pixel_unshuffle(x.repeat(1, 1, 2, 2), x.size(0)),
    "pixel_unshuffle by half the rows": lambda x: F.pixel_unshuffle(x[..., : x.size(2)], x.size(2) // 2),
    "affine_grid": lambda x: F.affine_grid(torch.eye(2, 3).repeat(x.size(0), 1, 1), list(x.shape), align_corners=False),
    "avg_pool2d, whole": lambda x: F.avg_pool2d(x, x.size()[2:]),
    "max_pool2d, whole": lambda x: F.max_pool2d(x, (x.size(2), x.size(3)))[:, :, 0, 0],
    "avg_pool2d, rows": lambda x: F.avg_pool2d(x, kernel_size=(x.shape[2], 1)),
    "max_pool2d, columns beside a plain window": lambda x: F.max_pool2d(x, (2, x.shape[3]), stride=(1, x.shape[3])),
    "avg_pool2d, padded in the other axis": lambda x: F.avg_pool2d(x, (3, x.shape[3]), (1, 1), (1, 0)),
    "avg_pool2d, quarters": lambda x: F.avg_pool2d(x, (x.shape[2] // 2, x.shape[3] // 2)),
    "max_pool2d, of one image": lambda x: F.max_pool2d(x[0], x.shape[2]),
    "max_pool3d, whole": lambda x: F.max_pool3d(x[None], x.shape[1:]),
}
"""Pools of images, some of windows that are the same in both axes, where images must be squares."""


@pytest.mark.parametrize("name", OF_IMAGES)
def test_of_images(name: str, tmp_path: Path) -> None:
    model = OF_IMAGES[name]
    size = (6, 6) if "one image" in name else (6, 8)
    shapes = ({0: "batch", 2: "height", 3: "width"},)
    program = irkit.to_onnx(model, (torch.randn(2, 3, *size),), dynamic_shapes=shapes)
    inputs = [torch.randn(2, 3, high, wide) for high, wide in ((6, 8), (5, 5), (4, 4), (9, 9), (3, 7), (2, 2), (12, 6))]
    compare(model, program, tmp_path / "model.onnx", inputs)


def test_istft_of_a_length_that_varies() -> None:
    window = torch.hann_window(16)

    def model(x: torch.Tensor) -> torch.Tensor:
        transformed = torch.stft(x, 16, 4, window=window, return_complex=True)
        return torch.istft(transformed, 16, 4, window=window, length=x.shape[1])

    program = irkit.to_onnx(model, (torch.randn(2, 64),), dynamic_shapes=({0: "batch", 1: "n"},))
    for n in (16, 63, 64, 65, 100):
        x = torch.randn(3, n)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("longest", [6, 5])
def test_packed_sequences_are_padded_as_far_as_a_size_says(longest: int) -> None:
    def model(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        padded, _ = torch.nn.utils.rnn.pad_packed_sequence(
            packed, batch_first=True, padding_value=-1.0, total_length=x.size(1)
        )
        return padded

    example = (torch.randn(3, 6, 2), torch.tensor([longest, 2, 4]))
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "batch", 1: "n"}, {0: "batch"}))
    for lengths, n in (([longest, 2, 4], 6), ([4], 4), ([1, 5], 5), ([1, 3], 5), ([1, 1], 7)):
        x = torch.randn(len(lengths), n, 2)
        torch.testing.assert_close(program(x, torch.tensor(lengths)), model(x, torch.tensor(lengths)))


def test_gradients_go_through_windows_as_long_as_a_size() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(F.avg_pool1d(x, x.size(2)).pow(2).sum(), x)[0]

    program = irkit.to_onnx(model, (torch.randn(2, 3, 6),), dynamic_shapes=ROWS)
    for n in (1, 4, 9):
        x = torch.randn(3, 3, n)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("name", ["stride", "dilation"])
def test_a_convolution_by_a_size_says_that_it_is_fixed(name: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        stride, dilation = (x.size(2), 1) if name == "stride" else (1, x.size(2))
        return F.conv1d(F.pad(x, (0, 12)), torch.ones(3, 3, 2), stride=stride, dilation=dilation)

    with pytest.raises(irkit.CaptureError, match="was to vary as 'n', and the model works for 6 only"):
        irkit.to_onnx(model, (torch.randn(2, 3, 6),), dynamic_shapes=ROWS)


def test_windows_as_long_as_data_says_are_for_the_number_of_the_example() -> None:
    def model(x: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
        number = int(size)
        return F.avg_pool1d(x, number) + x.unfold(2, size=number, step=3).sum(-1)

    program = irkit.to_onnx(model, (torch.randn(1, 2, 6), torch.tensor(3)))
    x = torch.randn(1, 2, 6)
    torch.testing.assert_close(program(x, torch.tensor(3)), model(x, torch.tensor(3)))
    with pytest.raises(irkit.ContractError, match="u0 == 3"):
        program(x, torch.tensor(2))


def test_a_grid_of_more_images_than_channels_is_made() -> None:
    def model(theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return F.affine_grid(theta, list(x.shape), align_corners=False)

    shapes = ({0: "batch"}, {0: "batch", 2: "height"})
    program = irkit.to_onnx(model, (torch.randn(2, 2, 3), torch.randn(2, 3, 4, 5)), dynamic_shapes=shapes)
    for batch, height in ((1, 1), (5, 3), (3, 9)):
        inputs = (torch.randn(batch, 2, 3), torch.randn(batch, 3, height, 5))
        torch.testing.assert_close(program(*inputs), model(*inputs), rtol=1e-5, atol=1e-5)


DIVIDED: dict[str, tuple[Function, int]] = {
    "1 / n": (lambda x: x.sum() * (1 / x.size(0)), 0),
    "1 / (n - 2)": (lambda x: x.sum() * (1 / (x.size(0) - 2)), 2),
    "1 / (n * 0.5)": (lambda x: x.sum() * (1 / (x.size(0) * 0.5)), 0),
    "n ** -0.5": (lambda x: x.sum() * x.size(0) ** -0.5, 0),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_a_size_by_which_numbers_are_divided_is_not_zero(name: str) -> None:
    model, refused = DIVIDED[name]
    program = irkit.to_onnx(model, (torch.randn(6, 2),), dynamic_shapes=({0: "n"},))
    for n in (1, 3, 7):
        x = torch.randn(n, 2)
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(ZeroDivisionError):
        model(torch.ones(refused, 2))
    with pytest.raises(irkit.ContractError):
        program(torch.ones(refused, 2))


PLAIN: dict[str, Function] = {
    "math.cbrt": lambda x: x * math.cbrt(x.size(0)),
    "np.cbrt": lambda x: x * np.cbrt(x.size(0)),
    "np.bartlett": lambda x: x + torch.from_numpy(np.bartlett(x.size(0)))[:, None],
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_takes_plain_numbers_says_what_takes_sizes(name: str) -> None:
    with pytest.raises(irkit.CaptureError, match="math and NumPy take plain numbers: write") as found:
        irkit.to_onnx(PLAIN[name], (torch.randn(6, 2),), dynamic_shapes=({0: "n"},))
    assert name in str(found.value)


def test_a_quotient_of_sizes_is_what_is_left_of_their_factors() -> None:
    n, m = dims.symbol("n"), dims.symbol("m")
    half: Any = dims.floordiv(dims.add(n, 1), 2)
    total = dims.mul(dims.mul(dims.add(half, 1), m), 6)
    for count, rest, expected in [
        (dims.mul(n, 6), 3, dims.mul(n, 2)),
        (dims.mul(n, 6), 4, None),
        (dims.mul(dims.mul(n, half), m), dims.mul(half, 1), dims.mul(n, m)),
        (total, dims.add(half, 1), dims.mul(m, 6)),
        (total, dims.mul(dims.add(half, 1), 4), None),
        (dims.add(n, m), dims.add(n, 1), None),
        (dims.add(n, m), dims.add(m, n), 1),
        (total, n, None),
        (0, n, 0),
        (n, 0, None),
        (6, 3, None),
    ]:
        assert quotient(count, rest) == expected, (count, rest)
