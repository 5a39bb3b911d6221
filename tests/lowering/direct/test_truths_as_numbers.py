"""`-(n > 3)`, `(n > 3) // 2`, `(n > 3) == 1` and `(n > 3) is True`: truths of sizes and data are Python's, which are
numbers, by both ways of capture."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit
from irkit.errors import ContractError
from tests.support.written_functions import function_of

OF_SIZES = (
    "x * -(n > 3)", "x + ~(n > 3)", "x + abs(n > 3)", "x + round(n > 3)", "x + (n > 3) // 2", "x + n // (1 + (n > 3))",
    "x + (n > 3) / 2", "x + 2 ** (n > 3)", "x + (n > 3) ** 2", "x + (1 << (n > 3))", "x + (n >> (n > 3))",
    "x + ((n > 3) == 1)", "x + ((n > 3) != 0)", "x + (n == (n > 3))", "x + ((n > 3) < 1)", "x + ((n / 2) > (n > 3))",
    "x + divmod(7, 1 + (n > 3))[1]", "x + float(n > 3)", "x + ((n > 3) & 3)", "x + (1 if (n > 3) in (0, 1) else 5)",
    "x * (2 if (n > 3) is True else 3)", "x * (2 if (n > 3) is not False else 3)", "x + True // n", "x + n // True",
)  # fmt: skip
OF_DATA = (
    "x * -(m > 3)", "x + (m > 3) // n", "x + ~(m > 3)", "x + round(m > 3)", "x + (m > 3) ** (n > 3)",
    "x + ((m > 3) ^ True)", "x * (2 if (k > 3).any().item() is True else 3)", "x * (2 if (m > 3) is False else 3)",
    "x.expand(3, -1, -1)[m > 3]", "x + [1, 5][m > 3]",
)  # fmt: skip


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
@pytest.mark.parametrize("text", OF_SIZES)
def test_truths_of_sizes_are_numbers(text: str, capture: Any) -> None:
    answered = agreeing(text, capture, [(size, 5) for size in (5, 7, 4, 3, 2, 1)])
    assert answered >= 3


@pytest.mark.parametrize("text", OF_DATA)
def test_truths_of_data_are_numbers(text: str) -> None:
    answered = agreeing(text, "direct", [(size, most) for size in (5, 7, 2) for most in (5, 9, 3, 0)])
    assert answered >= 4


def test_a_truth_out_of_data_is_never_true_itself_to_torch_export() -> None:
    """Which was answered by the way of what is not True."""
    function = function_of("def f(x, k):\n    return x * 2 if (k > 3).any().item() is True else x\n", "/truths/item.py")
    with pytest.raises(irkit.IrkitError, match="data-dependent"):
        irkit.to_onnx(function, (torch.ones(3), torch.tensor([1, 5])), capture="torch.export")


def agreeing(text: str, capture: Any, calls: list[tuple[int, int]]) -> int:
    """How many calls a program answers, each as eager does."""
    lines = f"def f(x, k):\n    n, m = x.shape[0], k.max().item()\n    return {text}\n"
    function = function_of(lines, f"/truths/{text}.py")
    example, *_ = given = [(torch.arange(3.0 * n).reshape(n, 3), torch.tensor([m, 0])) for n, m in calls]
    program = irkit.to_onnx(function, example, dynamic_shapes=({0: "n"}, None), capture=capture)
    answered = 0
    for each in given:
        try:
            found = program(*each)
        except ContractError:
            continue
        torch.testing.assert_close(found, function(*each))
        answered += 1
    return answered
