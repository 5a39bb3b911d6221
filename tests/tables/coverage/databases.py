"""The databases that `make coverage` runs: torch's operators, and whole programs under `database:name`."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from tests.tables.coverage import exportdb, hops, measure, modules
from tests.tables.coverage.measure import DTYPES, MODES, Found, Key
from tests.tables.coverage.subjects import outcome_of

DATABASES: Mapping[str, ModuleType] = {"modules": modules, "hops": hops, "exportdb": exportdb}
"""Each has `cells()`, (name, element type, mode) of everything in it, and `subjects(name, dtype, mode)`."""
EVERY = ("operators", *DATABASES)


def cells(
    dtypes: tuple[str, ...] = tuple(DTYPES), modes: tuple[str, ...] = MODES, names: tuple[str, ...] = EVERY
) -> list[Key]:
    """Every cell of the databases that are named, the operators' first."""
    found = measure.cells(dtypes, modes) if "operators" in names else []
    for space, database in DATABASES.items():
        if space in names:
            every = (Key(f"{space}:{name}", dtype, mode) for name, dtype, mode in database.cells())
            found += [k for k in every if k.mode in modes and k.dtype in (*dtypes, "mixed")]
    return found


def measured(key: Key, samples: int | None) -> Found:
    """The outcome of a cell over the first `samples` samples (all of them where None)."""
    space, _, name = key.op.partition(":")
    if not name:
        return measure.measured(key, samples)
    return outcome_of(DATABASES[space].subjects(name, key.dtype, key.mode), samples)
