"""`x.add_(y)`, where the size of y is that of x for the example, and 1 in another call: it is broadcast there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import irkit
from irkit.errors import ContractError


def rows(x: Tensor, y: Tensor) -> Tensor:
    z = x.new_zeros(x.shape[0], x.shape[0])
    z[:, 0].mul_(y)
    return z.t().copy_(y) + x


def added(x: Tensor, y: Tensor) -> Tensor:
    z = x.clone()
    z += y
    return z


WRITTEN: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add_": lambda x, y: x.clone().add_(y),
    "copy_": lambda x, y: x.clone().copy_(y) * 2,
    "masked_fill_": lambda x, y: x.clone().masked_fill_(y > 0, 1.0),
    "addcmul_": lambda x, y: x.clone().addcmul_(y, y),
    "an assignment": added,
    "a view": rows,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_from_is_broadcast_as_in_eager(name: str) -> None:
    function = WRITTEN[name]
    program = irkit.to_onnx(function, (torch.randn(5), torch.randn(5)), dynamic_shapes=({0: "n"}, {0: "m"}))
    for n, m in ((5, 5), (7, 7), (7, 1), (1, 1), (3, 1)):
        x, y = torch.randn(n), torch.randn(m)
        torch.testing.assert_close(program(x, y), function(x, y))
    for n, m in ((1, 4), (3, 2)):
        with pytest.raises(RuntimeError):
            function(torch.randn(n), torch.randn(m))
        with pytest.raises(ContractError):
            program(torch.randn(n), torch.randn(m))
