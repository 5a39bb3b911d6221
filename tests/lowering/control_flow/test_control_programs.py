"""Random functions with control flow on data, sampled; `make fuzz-control-flow` runs five hundred."""

from __future__ import annotations

import pytest

from tests.fuzz import shared_memory
from tests.fuzz.control_programs import outcome


@pytest.mark.parametrize("seed", [2, 4, 7, 35, 68, 210023])
def test_random_function_agrees_with_eager(seed: int) -> None:
    assert outcome(seed) == "agrees"


@pytest.mark.parametrize("seed", [2, 4, 7, 237])
def test_random_writes_into_shared_memory_are_right_or_refused(seed: int) -> None:
    said = shared_memory.outcome(seed)
    assert said == "right" or said.startswith("refused: ")
