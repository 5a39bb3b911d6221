"""`make coverage`: torch's databases through export and ONNX Runtime; writes docs/measured/coverage.md and .json."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.rows import append, rewrite, rows_in
from tests.tables.coverage.databases import EVERY, cells
from tests.tables.coverage.measure import DTYPES, MODES, WAYS, Key
from tests.tables.coverage.page import page
from tests.tables.coverage.sweep import key_of, row_of, swept
from tests.tables.coverage.table import json_text, rows_of

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "build" / "coverage.jsonl"
PAGE, TABLE = ROOT / "docs" / "measured" / "coverage.md", ROOT / "docs" / "measured" / "coverage.json"


def commit_of() -> str:
    """The short hash of the checkout, or "unknown"."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.tables.coverage", description=__doc__)
    parser.add_argument("--capture", default=",".join(WAYS), help="direct, torch.export, or both: a column each")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="element types, with commas between")
    parser.add_argument("--modes", default=",".join(MODES), help="static, dynamic, or both")
    parser.add_argument("--databases", default=",".join(EVERY), help="which of them")
    parser.add_argument("--ops", default="", help="only these operators")
    parser.add_argument("--samples", type=int, default=None, help="the first so many samples of each; all without")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes measure side by side")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one operator and element type")
    parser.add_argument("--resume", action="store_true", help="leave out what this commit has measured already")
    parser.add_argument("--missing", action="store_true", help="only what no commit has measured")
    parser.add_argument("--failed", action="store_true", help="only what failed")
    parser.add_argument("--page-only", action="store_true", help="write the page from the results there are")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results, a line for each cell")
    return parser.parse_args(arguments)


def known_rows(results: Path) -> list[dict[str, Any]]:
    """The rows of earlier runs: those of the published table, and what the file of results has beside or instead."""
    known = rows_of(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else []
    found = {key_of(row): row for row in [*known, *rows_in(results, key_of)]}
    return [found[key] for key in cells() if key in found]


def chosen(given: argparse.Namespace, rows: list[dict[str, Any]], commit: str) -> list[Key]:
    """The cells to measure."""
    asked = [tuple(each.split(",")) for each in (given.dtypes, given.modes, given.databases, given.capture)]
    for names, known_names in zip(asked, (DTYPES, MODES, EVERY, WAYS), strict=True):
        if unknown := set(names) - set(known_names):
            raise SystemExit(f"{', '.join(sorted(unknown))}: none of {', '.join(known_names)}")
    keys = cells(*asked)
    names = set(given.ops.split(",")) if given.ops else None
    failed = {key_of(r) for r in rows if r["outcome"] == "fail"}
    known = {key_of(r) for r in rows if given.missing or (given.resume and r["commit"] == commit)}
    keys = [k for k in keys if (names is None or k.op in names) and k not in known]
    return [k for k in keys if k in failed] if given.failed else keys


def main(arguments: list[str]) -> int:
    """Measures what is asked for, and writes the page of that and of what was measured before."""
    given, commit = options(arguments), commit_of()
    rows = known_rows(given.results)
    keys = [] if given.page_only else chosen(given, rows, commit)
    again = set(keys)
    rewrite(given.results, [r for r in rows if key_of(r) not in again])
    counts: Counter[str] = Counter()
    for i, (key, found) in enumerate(swept(keys, given.samples, given.jobs, given.limit), 1):
        append(given.results, row_of(key, found, commit))
        counts[found.outcome] += 1
        if found.outcome == "fail":
            where = f"{key.op} {key.dtype} {key.mode} {key.capture}"
            print(f"{i}/{len(keys)} {where}: {found.reason}: {found.detail[:160]}", flush=True)
    rows = rows_in(given.results, key_of)
    PAGE.write_text(page(rows), encoding="utf-8")
    TABLE.write_text(json_text(rows), encoding="utf-8")
    print(dict(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
