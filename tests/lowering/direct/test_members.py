"""`n in (1, 2, 4)`: that a size is one of several is one condition, in which it still varies."""

from __future__ import annotations

import pytest
import torch

import irkit
from lowering.errors import CaptureError
from tests.support.written_functions import function_of

ASKED = {
    "n in (1, 2, 4)": {1, 2, 4}, "n in [2, 4, 9]": {2, 4, 9}, "n not in (2, 4)": {2, 4}, "n + 1 in (3, 5)": {2, 4},
    "n in range(2, 6)": {2, 3, 4, 5}, "n in range(0, 20, 4)": {4, 8, 12, 16}, "2 * n in (4, 8, 3)": {2, 4},
    "n in {2, 4}": {2, 4}, "n not in {3, 5}": {1, 2, 4, 7, 9}, "n in places": {2, 4, 9}, "n in table": {3, 4},
    "n in frozenset((1, 4))": {1, 4}, "n in held.places": {2, 4, 9}, "table.get(n + 3) is None": {2, 3, 4, 7},
    "n in {8: 1}": {3, 4, 5, 7, 9}, "n not in held.table": {1, 2, 5, 7}, "2 * n in {4, 8}": {2, 4},
    "n in (2, 4) and m in (3, 5)": {2, 4}, "n in (1, 2)": {3, 4, 5, 7, 9}, "n not in (3, 5)": {1, 2, 4, 7, 9},
}  # fmt: skip
"""What a model asks, and at which sizes its program answers as it does at 4."""
EVERYWHERE = (
    "n not in (3, 5)", "n in (1, 2)", "n not in {3, 5}", "table.get(n + 3) is None", "n in {8: 1}",
    "n not in held.table",
)  # fmt: skip
"""What is false but for a few sizes."""


@pytest.mark.parametrize("text", ASKED)
def test_a_size_that_is_one_of_several_is_any_of_them(text: str) -> None:
    lines = (
        "class held:\n    places = [2, 4, 9]\n    table = {3: 1, 9: 2}\n\ntable = {3: 1, 4: 2}\n\n"
        f"def model(x):\n    n, m = x.shape\n    places = {{2, 4, 9}}\n    return x * 2 if {text} else x\n"
    )
    model = function_of(lines, f"members_{[*ASKED].index(text)}.py", "model")
    program = irkit.to_onnx(model, (torch.rand(4, 3),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    taken = set[int]()
    for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 20):
        x = torch.rand(n, 3)
        try:
            assert torch.equal(program(x), model(x))
            taken.add(n)
        except irkit.ContractError as error:
            assert f"if {text} else x" in str(error)
    assert taken >= ASKED[text]
    assert (20 not in taken) or text in EVERYWHERE


@pytest.mark.parametrize("text", ["n in {4: 2}", "n in {4}", "n in (-1, 4)", "n == 4", "{4: 1}[n]"])
def test_other_questions_fix_the_size_and_say_so(text: str) -> None:
    lines = f"def model(x, places=(2, 4)):\n    n = x.shape[0]\n    return x * 2 if {text} else x\n"
    model = function_of(lines, f"others_{len(text)}_{text[0]}.py", "model")
    with pytest.raises(CaptureError, match="was to vary as 'n', and the model works for 4 only") as told:
        irkit.to_onnx(model, (torch.rand(4, 3),), dynamic_shapes=({0: "n"},), capture="direct")
    assert text in told.value.source


def test_the_bytes_of_a_tensor_vary_with_its_sizes() -> None:
    program = irkit.to_onnx(lambda x: x + x.nbytes, (torch.rand(4, 3),), dynamic_shapes=({0: "n", 1: "m"},))
    assert program.report.capture == "traced directly"
    for n, m in (4, 3), (0, 2), (1, 1), (7, 5):
        x = torch.rand(n, m)
        assert torch.equal(program(x), x + x.nbytes)


def test_sizes_that_a_model_sorts_are_sorted_in_the_program() -> None:
    lines = (
        "def model(x):\n    low, high = sorted(x.shape)\n    return x.reshape(low, high) * sorted([high, 4, low])[1]\n"
    )
    model = function_of(lines, "sorted_sizes.py", "model")
    program = irkit.to_onnx(model, (torch.rand(4, 3),), dynamic_shapes=({0: "n", 1: "m"},), capture="direct")
    for n, m in (4, 3), (3, 4), (1, 1), (9, 2), (2, 9), (5, 5):
        x = torch.rand(n, m)
        assert torch.equal(program(x), model(x))


def test_a_size_that_numpy_takes_as_a_float_is_told() -> None:
    text = "import numpy as np\ndef model(x):\n    return x + torch.from_numpy(np.bartlett(x.shape[0]))\n"
    model = function_of(text, "bartlett.py", "model", {"torch": torch})
    with pytest.raises(CaptureError, match=r"hands a size that varies to NumPy|works for 4 only"):
        irkit.to_onnx(model, (torch.rand(4),), dynamic_shapes=({0: "n"},), capture="direct")
