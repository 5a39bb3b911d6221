"""The notebooks of docs/understand run from the first cell to the last, and import from faces only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tables.notebooks import NOTEBOOKS, printed_by_cells
from tests.whole.test_docs import ROOT, blocks_of
from tests.whole.test_surface import imports_of, is_offered


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    assert any(printed_by_cells(path, tmp_path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_one_and_shows_what_it_printed(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert (notebook["nbformat"], len(code) > 4) == (4, True)
    assert any(cell.get("outputs") for cell in notebook["cells"])
    assert [each for cell in code for each in imports_of(cell) if not is_offered(*each)] == []


def test_ten_rules_stand_in_sixty_lines() -> None:
    page = (ROOT / "docs" / "guide" / "ten_rules.md").read_text(encoding="utf-8")
    code = next(block.code for block in blocks_of(page) if block.language == "python")
    rules = [line for line in code.splitlines() if line.startswith("@irkit.rule(") or "irkit.equation(" in line]
    assert len(rules) == 10 and len(code.splitlines()) <= 60


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) >= 3


def test_a_cell_that_fails_says_where(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": ["x = 1\n", "x"]}, {"cell_type": "code", "source": ["1 / 0"]}]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells[:1]}))
    assert printed_by_cells(tmp_path / "n.ipynb", tmp_path) == ["1\n"]
    (tmp_path / "n.ipynb").write_text(json.dumps({"cells": cells}))
    with pytest.raises(ZeroDivisionError) as caught:
        printed_by_cells(tmp_path / "n.ipynb", tmp_path)
    assert str(caught.traceback[-1].path).endswith("n.ipynb, cell 2")
