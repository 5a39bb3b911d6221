"""The page of all rules under check, and the sweep that it is made of."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.sweeps import Found, Piece, resumed, rows_of, swept
from tests.support.wrong_rules import WRONG
from tests.tables.rules import RULES
from tests.tables.rules_checked import DIFFERS, PAGE, checked, page, pieces_of


def silent(where: str) -> None:
    """Tells nothing."""


def test_the_page_says_what_came_of_each_rule() -> None:
    rows: dict[Piece, Found] = {
        p: {"caught": 1} if p[0] == "wrong" else {"error": "it differs\n  in the instance"} for p in pieces_of([], 3, 2)
    }
    for seed in range(2):
        rows["rule", "not_compare", seed, 3] = checked(("rule", "not_compare", seed, 3), silent)
        rows["rule", "mul_one", seed, 3] = {"ended": "ended its process (-11)"}
    text = page(rows, 3, 2)
    assert f"1 of {len(RULES)} rules agree" in text.replace("\n", " ")
    assert "| `not_compare` | 3 x 2 | all | 6 |" in text
    assert text.count(DIFFERS) == len(RULES) - 1 and "ended its process (-11)" in text and "in the instance" in text
    assert f"finds {', '.join([str(len(WRONG))] * 5)} on the seeds" in text.replace("\n", " ")


def test_no_rule_on_the_page_differs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert DIFFERS not in text


# ---------------------------------------------------------------------------------------------- sweeps


def work(piece: Piece, tell: Callable[[str], None]) -> Found:
    """Twice a number; 3 ends the process, 4 takes long."""
    number = int(piece[0])
    tell(f"at number {number}")
    if number == 3:
        os._exit(7)
    if number == 4:
        time.sleep(60)
    return {"twice": 2 * number}


def test_a_sweep_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    path, pieces = tmp_path / "a" / "rows.jsonl", [(n,) for n in range(4)]
    first = resumed(path, work, pieces[:2], 1, 60)
    path.write_text(path.read_text() + '{"piece": [2], "code": "of another state", "twice": 0}\n{"piece": [9], "co')
    rows = resumed(path, work, pieces, 2, 60)
    assert {p: row.get("twice") for p, row in rows.items()} == {(0,): 0, (1,): 2, (2,): 4, (3,): None}
    assert rows[0,] == first[0,] and rows[3,]["ended"] == "ended its process (7) at number 3"
    assert rows_of(path) == rows


def test_a_sweep_ends_when_its_time_is_over() -> None:
    began = time.monotonic()
    assert dict(swept(work, [(4,)], 1, 0.5)) == {} and time.monotonic() - began < 20
