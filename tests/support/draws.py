"""What the suite draws of sweeps that take too long to run whole with each change.

The draw is pinned: a commit that does not touch what is swept runs the same cases as the one before, and a case that is
added takes the place of one other at most. `make sweep` draws afresh, and much more.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

SEED = int(os.environ.get("IRKIT_SEED", "1"))
TIMES = int(os.environ.get("IRKIT_TIMES", "1"))
"""How many times as much is drawn as the suite draws."""

T = TypeVar("T")


def generator(name: str) -> random.Random:
    """The random numbers of one draw, which those of others do not change."""
    return random.Random(f"{SEED} {name}")


def drawn(
    name: str, cases: Sequence[T], count: int, pinned: Iterable[T] = (), key: Callable[[T], Any] = str
) -> list[T]:
    """`pinned`, and `count` times `TIMES` of the other cases, in the order of `cases`, then what is pinned and none of
    them, as a seed beyond; `key` tells cases apart."""
    held = {key(case): case for case in pinned}
    kept = frozenset(held)

    def place(index: int) -> bytes:
        return hashlib.blake2b(f"{SEED} {name} {key(cases[index])}".encode(), digest_size=8).digest()

    others = sorted((i for i, case in enumerate(cases) if key(case) not in kept), key=place)
    chosen = frozenset(others[: count * TIMES])
    found = [case for i, case in enumerate(cases) if i in chosen or key(case) in kept]
    beyond = held.keys() - {key(case) for case in found}
    return [*found, *(case for name, case in held.items() if name in beyond)]


def seeds_asked(arguments: Sequence[str]) -> range:
    """The seeds of a run, of arguments `COUNT --seed FIRST`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    return range(given.seed, given.seed + given.count)


def captures_swept(
    seeds: range,
    ways: Iterable[str],
    faults: Callable[[int, str, Callable[[str], None]], Iterable[str]],
    text_of: Callable[[int], str],
) -> tuple[int, Counter[str]]:
    """(how many captures have faults, which are printed with the text of the model; how often each was told that
    `faults` tells of) over the models of some seeds, captured in several ways."""
    wrong, seen = 0, Counter[str]()
    for seed, way in itertools.product(seeds, ways):
        try:
            found = [*faults(seed, way, lambda what: seen.update([what]))]
        except Exception as error:  # said, with the model
            found = [f"{way}: {type(error).__name__}: {error}"]
        wrong += bool(found)
        if found:
            print(seed, text_of(seed), *found, sep="\n", flush=True)
    return wrong, seen
