"""Conditions on sizes are kept as the model asks them: random ones, and those that were once lost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from irkit.errors import IrkitError
from tests.fuzz.size_conditions import drawn, faults, other_sizes


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_random_conditions_are_those_of_the_contract(seed: int) -> None:
    rng = random.Random(seed)
    case = drawn(rng)
    with TemporaryDirectory() as folder:
        assert not faults(case, other_sizes(rng, case, 8), Path(folder)), case


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_random_conditions_are_those_of_branches(seed: int) -> None:
    rng = random.Random(seed)
    case = drawn(rng)
    with TemporaryDirectory() as folder:
        found = faults(case, other_sizes(rng, case, 8), Path(folder), rewrite=True)
    assert not [fault for fault in found if "otherwise" in fault], case


def test_the_way_at_one_element_is_taken_where_its_own_conditions_hold() -> None:
    def compared(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y * 2 if y.shape[0] <= x.shape[0] else y * 3

    program = irkit.to_onnx(compared, (torch.ones(2), torch.ones(4)), dynamic_shapes=({0: "b"}, {0: "c"}), rewrite=True)
    for b, c in ((2, 4), (0, 1), (1, 1), (2, 1), (0, 0), (5, 3), (1, 2)):
        call = torch.ones(b), torch.ones(c)
        assert torch.equal(program(*call), compared(*call)), (b, c)


QUOTIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda a, b: a // b, "of itself": lambda a, b: b // b, "remainder": lambda a, b: b % b,
    "of a product": lambda a, b: (a * b) // b, "real": lambda a, b: a / b, "real of itself": lambda a, b: b / b,
    "unused": lambda a, b: (a // b, 1)[1], "power": lambda a, b: float(b) ** -1,
    "root": lambda a, b: torch.sym_sqrt(b - 1), "asked": lambda a, b: 2 if a // b >= 0 else 3,
}  # fmt: skip


@pytest.mark.parametrize("name", QUOTIENTS)
def test_what_python_refuses_of_sizes_the_program_refuses(name: str) -> None:
    quotient = QUOTIENTS[name]

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * quotient(x.shape[0], y.shape[0])

    program = irkit.to_onnx(model, (torch.ones(4), torch.ones(3)), dynamic_shapes=({0: "a"}, {0: "b"}))
    for a, b in ((4, 3), (5, 1), (0, 2)):
        call = torch.ones(a), torch.ones(b)
        torch.testing.assert_close(program(*call), model(*call))
    for a in (4, 0):
        with pytest.raises(irkit.ContractError):
            program(torch.ones(a), torch.ones(0))


@pytest.mark.parametrize("seed", [360218, 370188, 370319])
def test_a_quotient_by_nothing_is_not_met_where_another_part_decides(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    case = drawn(rng)
    assert not faults(case, other_sizes(rng, case, 12), tmp_path), case


def test_a_quotient_by_nothing_is_not_met_where_a_part_behind_it_decides(tmp_path: Path) -> None:
    """Conditions of two ways are joined: a part of one of them stood before what decided in the other."""
    rng = random.Random(5300034)
    case = drawn(rng)
    assert not faults(case, other_sizes(rng, case, 12), tmp_path, rewrite=True), case


def test_answers_are_compared_with_answers_and_with_numbers() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        a, b = x.shape
        first = x * 2 if (a > 3) == (b > 3) else x * 3
        second = x * 5 if torch.sym_not((a > 3) == (b % 2)) else x * 7
        return first + second

    program = irkit.to_onnx(model, (torch.ones(4, 5),), dynamic_shapes=({0: "a", 1: "b"},))
    answered = 0
    for a in range(7):
        for b in range(7):
            x = torch.ones(a, b)
            try:
                given = program(x)
            except irkit.ContractError:
                continue
            answered += 1
            assert torch.equal(given, model(x)), (a, b)
    assert answered >= 3


def logarithms_of_positive(x: torch.Tensor) -> torch.Tensor:
    return x.log() if x[x > 0].numel() == x.numel() else x * 2


def test_a_condition_on_data_and_a_size_holds_at_1_and_0_too() -> None:
    program = irkit.to_onnx(logarithms_of_positive, (torch.rand(3, 4) + 0.1,), dynamic_shapes=({0: "n"},))
    for n in (0, 1, 2, 5):
        x = torch.rand(n, 4) + 0.1
        torch.testing.assert_close(program(x), x.log())
        if n:
            with pytest.raises(IrkitError, match="asserts"):
                program(-x)


@pytest.mark.parametrize("n", [4, 9])
def test_the_first_of_a_size_that_is_one_in_the_example_is_broadcast_to_any(n: int) -> None:
    """What is one by chance, n // 4 of 4, beside what is never more than one, its first element."""

    def centred(x: torch.Tensor) -> torch.Tensor:
        pooled = torch.nn.functional.max_pool1d(x, 4)
        return pooled - pooled[:, :, :1]

    program = irkit.to_onnx(centred, (torch.rand(2, 3, n),), dynamic_shapes=({2: "n"},))
    for size in (4, 5, 8, 17):
        call = torch.rand(2, 3, size)
        assert torch.equal(program(call), centred(call)), size
    with pytest.raises(IrkitError):
        program(torch.rand(2, 3, 3))


