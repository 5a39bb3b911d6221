"""A sample of the coverage table, and everything that once failed and was mended.

The whole of torch's databases runs in `make coverage`; docs/measured/coverage.json is what it found. An operator that
the file says passes must still pass; one that fails there is not asked for here.
"""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.draws import drawn
from tests.support.rows import append, rows_in
from tests.support.workers import Worker, worked
from tests.tables.coverage.databases import DATABASES, EVERY, cells, measured
from tests.tables.coverage.measure import WAYS, Found, Key, Undetermined, clean, reason_of
from tests.tables.coverage.measure import measured as one_cell
from tests.tables.coverage.page import page
from tests.tables.coverage.sweep import key_of, row_of, swept
from tests.tables.coverage.table import json_text, rows_of

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "measured" / "coverage.json"
ONCE_FAILED = ROOT / "tests" / "tables" / "coverage" / "coverage_regressions.txt"
ONCE = 100
"""How many of these cells are drawn; `make sweep` draws all."""
SAMPLE = 24
FEW = 6
"""Cells of each database of whole programs."""


def passing() -> list[Key]:
    """A draw of the cells that pass in the table."""
    if not TABLE.exists():
        return []
    rows = rows_of(TABLE.read_text(encoding="utf-8"))
    good = [key_of(r) for r in rows if r["outcome"] == "pass"]
    found: list[Key] = []
    for database in EVERY:
        own = [key for key in good if (key.op.partition(":")[0] if ":" in key.op else "operators") == database]
        found += drawn(f"coverage of {database}", own, SAMPLE if database == "operators" else FEW)
    return found


def once_failed() -> list[tuple[Key, int | None]]:
    """Some of the cells of coverage_regressions.txt, with the number of the sample that failed where a line has one."""
    lines = ONCE_FAILED.read_text(encoding="utf-8").splitlines()
    found = [line.split() for line in lines if line and not line.startswith("#")]
    cells = [(Key(op, dtype, mode), int(*sample) if sample else None) for op, dtype, mode, *sample in found]
    return drawn("what once failed", cells, ONCE)


def title(key: Key) -> str:
    """The name of a test."""
    return f"{key.op}-{key.dtype}-{key.mode}-{key.capture}"


@pytest.mark.parametrize("key", passing(), ids=title)
def test_what_the_table_says_passes_still_passes(key: Key) -> None:
    found = soonest(key)
    assert found.outcome == "pass", found


def soonest(key: Key) -> Found:
    """The outcome of the fewest samples that determine it: the first ones of some cells draw random numbers."""
    for samples in (1, 8):
        found = measured(key, samples)
        if found.outcome in ("pass", "fail"):
            return found
    return measured(key, None)


def test_a_cell_whose_first_sample_draws_random_numbers_is_measured_on_a_later_one() -> None:
    key = Key("nn.functional.rrelu", "float64", "static")
    assert measured(key, 1).outcome == "random"
    assert soonest(key).outcome == "pass"


@pytest.mark.parametrize(("key", "sample"), [pytest.param(*each, id=title(each[0])) for each in once_failed()])
def test_what_once_failed_passes(key: Key, sample: int | None) -> None:
    found = measured(key, 3) if sample is None else one_cell(key, 1, sample)
    assert found.outcome == "pass", found


# ---------------------------------------------------------------------------------------------- the harness itself


def test_an_error_is_recorded_and_the_sweep_goes_on() -> None:
    keys = [Key("no_such_operator", "float32", "static"), Key("abs", "float32", "static", "direct")]
    found = dict(swept(keys, 1, 1, 200.0))
    assert found[keys[0]].reason == "harness"
    assert found[keys[1]].outcome == "pass"


def test_what_takes_too_long_or_ends_without_an_answer_is_recorded() -> None:
    ours, theirs = multiprocessing.Pipe()
    ended: Any = SimpleNamespace(join=lambda seconds: None, exitcode=-11)
    worker = Worker(ended, ours, Key("abs", "float32", "static", "direct"), time.monotonic() - 9)
    assert worker.answer(False, 60.0) is None
    assert worker.answer(False, 5.0).reason == "time-out"
    theirs.close()
    lost = worker.answer(True, 60.0)
    assert (lost.reason, lost.detail) == ("crash", "the process ended with -11")


