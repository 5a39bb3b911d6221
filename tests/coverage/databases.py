"""The databases that `make coverage` runs: torch's operators, and whole programs under `database:name`."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from tests.coverage import exportdb, hops, measure, modules
from tests.coverage.measure import DTYPES, MODES, Found, Key
from tests.coverage.subjects import outcome_of

DATABASES: Mapping[str, ModuleType] = {"modules": modules, "hops": hops, "exportdb": exportdb}
"""Each has `cells()`, (name, element type, mode) of everything in it, and `subjects(name, dtype, mode)`."""


def cells(dtypes: tuple[str, ...] = tuple(DTYPES), modes: tuple[str, ...] = MODES) -> list[Key]:
    """Every cell of every database, the operators' first."""
    found = measure.cells(dtypes, modes)
    for space, database in DATABASES.items():
        found += [Key(f"{space}:{n}", d, m) for n, d, m in database.cells() if m in modes and (d in dtypes or not d)]
    return found


def measured(key: Key, samples: int | None) -> Found:
    """The outcome of a cell over the first `samples` samples (all of them where None)."""
    space, _, name = key.op.partition(":")
    if not name:
        return measure.measured(key, samples)
    return outcome_of(DATABASES[space].subjects(name, key.dtype, key.mode), samples)
