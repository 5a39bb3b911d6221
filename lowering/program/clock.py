"""How long each stage of an export takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs


@attrs.frozen
class Clock:
    """Notes how long the stages of an export take, in seconds, and tells of their beginning and end."""

    seconds: dict[str, float] = attrs.field(factory=dict)
    progress: Callable[[str, int, int], None] | None = None

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """A block that is one stage; what fails in it is no stage that was done."""
        if self.progress is not None:
            self.progress(stage, 0, 1)
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start
        if self.progress is not None:
            self.progress(stage, 1, 1)
