"""Infinities and NaN among operands of operators that are computed by others: they are where eager has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import irkit

CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "trapezoid": (lambda x: torch.trapezoid(x, dim=1), (3, 4)),
    "trapezoid, by gaps": (lambda x: torch.trapezoid(x, dx=0.5, dim=0), (3, 4)),
    "rows resized": (lambda x: F.interpolate(x, size=7, mode="linear"), (2, 3, 4)),
    "rows enlarged": (lambda x: F.interpolate(x, scale_factor=2.5, mode="linear"), (1, 3, 4)),
}


def operands(shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
    """Random numbers with an infinity or NaN at an end or beside it, and infinities alone."""
    for place in (0, 1, -1):
        for number in (math.inf, -math.inf, math.nan):
            x = torch.randn(shape)
            x.view(-1)[place] = number
            yield x
    yield torch.full(shape, math.inf)


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", CASES)
def test_infinities_stay_where_eager_has_them(name: str, capture: Any, varies: bool) -> None:
    function, shape = CASES[name]
    shapes = ({0: "n"},) if varies else None
    program = irkit.to_onnx(function, (torch.randn(shape),), dynamic_shapes=shapes, capture=capture)
    for x in operands(shape):
        torch.testing.assert_close(program(x), function(x), equal_nan=True)
    if varies and "gaps" in name:
        torch.testing.assert_close(program(torch.randn(0, 4)), torch.zeros(4))
