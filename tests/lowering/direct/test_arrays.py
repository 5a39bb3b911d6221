"""`.numpy()` of a traced tensor: what models do with the array is computed, in NumPy's types; the rest is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import irkit
from irkit.errors import IrkitError
from lowering.errors import CaptureError
from tests.support.written_functions import function_of


def offsets(x: torch.Tensor) -> Any:
    sums = x.long().cpu().numpy().cumsum(0)
    return torch.from_numpy(sums) + 1, torch.tensor(sums.shape[0]), torch.as_tensor(sums > 2)


def promoted(x: torch.Tensor) -> Any:
    whole, narrow = x.long().numpy(), x.int().numpy()
    return torch.from_numpy(whole / 2), torch.from_numpy(np.sqrt(np.abs(whole) * 2.5 + narrow)), narrow.sum() + x


def scaled(x: torch.Tensor) -> Any:
    return torch.from_numpy(x.numpy() * 2.5 + x.long().numpy().mean() + x.double().numpy())


def ordered(x: torch.Tensor) -> Any:
    order = x.numpy().argsort()
    return x[order], x[torch.from_numpy(order)]


def parts(x: torch.Tensor) -> Any:
    ends = x.long().numpy()
    return x[ends.min() : ends.max()], [x[ends[0] :], torch.tensor(ends.astype(np.float32)[::2])]


def written(x: torch.Tensor) -> Any:
    x = x.clone()
    array = x.detach().numpy()
    own = array.copy()
    array[1:] += 2.0
    array *= 3
    return x, torch.from_numpy(own), torch.tensor(np.concatenate([array, own.astype(np.float64)]))


@pytest.mark.parametrize("model", [offsets, promoted, scaled, ordered, parts, written])
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")
def test_what_an_array_of_a_tensor_becomes_is_computed(model: Any) -> None:
    program = irkit.to_onnx(model, (torch.tensor([1.0, 4.0, 2.0]),), dynamic_shapes=({0: "n"},), capture="direct")
    for content in ([1.0, 4.0, 2.0], [3.0, 1.0], [2.0], [], [0.0, 5.0, 3.0, 1.0, -4.0]):
        x = torch.tensor(content)
        if not content and model is parts:  # which NumPy refuses
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        torch.testing.assert_close(program(x), model(x))


def test_the_list_of_an_array_is_of_any_length_when_rewritten() -> None:
    def listed(x: torch.Tensor) -> torch.Tensor:
        total = x.new_zeros(())
        for length in x.long().numpy():
            total = total + length
        return total + torch.tensor(x.numpy().tolist())

    x = torch.tensor([1.0, 4.0, 2.0])
    program = irkit.to_onnx(listed, (x,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for n in (0, 1, 3, 6):
        x = torch.arange(float(n))
        torch.testing.assert_close(program(x), listed(x))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (lambda x: torch.from_numpy(np.fft.fft(x.numpy()).real), r"np\.fft"),
        (lambda x: torch.from_numpy(x.numpy().byteswap()), r"ndarray\.byteswap"),
        (lambda x: torch.from_numpy(np.asarray(x)), "a function of NumPy's"),
        (lambda x: torch.from_numpy(x.long().numpy() // x.long().numpy()), "may be 0"),
        (lambda x: torch.from_numpy(x.byte().numpy().sum(0)), "ndarray.sum of uint8"),
        (lambda x: x * len(x.numpy()), r"array\.shape\[0\]"),
    ],
)
def test_what_an_array_of_a_tensor_cannot_do_is_refused(model: Any, told: str) -> None:
    with pytest.raises(IrkitError, match=told):
        irkit.to_onnx(model, (torch.tensor([1.0, 4.0, 2.0]),), dynamic_shapes=({0: "n"},), capture="direct")


OF_SIZES = (
    "np.array([n, m])", "np.array([[n, 2.5], [m, 1]])", "np.asarray(x.shape)", "np.array((n, m), dtype=np.float32) / 2",
    "np.array([n, m]) // 2 + np.array([1, 2])", "np.array([n, m]) * np.arange(n)[:, None]",
    "np.full((n, m), 2.5)", "np.full((n, n), -np.inf)", "np.full((2, 3), n)", "np.full(n, True)",
    "np.full((n, 2), fill_value=3)", "np.full((2,), n / 2, dtype=np.float32)", "np.tri(n)", "np.tri(n, m, k=-1)",
    "np.tri(n, m, 1, dtype=bool)", "np.triu(np.ones((n, m)), k=1)", "np.tril(np.ones((n, m), dtype=np.int32), -1)",
    "np.triu(np.full((n, n), -1e9), 1)", "np.triu(np.ones((1, n, n)), k=1).astype('uint8') == 0",
    "1 - np.tri(n).astype('uint8')", "np.where(np.arange(n) > m, np.arange(n), 0.5)", "np.tri(n) > 0",
    "np.where(np.arange(n) > 1, np.arange(n).astype(np.float32), 0.5)", "np.outer(np.arange(n), np.arange(m))",
    "np.meshgrid(np.arange(n), np.arange(m))[0]", "np.meshgrid(np.arange(n), np.arange(m), indexing='ij')[1]",
    "np.repeat(np.arange(n), 2)", "np.repeat(np.arange(3), n)", "np.arange(m).repeat(n)", "np.tile(np.arange(n), 2)",
    "np.tile(np.arange(m), (n, 1))", "np.tile([1, 2], n)", "np.zeros_like(np.arange(n))", "np.square(np.arange(n))",
    "np.indices((n, m))", "np.indices((n, m), dtype=np.float32)[1]", "np.mgrid[0:n, 1 : m + 1]", "np.mgrid[:n]",
    "np.mgrid[0:n, 0:2:0.5]", "np.ogrid[0:n, 0:m][0] * 10 + np.ogrid[0:n, 0:m][1]", "np.arange(n)[::-1].copy()",
    "np.ascontiguousarray(np.arange(n)[::-1]) + 0", "np.ones((n, m))[:, ::-1] * np.arange(m)[::-1]",
    "np.flip(np.indices((n, m)), axis=1) + 0", "np.flip(np.arange(n)).astype(np.float32)", "np.roll(np.arange(n), 1)",
    "np.concatenate([np.arange(n), [7, m]])", "np.concatenate([[0.5], np.arange(n)])", "np.pad(np.arange(n), (1, m))",
    "np.pad(np.ones((n, m)), ((1, 0), (0, 2)), constant_values=3)", "np.clip(np.arange(n), 1, 3)",
    "np.clip(np.arange(n), None, m)", "np.arange(n) ** 2 + np.power(np.arange(n), 3)", "np.sign(np.arange(n) - 2)",
    "np.rint(np.arange(n) / 2)", "np.arange(n) ^ 1",
)  # fmt: skip
IN_DOUBLES = (
    "np.sin(np.outer(np.arange(n), np.arange(m)) / 10)", "np.arange(n)[:, None] / np.power(10000.0, np.arange(m) / 4)",
    "10000 ** (-np.arange(n) / 8)", "np.cos(np.full((n,), m / 7))",
    "np.hanning(n)", "np.hamming(m)", "np.blackman(n)", "np.arctan2(np.arange(n), 3)", "np.log1p(np.arange(n))",
    "np.hypot(np.arange(n), 2.0)",
)  # fmt: skip


@pytest.mark.parametrize("text", (*OF_SIZES, *IN_DOUBLES))
def test_an_array_of_sizes_is_numpys_at_all_sizes(text: str) -> None:
    lines = f"def model(x):\n    n, m = x.shape\n    return torch.from_numpy({text})\n"
    model = function_of(lines, f"arrays_of_sizes_{abs(hash(text))}.py", "model", {"torch": torch, "np": np})
    program = irkit.to_onnx(model, (torch.zeros(4, 3),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    for n, m in ((4, 3), (0, 3), (3, 0), (0, 0), (1, 1), (1, 5), (2, 2), (9, 4), (17, 1)):
        found, expected = program(torch.zeros(n, m)), model(torch.zeros(n, m))
        near = 1e-7 if text in IN_DOUBLES else 0
        torch.testing.assert_close(found, expected, rtol=near, atol=near)


def test_what_shares_the_memory_of_an_array_in_the_opposite_order_is_refused() -> None:
    def kept(x: torch.Tensor) -> torch.Tensor:
        array = np.arange(x.shape[0])
        backwards = array[::-1]
        array[0] = 7
        return torch.from_numpy(backwards.copy())

    program = irkit.to_onnx(kept, (torch.zeros(4),), dynamic_shapes=({0: "n"},), capture="direct")
    for n in (4, 1, 9):
        assert torch.equal(program(torch.zeros(n)), kept(torch.zeros(n)))

    def written(x: torch.Tensor) -> torch.Tensor:
        array = np.arange(x.shape[0])
        array[::-1][1:] += 1
        return torch.from_numpy(array)

    def added(x: torch.Tensor) -> torch.Tensor:
        array = np.arange(x.shape[0])
        array[::-1].sort()
        return torch.from_numpy(array)

    for model in (written, added):
        with pytest.raises(CaptureError, match=r"works for 4 only|NumPy"):
            irkit.to_onnx(model, (torch.zeros(4),), dynamic_shapes=({0: "n"},), capture="direct")


@pytest.mark.parametrize("text", ["np.tri(n).astype('uint8').sum(0)", "2 ** np.arange(n)", "np.triu(np.arange(n))"])
def test_what_is_not_computed_of_an_array_of_sizes_is_refused(text: str) -> None:
    lines = f"def model(x):\n    n = x.shape[0]\n    return torch.from_numpy({text})\n"
    model = function_of(lines, f"refused_arrays_{abs(hash(text))}.py", "model", {"torch": torch, "np": np})
    with pytest.raises(CaptureError, match=r"hands a size that varies to NumPy|works for 4 only"):
        irkit.to_onnx(model, (torch.zeros(4),), dynamic_shapes=({0: "n"},))
