"""Random functions with control flow on data, sampled; `make fuzz-control-flow` runs five hundred."""

from __future__ import annotations

import pytest

from tests.fuzz.control_programs import outcome


@pytest.mark.parametrize("seed", [2, 4, 7])
def test_random_function_agrees_with_eager(seed: int) -> None:
    assert outcome(seed) == "agrees"
