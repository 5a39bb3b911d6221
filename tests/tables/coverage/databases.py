"""The databases that `make coverage` runs: torch's operators, and whole programs under `database:name`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from tests.tables.coverage import exportdb, hops, measure, modules
from tests.tables.coverage.measure import DTYPES, MODES, WAYS, Found, Key
from tests.tables.coverage.subjects import outcome_of

DATABASES: Mapping[str, ModuleType] = {"modules": modules, "hops": hops, "exportdb": exportdb}
"""Each has `cells()`, (name, element type, mode) of everything in it, and `subjects(name, dtype, mode)`."""
EVERY = ("operators", *DATABASES)


def cells(
    dtypes: Sequence[str] = tuple(DTYPES),
    modes: Sequence[str] = MODES,
    names: Sequence[str] = EVERY,
    ways: Sequence[str] = WAYS,
) -> list[Key]:
    """Every cell of the databases that are named, the operators' first, by each of the ways of capture."""
    found = [
        (f"{space}:{name}" if space in DATABASES else name, dtype, mode)
        for space in EVERY
        if space in names
        for name, dtype, mode in DATABASES.get(space, measure).cells()
    ]
    return [
        Key(name, dtype, mode, way)
        for way in ways
        for name, dtype, mode in found
        if mode in modes and dtype in (*dtypes, "mixed")
    ]


def measured(key: Key, samples: int | None) -> Found:
    """The outcome of a cell over the first `samples` samples (all of them where None)."""
    space, _, name = key.op.partition(":")
    if not name:
        return measure.measured(key, samples)
    return outcome_of(DATABASES[space].subjects(name, key.dtype, key.mode), samples, key.capture)
