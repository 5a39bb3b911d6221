"""Integers out of data beyond 64 bits: eager raises or goes on with a greater number, a program refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit

Model = Callable[[torch.Tensor, torch.Tensor], Any]
GREAT = 1 << 62
Y = torch.tensor([1, 2])


def product(x: torch.Tensor, y: torch.Tensor) -> Any:
    n = int(x.sum())
    return y * (n * n % 7)


def asked(x: torch.Tensor, y: torch.Tensor) -> Any:
    n = int(x.sum())
    return y + 1 if n * n > 5 else y


def more(x: torch.Tensor, y: torch.Tensor) -> Any:
    return y + (int(x.sum()) + 1) // 3


def multiple(x: torch.Tensor, y: torch.Tensor) -> Any:
    return y + (3 * int(x.sum()) - 4) % 5


def shifted(x: torch.Tensor, y: torch.Tensor) -> Any:
    return y + (int(x.sum()) << 2) % 9


def opposite(x: torch.Tensor, y: torch.Tensor) -> Any:
    return y + max(-int(x.sum()), 0) % 5


def of_three(x: torch.Tensor, y: torch.Tensor) -> Any:
    return y + int(x.sum()) * int(x.max()) * x.shape[0] % 11


def triangle(x: torch.Tensor, y: torch.Tensor) -> Any:
    n = int(x.sum())
    return y + n * (n + 1) // 2 % 7


def returned(x: torch.Tensor, y: torch.Tensor) -> Any:
    n = int(x.sum())
    return y, n**3


MODELS = [product, asked, more, multiple, shifted, opposite, of_three, triangle, returned]
NUMBERS = (
    [1, 2, 0], [0], [5, 1], [-7], [GREAT], [GREAT, GREAT - 1], [-GREAT], [-GREAT, -GREAT], [3037000499], [3037000500],
    [4294967296], [1 << 21], [(1 << 21) - 1], [GREAT + GREAT // 2],
)  # fmt: skip


def faults(program: Any, model: Model) -> tuple[list[Any], int]:
    """(the numbers for which a program answers something else than eager, how many it refuses)"""
    wrong, refused = [], 0
    for numbers in NUMBERS:
        x = torch.tensor(numbers)
        try:
            found = program(x, Y)
        except irkit.ContractError:
            refused += 1
            continue
        try:
            torch.testing.assert_close(found, model(x, Y))
        except (AssertionError, RuntimeError, OverflowError):
            wrong.append(numbers)
    return wrong, refused


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@pytest.mark.parametrize("rewrite", [False, True])
def test_what_64_bits_do_not_hold_is_refused(model: Model, rewrite: bool) -> None:
    program = irkit.to_onnx(model, (torch.tensor([1, 2, 0]), Y), dynamic_shapes=({0: "n"}, None), rewrite=rewrite)
    wrong, refused = faults(program, model)
    assert not wrong and 0 < refused < len(NUMBERS) - 3


def test_a_program_of_torch_export_refuses_them_too() -> None:
    example, shapes = (torch.tensor([1, 2, 0]), Y), ({0: "n"}, None)
    program = irkit.to_onnx(product, example, dynamic_shapes=shapes, capture="torch.export")
    wrong, refused = faults(program, product)
    assert not wrong and refused


def powers(x: torch.Tensor, y: torch.Tensor) -> Any:
    found, rounds = 1, 0
    while rounds < int(x.sum()):
        found = found * 3
        rounds = rounds + 1
    return y + found % 5


def branched(x: torch.Tensor, y: torch.Tensor) -> Any:
    n = int(x.sum())
    if n > 3:
        n = n * n
    return y + n % 5


def test_numbers_of_rounds_and_branches_are_refused_where_they_are_computed() -> None:
    example = (torch.tensor([1, 2, 0]), Y)
    program = irkit.to_onnx(powers, example, dynamic_shapes=({0: "n"}, None), rewrite=True)
    for rounds in (0, 1, 3, 38):
        assert torch.equal(program(torch.tensor([rounds]), Y), powers(torch.tensor([rounds]), Y))
    with pytest.raises(irkit.ContractError, match="64 bits hold"):
        program(torch.tensor([50]), Y)
    program = irkit.to_onnx(branched, example, dynamic_shapes=({0: "n"}, None), rewrite=True)
    for numbers in ([1], [7], [-GREAT], [3, 3]):
        assert torch.equal(program(torch.tensor(numbers), Y), branched(torch.tensor(numbers), Y))
    with pytest.raises(irkit.ContractError, match="64 bits hold"):
        program(torch.tensor([GREAT]), Y)


BOUNDED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a count": lambda x: int((x > 0).sum()) ** 2,
    "a place": lambda x: int(x.argmax()) * 5 + 1,
    "a narrow type": lambda x: int(x.to(torch.int32)[0]) * int(x.to(torch.int32)[1]),
    "what is clamped": lambda x: int(x.sum().clamp(0, 1000)) ** 3,
    "what was found": lambda x: len(x[x > 0]) * x.shape[0],
}


@pytest.mark.parametrize("name", BOUNDED)
def test_what_cannot_go_that_far_is_not_asked_about(name: str) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> Any:
        return y * BOUNDED[name](x)

    program = irkit.to_onnx(model, (torch.tensor([1, 2, 0]), Y), dynamic_shapes=({0: "n"}, None))
    assert not any("64 bits" in text for text, _ in program.report.guards)
    for numbers in ([1, 2, 0], [-5, 9], [7, 7, 7, 7]):
        assert torch.equal(program(torch.tensor(numbers), Y), model(torch.tensor(numbers), Y))


def scaled(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * (k * k)


def test_a_number_among_the_inputs_is_refused_by_the_contract() -> None:
    program = irkit.to_onnx(scaled, (Y, 3), scalar_inputs=("k",))
    assert torch.equal(program(Y, 9), scaled(Y, 9))
    with pytest.raises(irkit.ContractError, match=r"k\*\*2"):
        program(Y, 1 << 40)


def limited(x: torch.Tensor, y: torch.Tensor) -> Any:
    n, m = int(x.sum()), int(x[0])
    torch._check(n <= 1000)
    torch._check(n > -1000)
    if not -x.shape[0] <= m < x.shape[0]:
        raise ValueError(m)
    return y * (n * n * m)


def test_what_a_condition_bounds_is_not_asked_about() -> None:
    program = irkit.to_onnx(limited, (torch.tensor([1, 2, 0]), Y), dynamic_shapes=({0: "n"}, None))
    assert not any("64 bits" in text for text, _ in program.report.guards)
    for numbers in ([1, 2, 0], [0, 900], [-1, -900]):
        assert torch.equal(program(torch.tensor(numbers), Y), limited(torch.tensor(numbers), Y))
    with pytest.raises(irkit.ContractError):
        program(torch.tensor([1, GREAT]), Y)
