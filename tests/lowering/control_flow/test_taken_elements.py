"""Comprehensions that take some elements only, of rows and sizes that vary, are what they are in eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit
from tests.fuzz.taken_elements import outcome
from tests.lowering.control_flow.test_functions import same
from tests.support.written_functions import function_of

TEXTS = (
    "x * len([i for i in range(n) if i % 2 == 0])", "x + sum([x[i].sum() for i in range(n) if i % 2 == 0])",
    "torch.stack(tuple([x[i] for i in range(n) if i != 2]))", "x * len([r for r in x if r.sum() > 0 and r[0] > 0])",
    "x * len([r for r in x if not r.sum() > 0 if r[0] > -1])", "[r * 2 for r in x if r.sum() > 0]",
    "x + sum(r.sum() for r in x if r.sum() > 0)", "x[[i for i, r in enumerate(x) if r.sum() > 0]]",
    "x * 2 if any(r[0] > 0 for r in x if r.sum() > 0) else x", "x * 2 if all(r[0] > 0 for r in x if r[1] > 0) else x",
    "torch.tensor([i for i in range(n) if i != 2])", "sum(i for i in range(n) if i > 1) * x",
    "torch.stack([x[i] * 2 if i > 1 else x[i] for i in range(n) if i % 2 == 0])",
    "torch.stack([r for r in (x[0], -x[0], x[0] + 9) if r.sum() > 0])",
)  # fmt: skip


def model_of(text: str) -> Any:
    """A function of x that gives what a text says."""
    lines = f"def model(x):\n    n = x.shape[0]\n    return {text}\n"
    return function_of(lines, f"taken_elements_{abs(hash(text))}.py", "model", {"torch": torch})


@pytest.mark.parametrize("text", TEXTS)
def test_elements_that_pass_a_test_are_taken_at_all_sizes(text: str) -> None:
    model = model_of(text)
    x = torch.arange(12.0).reshape(4, 3).sin()
    program = irkit.to_onnx(model, (x,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for n in (4, 5, 1, 9, 2):
        x = torch.arange(n * 3.0).reshape(n, 3).cos() + 0.5
        same(model(x), program(x))


@pytest.mark.parametrize(
    "text", ["x * len([i * j for i in range(n) for j in range(i)])", "x * len([1 for _ in x if 1])"]
)
def test_counts_of_comprehensions_are_those_of_eager_or_refused(text: str) -> None:
    model = model_of(text)
    try:
        program = irkit.to_onnx(model, (torch.ones(4, 3),), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    except irkit.errors.IrkitError:
        return
    for n in (4, 1, 6):
        same(model(torch.ones(n, 3)), program(torch.ones(n, 3)))


@pytest.mark.parametrize("seed", [1, 3, 5, 9, 14, 25, 9304])
def test_random_comprehensions_agree_with_eager(seed: int) -> None:
    assert outcome(seed) == "agrees"


@pytest.mark.parametrize("seed", [5900000, 5900025, 5900042, 5900054, 5900061, 5900232, 5900253])
def test_random_comprehensions_of_other_forms_agree_with_eager(seed: int) -> None:
    assert outcome(seed, wide=True) == "agrees"
