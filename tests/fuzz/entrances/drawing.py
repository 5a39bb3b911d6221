"""One draw at an entrance, watched: what became of it, in what time, in how much memory."""

from __future__ import annotations

import re
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import attrs

from tests.fuzz.entrances import seeds
from tests.fuzz.entrances.doors import DOORS, Drawn

SHARES: Mapping[str, int] = {
    "load": 30_000,
    "optimize": 15_000,
    "files": 8_000,
    "large": 2_000,
    "contract": 6_000,
    "text": 20_000,
    "side": 5_000,
    "sizes": 10_000,
    "programs": 500,
    "shapes": 1_500,
    "options": 1_500,
    "commands": 500,
}
"""Each entrance, and its share of 100,000 draws."""

SECONDS = 2.0
"""Of the processor's time that one draw may take."""
GIGABYTE = 1 << 30
PATIENCE = 30
"""Seconds on the clock after which a draw is given up."""


class TooSlow(BaseException):
    """The draw has taken far too long."""


@attrs.frozen
class Outcome:
    """What became of one draw: "taken", "refused" or "fault", in how many seconds and bytes, and what was raised."""

    kind: str
    seconds: float
    bytes: int
    what: str = ""
    trace: str = ""


def settle(door: str) -> None:
    """Makes what is made once, so that no draw pays for it."""
    seeds.pool()
    seeds.node_models()
    seeds.texts()
    if door not in DOORS:
        from tests.fuzz.entrances.seeds_torch import program  # brings in torch

        program()


def door_of(name: str) -> Callable[[Drawn], bool]:
    """An entrance."""
    if name in DOORS:
        return DOORS[name]
    from tests.fuzz.entrances.doors_torch import TORCH_DOORS  # brings in torch

    return TORCH_DOORS[name]


def drawn(door: str, seed: int, *, wide: bool = False) -> Outcome:
    """What became of draw number `seed` at an entrance."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(), patience():
        warnings.simplefilter("ignore")
        random = Random(f"{door} {seed}")
        before = resident("VmRSS")
        forget_peak()
        began = time.process_time()
        try:
            taken = door_of(door)(Drawn(random, Path(name), wide))
            kind, what, trace = ("taken" if taken else "refused"), "", ""
        except (Exception, TooSlow, SystemExit) as error:
            kind, what, trace = "fault", signature(error), "".join(traceback.format_exception(error))[-6000:]
        seconds = time.process_time() - began
    used = max(0, resident("VmHWM") - before)
    if kind != "fault" and seconds > SECONDS:
        kind, what = "fault", f"it took {seconds:.1f} seconds"
    if kind != "fault" and used > GIGABYTE:
        kind, what = "fault", f"it took {used >> 20} MiB"
    return Outcome(kind, seconds, used, what, trace)


def signature(error: BaseException) -> str:
    """The class of an error and the line that raised it: equal for what is probably one fault."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/irkit/" in f.filename or "/passes/" in f.filename or "/lowering/" in f.filename]
    places = [f"{Path(f.filename).name}:{f.lineno}" for f in (*ours[-1:], *frames[-1:])]
    said = re.sub(r"'[^']*'|[0-9]+", "_", str(error).partition("\n")[0])
    return f"{type(error).__name__} at {' '.join(places)}: {said[:150]}"


@contextmanager
def patience() -> Iterator[None]:
    """A block that is interrupted by TooSlow after `PATIENCE` seconds."""

    def late(*_: Any) -> None:
        raise TooSlow(f"more than {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def resident(field: str) -> int:
    """The memory of this process, or the most that it had, in bytes; 0 where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(field)), 0)


def forget_peak() -> None:
    """Lets the most that this process had begin anew, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return
