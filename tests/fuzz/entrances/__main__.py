"""`python -m tests.fuzz.entrances`: draws at every entrance, and what became of them. Exits with 1 for a fault."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections import Counter

from tests.fuzz.entrances.doors import DOORS, settled
from tests.fuzz.entrances.drawing import PATIENCE, drawn


def main() -> int:
    """Draws, and prints."""
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz.entrances", description=__doc__)
    asked.add_argument("doors", nargs="*", help="entrances; all if not given")
    asked.add_argument("--share", type=float, default=1.0, help="of the 100,000 draws")
    asked.add_argument("--start", type=int, default=0, help="the first draw's number")
    asked.add_argument("--only", type=int, help="one draw, with its traceback")
    given = asked.parse_args()
    unknown = [door for door in given.doors if door not in DOORS]
    if unknown:
        asked.error(f"no entrance is called {unknown[0]}: there are {', '.join(DOORS)}")
    settled()
    if given.only is not None:
        found = drawn(given.doors[0], given.only, wide=True)
        print(found.kind, f"{found.seconds:.2f} s", found.bytes >> 20, "MiB", found.what, found.trace, sep="\n")
        return 0
    return sum(table(door, given.start, max(1, int(DOORS[door][1] * given.share))) for door in given.doors or DOORS) > 0


def table(door: str, start: int, count: int) -> int:
    """Draws at one entrance, and prints its line and its faults, each kind once. Returns how many faults there were."""
    kinds: Counter[str] = Counter()
    faults: dict[str, list[int]] = {}
    slowest, largest, began = (0.0, 0), (0, 0), time.process_time()
    for seed in range(start, start + count):
        faulthandler.dump_traceback_later(3 * PATIENCE, exit=True)
        found = drawn(door, seed, wide=True)
        kinds[found.kind] += 1
        slowest, largest = max(slowest, (found.seconds, seed)), max(largest, (found.bytes, seed))
        if found.kind == "fault":
            faults.setdefault(found.what, []).append(seed)
            if len(faults[found.what]) == 1:
                print(f"  {door} {seed}: {found.what}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(
        f"{door}: {count} draws, {kinds['taken']} taken, {kinds['refused']} refused, {kinds['fault']} faults; slowest "
        f"{slowest[0]:.2f} s ({slowest[1]}), largest {largest[0] >> 20} MiB ({largest[1]}), "
        f"{time.process_time() - began:.0f} s in all",
        flush=True,
    )
    for what, seeds in sorted(faults.items(), key=lambda pair: -len(pair[1])):
        print(f"  {len(seeds)} x {what}   such as {seeds[:4]}", flush=True)
    return kinds["fault"]


if __name__ == "__main__":
    sys.exit(main())
