"""The page of all rules under check, and the sweep that it is made of."""

from __future__ import annotations

import os
import pkgutil
import re
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

import passes
from irkit import Rule
from passes.legal.all_expansions import all_expansions
from tests.support.sweeps import Found, Piece, resumed, rows_of, swept
from tests.support.wrong_rules import WRONG
from tests.tables.rules_checked import CHECKED, DIFFERS, ELSEWHERE, PAGE, checked, page, pieces_of


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
    assert f"1 of {len(CHECKED)} rules agree" in text.replace("\n", " ")
    assert "| `not_compare` | 3 x 2 | all | 6 |" in text
    assert text.count(DIFFERS) == len(CHECKED) - 1 and "ended its process (-11)" in text and "in the instance" in text
    assert f"finds {', '.join([str(len(WRONG))] * 5)} on the seeds" in text.replace("\n", " ")


def test_no_rule_on_the_page_differs_and_none_is_missing() -> None:
    """Two rules were once added without their rows."""
    text = PAGE.read_text(encoding="utf-8")
    assert DIFFERS not in text
    rows = re.findall(r"^\| `([^`]+)` \| \d+ x \d+ \|", text, re.MULTILINE)
    assert rows == [rule.name for rule in CHECKED], "make check-rules writes the page anew"


def rules_in(held: object) -> tuple[Rule, ...]:
    """The rules that a name of a module stands for."""
    several = held.values() if isinstance(held, Mapping) else held if isinstance(held, tuple | list) else (held,)
    return tuple(each for each in several if isinstance(each, Rule))


def test_every_rule_that_a_module_holds_stands_in_a_table() -> None:
    """Ninety rules of saturation, and those that legalization takes for NaN and integers, once stood in none."""
    known = {id(each) for each in CHECKED} | {id(each.rule) for each in all_expansions()}
    names = {each.rule.name for each in all_expansions()} | ELSEWHERE.keys()
    modules = [import_module(each.name) for each in pkgutil.walk_packages(passes.__path__, "passes.")]
    held = [each for module in modules for value in vars(module).values() for each in rules_in(value)]
    assert len({id(each) for each in held}) > 400
    assert {each.name for each in held if id(each) not in known and each.name not in names} == set()


def test_rules_on_the_page_have_names_of_their_own() -> None:
    assert len({each.name for each in CHECKED}) == len(CHECKED)
    assert not {each.name for each in CHECKED} & ELSEWHERE.keys()


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
