"""Many cells in worker processes: what crashes or hangs is recorded, and its worker replaced."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import attrs

from tests.tables.coverage.databases import measured
from tests.tables.coverage.measure import Found, Key

POLL = 0.5
"""Seconds between two looks at the clocks of the workers."""


@attrs.define(eq=False)
class Worker:
    """A process that measures one cell after the other."""

    process: Any
    pipe: Connection
    key: Key | None = None
    since: float = 0.0

    @classmethod
    def started(cls, context: Any, samples: int | None) -> Worker:
        """A new worker, ready for a cell."""
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, samples), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, key: Key) -> None:
        """Hands the worker a cell."""
        self.key, self.since = key, time.monotonic()
        self.pipe.send(attrs.astuple(key))

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def serve(pipe: Connection, samples: int | None) -> None:
    """Measures the cells that come through the pipe until it closes."""
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            key = Key(*pipe.recv())
        except EOFError:
            return
        try:
            found = measured(key, samples)
        except Exception as error:  # the harness itself, or a sample generator
            found = Found("no samples", "harness", f"{type(error).__name__}: {error}"[:300])
        pipe.send(attrs.astuple(found))


def swept(keys: Iterable[Key], samples: int | None, workers: int, limit: float) -> Iterator[tuple[Key, Found]]:
    """(cell, outcome) for each cell, as they finish; a cell has `limit` seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.tables.coverage.databases"])
    todo = iter(keys)
    busy: list[Worker] = []
    for key in todo:
        busy.append(Worker.started(context, samples))
        busy[-1].give(key)
        if len(busy) == workers:
            break
    while busy:
        ready = set(wait([w.pipe for w in busy], POLL))
        for worker in list(busy):
            found = answer(worker, worker.pipe in ready, limit)
            if found is None or worker.key is None:
                continue
            yield worker.key, found
            busy.remove(worker)
            lost = found.reason in ("crash", "time-out")
            key = next(todo, None)
            if lost or key is None:
                worker.stop()
            if key is not None:
                worker = Worker.started(context, samples) if lost else worker
                worker.give(key)
                busy.append(worker)


def answer(worker: Worker, ready: bool, limit: float) -> Found | None:
    """What the worker found; None while it is still at it."""
    spent = time.monotonic() - worker.since
    if ready:
        try:
            return Found(*worker.pipe.recv())
        except (EOFError, OSError):
            worker.process.join(5)
            return Found("fail", "crash", f"the process ended with {worker.process.exitcode}", 0, round(spent, 2))
    if spent > limit:
        return Found("fail", "time-out", f"more than {limit:g} seconds", 0, round(spent, 2))
    return None


# ---------------------------------------------------------------------------------------------- the file of results


def row_of(key: Key, found: Found, commit: str) -> dict[str, Any]:
    """One line of the file."""
    return {**attrs.asdict(key), "commit": commit, **attrs.asdict(found)}


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Adds a line, whole or not at all."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def rows_in(path: Path) -> list[dict[str, Any]]:
    """The last line of each cell; a line that a crash cut short is left out."""
    found: dict[Key, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        found[key_of(row)] = row
    return list(found.values())


def key_of(row: Mapping[str, Any]) -> Key:
    """The cell of a line."""
    return Key(row["op"], row["dtype"], row["mode"])


def rewrite(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The file with these lines only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
