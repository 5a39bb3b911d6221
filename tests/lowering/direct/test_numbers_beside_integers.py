"""A few of the programs of tests/fuzz/numbers_beside_integers.py, those among them that once were wrong."""

from __future__ import annotations

import pytest

from tests.fuzz.numbers_beside_integers import WAYS, faults
from tests.support.draws import drawn

ONCE = (35, 38, 1010, 1033, 1039, 1049, 1096, 1155, 1258, 1279, 5200912)
"""Seeds of quotients of floats, of a factor that is a float, of a divisor that is lost, of truths among integers, of
a rounded sum of which one part has no end."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", drawn("numbers beside integers", range(60), 6, ONCE))
def test_numbers_beside_integers_are_eagers_or_refused(seed: int, way: str) -> None:
    told: list[str] = []
    assert list(faults(seed, way, told.append)) == []
    assert told


def test_the_programs_answer() -> None:
    told: list[str] = []
    for seed in range(12):
        assert list(faults(seed, "direct", told.append)) == []
    assert told.count("both answer") >= 30
