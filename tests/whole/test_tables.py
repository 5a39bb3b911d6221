"""The page of models: a column for each way of capture, from results that a sweep left in a file."""

from __future__ import annotations

from pathlib import Path

import attrs

from tests.support.rows import append
from tests.tables.models import outcomes_in, page
from tests.zoo.outcome import Outcome

FOUND = Outcome("linear", "layer", (({"batch": 2, "seq": 7}, 1e-7, ""),), 3, 2, 0.25, 0.5)


def test_the_page_of_models_has_a_column_for_each_way(tmp_path: Path) -> None:
    path = tmp_path / "models.jsonl"
    wrong = attrs.evolve(FOUND, runs=(({"batch": 2, "seq": 7}, 0.5, "output 0 differs"),), nodes=4)
    for outcome, way in ((FOUND, "direct"), (FOUND, "torch.export"), (wrong, "torch.export")):
        append(path, {**attrs.asdict(outcome), "way": way, "commit": "a"})
    found = outcomes_in(path)
    assert found["linear", "direct"] == FOUND and not found["linear", "torch.export"].passed
    text = page(found)
    assert "| direct | 0 of 0 | 1 of 1 | 2 | 0.8 |" in text and "| torch.export | 0 of 0 | 0 of 1 | 4 | 0.8 |" in text
    assert (
        "| linear | 2 | 4 | 0.75 s | 0.75 s | batch=2 seq=7: output 0 differs | direct: ok; torch.export: **differs**"
        in text
    )
