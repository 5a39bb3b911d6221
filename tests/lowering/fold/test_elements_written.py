"""Single elements, rows and parts that a model writes by indexing, of a tensor of its own, an input or a buffer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit
from tests.support.written_functions import function_of

WRITES = (
    "{y}[0, 0] = 7", "{y}[-1, -1] = 7", "{y}[0][1] = x[0, 0]", "{y}[0, 0] = x[1, 1]", "{y}[1, 0] += 1", "{y}[...] = 7",
    "{y}[:] = x + 1", "{y}[-2:] = {y}[:2] + 1", "{y}[:2] = {y}[-2:] + 1", "{y}[0] = {y}[1]", "{y}[:, -1] = 7",
    "{y}[x > 2] = 7", "{y}[0, 0] = {y}[-1, -1] * 2", "{y}[..., 0] = x.sum()", "{y}[0:1, 1:2] = torch.tensor(3.0)",
    "{y}.diagonal()[0] = 5", "z = {y}[0]; z[-1] = 7", "{y}[0, 0] = 7; {y}[0, 1] = {y}[0, 0] + 1",
    "{y}[1] = torch.ones(5)",
    "{y}[0, 0].copy_(x.sum())", "{y}.copy_(x * 3)", "{y}[0].copy_({y}[1] * 2)", "{y}.T[0, 1] = 4",
)  # fmt: skip
PLACES = ("y", "x", "self.kept")


def model_of(write: str, place: str) -> torch.nn.Module:
    """A module that writes so, and returns what it wrote and what it computed of that before and after."""
    own = "y = x * 1" if place == "y" else "pass"
    lines = [own, f"before = {place} * 1", write.format(y=place), f"return {place} * 1, before, {place}[0] * 2"]
    text = "def forward(self, x):\n" + "".join(f"    {line}\n" for line in lines)
    function = function_of(text, f"/written/{abs(hash((write, place)))}.py", "forward", {"torch": torch})

    class Model(torch.nn.Module):
        forward = function

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.arange(20.0).reshape(4, 5) + 1)

    return Model()


@pytest.mark.parametrize("names", [None, ({0: "n"},)], ids=["fixed", "n"])
@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_by_indexing_is_written(write: str, place: str, way: Any, names: Any) -> None:
    if names is not None and (place == "self.kept" or "y}[x" in write):
        return  # the buffer has rows as many as it has
    x = torch.arange(20.0).reshape(4, 5) % 7
    program = irkit.to_onnx(model_of(write, place), (x.clone(),), dynamic_shapes=names, capture=way)
    expected = model_of(write, place)(x.clone())
    for mine, eager in zip(program(x.clone()), expected, strict=True):
        assert torch.equal(mine, eager)
