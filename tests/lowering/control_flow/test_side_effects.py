"""What a branch or a loop changes in what it calls is refused: both branches run while a model is captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import irkit
from lowering.errors import CaptureError


class Counting(nn.Module):
    """A model that counts in an attribute how often it added, in a method that it calls."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.seen: list[Any] = []

    def added(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + 1

    def noted(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(1)
        return x + 1


class InBranch(Counting):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.added(x) if x.sum() > 0 else self.added(self.added(x))
        return x * self.count


class InList(Counting):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = self.noted(x)
        return x * len(self.seen)


class InLoop(Counting):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.sum() < 4:
            x = self.added(x)
        return x * self.count


class InCond(Counting):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cond(x.sum() > 0, lambda x: self.added(x), lambda x: self.added(self.added(x)), (x,))
        return x * self.count


class InClosure(Counting):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps: dict[str, int] = {}

        def step(value: torch.Tensor) -> torch.Tensor:
            steps["made"] = len(steps) + 1
            return value + 1

        if x.sum() > 0:
            x = step(x)
        return x * len(steps)


@pytest.mark.parametrize("model", [InBranch, InList, InLoop, InCond, InClosure])
def test_what_a_body_changes_in_what_it_calls_is_refused(model: Callable[[], Any]) -> None:
    made = model().eval()
    with pytest.raises(CaptureError, match=r"changes ('count'|a list|'made') in what it calls"):
        irkit.to_onnx(made, (torch.ones(3),), rewrite=True)
    assert made.count == 0 and made.seen == []


class SetHere(nn.Module):
    """Sets its attribute in the branch itself, which is followed."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.ones(())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            self.factor = x.amax()
        else:
            self.factor = x.amin()
        return x * self.factor


def test_what_a_branch_sets_itself_is_followed() -> None:
    program = irkit.to_onnx(SetHere().eval(), (torch.ones(3),), rewrite=True)
    for x in (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, 0.5])):
        torch.testing.assert_close(program(x), SetHere()(x))
