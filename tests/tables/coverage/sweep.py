"""Many cells of the databases in worker processes, and the lines of the file of results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import attrs

from tests.support.workers import Lost, worked
from tests.tables.coverage.databases import measured
from tests.tables.coverage.measure import Found, Key


def swept(keys: Iterable[Key], samples: int | None, jobs: int, limit: float) -> Iterator[tuple[Key, Found]]:
    """(cell, outcome) for each cell, as they finish; a cell has `limit` seconds."""
    work = partial(measured, samples=samples)
    for key, found in worked(keys, work, jobs, limit, ["tests.tables.coverage.databases"]):
        yield key, outcome_of(found) if isinstance(found, Lost) else found


def outcome_of(lost: Lost) -> Found:
    """The outcome of a cell whose worker gave none; what the harness raised is a sample generator's."""
    outcome = "no samples" if lost.reason == "harness" else "fail"
    return Found(outcome, lost.reason, lost.detail, 0, lost.seconds)


def row_of(key: Key, found: Found, commit: str) -> dict[str, Any]:
    """One line of the file."""
    return {**attrs.asdict(key), "commit": commit, **attrs.asdict(found)}


def key_of(row: Mapping[str, Any]) -> Key:
    """The cell of a line."""
    return Key(row["op"], row["dtype"], row["mode"], row["capture"])
