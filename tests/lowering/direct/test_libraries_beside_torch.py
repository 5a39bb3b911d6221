"""Code of libraries whose folders begin with torch's name, as torchvision's does, is none of torch's own."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import irkit
from tests.support.right_or_refused import first_wrong

WAYS = ("direct", "torch.export")
SOURCE = """
import torch

class ByText(torch.nn.Module):
    def forward(self, x):
        if f"{x.shape[0]}" == "3":
            return x * 2
        return x + 1

class ByTruth(torch.nn.Module):
    def forward(self, x):
        wide = x.shape[0] > 2
        if wide is True:
            return x * 2
        return x + 1

class ByTensor(torch.nn.Module):
    def forward(self, x):
        if "-" in str(x):
            return x * 2
        return x + 1

class ByShape(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape == (3, 2) else x + 1

class Telling(torch.nn.Module):
    def forward(self, x):
        if x.dim() != 2:
            raise ValueError(f"{x.shape} is not two axes of {x}")
        return x * 2
"""


@pytest.fixture(params=["torchvision/models", "torchaudio", "torch_parts"])
def models(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The classes of a module that stands beside torch."""
    file = str(Path(torch.__file__).parents[1] / request.param.replace("/", os.sep) / "own.py")
    lines: list[str] = [*SOURCE.splitlines(keepends=True)]
    linecache.cache[file] = (len(SOURCE), None, lines, file)
    space: dict[str, Any] = {"__name__": request.param.replace("/", ".") + ".own"}
    exec(compile(SOURCE, file, "exec"), space)
    yield space
    linecache.cache.pop(file)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["ByText", "ByTruth", "ByTensor", "ByShape"])
def test_what_decides_there_decides(name: str, way: str, models: dict[str, Any]) -> None:
    inputs = (torch.full((rows, 2), 7.0 * sign) for rows in (1, 2, 3, 5) for sign in (1, -1))
    assert first_wrong(models[name](), torch.full((3, 2), 5.0), way, inputs) is None


@pytest.mark.parametrize("way", WAYS)
def test_what_is_told_there_decides_nothing(way: str, models: dict[str, Any]) -> None:
    model = models["Telling"]()
    program = irkit.to_onnx(model, (torch.ones(3, 2),), dynamic_shapes=({0: "n"},), capture=way)
    for rows in (1, 2, 5):
        assert torch.equal(program(torch.ones(rows, 2)), torch.full((rows, 2), 2.0))
