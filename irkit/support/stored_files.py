"""Files that contents lie in: read when asked, never mapped, and refused once they were written.

A mapped file would change under a graph when another program writes it, and end the interpreter when that cuts it
short. What was opened stays whole where a new file takes the path, or the path is removed.
"""

from __future__ import annotations

import os
import stat
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from irkit.errors import LoadError, StaleError

CHUNK = 1 << 20
"""Bytes that are read at a time where a content goes from file to file. A quarter of it stays in the cache, but leaves
the C library asking the system anew for the memory of every model's message, which takes 3 % of optimizing GPT-2."""

TICK = 20_000_000
"""Nanoseconds within which two writes may leave a file with one time: systems keep it in steps of 1 to 10 ms."""


@attrs.frozen(eq=False)
class StoredFile:
    """A regular file, open for reading, with its size and the time of its last writing; a `Watch` of itself."""

    path: Path
    descriptor: int
    size: int
    written: int

    def check(self, closely: bool = True) -> None:
        """Raises StaleError where the file was written after it was opened."""
        status = os.fstat(self.descriptor)
        if status.st_size != self.size or status.st_mtime_ns != self.written:
            raise self.stale("was written by another program after the graph was made of it")

    def stale(self, what: str) -> StaleError:
        """The error for a file that is no longer what it was."""
        return StaleError(
            f"the file {self.path.name!r} {what}",
            hint="load it again; irkit.freeze(graph) after loading keeps the contents in memory",
        )

    def peek(self, start: int, size: int) -> bytes:
        """So many bytes, for a caller who checks afterwards. Raises StaleError where there are fewer."""
        found = pread(self.descriptor, size, start)
        while len(found) < size:
            more = pread(self.descriptor, size - len(found), start + len(found))
            if not more:
                raise self.stale("is shorter than it was")
            found += more
        return found

    def fill(self, buffer: Any, start: int) -> None:
        """Reads into a buffer, whole. Raises StaleError where the file was written, or is shorter than it was."""
        self.check()
        rest = memoryview(buffer)
        try:
            while rest:
                count = pread_into(self.descriptor, rest, start)
                if not count:
                    raise self.stale("is shorter than it was")
                rest, start = rest[count:], start + count
        except OSError as error:
            raise self.stale(f"cannot be read any more: {error.strerror}") from error
        self.check()  # while it was read, too

    def read(self, start: int, size: int) -> np.ndarray:
        """So many bytes from `start` on, in memory of their own. Raises as `fill`."""
        found = np.empty(size, np.uint8)
        self.fill(found, start)
        return found


@attrs.frozen(eq=False)
class Place:
    """Where the bytes of a content begin in a file, and the first of them, as far as they were met on the way."""

    file: StoredFile
    start: int
    head: bytes = b""

    def chunks(self, size: int) -> Iterator[memoryview]:
        """So many bytes, some at a time, in a buffer that is used again. Raises as `StoredFile.fill`."""
        buffer = np.empty(min(size, CHUNK), np.uint8)
        for done in range(0, size, CHUNK):
            part = buffer[: size - done]
            self.file.fill(part, self.start + done)
            yield part.data


def opened_file(path: Path, where: str, *, wait: bool = True) -> StoredFile:
    """A regular file, opened. Raises LoadError for what is none, or cannot be opened; `where` says what it is for.

    For a file that was written this moment it waits until a further write gives it another time, unless told not to.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise LoadError(
            f"{where}: the file {path.name!r} cannot be opened: {error.strerror}",
            hint="see whether it is there, and yours to read",
        ) from error
    status = os.fstat(descriptor)
    if wait and 0 <= time.time_ns() - status.st_mtime_ns < TICK:  # who writes it now would leave the same time
        time.sleep(TICK / 1e9)
        status = os.fstat(descriptor)
    found = StoredFile(path, descriptor, status.st_size, status.st_mtime_ns)
    weakref.finalize(found, os.close, descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise LoadError(f"{where}: {path.name!r} is not a regular file", hint="give a file, no folder, pipe or device")
    return found


def read_at(descriptor: int, size: int, start: int) -> bytes:
    """What `os.pread` reads, on systems without it."""
    os.lseek(descriptor, start, os.SEEK_SET)
    return os.read(descriptor, size)


pread: Callable[[int, int, int], bytes] = getattr(os, "pread", read_at)
"""So many bytes of a file, or as many as there are, from a place on."""


def pread_into(descriptor: int, buffer: memoryview, start: int) -> int:
    """Reads into a buffer as far as the system does at once: how many bytes."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], start)
    found = pread(descriptor, min(len(buffer), CHUNK), start)
    buffer[: len(found)] = found
    return len(found)
