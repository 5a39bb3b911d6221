"""Results of a sweep as lines of JSON in a file, which a sweep that was ended goes on from."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def append(path: Path, row: Row) -> None:
    """Adds a line, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def rows_in(path: Path, key: Callable[[Row], Hashable]) -> list[dict[str, Any]]:
    """The last line of each key; a line that a crash cut short is left out."""
    found: dict[Hashable, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        found[key(row)] = row
    return list(found.values())


def rewrite(path: Path, rows: Sequence[Row]) -> None:
    """The file with these lines only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
