"""A long sweep in pieces: over several processes, for a limited time, and taken up again where it was ended.

Each piece that is done is a line of JSON in a file, with a digest of the code that it was run on: lines of other code
are dropped when the sweep is taken up, so that what stands in the file is of one state of the project. A piece that
ends its process, or takes longer than `PATIENCE`, is a line as well, with what is known of its end.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).resolve().parents[2]
CODE = ("irkit", "passes", "tests/fuzz", "tests/support", "tests/tables")
"""The folders that a sweep without torch runs."""
PATIENCE = 600.0
"""Seconds on the clock after which a piece is given up."""

Piece = tuple[str | int, ...]
"""Names a piece of a sweep: a rule and a seed, say."""
Found = Mapping[str, Any]
"""What came of a piece, as JSON holds it."""
Work = Callable[[Piece, Callable[[str], None]], Found]
"""What is done for a piece; it tells where it is, so that one that ends its process can be named."""


@cache
def code_digest(folders: tuple[str, ...] = CODE) -> str:
    """A digest of every file that a sweep runs."""
    made = hashlib.blake2b(digest_size=8)
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".json", ".txt", ".ir"):
                made.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return made.hexdigest()


@attrs.define
class Worker:
    """A process that does pieces, and the one that it is at."""

    process: BaseProcess
    pipe: Connection
    piece: Piece | None = None
    since: float = 0.0
    at: str = ""


def serve(work: Work, pipe: Connection) -> None:
    """Does the pieces that come, until None does."""
    while (piece := pipe.recv()) is not None:
        began = time.process_time()
        found = work(piece, lambda where: pipe.send(("at", where)))
        pipe.send(("done", {**found, "seconds": round(time.process_time() - began, 2)}))


def started(work: Work) -> Worker:
    """A new process."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(work, there), daemon=True)
    process.start()
    there.close()
    return Worker(process, here)


def swept(work: Work, pieces: Sequence[Piece], jobs: int, seconds: float) -> Iterator[tuple[Piece, Found]]:
    """(piece, what came of it) as each is done, by `jobs` processes, until the time is over."""
    waiting, end = list(reversed(pieces)), time.monotonic() + seconds
    workers: list[Worker] = []
    try:
        while waiting or any(each.piece for each in workers):
            while len(workers) < jobs and waiting:
                workers.append(started(work))
            for each in workers:
                if each.piece is None and waiting:
                    each.piece, each.since, each.at = waiting.pop(), time.monotonic(), ""
                    each.pipe.send(each.piece)
            left = end - time.monotonic()
            if left <= 0:
                return
            for pipe in wait([each.pipe for each in workers], timeout=min(left, 5)):
                each = next(w for w in workers if w.pipe is pipe)
                yield from heard(each)
            for each in workers:
                if each.piece is not None and time.monotonic() - each.since > PATIENCE:
                    each.process.kill()
            workers = [each for each in workers if each.process.is_alive() or each.piece is not None]
    finally:
        for each in workers:
            each.process.kill()


def heard(worker: Worker) -> Iterator[tuple[Piece, Found]]:
    """What a process says, or what is to be said of its end."""
    try:
        kind, told = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        late = time.monotonic() - worker.since > PATIENCE
        why = f"took more than {PATIENCE:.0f} s" if late else f"ended its process ({worker.process.exitcode})"
        if worker.piece is not None:
            yield worker.piece, {"ended": f"{why} {worker.at}".strip()}
        worker.piece = None
        return
    if kind == "at":
        worker.at = told
    elif worker.piece is not None:
        yield worker.piece, told
        worker.piece = None


# ---------------------------------------------------------------------------------------------- the file


def rows_of(path: Path, code: str = "") -> dict[Piece, Found]:
    """What stands in the file of a sweep, by piece; of that code only where one is given."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return {tuple(row["piece"]): row for row in rows if not code or row["code"] == code}


def resumed(
    path: Path, work: Work, pieces: Sequence[Piece], jobs: int, seconds: float, folders: tuple[str, ...] = CODE
) -> dict[Piece, Found]:
    """All that stands in the file of a sweep after another run of it: what is there of this code is not done again."""
    code = code_digest(folders)
    known = rows_of(path, code)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in known.values())
        for piece, found in swept(work, [p for p in pieces if p not in known], jobs, seconds):
            known[piece] = {"piece": list(piece), "code": code, **found}
            file.write(json.dumps(known[piece]) + "\n")
            file.flush()
    return known


def options(name: str, parser: argparse.ArgumentParser, seconds: float = 1e9) -> None:
    """Adds what every sweep can be told."""
    path = ROOT / "build" / "sweeps" / f"{name}.jsonl"
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="how many processes")
    parser.add_argument("--seconds", type=float, default=seconds, help="no more than so long; run again to go on")
    parser.add_argument("--results", type=Path, default=path, help="a line of JSON for each piece that is done")


def summary(rows: Mapping[Piece, Found], pieces: Sequence[Piece], *counts: str) -> str:
    """How much of a sweep is done, and sums of what its pieces counted."""
    done = [rows[p] for p in pieces if p in rows]
    sums = ", ".join(f"{sum(row.get(name, 0) for row in done)} {name}" for name in counts)
    spent = sum(row.get("seconds", 0) for row in done)
    ended = sum("ended" in row for row in done)
    whole = f"{len(done)} of {len(pieces)} pieces, {sums}, {ended} ended their process, {spent:.0f} s of the processor"
    return f"{whole}; code {' '.join(sorted({row['code'] for row in done}))}"
