"""`python -m tests.fuzz.entrances`: draws at every entrance, and what became of them. Exits with 1 for a fault."""

from __future__ import annotations

import argparse
import faulthandler
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.fuzz.entrances.doors import DOORS
from tests.fuzz.entrances.drawing import PATIENCE, SHARES, drawn, settle
from tests.support.sweeps import CODE, Found, Piece, options, resumed, summary

LOT = 250
"""Draws of one piece of the sweep."""


def main() -> int:
    """Draws, and prints."""
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz.entrances", description=__doc__)
    asked.add_argument("doors", nargs="*", help="entrances; all if not given")
    asked.add_argument("--without-torch", action="store_true", help="only those that do not bring in torch")
    asked.add_argument("--share", type=float, default=1.0, help="of the 100,000 draws")
    asked.add_argument("--start", type=int, default=0, help="the first draw's number")
    asked.add_argument("--only", type=int, help="one draw, with its traceback")
    options("entrances", asked)
    given = asked.parse_args()
    unknown = [door for door in given.doors if door not in SHARES]
    if unknown:
        asked.error(f"no entrance is called {unknown[0]}: there are {', '.join(SHARES)}")
    doors = given.doors or (DOORS if given.without_torch else SHARES)
    for door in doors:
        settle(door)
    if given.only is not None:
        found = drawn(given.doors[0], given.only, wide=True)
        print(found.kind, f"{found.seconds:.2f} s", found.bytes >> 20, "MiB", found.what, found.trace, sep="\n")
        return 0
    lots = {door: lots_of(door, given.start, max(1, int(SHARES[door] * given.share))) for door in doors}
    pieces = [piece for of_one in lots.values() for piece in of_one]
    code = CODE if all(door in DOORS for door in doors) else (*CODE, "lowering")
    rows = resumed(given.results, lot, pieces, given.jobs, given.seconds, code)
    faults = sum(table(door, rows, of_one) for door, of_one in lots.items())
    print(summary(rows, pieces, "draws", "taken", "refused", "faults"))
    return int(faults > 0)


def lots_of(door: str, start: int, count: int) -> list[Piece]:
    """The pieces of the draws at an entrance: its name, the first draw, how many."""
    end = start + count
    return [(door, first, min(LOT, end - first)) for first in range(start, end, LOT)]


def lot(piece: Piece, tell: Callable[[str], None]) -> Found:
    """What became of some draws: counts, the first draw of each kind of fault, the slowest and the largest."""
    door, first, count = str(piece[0]), int(piece[1]), int(piece[2])
    kinds: Counter[str] = Counter()
    what: dict[str, list[int]] = {}
    slowest, largest = (0.0, 0), (0, 0)
    for seed in range(first, first + count):
        tell(f"at draw {seed}")
        faulthandler.dump_traceback_later(3 * PATIENCE, exit=True)
        found = drawn(door, seed, wide=True)
        kinds[found.kind] += 1
        slowest, largest = max(slowest, (round(found.seconds, 2), seed)), max(largest, (found.bytes >> 20, seed))
        if found.kind == "fault":
            what.setdefault(found.what, []).append(seed)
    faulthandler.cancel_dump_traceback_later()
    counts = {"draws": count, "taken": kinds["taken"], "refused": kinds["refused"], "faults": kinds["fault"]}
    return {**counts, "slowest": slowest, "largest": largest, "what": what}


def table(door: str, rows: Mapping[Piece, Found], pieces: Sequence[Piece]) -> int:
    """Prints the line of an entrance and its faults, each kind once. Returns how many faults there were."""
    done: list[Any] = [rows[piece] for piece in pieces if piece in rows]
    ended = [row for row in done if "ended" in row]
    done = [row for row in done if "ended" not in row]
    total = {name: sum(row[name] for row in done) for name in ("draws", "taken", "refused", "faults", "seconds")}
    slowest, largest = (max((tuple(row[name]) for row in done), default=(0, 0)) for name in ("slowest", "largest"))
    print(
        f"{door}: {total['draws']} draws, {total['taken']} taken, {total['refused']} refused, {total['faults']} faults"
        f"; slowest {slowest[0]:.2f} s ({slowest[1]}), largest {largest[0]} MiB ({largest[1]}), "
        f"{total['seconds']:.0f} s in all"
    )
    faults: dict[str, list[int]] = {}
    for row in done:
        for what, seeds in row["what"].items():
            faults.setdefault(what, []).extend(seeds)
    for what, seeds in sorted(faults.items(), key=lambda pair: -len(pair[1])):
        print(f"  {len(seeds)} x {what}   such as {sorted(seeds)[:4]}")
    for row in ended:
        print(f"  {row['piece']}: {row['ended']}")
    return total["faults"] + len(ended)


if __name__ == "__main__":
    sys.exit(main())
