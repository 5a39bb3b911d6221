"""Submodules of TorchScript: what torch.jit.trace made is called as it is, what torch.jit.script made is refused."""

from __future__ import annotations

import collections
import warnings
from typing import Any

import pytest
import torch

import irkit


class Holding(torch.nn.Module):
    """A model with another in it."""

    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x) * 2


def layers() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.GELU()).eval()


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_a_traced_part_is_called_as_it_is(capture: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is to go
        part = torch.jit.trace(layers(), torch.randn(2, 3))
    program = irkit.to_onnx(Holding(part), (torch.randn(4, 3),), dynamic_shapes=({0: "n"},), capture=capture)
    for rows in (4, 1, 0, 7):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), Holding(layers())(x), rtol=1e-5, atol=1e-6)


def test_a_scripted_part_is_refused_by_its_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        part = torch.jit.script(layers())
    with pytest.raises(irkit.CaptureError, match=r"Holding\.part is TorchScript") as told:
        irkit.to_onnx(Holding(part), (torch.randn(4, 3),))
    assert "put the module that it was scripted from" in str(told.value)


def test_modules_in_an_ordered_dict_are_those_of_a_model() -> None:
    model = Holding(layers())  # as torch.load gives models of older versions
    model.part._modules = collections.OrderedDict(model.part._modules)
    program = irkit.to_onnx(model, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(program(x := torch.randn(2, 3)), model(x), rtol=1e-5, atol=1e-6)
