"""torch's database of operators at sizes 0 and 1: what `make fuzz-sizes` draws thousands of."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.small_sizes import faults
from tests.support.draws import drawn

FOUND = (44, 233)
"""Draws that once went wrong: counts of nothing by weights, an adaptive pooling of nothing."""


@pytest.mark.parametrize("seed", drawn("small sizes", range(100_000), 12, FOUND))
def test_sizes_0_and_1_are_eagers(seed: int) -> None:
    assert list(faults([seed], Counter())) == []
