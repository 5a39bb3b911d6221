"""Numbers that a half type does not hold: torch computes with them in float32, and rounds once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import irkit

NUMBERS = (70000, 70000.5, 1e-9, -1e9, -65520.0, 3e38, 1e-5)

FUNCTIONS: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "mul": lambda x, s: x * s, "div": lambda x, s: x / s, "divided": lambda x, s: s / x,
    "trunc": lambda x, s: torch.div(x, s, rounding_mode="trunc"),
    "floor": lambda x, s: torch.div(x, s, rounding_mode="floor"),
    "lone": lambda x, s: x * torch.tensor(s), "addcmul": lambda x, s: torch.addcmul(x, x, x, value=s),
    "threshold": lambda x, s: F.threshold(x, s, 0.0), "add": lambda x, s: x + s, "sub": lambda x, s: s - x,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_number_beyond_a_half_type(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, 0.5, -2.0, 0.0, -0.0, 1e-4, 60000.0, float("inf"), float("nan"), -60000.0]).to(dtype)

    def model(x: torch.Tensor) -> Any:
        return tuple(FUNCTIONS[name](x, number) for number in NUMBERS)

    step = 2e-3 if dtype is torch.float16 else 1e-2
    for number, expected, found in zip(NUMBERS, model(x), irkit.to_onnx(model, (x,))(x), strict=True):
        assert found.dtype is dtype
        torch.testing.assert_close(
            found, expected, rtol=step, atol=1e-7, equal_nan=True, msg=lambda m, n=number: f"{n}: {m}"
        )
