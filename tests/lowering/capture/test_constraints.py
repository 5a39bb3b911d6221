"""Equations of sizes that torch.export cannot solve: they are conditions, and no failure."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit
from lowering.capture.capture import capture
from lowering.capture.widen import MANY
from tests.support.timing import spent


class Halved(torch.nn.Module):
    """Goes on where an eighth of a size is even."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        eighths = x.reshape(x.shape[0] // 8, 8).sum(1)
        others = y.reshape(y.shape[0] // 8, 8).sum(1)
        if eighths.shape[0] // 2 * 2 != eighths.shape[0]:
            return eighths
        if 3 * eighths.shape[0] * (others.shape[0] // 2) != 3 * (eighths.shape[0] // 2) * others.shape[0]:
            return others
        return eighths.reshape(2, -1) + others.sum()


def test_a_condition_of_a_part_of_a_size_stays_a_condition():
    program = irkit.to_onnx(Halved(), (torch.randn(64), torch.randn(32)), dynamic_shapes=({0: "n"}, {0: "m"}))
    assert program.check() and program(torch.randn(16), torch.randn(48)).shape == (2, 1)
    for n, m in ((24, 32), (16, 24)):
        with pytest.raises(irkit.ContractError, match="was captured under the condition"):
            program(torch.randn(n), torch.randn(m))


def test_an_equation_that_has_one_solution_still_fixes_a_size():
    def fixed(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] * 2 == 16 else x

    with pytest.raises(irkit.IrkitError, match="works for 8 only"):
        irkit.to_onnx(fixed, (torch.randn(8),), dynamic_shapes=({0: "n"},))


def test_what_is_added_to_torch_s_time_grows_with_the_conditions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asking(torch.nn.Module):
        def forward(self, x: Any, y: Any, z: Any) -> Any:
            for i in range(MANY + 4):
                if x.shape[0] * (i + 2) + y.shape[0] + z.shape[0] * (i % 7) < i + 1:
                    x = x * 2
            return x.sum() + y.sum() + z.sum()

    inside = 0.0
    export = torch.export.export

    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        with spent() as cost:
            found = export(*args, **kwargs)
        inside += cost.seconds
        return found

    monkeypatch.setattr(torch.export, "export", timed)
    args = tuple(torch.randn(size) for size in (5, 6, 7))
    with spent() as whole:
        captured = capture(Asking(), args, dynamic_shapes={"x": {0: "b"}, "y": {0: "c"}, "z": {0: "d"}})
    own = whole.seconds - inside
    assert len(captured.guards) > MANY and len(captured.attempts) == 1
    assert own < 2 * inside
