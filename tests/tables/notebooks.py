"""The notebooks of docs/understand: run cell by cell, as Jupyter would, in one namespace and a folder of their own.

`python -m tests.tables.notebooks` writes what the cells print into them; tests/whole/test_notebooks.py runs them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = tuple(sorted((ROOT / "docs" / "understand").glob("*.ipynb")))


def printed_by_cells(path: Path, folder: Path) -> list[str]:
    """What each cell of code prints, with the value of its last expression behind it, as Jupyter shows it. A cell that
    fails raises what it raised, with the notebook and the cell as the place."""
    module = ModuleType("notebook_" + path.stem)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses and pickle look classes up
    found: list[str] = []
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    try:
        for number, cell in enumerate(cells, 1):
            out = io.StringIO()
            with contextlib.chdir(folder), contextlib.redirect_stdout(out):
                run_cell("".join(cell["source"]), f"{path}, cell {number}", module.__dict__)
            found.append(out.getvalue())
    finally:
        del sys.modules[module.__name__]
    return found


def run_cell(source: str, place: str, namespace: dict[str, Any]) -> None:
    """Runs a cell, and prints the value of its last expression."""
    tree = ast.parse(source, place)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, place, "exec", dont_inherit=True), namespace)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), place, "eval", dont_inherit=True), namespace)
        if value is not None:
            print(value)


def main() -> None:
    """Writes what the cells print into the notebooks."""
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            printed = iter(printed_by_cells(path, Path(folder)))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                text = next(printed)
                lines = text.splitlines(keepends=True)
                cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
