"""`n // 0.1` of numbers that sizes and data tell: Python's, where a / b is rounded up to a whole number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError

QUOTIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "of a size": lambda x, r: x + x.shape[0] // 0.1,
    "of a float": lambda x, r: x + (x.shape[0] * 0.3) // 0.1,
    "of data": lambda x, r: x + r.item() // 0.1,
    "by a size": lambda x, r: x + 1 // (x.shape[0] * 0.1 + 0.01),
    "with what is left": lambda x, r: x + divmod(x.shape[0] * 0.1, 0.1)[0],
    "below 0": lambda x, r: x - x.shape[0] // -0.1,
}
SHORT: dict[str, Callable[[Any], Any]] = {
    "of an integer": lambda x: x + x.shape[0] // 2.5,
    "by a power of two": lambda x: x + x.shape[0] / 3 // 0.5,
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_quotient_of_floats_is_floored_as_in_python(name: str) -> None:
    model = QUOTIENTS[name]
    example = torch.arange(5), torch.tensor(2.5)
    program = irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, None), capture="direct")
    for size, number in ((5, 2.5), (1, 1.0), (3, 0.5), (7, -0.3), (10, 7.0)):
        given = torch.arange(size), torch.tensor(number)
        torch.testing.assert_close(program(*given), model(*given))
    with pytest.raises(IrkitError, match="takes the remainder of a number that need not be whole"):
        irkit.to_onnx(model, example, dynamic_shapes=({0: "n"}, None), capture="torch.export")


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", SHORT)
def test_a_quotient_that_is_never_rounded_up_is_taken_by_both_ways(name: str, capture: Any) -> None:
    model = SHORT[name]
    program = irkit.to_onnx(model, (torch.arange(5),), dynamic_shapes=({0: "n"},), capture=capture)
    for size in (5, 1, 6, 10, 25):
        torch.testing.assert_close(program(torch.arange(size)), model(torch.arange(size)))