def test_what_a_padding_of_data_takes_off_is_held_against_the_size() -> None:
    def padded(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x, (0, count.item()))  # type: ignore[arg-type]

    program = irkit.to_onnx(padded, (torch.rand(2, 8), torch.tensor(-5)), dynamic_shapes=({1: "n"}, None))
    for n, count in ((8, -5), (8, -8), (3, -2), (3, -3), (3, 4), (1, 0)):
        call = torch.rand(2, n), torch.tensor(count)
        assert torch.equal(program(*call), padded(*call)), (n, count)
    with pytest.raises(IrkitError):
        program(torch.rand(2, 3), torch.tensor(-4))


@pytest.mark.parametrize("lead", [(), (4,)])
def test_the_axis_that_a_product_is_summed_over_is_no_other(lead: tuple[int, ...]) -> None:
    """Its length is that of the rows in the example, and by none of its own conditions."""
    add = torch.baddbmm if lead else torch.addmm
    auto = torch.export.Dim.AUTO

    def scaled(m: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return add(m, a, b, beta=0.6, alpha=0.2)

    example = tuple(torch.randn(*lead, *shape) for shape in ((2, 3), (2, 2), (2, 3)))
    varying = dict.fromkeys(range(len(lead) + 2), auto)
    program = irkit.to_onnx(scaled, example, dynamic_shapes=(varying,) * 3, capture="direct")
    for rows, inner, columns in ((2, 5, 3), (4, 1, 6), (0, 2, 3), (3, 0, 2), (1, 1, 1)):
        given = [torch.randn(*lead, *shape) for shape in ((rows, columns), (rows, inner), (inner, columns))]
        torch.testing.assert_close(program(*given), scaled(*given), rtol=1e-5, atol=1e-5)


REPEATED: dict[str, Callable[[Any], Any]] = {
    "a result told too long": lambda x: x.repeat_interleave(2, 1, output_size=max(2 * x.shape[1], 8)),
    "less than none": lambda x: x.repeat_interleave(x.shape[1] - 2, 0),
    "as often as there are rows": lambda x: x.repeat_interleave(x.shape[0], 1, output_size=x.shape[0] * x.shape[1]),
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_a_number_of_repeats_requires_of_sizes_is_kept(name: str) -> None:
    model = REPEATED[name]
    shapes = ({0: "rows", 1: "n"},)
    program = irkit.to_onnx(model, (torch.randn(2, 5),), dynamic_shapes=shapes, capture="direct")
    for rows, n in itertools.product((0, 1, 3), (0, 1, 2, 4, 6)):
        x = torch.randn(rows, n)
        try:
            expected = model(x)
        except RuntimeError:
            with pytest.raises(irkit.ContractError):
                program(x)
            continue
        torch.testing.assert_close(program(x), expected)