def test_rows_survive_a_line_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    key = Key("abs", "float32", "static", "direct")
    append(path, row_of(key, Found("fail", "value", "wrong"), "a"))
    append(path, row_of(key, Found("pass", samples=1), "b"))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"op": "ad')
    (row,) = rows_in(path, key_of)
    assert (row["outcome"], row["commit"]) == ("pass", "b")
    assert "| float32 | static | direct | 1 | 1 | 100.0 | 0 | 0 |" in page([row])


def test_the_table_is_read_as_it_was_written() -> None:
    cells = [
        Key("b", "mixed", "dynamic", "direct"),
        Key("a", "int64", "static", "direct"),
        Key("a", "float32", "static", "direct"),
    ]
    outcomes = [Found("pass", samples=3), Found("fail", "value", "wrong", 1), Found("pass", "", "2 of 3", 2)]
    rows = [row_of(key, found, "c") for key, found in zip(cells, outcomes, strict=True)]
    rows.append(row_of(Key("a", "bool", "static", "direct"), Found("random", "random", "wrong"), "d"))
    kept = [{name: value for name, value in row.items() if name != "seconds"} for row in rows]
    assert sorted(rows_of(json_text(rows)), key=repr) == sorted(kept, key=repr)
    assert json_text(rows_of(json_text(rows))) == json_text(rows)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("output 0: expected f32 elements, got f64", "dtype"),
        ("output 0: expected the shape (2,), got (3,)", "shape"),
        ("output 0: 1 of 2 elements differ", "value"),
        ("ContractError: batch is 3", "contract"),
        ("Fail: the node", "ORT run"),
    ],
)
def test_problems_have_short_codes(problem: str, reason: str) -> None:
    assert reason_of(problem) == reason


def test_details_name_no_folder_of_a_machine() -> None:
    assert clean("in /a" + "/b/python/torch.py:\n line 1") == "in torch.py: line 1"


def test_random_samples_are_told() -> None:
    assert measured(Key("bernoulli", "float32", "static"), 1).outcome == "random"
    assert issubclass(Undetermined, Exception)


@pytest.mark.parametrize("database", DATABASES)
def test_cells_of_a_database_are_named_after_it(database: str) -> None:
    keys = cells(names=(database,))
    assert keys and all(key.op.startswith(f"{database}:") for key in keys)
    assert len(set(keys)) == len(keys)
    assert cells(("float32",), ("static",), (database,)) == [
        key for key in keys if key.mode == "static" and key.dtype in ("float32", "mixed")
    ]


def test_a_pass_that_had_to_be_shown_is_listed() -> None:
    rows = [
        row_of(
            Key("diff", "float16", "static", "direct"), Found("pass", "torch is no nearer", "1 of 30 differs", 64), "a"
        ),
        row_of(Key("diff", "bfloat16", "static", "direct"), Found("pass", samples=64), "a"),
    ]
    text = page(rows)
    assert "| diff | ok* | ok |" in text
    assert (
        "- torch is no nearer: diff float16 static, direct: `1 of 30 differs`" in text
        and "diff bfloat16 static" not in text
    )


def test_a_cell_has_two_marks_where_the_ways_of_capture_differ() -> None:
    rows = [row_of(Key("diff", "float32", "static", way), Found("pass", samples=2), "a") for way in WAYS]
    assert "| diff | ok |" in page(rows)
    rows[0] = row_of(Key("diff", "float32", "static", "direct"), Found("fail", "value", "wrong"), "a")
    text = page(rows)
    assert "| diff | value / ok |" in text and "- torch.export alone: diff (float32 static): `wrong`" in text
    assert "| value | 1 | 0 |" in text


def test_a_section_tells_of_its_own_database() -> None:
    rows = [row_of(Key("hops:cond.simple", "float32", "static", "direct"), Found("fail", "value", "wrong"), "a")]
    text = page(rows)
    assert "## Higher-order operators" in text and "- value: cond.simple float32 static, direct: `wrong`" in text
    assert "## Modules" not in text


KEPT: list[bytes] = []


def number_of_its_process(megabytes: int) -> int:
    """The number of the process, which keeps so many megabytes more."""
    KEPT.append(bytes(range(256)) * (megabytes << 12))
    return multiprocessing.current_process().pid or 0


def test_a_worker_that_holds_much_is_replaced() -> None:
    found = [number for _, number in worked([1, 1, 900, 1, 1], number_of_its_process, 1, 60, held=1 << 30)]
    first, same, great, other, again = found
    assert first == same == great and other == again and other != great
