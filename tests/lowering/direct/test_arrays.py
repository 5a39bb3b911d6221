"""`.numpy()` of a traced tensor: what models do with the array is computed, in NumPy's types; the rest is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import irkit
from irkit.errors import IrkitError


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
        (lambda x: torch.from_numpy(x.byte().numpy()), "uint8"),
        (lambda x: x * len(x.numpy()), r"array\.shape\[0\]"),
    ],
)
def test_what_an_array_of_a_tensor_cannot_do_is_refused(model: Any, told: str) -> None:
    with pytest.raises(IrkitError, match=told):
        irkit.to_onnx(model, (torch.tensor([1.0, 4.0, 2.0]),), dynamic_shapes=({0: "n"},), capture="direct")
