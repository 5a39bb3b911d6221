"""asin, acosh, lgamma and others of sizes: computed by the graph where Python computes them, refused elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit

ROWS: Any = ({0: "n"},)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "asin": lambda n: math.asin(1 / (n + 1)),
    "asin beyond its end": lambda n: math.asin(n / 8),
    "acos": lambda n: math.acos((n - 2) / (n + 3)),
    "acosh": lambda n: math.acosh(n + 1),
    "acosh below its end": lambda n: math.acosh(n - 2),
    "atanh": lambda n: math.atanh(1 / (n + 2)),
    "atanh at its end": lambda n: math.atanh(n / 8),
    "asinh": lambda n: math.asinh(n - 20),
    "erfc": lambda n: math.erfc(n / 3),
    "lgamma": lambda n: math.lgamma(n + 0.5),
    "lgamma of a size": lambda n: math.lgamma(n) + 1,
    "degrees": lambda n: math.degrees(n),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_sizes_are_computed_where_python_computes_them(name: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.full((2,), FUNCTIONS[name](x.shape[0]), dtype=torch.float64)

    program = irkit.to_onnx(function, (torch.zeros(4, 3),), dynamic_shapes=ROWS)
    for rows in (0, 1, 2, 3, 4, 8, 9, 21, 1000):
        x = torch.zeros(rows, 3)
        try:
            expected = function(x)
        except ValueError:
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        torch.testing.assert_close(program(x), expected, rtol=1e-12, atol=1e-13)
