"""Random functions with control flow on data, sampled; `make fuzz-control-flow` runs five hundred."""

from __future__ import annotations

import pytest
import torch

import irkit
from tests.fuzz import shared_memory
from tests.fuzz.control_programs import outcome
from tests.support.draws import drawn
from tests.support.written_functions import function_of


@pytest.mark.parametrize("seed", drawn("control programs", (2, 4, 7, 35, 68), 2, (210023, 880106)))
def test_random_function_agrees_with_eager(seed: int) -> None:
    assert outcome(seed) == "agrees"


@pytest.mark.parametrize("seed", [2, 4, 7, 237])
def test_random_writes_into_shared_memory_are_right_or_refused(seed: int) -> None:
    said = shared_memory.outcome(seed)
    assert said == "right" or said.startswith("refused: ")


@pytest.mark.parametrize("seed", [5, 88, 108, 219, 243, 244])
def test_names_that_share_memory_with_a_third_are_right_or_refused(seed: int) -> None:
    said = shared_memory.outcome(seed, shared_memory.moves)
    assert said == "right" or said.startswith("refused: ")


LEFT = """
def f(x):
    for i in range(x.sum() % 4):
        parts = []
        for j in range(0, x.shape[0], 3):
            parts.append(x[j:])
        x = torch.cat(parts)[: x.shape[0]]
        if x.sum() % 3 == 0:
            return x + 1
    return x
"""


def test_a_loop_that_is_left_with_a_tensor_whose_size_a_body_tells() -> None:
    """What stands for the result until then was to have that size, which nothing tells before the loop."""
    function = function_of(LEFT, "/control/left.py", space={"torch": torch})
    torch.manual_seed(0)
    example = torch.randint(-5, 6, (3, 3))
    program = irkit.to_onnx(function, (example,), dynamic_shapes=({0: "n"},), capture="direct", rewrite=True)
    for rows in (3, 2, 5, 1, 7):
        x = torch.randint(-5, 6, (rows, 3))
        assert torch.equal(program(x), function(x))
