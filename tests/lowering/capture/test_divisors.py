"""A size that is divided by is not 0, by both ways of capture: eager refuses that."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import irkit
from irkit.errors import ContractError

DIVIDED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "a whole quotient": lambda x, y: x * (x.shape[0] // y.shape[0]),
    "a quotient": lambda x, y: x + x.shape[0] / y.shape[0],
    "a remainder": lambda x, y: x.new_zeros(x.shape[0] % y.shape[0] + 2),
    "a part": lambda x, y: x[: x.shape[0] // y.shape[0]],
    "rounded up": lambda x, y: x + -(-x.shape[0] // y.shape[0]),
    "nothing of a quotient": lambda x, y: x + (x.shape[0] // y.shape[0]) * 0,
    "nothing of a remainder": lambda x, y: x + (x.shape[0] % y.shape[0]) * 0,
    "nothing of a power": lambda x, y: x + (y.shape[0] ** -1) * 0,
    "a quotient of nothing": lambda x, y: x + 0 // y.shape[0],
    "a quotient that nobody uses": lambda x, y: (x.shape[0] / y.shape[0], x + 1)[1],
    "a product divided again": lambda x, y: x + x.shape[0] * y.shape[0] // y.shape[0],
    "both of a division": lambda x, y: x + divmod(x.shape[0], y.shape[0])[0] * 0,
    "both of a division of a number": lambda x, y: x + divmod(7, y.shape[0])[1] * 0,
    "a remainder of a power": lambda x, y: x + pow(x.shape[0], 2, y.shape[0]) * 0,
    "a remainder by math": lambda x, y: x + math.fmod(x.shape[0], y.shape[0]) * 0,
    "a power by math": lambda x, y: x + math.pow(y.shape[0], -1) * 0,
    "a difference": lambda x, y: x * (x.shape[0] // (y.shape[0] - 1)),
}


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", DIVIDED)
def test_sizes_that_are_divided_by_are_not_zero(name: str, capture: str) -> None:
    model = DIVIDED[name]
    x, zero = torch.ones(7), int(name == "a difference")
    shapes = ({0: "n"}, {0: "m"})
    program = irkit.to_onnx(model, (x, torch.ones(3)), dynamic_shapes=shapes, capture=capture)
    with pytest.raises((ZeroDivisionError, ValueError)):
        model(x, torch.ones(zero))
    with pytest.raises(ContractError):
        program(x, torch.ones(zero))
    for m in (2, 3, 5):
        torch.testing.assert_close(program(x, torch.ones(m)), model(x, torch.ones(m)))


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_the_greater_one_of_a_size_and_a_number_is_right_at_zero_or_refused(capture: str) -> None:
    """torch takes a size for positive, and max(n, 1) for n; it has min and max of its own while it exports."""
    models: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x.new_ones(max(x.shape[0], 1)),
        lambda x: x.sum() / max(len(x), 1),
        lambda x: x.new_ones(max(x.shape[0] - 1, 0) + 1),
        lambda x: x.sum() + min(x.shape[0], 1),
    ]
    for model in models:
        program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=({0: "n"},), capture=capture)
        for n in (0, 1, 2, 7):
            x = torch.ones(n)
            try:
                found = program(x)
            except ContractError:
                assert not n and capture == "torch.export"
            else:
                assert torch.equal(found, model(x))
