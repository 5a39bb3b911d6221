"""NumPy's kinds of numbers, its extremes, and functions that remember, of sizes: what they give varies with these."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy import int64

import irkit

Tensor = torch.Tensor
NUMPY: Any = np  # whose numbers torch's stubs do not know beside tensors
KNOWN = np.int64(3)


@functools.lru_cache(maxsize=8)
def doubled(size: int) -> int:
    return 2 * size + 1


@functools.cache
def positions(size: int, width: int = 3) -> Tensor:
    steps = torch.arange(size, dtype=torch.float32)
    return torch.sin(steps[:, None] / 10 ** torch.arange(width))


class Remembering(torch.nn.Module):
    """A model whose table of positions is made once for each length."""

    @functools.lru_cache(maxsize=4)  # noqa: B019 - what models do
    def table(self, size: int, *, scale: float = 1.0) -> Tensor:
        return positions(size) * scale

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table(x.shape[0], scale=2.0) + positions(x.shape[0])


MODELS: dict[str, Callable[[Tensor], Any]] = {
    "int64": lambda x: x * NUMPY.int64(x.shape[0]),
    "its own name": lambda x: x[: int64(x.shape[0]) // 2],
    "of a quotient": lambda x: x[: np.int64(x.shape[0] / 2)],
    "as an element type": lambda x: x + torch.from_numpy(np.arange(x.shape[0], dtype=np.int64))[:, None],
    "float64": lambda x: x * np.float64(x.shape[0]) / 3,
    "a root's item": lambda x: x / np.sqrt(x.shape[1] * x.shape[0]).item(),
    "another's kind": lambda x: x * (2 if isinstance(KNOWN, NUMPY.int64) else 3) * NUMPY.int64(x.shape[0]),
    "maximum": lambda x: x * np.maximum(x.shape[0], 4),
    "minimum": lambda x: x[: np.minimum(4, x.shape[0] - 1)],
    "extremes of arrays": lambda x: x * float(np.maximum(np.array([1.0, 3.0]), 2.0).sum()) * NUMPY.int64(x.shape[0]),
    "remembered": lambda x: x * doubled(x.shape[0]) + doubled(3),
    "remembered tensors": lambda x: x + positions(x.shape[0], width=3),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_made_of_sizes_varies(name: str) -> None:
    model = MODELS[name]
    program = irkit.to_onnx(model, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    for count in (5, 2, 3, 7, 12):
        x = torch.randn(count, 3)
        torch.testing.assert_close(program(x), model(x))


def test_methods_that_remember_are_asked_anew_and_remember_nothing_of_the_capture() -> None:
    model = Remembering()
    before = model(torch.zeros(4, 3))
    held = Remembering.table.cache_info().currsize
    program = irkit.to_onnx(model, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    assert Remembering.table.cache_info().currsize == held
    for count in (5, 2, 7):
        x = torch.randn(count, 3)
        torch.testing.assert_close(program(x), model(x))
    assert torch.equal(model(torch.zeros(4, 3)), before)


def test_nobody_can_tell_whether_a_size_was_made_a_kind_of_numpys() -> None:
    def model(x: Tensor) -> Tensor:
        size = NUMPY.int64(x.shape[0])
        return x * (2 if isinstance(size, NUMPY.int64) else 3)

    with pytest.raises(irkit.IrkitError, match="works for 5 only"):  # by the run that takes the number of the example
        irkit.to_onnx(model, (torch.randn(5, 3),), dynamic_shapes=({0: "n"},), capture="direct")
