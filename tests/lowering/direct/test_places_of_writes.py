"""A few of the programs of tests/fuzz/places_of_writes.py, those among them that once were wrong."""

import warnings
from collections import Counter

import pytest

from tests.fuzz.places_of_writes import Drawn, drawn, faults

PINNED = (6_000_159, 6_000_350, 6_001_058, 6_001_136, 6_001_327, 6_001_590)
OVERLAPPING = (
    Drawn("constant", (("as_strided of two", "n", "n"), ("whole", "n", "n")), (("by itself", 0, 1),), 3),
    Drawn("constant", (("x[a:a + 3]", "n", "n"), ("x[:3]", "n", "n")), (("add_", 0, 1),), 3),
    Drawn("constant", (("x[a:a + 3]", "max(n - 2, 0)", "n"), ("x[:3]", "n", "n")), (("add_", 0, 1),), 2),
)


@pytest.mark.parametrize("model", [*map(drawn, PINNED), *OVERLAPPING], ids=str)
def test_writes_at_places_of_sizes_are_eagers_or_refused(model: Drawn) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tally = Counter[str]()
        assert not list(faults(model, tally))
        assert tally["both answer"] or tally["not exported"]
