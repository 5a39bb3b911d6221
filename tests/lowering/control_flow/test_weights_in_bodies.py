"""Modules called in a branch or a loop on data: their weights are those of the model, by either way of capture."""

from __future__ import annotations

import pytest
import torch

import irkit


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        self.register_buffer("shift", torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.shift


class InBranch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Normed(), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return self.one(x)
        return self.other(x) * 2


class InLoop(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = Normed()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.abs().max() > 1:
            x = self.one(x) * 0.5
        return x


class InBranchOfLoop(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Normed(), torch.nn.Linear(4, 4)
        self.other.weight = torch.nn.Parameter(self.other.weight * 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.abs().max() > 1:
            x = self.one(x) * 0.3 if x.sum() > 0 else self.other(x) * 0.3
        return x


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("kind", [InBranch, InLoop, InBranchOfLoop])
def test_weights_of_modules_in_bodies_are_those_of_the_model(kind: type[torch.nn.Module], capture: str) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    options = {"dynamic_shapes": ({0: "n"},), "capture": capture, "rewrite": True}
    program = irkit.to_onnx(model, (torch.randn(5, 4),), **options)
    for size in (5, 2, 7, 3, 6, 4):
        x = torch.randn(size, 4) * 2
        torch.testing.assert_close(program(x), model(x))
