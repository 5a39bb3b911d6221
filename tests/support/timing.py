"""What a step itself costs: the time of this thread's processor, without collections of the whole process."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Spent:
    """Seconds of this thread's processor, known when the block that `spent()` opened has ended."""

    seconds = 0.0


@contextmanager
def spent() -> Iterator[Spent]:
    """Measures a block. The garbage collector waits: after thousands of tests one collection takes seconds, and it is
    chance in which block it falls. Threads that ONNX Runtime left waiting are not counted either."""
    result, collecting = Spent(), gc.isenabled()
    gc.disable()
    began = time.thread_time()
    try:
        yield result
    finally:
        result.seconds = time.thread_time() - began
        if collecting:
            gc.enable()
