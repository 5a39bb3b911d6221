"""What Python computes of whole numbers, divisors, bits, powers, rounded logarithms, varies with sizes as in eager."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import irkit
from lowering.direct.functions.bits import thresholds
from tests.fuzz.functions_of_sizes import SIZES, compare_at, draw_number, eager_answer, faults, write_model

CALLS = [(n, m) for n in SIZES for m in (0, 1, 3, 8)]
FOR_ALL = (
    "math.gcd(n, m)", "math.gcd(n, m, 5040)", "math.lcm(n, m)",
    "math.gcd(n, 12)", "math.gcd(n, m, 6)", "math.gcd(18, n)", "math.gcd(n, 0)", "math.lcm(n, 4)", "math.lcm(3, n, 5)",
    "math.comb(n, 2)", "math.comb(n, 3)", "math.perm(n, 2)", "n.bit_length()", "(n - 5).bit_length()", "n & 1", "1 & n",
    "n & -8", "(n + 7) & ~7", "n & 6", "n | 1", "n ^ 1", "n & m", "n | m", "n & (n - 1)", "~n", "n >> 1", "n << 3",
    "1 << n.bit_length()", "2 ** n.bit_length()", "2 ** min(n, 30)", "(-3) ** min(n, 9)", "n >> min(m, 40)",
    "0 ** n", "1 ** n", "(-1) ** n", "round(n, -1)", "round(n, -2)", "round(-n, -1)", "round(n - 5, -1)", "round(n, 2)",
    "int(math.log2(n + 1))", "math.ceil(math.log2(n + 1))", "math.floor(math.log(n + 1, 2))", "round(math.log(n + 1))",
    "int(math.log(n + 1) / math.log(2))", "math.ceil(math.log10(n + 1))", "2 ** math.ceil(math.log2(max(n, 1)))",
)  # fmt: skip


@pytest.mark.parametrize("text", FOR_ALL)
def test_whole_numbers_of_sizes_are_those_of_python_at_all_sizes(text: str) -> None:
    wrong, refused = compare_at(write_model(text), (4, 3), CALLS)
    assert (wrong, refused) == ([], [])


ELSEWHERE = {"2 ** n": 64, "3 ** n": 48, "1 << n": 64, "2 ** (n - 3)": 48}
"""Numbers that are right under a condition, and of how many of the calls at least."""


@pytest.mark.parametrize("text", ELSEWHERE)
def test_whole_numbers_that_have_a_condition_answer_where_it_holds(text: str) -> None:
    model = write_model(text)
    wrong, refused = compare_at(model, (5, 3), CALLS)
    right = sum(eager_answer(model, sizes) is not None for sizes in CALLS) - len(refused)
    assert not wrong
    assert right >= min(ELSEWHERE[text], sum(eager_answer(model, sizes) is not None for sizes in CALLS) // 4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_random_numbers_of_sizes_are_those_of_python(seed: int) -> None:
    assert not faults(seed), draw_number(random.Random(seed))


@pytest.mark.parametrize("text", ["int(math.isclose((n & m), 1))", "int(math.isclose((n & n), 12))"])
def test_an_answer_about_bits_is_that_of_python(text: str) -> None:
    """The amount that bits are apart from a number had no text form."""
    wrong, refused = compare_at(write_model(text), (4, 3), CALLS)
    assert wrong == []
    assert len(refused) < len(CALLS)


@pytest.mark.parametrize("function", [math.log2, math.log, math.log10, lambda n: math.log(n, 3)])
def test_thresholds_are_where_python_rounds_a_logarithm_up(function: Callable[[int], float]) -> None:
    last = math.floor(function(2**63 - 1))
    ends = thresholds(lambda n: math.floor(function(n)), range(1, last + 1))
    for value, end in enumerate(ends, 1):
        assert math.floor(function(end)) >= value > math.floor(function(end - 1))


def padded(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    return F.pad(x, (0, 0, 0, 2 ** math.ceil(math.log2(n + 1)) - n))


def padded_by_bits(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    return F.pad(x, (0, 0, 0, (1 << n.bit_length()) - n))


def aligned(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    return F.pad(x, (0, 0, 0, ((n + 7) & ~7) - n))


def in_groups(x: torch.Tensor) -> torch.Tensor:
    groups = math.gcd(x.shape[0], 8)
    return x.reshape(groups, x.shape[0] // groups, 3).sum(0)


def scaled_by_numpy(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    return x * np.log(n + 1) + np.log2(n + 1) + np.exp(-n) + math.sin(n) + math.tanh(n)


def scaled_by_functions(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    straight = math.hypot(n, 3) + math.dist((n, 1), (0, n)) + float(math.sqrt(n / 3)) + math.atan2(n, 3)
    grown = math.expm1(min(n, 9)) + math.exp2(-n) + math.tan(n) + math.atan(n) + math.erf(n / 3) + math.cosh(n / 9000)
    return x * (straight + math.ldexp(1.0, -n) + sum(math.modf(n / 4))) + grown + math.copysign(n, -2.0)


def counted_ways(x: torch.Tensor) -> torch.Tensor:
    return x * math.factorial(min(x.shape[0], 20)) if math.isfinite(x.shape[0] / 2) else x


def summed_and_placed(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    total = math.fsum([n, n + 1, 2]) + math.fsum([n * 0.1, 1e-17]) + math.gamma(min(n, 19) + 1)
    return torch.diag(x[:, 0], n - 4).sum() + x.diag(n - 5).sum() + x * total


def of_types(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    whole: Any = torch.LongTensor([n, 2])
    part: Any = torch.FloatTensor([n / 4])
    return x.type(torch.DoubleTensor) * whole[0] + torch.IntTensor([n]).type(torch.LongTensor) + part  # type: ignore


@pytest.mark.parametrize(
    "model",
    [
        padded,
        padded_by_bits,
        aligned,
        in_groups,
        scaled_by_numpy,
        scaled_by_functions,
        counted_ways,
        of_types,
        summed_and_placed,
    ],
)
def test_models_that_compute_sizes_so_vary(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    program = irkit.to_onnx(model, (torch.rand(5, 3),), dynamic_shapes=({0: "n"},))
    assert program.report.capture == "traced directly"
    for n in (5, 0, 1, 2, 7, 8, 9, 64, 1023, 1024):
        x = torch.rand(n, 3)
        torch.testing.assert_close(program(x), model(x))


def test_whether_two_numbers_of_sizes_are_near_is_one_condition() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if math.isclose(x.shape[0] / 3, 1.0, rel_tol=1e-6) else x * 3

    program = irkit.to_onnx(model, (torch.rand(5, 3),), dynamic_shapes=({0: "n"},))
    for n in (0, 1, 2, 5, 8, 64):
        x = torch.rand(n, 3)
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(irkit.ContractError, match=r"if math\.isclose"):
        program(torch.rand(3, 3))
    program = irkit.to_onnx(model, (torch.rand(5, 3),), dynamic_shapes=({0: "n"},), rewrite=True)
    for n in (3, 0, 4):
        x = torch.rand(n, 3)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("by", [0.5, 2.5, 1 / 3])
def test_data_in_fractions_is_rounded_as_in_python(by: float) -> None:
    def model(x: torch.Tensor) -> Any:
        return torch.full((2,), math.floor(x.sum().item() * by)), torch.full((2,), int(x.sum().item() / 3 + by))

    program = irkit.to_onnx(model, (torch.ones(4, dtype=torch.int64),), capture="direct")
    for number in (0, 1, 7, -9, 2**40 + 1):
        x = torch.tensor([number, 0, 1, 2])
        for found, expected in zip(program(x), model(x), strict=True):
            assert torch.equal(found, expected)


def test_numbers_beyond_64_bits_are_refused_in_words() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        number = x.shape[0]
        for _ in range(70):
            number = number * 3 + 1
        return torch.full((2,), number % 7)

    with pytest.raises(irkit.errors.IrkitError, match=r"64 bits|9223372036854775807"):
        irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=({0: "n"},))
    with pytest.raises(irkit.errors.IrkitError, match="more than 64 bits"):
        irkit.to_onnx(
            lambda x: x * float(2 ** x.shape[0]), (torch.ones(64),), dynamic_shapes=({0: "n"},), capture="direct"
        )


ARRAYS: dict[str, Callable[[Any], Any]] = {
    "arange": lambda n: np.arange(n),
    "arange from": lambda n: np.arange(1, n, 2),
    "arange down": lambda n: np.arange(3, n - 5, -2),
    "arange of a type": lambda n: np.arange(n, dtype=np.float32) * 2,
    "arange of floats": lambda n: np.arange(n / 2),
    "zeros": lambda n: np.zeros((n, 2)),
    "zeros of integers": lambda n: np.zeros((2, n), np.int64),
    "ones": lambda n: np.ones(n, dtype=np.float32),
    "ones by name": lambda n: np.ones(shape=(n, n), dtype=bool),
    "linspace": lambda n: np.linspace(-1, 1, n),
    "linspace by name": lambda n: np.linspace(0, 2, num=n + 1),
    "eye": lambda n: np.eye(n),
    "eye of two": lambda n: np.eye(n, 3),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_numpy_makes_of_sizes_vary(name: str) -> None:
    make = ARRAYS[name]

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(make(x.shape[0]))

    program = irkit.to_onnx(model, (torch.ones(4),), dynamic_shapes=({0: "n"},))
    for n in (0, 1, 2, 3, 4, 9, 100):
        found, expected = program(torch.ones(n)), model(torch.ones(n))
        assert found.dtype is expected.dtype
        torch.testing.assert_close(found, expected)
