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
    "narrow_copy": lambda x, n: torch.arange(6.0).narrow_copy(0, n - 2, 2),
    "select_scatter": lambda x, n: torch.arange(6.0).select_scatter(torch.tensor(9.0), 0, n),
    "select_scatter of n": lambda x, n: x.select_scatter(torch.ones(3), 0, n - 3),
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


FILLING: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "full": lambda o, n: torch.full((2,), n, dtype=o.dtype),
    "full below 0": lambda o, n: torch.full((2,), -n, dtype=o.dtype),
    "fill_": lambda o, n: o.clone().fill_(n),
    "masked_fill": lambda o, n: o.masked_fill(o > 0, n),
    "index_fill": lambda o, n: o.index_fill(0, torch.tensor([1]), n),
    "scatter": lambda o, n: o.scatter(0, torch.tensor([1]), n),
    "where": lambda o, n: torch.where(o > 0, n, o),
    "tensor": lambda o, n: o.clone().index_put((torch.tensor(0),), torch.tensor(n, dtype=o.dtype)),
    "clamp": lambda o, n: o.clamp(max=n),
    "add": lambda o, n: torch.add(o, o, alpha=n),
    "plus": lambda o, n: o + n,
    "addcmul": lambda o, n: torch.addcmul(o, o, o, value=n),
    "pow": lambda o, n: o**n,
}


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.float16])
@pytest.mark.parametrize("name", FILLING)
def test_a_number_of_sizes_is_one_of_the_element_type_that_is_made_of_it(name: str, dtype: torch.dtype) -> None:
    filling, ones = FILLING[name], torch.ones(3, dtype=dtype)

    def model(x: torch.Tensor) -> Any:
        return filling(ones, x.shape[0])

    program = irkit.to_onnx(model, (torch.zeros(5, 0),), dynamic_shapes=({0: "n"},), capture="direct")
    for n in (0, 127, 128, 255, 256, 32768, 65504, 65520, 70000):
        x = torch.zeros(n, 0)
        try:
            expected = model(x)
        except RuntimeError:
            with pytest.raises(irkit.ContractError):
                program(x)
        else:
            assert torch.equal(program(x), expected)


@pytest.mark.parametrize(
    "sides", [lambda n: (n // 2, 0), lambda n: (0, 8 - n), lambda n: (n - 1, n // 2), lambda n: (3, n - 2)]
)
@pytest.mark.parametrize("used", [True, False])
def test_circular_padding_is_eagers_where_sizes_tell_its_sides(sides: Callable[[int], Any], used: bool) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        found = functional.pad(x, sides(x.shape[-1]), "circular")
        return found if used else x + 1

    program = irkit.to_onnx(model, (torch.randn(1, 2, 6),), dynamic_shapes=({2: "n"},), capture="direct")
    for n in range(12):
        x = torch.randn(1, 2, n)
        try:
            expected = model(x)
        except RuntimeError:
            with pytest.raises(irkit.errors.IrkitError):
                program(x)
            continue
        try:
            found = program(x)
        except irkit.ContractError:
            continue
        assert torch.equal(found, expected)


def test_circular_padding_that_takes_away_and_repeats_by_sizes_is_refused() -> None:
    with pytest.raises(irkit.CaptureError, match="takes away at one side"):
        irkit.to_onnx(
            lambda x: functional.pad(x, (3 - x.shape[-1], 2), "circular"),
            (torch.randn(1, 2, 6),),
            dynamic_shapes=({2: "n"},),
        )
