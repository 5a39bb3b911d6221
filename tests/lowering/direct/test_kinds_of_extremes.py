"""`max(n, 2.5)`, `math.pow(n, 2)` and `math.sqrt(n - 2)` are of the kind that Python gives them, and refused where that
raises, by both ways of capture."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import ContractError

KINDS: dict[str, Callable[[torch.Tensor], Any]] = {
    "the greatest is an integer": lambda x: x + max(x.shape[0], 2.5),
    "the greatest is a float": lambda x: x + max(2, x.shape[0] / 2),
    "the least": lambda x: x * min(x.shape[0] / 2, 2, 3),
    "the first of two that are equal": lambda x: x * max(x.shape[0] * 1.0, x.shape[0]),
    "of a list": lambda x: x - max([4, x.shape[0], 1.5]),
    "of integers": lambda x: x + max(x.shape[0], 4) - min([x.shape[0], 6, 9]),
    "a power": lambda x: x * math.pow(x.shape[0], 2),
    "a power that is a tensor": lambda x: torch.full((2,), math.pow(x.shape[0], 1)) + x[:1],
    "a root of a power": lambda x: x + round(math.pow(x.shape[0], 0.5)),
}
REAL: dict[str, Callable[[torch.Tensor], Any]] = {
    "a root": lambda x: x + math.sqrt(x.shape[0] - 4),
    "a root that nobody uses": lambda x: x + math.sqrt(x.shape[0] - 4) * 0,
    "a power": lambda x: x + math.pow(x.shape[0] - 4, 0.5),
    "a power below 0": lambda x: x + math.pow(x.shape[0] - 3, -1),
}


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", KINDS)
def test_numbers_are_of_the_kind_that_python_gives_them(name: str, capture: Any) -> None:
    function = KINDS[name]
    program = irkit.to_onnx(function, (torch.arange(7),), dynamic_shapes=({0: "n"},), capture=capture)
    answered = 0
    for size in (7, 11, 5, 3, 2, 1):
        expected = function(torch.arange(size))
        try:
            found = program(torch.arange(size))
        except ContractError:
            continue
        answered += 1
        torch.testing.assert_close(found, expected)
    assert answered >= 2


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", REAL)
def test_what_has_no_real_root_or_power_is_refused_as_in_eager(name: str, capture: Any) -> None:
    function = REAL[name]
    program = irkit.to_onnx(function, (torch.ones(7),), dynamic_shapes=({0: "n"},), capture=capture)
    for size in (7, 5, 4):
        torch.testing.assert_close(program(torch.ones(size)), function(torch.ones(size)))
    with pytest.raises(ValueError, match="math domain error"):
        function(torch.ones(3))
    with pytest.raises(ContractError):
        program(torch.ones(3))
