"""The page of all rules under check: what stands on it can be read back, so that a run may be taken up again."""

from __future__ import annotations

from irkit.checking.rules import check_rule
from tests.support.wrong_rules import WRONG
from tests.tables.rules import RULES
from tests.tables.rules_checked import PAGE, page, row_of, rows_on, settings


def test_rows_are_read_back_as_they_were_written() -> None:
    by_name = {rule.name: rule for rule in RULES}
    good = [
        row_of(name, settings(4, 2), [check_rule(by_name[name], 4, seed=s, onnxruntime=False) for s in range(2)])
        for name in ("mul_one", "neg_neg")
        if name in by_name
    ]
    bad = row_of("div_div", settings(4, 2), [], "seed 1: the rule div_div differs\n  in the instance:\n    %x")
    text = page([*good, bad], [(), ("round_by_floor",)])
    assert rows_on(text) == {row.name: row for row in (*good, bad)}
    assert f"{len(good)} of {len(good) + 1} rules agree" in text.replace("\n", " ")
    assert f"finds {len(WRONG)}, {len(WRONG) - 1} on the seeds" in text.replace("\n", " ")
    assert good[0].number("fired") == 8 and bad.number("fired") == 0


def test_no_rule_on_the_page_differs() -> None:
    assert not [row.name for row in rows_on(PAGE.read_text(encoding="utf-8")).values() if row.error]
