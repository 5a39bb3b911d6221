"""Files that refuse sizes by themselves, beside the contract's own verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import irkit
from irkit.dims.conditions import holds
from lowering.program.size_checks import Inputs, truth_of


def fails(path: Path, arrays: dict[str, Any], optimized: bool = True) -> bool:
    """Whether a bare runtime gives no results."""
    options = ort.SessionOptions()
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    try:
        session.run(None, arrays)
    except Exception:
        return True
    return False


def test_a_file_refuses_the_sizes_that_its_contract_excludes(tmp_path: Path) -> None:
    def even(x: Tensor, y: Tensor) -> Tensor:
        torch._check(x.shape[1] >= 2)
        torch._check(x.shape[1] <= 7)
        return x * 2 if x.shape[0] % 2 == 0 else x + y.sum()

    program = irkit.to_onnx(even, (torch.zeros(4, 3), torch.zeros(4)), dynamic_shapes=({0: "a", 1: "b"}, {0: "a"}))
    path = program.save(tmp_path / "even.onnx", conditions="all")
    plain = program.save(tmp_path / "plain.onnx")
    for a, b, c in [(4, 3, 4), (6, 2, 6), (3, 3, 3), (4, 8, 4), (4, 1, 4), (4, 3, 6), (0, 3, 0), (2, 7, 2)]:
        arrays = {"x": np.ones((a, b), np.float32), "y": np.ones(c, np.float32)}
        wrong = a % 2 != 0 or not 2 <= b <= 7 or c != a
        assert fails(path, arrays) is wrong, (a, b, c)
        assert fails(path, arrays, optimized=False) is wrong, (a, b, c)
        assert not fails(plain, arrays)


def test_a_word_that_says_nothing_of_conditions_is_refused(tmp_path: Path) -> None:
    program = irkit.to_onnx(torch.nn.ReLU(), (torch.zeros(3),))
    with pytest.raises(irkit.SerializeError, match="every"):
        program.save(tmp_path / "relu.onnx", conditions="every")
    assert not list(tmp_path.iterdir())


SIZES = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 9).map(str),
        st.tuples(SIZES, st.sampled_from(["+", "-", "*", "//", "%", "/"]), SIZES).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["max", "min"]), SIZES, SIZES).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(st.sampled_from(["floor", "ceil", "trunc", "round", "double"]), SIZES).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        SIZES.map(lambda s: f"({s})**2"),
        SIZES.map(lambda s: f"(-{s})"),
    )
)
RELATIONS = st.tuples(SIZES, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), SIZES).map(" ".join)
CONDITIONS = st.deferred(
    lambda: st.one_of(
        RELATIONS,
        st.tuples(CONDITIONS, st.sampled_from(["and", "or"]), CONDITIONS).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        CONDITIONS.map(lambda c: f"not ({c})"),
    )
)


def verdict(text: str, sizes: dict[str, int]) -> bool | None:
    """What the reader of contracts says; None where it refuses the text."""
    try:
        return bool(holds(text, sizes))
    except irkit.IrkitError:
        return None


@settings(max_examples=60)
@given(CONDITIONS, st.lists(st.tuples(*[st.integers(0, 12)] * 3), min_size=6, max_size=6))
def test_values_of_conditions_are_those_of_the_contract(text: str, drawn: list[tuple[int, int, int]]) -> None:
    x = irkit.param("f32[a, b, c]")
    inputs = Inputs(irkit.Graph((x,), (x,)))
    sizes = {name: inputs.size("input 0", axis) for axis, name in enumerate("abc")}
    asked = irkit.Graph((x,), (truth_of(text, sizes),))
    for each in drawn:
        expected = verdict(text, dict(zip("abc", each, strict=True)))
        if expected is None:
            continue
        found = bool(irkit.evaluate(asked, [np.zeros(each, np.float32)])[0])
        assert found is expected or (not found and is_long(text)), (text, each)


def is_long(text: str) -> bool:
    """Whether numbers on the way might be beyond 64 bits, so that a file may refuse what the contract takes."""
    return len(re.findall(r"[abc\d]+(?!\w)", text)) << text.count("**2") > 16  # 13 ** 17 is 2 ** 63


@pytest.mark.parametrize(
    ("text", "right", "refused"),
    [
        ("a**16 <= 9223372036854775807", (3, 15), (16, 20, 100)),
        ("(floor(a**16))**2 >= a", (3,), (4, 16, 20)),
        ("not (a**16 < 0)", (3, 15), (16, 20)),
        ("(a**16) % 7 < 7", (3, 15), (16,)),
        ("floor(double(a**16) * 16.0) >= 0", (3, 12), (15,)),
        ("a**16 / (a**15) == a", (3, 8), (16,)),
        ("a * b * a * b * a * b > 0", (3, 1000), (2**11,)),
        ("a**16 == 0 or a > 0", (3, 15), (16,)),
        ("a > 0 or a**16 == 0", (3, 15, 16, 20), ()),
    ],
)
def test_numbers_beyond_64_bits_are_refused(text: str, right: tuple[int, ...], refused: tuple[int, ...]) -> None:
    x = irkit.param("f32[a, b, c]")
    inputs = Inputs(irkit.Graph((x,), (x,)))
    asked = irkit.Graph((x,), (truth_of(text, {n: inputs.size("input 0", i) for i, n in enumerate("abc")}),))
    for size in (*right, *refused):
        array = np.zeros((size, size, 0), np.float32)
        assert bool(irkit.evaluate(asked, [array])[0]) is (size in right), (text, size)
