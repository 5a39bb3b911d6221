"""A size that is divided by is not 0, by both ways of capture: eager refuses that."""

from __future__ import annotations

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
    "a difference": lambda x, y: x * (x.shape[0] // (y.shape[0] - 1)),
}


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("name", DIVIDED)
def test_sizes_that_are_divided_by_are_not_zero(name: str, capture: str) -> None:
    model = DIVIDED[name]
    x, zero = torch.ones(7), int(name == "a difference")
    shapes = ({0: "n"}, {0: "m"})
    program = irkit.to_onnx(model, (x, torch.ones(3)), dynamic_shapes=shapes, capture=capture)
    with pytest.raises(ZeroDivisionError):
        model(x, torch.ones(zero))
    with pytest.raises(ContractError):
        program(x, torch.ones(zero))
    for m in (2, 3, 5):
        torch.testing.assert_close(program(x, torch.ones(m)), model(x, torch.ones(m)))
