"""Numbers at which ONNX Runtime's kernels, or their float32 attributes, part with torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit

ODD = torch.tensor([float("nan"), -1.0, 2.0, float("inf"), float("-inf"), -0.0, 0.0, 3e-4])
WHOLE = torch.tensor([2, 3, -1, 0, 1, -2, 5, 7])
LEAST = torch.tensor([-(2**63), 5, -7, -(2**63)])
TURNED = torch.tensor([-1, -1, 3, 2])
SHIFTS = torch.tensor([0, 1, 63, 64, -1, -64, 100, 3])

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "relu written out, of NaN": (lambda x: torch.where(x > 0, x, 0.0), (ODD,)),
    "the same from 0 on": (lambda x: torch.where(x >= 0, x, 0.0), (ODD,)),
    "a power above 63": (lambda x: (x**64, x**65, x**127), (WHOLE,)),
    "a power that is 0 in float32": (lambda x: (x**1e-300, x**-1e-300), (ODD,)),
    "celu of a large alpha": (lambda x: (torch.celu(x, 1e10), torch.celu(x, 70000.0)), (ODD,)),
    "elu in float64": (lambda x: torch.nn.functional.elu(x, 1.1), (ODD.double(),)),
    "shifts by any number": (lambda x, n: (x << n, x >> n, x << -1, x >> -5), (WHOLE, SHIFTS)),
    "ldexp down": (lambda x: torch.ldexp(x, torch.full((8,), -150)), (ODD,)),
    "ldexp up": (lambda x: torch.ldexp(x, torch.full((8,), 1100)), (ODD,)),
    "ldexp in float64": (lambda x: torch.ldexp(x, torch.full((8,), -1030)), (ODD.double(),)),
    "lerp of half numbers": (lambda x: torch.lerp(x, x + 1, 70000.0), (ODD[5:].half(),)),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_at_the_ends_are_torchs(name: str) -> None:
    function, args = CASES[name]
    found, expected = irkit.to_onnx(function, args)(*args), function(*args)
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", (torch.int8, torch.int16, torch.int32, torch.int64))
def test_the_least_number_by_minus_one_ends_no_process(dtype: torch.dtype) -> None:
    least = torch.iinfo(dtype).min
    x, y = LEAST.clamp(least).to(dtype), TURNED.to(dtype)
    program = irkit.to_onnx(
        lambda x, y: (x % y, torch.fmod(x, y), x // y, torch.div(x, y, rounding_mode="trunc")), (x, y)
    )
    found = [part.tolist() for part in program(x, y)]
    half = least // 2
    assert found == [[0, 0, 2, 0], [0, 0, -1, 0], [least, -5, -3, half], [least, -5, -2, half]]
