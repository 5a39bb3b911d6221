"""Real numbers of sizes are what Python computes to the last bit, so that they are rounded to the same integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from irkit.doors.to_onnx import to_onnx
from irkit.errors import ContractError

TORCH: Any = torch
WAYS = ("direct", "torch.export")
SIZES = (*range(1, 41), 49, 98, 100, 103, 161, 187, 200)
OTHERS = (1, 3, 7, 10)
ROUNDINGS = ("math.floor", "math.ceil", "round", "torch.sym_int")
CONSTANTS = ("3", "7", "14", "0.1", "0.3", "0.5", "0.9", "1.1", "2.0", "1.5", "3.0", "(1 / 3)", "224")

Function = Callable[[Any, Any], tuple[Any, ...]]


class Rounded(torch.nn.Module):
    """Numbers computed of two sizes, as elements and as lengths."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found: list[torch.Tensor] = []
        for number in self.function(x.shape[0], y.shape[0]):
            if isinstance(number, (int, torch.SymInt)):
                found += [TORCH.full((), number, dtype=torch.int64), torch.zeros(number % 5)]
            else:
                found += [torch.ones((), dtype=torch.float64) * number]
        return tuple(found)


def differences(function: Function, way: str, path: Path) -> tuple[int, list[Any]]:
    """(how many pairs of sizes were computed, those at which the program or the file in bare ONNX Runtime is not what
    the model is)."""
    model, example = Rounded(function), (torch.zeros(6), torch.zeros(4))
    program = to_onnx(model, example, dynamic_shapes=({0: "n"}, {0: "m"}), capture=way)
    program.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    ran, wrong = 0, list[Any]()
    for n in SIZES:
        for m in OTHERS:
            given = (torch.zeros(n), torch.zeros(m))
            try:
                wanted = model(*given)
            except ZeroDivisionError:
                continue
            try:
                found = program(*given)
            except ContractError:
                continue
            ran += 1
            bare: Any = session.run(None, {name: each.numpy() for name, each in zip(names, given, strict=False)})
            for want, ours, theirs in zip(wanted, found, bare, strict=False):
                # Of a number in a tensor, rules may bring two factors together, which is a last digit, also of what
                # is subtracted from it then.
                digits, end = (1e-15, 1e-12) if want.is_floating_point() else (0.0, 0.0)
                same = [np.allclose(want, each, rtol=digits, atol=end) for each in (ours, theirs)]
                if not (all(same) and want.shape == ours.shape == theirs.shape):
                    wrong.append((n, m, want, ours, theirs))
    return ran, wrong


def function_of(*numbers: str) -> Function:
    """The function that computes these texts."""
    return eval(f"lambda n, m: ({', '.join(numbers)},)", {"math": math, "torch": torch})


@st.composite
def terms(draw: Any, depth: int = 3) -> str:
    """Arithmetic on two sizes and constants, as text."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(("n", "n", "m", *CONSTANTS)))
    operator = draw(st.sampled_from(("*", "/", "+", "-", "*", "/")))
    return f"({draw(terms(depth - 1))} {operator} {draw(terms(depth - 1))})"


def is_computed(term: str) -> bool:
    """Whether a text is a moderate number that sizes change."""
    try:
        (found,), (other,) = function_of(term)(6, 4), function_of(term)(7, 5)
    except ZeroDivisionError:
        return False
    return found != other and abs(found) < 1e6


@pytest.mark.parametrize("way", WAYS)
@given(drawn=st.lists(st.tuples(terms().filter(is_computed), st.sampled_from(ROUNDINGS)), min_size=6, max_size=6))
@settings(max_examples=3, deadline=None, phases=(Phase.explicit, Phase.generate))
def test_drawn_arithmetic_is_rounded_as_python_rounds_it(
    tmp_path_factory: Any, way: str, drawn: list[tuple[str, str]]
) -> None:
    texts = [text for term, rounding in drawn for text in (f"{rounding}({term})", term)]
    _, wrong = differences(function_of(*texts), way, tmp_path_factory.mktemp("rounded") / "model.onnx")
    assert not wrong, (texts, wrong[:2])


FOUND = (
    "math.ceil(n * ((m + m) / n))", "round(((0.5 + n) * 0.9) / ((7 * 0.9) * m))", "math.floor(n / ((0.9 / 0.5) / n))",
    "torch.sym_int(n * (224 / n))", "round(((7 + 0.9) * (m / 3)) + (7 / (n * 14)))",
    "math.floor((((14 / 3) * (n + 3)) * ((0.9 + 0.5) * n)))", "math.floor(0.7 * (n + m))", "math.floor(0.57 * (3 * n))",
    "math.ceil((n + 3) * 0.1 + 0.1)", "math.floor(n / 0.1)", "math.floor((n + m + 7) / 10 * 10)",
    "math.ceil(n / 3 + m / 3)", "math.ceil((n + m + n * m) / 10)", "math.floor(n * m * 0.1)",
    "math.floor(n / 49 * 49)", "round(n * 0.5)", "round((n + m) / 2)", "math.floor((2 * n - 9) / 4)",
    "n / 3", "n / m * 0.3",
    "0.1 * n + 0.2 * m", "(n + m) / (n * 3)", "0.9 / (3 * n)", "n * 1.1 * 1.1", "-(n * 0.3) - 0.1",
    "n * (m * 1.5) * 0.5", "torch.sym_int(147.0 * (m / 1.5))", "math.ceil(n / -0.30000000000000004)",
)  # fmt: skip
ROOTS = (
    "math.floor(torch._sym_sqrt(n) * torch._sym_sqrt(n))", "math.ceil((n * m) ** 0.5)", "torch._sym_sqrt(n * m)",
    "1.0 / torch._sym_sqrt(n)", "2.0**n / 1024", "(n * 0.1) ** 2.0",
)  # fmt: skip
REMAINDERS = ("(n * 0.1) % 1", "(n / 3) % 0.1", "(n * 0.7 - 3) % 0.3", "math.floor(n * 0.7 % 0.1 * 100)", "n % 3.0")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("numbers", [FOUND[:7], FOUND[7:14], FOUND[14:20], FOUND[20:], ROOTS])
def test_numbers_that_sympy_would_merge_are_rounded_one_by_one(
    numbers: tuple[str, ...], way: str, tmp_path: Path
) -> None:
    ran, wrong = differences(function_of(*numbers), way, tmp_path / "model.onnx")
    assert not wrong, wrong[:2]
    assert ran == len(SIZES) * len(OTHERS)


def test_remainders_of_real_numbers_are_pythons(tmp_path: Path) -> None:
    ran, wrong = differences(function_of(*REMAINDERS), "direct", tmp_path / "model.onnx")
    assert not wrong, wrong[:2]
    assert ran == len(SIZES) * len(OTHERS)
