"""NumPy's arrays of tensors that a model holds: what they hold, and that nobody writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import irkit
from irkit.errors import IrkitError


class Holding(torch.nn.Module):
    """A model that reads its buffer by NumPy."""

    held: torch.Tensor

    def __init__(self, read: Any) -> None:
        super().__init__()
        self.register_buffer("held", torch.tensor([7.0, 0.5, 0.25]))
        self.weight = torch.nn.Parameter(torch.tensor([3.0, 2.0]))
        self.read = read

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(self.read(self))


READS = {
    "numpy": lambda model: model.held.numpy()[0],
    "numpy by force": lambda model: model.held.numpy(force=True)[1],
    "asarray": lambda model: np.asarray(model.held)[2],
    "a type": lambda model: model.held.__array__(np.float64)[0],
    "detached": lambda model: model.weight.detach().numpy()[0],
    "a part": lambda model: model.held[1:].numpy()[0],
}


@pytest.mark.parametrize("name", READS)
def test_what_arrays_hold(name: str) -> None:
    model, x = Holding(READS[name]), torch.randn(3)
    with torch.no_grad():
        expected = model(x)
    torch.testing.assert_close(irkit.to_onnx(model, (x,), capture="direct")(x), expected)


class Writing(Holding):
    """One that writes what it reads."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x * float(self.held.numpy()[0])
        self.held.add_(1)
        return found


def test_what_the_model_writes_is_not_read() -> None:
    with pytest.raises(IrkitError, match="reads a tensor by NumPy that it writes"):
        irkit.to_onnx(Writing(None), (torch.randn(3),), capture="direct")


def test_an_array_is_not_written() -> None:
    def write(model: Any) -> float:
        model.held.numpy()[0] += 1
        return 1.0

    with pytest.raises(IrkitError, match="read-only"):
        irkit.to_onnx(Holding(write), (torch.randn(3),), capture="direct")
