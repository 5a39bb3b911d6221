"""Plain numbers of sizes that torch refuses as it computes, where the meta device takes any."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import irkit

REQUIRING: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "pow": lambda x, n: x.long() ** (n - 3),
    "pow_": lambda x, n: x.long().pow_(7 - n),
    "softshrink": lambda x, n: functional.softshrink(x, n - 3),
    "renorm": lambda x, n: x.renorm(2, 1, n - 3.0),
    "multinomial": lambda x, n: torch.multinomial(torch.ones(6), n) * 0,
    "multinomial of n": lambda x, n: torch.multinomial(x.t().abs() + 1, 2) * 0,
    "bincount": lambda x, n: torch.bincount(torch.arange(3), minlength=n - 3),
    "narrow": lambda x, n: torch.arange(6.0).narrow(0, n - 2, 2),
    "narrow from the end": lambda x, n: torch.arange(6.0).narrow(0, 2 - n, 2),
    "remainder": lambda x, n: x.long() % (n - 3),
    "floor_divide": lambda x, n: torch.arange(4) // n,
    "fmod_": lambda x, n: torch.arange(4).fmod_(n - 3),
}


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("name", REQUIRING)
def test_a_number_of_sizes_is_one_that_eager_takes(name: str, used: bool) -> None:
    requiring = REQUIRING[name]

    def model(x: torch.Tensor) -> Any:
        found = requiring(x, x.shape[0])
        return found if used else x + 1

    program = irkit.to_onnx(model, (torch.ones(5, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    refused = 0
    for n in range(10):
        x = torch.full((n, 3), 2.0)
        try:
            expected = model(x)
        except (RuntimeError, IndexError, ZeroDivisionError):
            refused += 1
            with pytest.raises(irkit.errors.IrkitError):
                program(x)
        else:
            assert torch.equal(program(x), expected)
    assert refused


@pytest.mark.parametrize("exponent", [3, 0, -1])
def test_an_exponent_out_of_data_is_not_below_0(exponent: int) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.long() ** int(y.item())

    program = irkit.to_onnx(model, (torch.ones(5), torch.tensor(2)), capture="direct")
    x, y = torch.full((5,), 2.0), torch.tensor(exponent)
    if exponent >= 0:
        assert torch.equal(program(x, y), model(x, y))
    else:
        with pytest.raises(irkit.ContractError):
            program(x, y)


def test_nothing_is_asked_of_a_size_as_an_exponent() -> None:
    program = irkit.to_onnx(
        lambda x: x.long() ** x.shape[0], (torch.ones(5),), dynamic_shapes=({0: "n"},), capture="direct"
    )
    assert not program.contract()["guards"] and program.contract()["ranges"]["n"] == [0, None]
