"""Operators on lists of tensors answer as torch's do, also where they write."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit
from lowering.direct.functions.lists import LISTS
from tests.support.draws import drawn

TWO = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max", "copy", "lerp")
FIRST = tuple(
    f"aten::_foreach_{name}" for name in ("addcdiv", "addcdiv_", "lerp_", "copy_", "norm", "zero_", "maximum_")
)
"""Those whose arguments are not those of the operator on one tensor."""
THREE = ("addcdiv", "addcmul")


def arguments_of(name: str, xs: list[torch.Tensor], ys: list[torch.Tensor]) -> list[tuple[Any, ...]]:
    """What an operator takes behind the list: lists, numbers, and a list of numbers."""
    if name in THREE:
        return [(xs, ys), (xs, ys, 0.5), (xs, ys, [0.5, 2.0]), (xs, ys, torch.tensor([0.5, 2.0]))]
    if name == "lerp":
        return [(ys, 0.3), (ys, ys)]
    if name == "copy":
        return [(ys,)]
    return [(ys,), (2.0,), ([2.0, 3.0],)] if name in TWO else [()]


@pytest.mark.parametrize("full", drawn("operators on lists", sorted(LISTS), 16, FIRST))
def test_operators_on_lists_answer_as_eager(full: str) -> None:
    written = full.endswith("_")
    name = full.removeprefix("aten::_foreach_").rstrip("_")
    function = getattr(torch, full.removeprefix("aten::"), None) or getattr(torch.ops.aten, full.removeprefix("aten::"))

    def model(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        xs, ys = [x.clone(), x.cos() + 2], [y, y.flip(0)]
        found = []
        for given in arguments_of(name, xs, ys):
            results = function(xs, *given)
            found += [each.clone() for each in (xs if written else results)]
        return found

    torch.manual_seed(0)
    program = irkit.to_onnx(model, (torch.rand(4, 3) + 1.1, torch.rand(4, 3) + 0.5), dynamic_shapes=({0: "n"},) * 2)
    assert "directly" in str(program.report)
    for n in (4, 1, 6):
        x, y = torch.rand(n, 3) * 0.7 + 0.1, torch.rand(n, 3) + 0.5
        torch.testing.assert_close(program(x, y), model(x, y), rtol=1e-4, atol=1e-5, equal_nan=True)
