"""A few of the calls of tests/fuzz/numbers_of_sizes.py, those among them that once were wrong."""

import warnings
from collections import Counter

import pytest

from tests.fuzz.numbers_of_sizes import drawn, faults

PINNED = (5_800_078, 5_801_095, 5_801_112, 5_801_152, 5_802_103)


@pytest.mark.parametrize("seed", PINNED)
def test_numbers_of_sizes_are_those_that_eager_takes(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = drawn(seed)
        assert found is not None
        assert not list(faults(found, Counter()))
