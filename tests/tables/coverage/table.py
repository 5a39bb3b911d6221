"""docs/measured/coverage.json: the rows of a sweep, a line for each operator and way of capture; what many rows share
stands once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.tables.coverage.measure import DTYPES, MODES, WAYS

Row = Mapping[str, Any]

READ = (
    "cells: way of capture -> operator -> static or dynamic -> element type -> [samples compared, number of the "
    "commit], of what passes without a remark; of all else [samples compared, number of the commit, outcome, reason, "
    "number of the text]"
)
"""How the file says that it is to be read."""


def json_text(rows: Sequence[Row]) -> str:
    """The rows as JSON that `rows_of` reads, one operator a line, in a stable order; without the seconds they took."""
    order = {name: i for i, name in enumerate((*DTYPES, "mixed"))}
    ordered = sorted(rows, key=lambda r: (WAYS.index(r["capture"]), r["op"], MODES.index(r["mode"]), order[r["dtype"]]))
    commits = list(dict.fromkeys(r["commit"] for r in ordered))
    texts = list(dict.fromkeys(r["detail"] for r in ordered if not plain(r)))
    cells: dict[str, dict[str, dict[str, dict[str, list[Any]]]]] = {}
    for r in ordered:
        cell = [r["samples"], commits.index(r["commit"])]
        cell += [] if plain(r) else [r["outcome"], r["reason"], texts.index(r["detail"])]
        cells.setdefault(r["capture"], {}).setdefault(r["op"], {}).setdefault(r["mode"], {})[r["dtype"]] = cell
    said = ",\n".join(json.dumps(text) for text in texts)
    parts = ",\n".join(f"{json.dumps(way)}: {{\n{lines_of(of)}\n}}" for way, of in cells.items())
    return (
        f'{{\n"read": {json.dumps(READ)},\n"commits": {json.dumps(commits)},\n"texts": [\n{said}\n],\n'
        f'"cells": {{\n{parts}\n}}\n}}\n'
    )


def lines_of(cells: Mapping[str, Any]) -> str:
    """One line of JSON for each operator."""
    return ",\n".join(f"{json.dumps(op)}: {json.dumps(of, separators=(',', ':'))}" for op, of in cells.items())


def plain(row: Row) -> bool:
    """Whether a row passes and there is no more to say."""
    return row["outcome"] == "pass" and not row["reason"] and not row["detail"]


def rows_of(text: str) -> list[dict[str, Any]]:
    """The rows that `json_text` wrote."""
    said = json.loads(text)
    return [
        row_read(said, (way, op, mode, dtype), *cell)
        for way, ops in said["cells"].items()
        for op, modes in ops.items()
        for mode, cells in modes.items()
        for dtype, cell in cells.items()
    ]


def row_read(
    said: Mapping[str, Any],
    where: tuple[str, str, str, str],
    samples: int,
    commit: int,
    outcome: str = "pass",
    reason: str = "",
    text: int | None = None,
) -> dict[str, Any]:
    """One row of the file, from a cell and where it stands."""
    way, op, mode, dtype = where
    return {
        "op": op,
        "dtype": dtype,
        "mode": mode,
        "capture": way,
        "commit": said["commits"][commit],
        "outcome": outcome,
        "reason": reason,
        "detail": "" if text is None else said["texts"][text],
        "samples": samples,
    }
