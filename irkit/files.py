"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from irkit.errors import SerializeError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where a file finds no room."""
MOST = 1000
"""How many buffers are written in one call of the system, which takes 1024 at most."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` when the block ends well, and else leaves no trace.

    Raises SerializeError where no file can be made there, or where there is something that no file may replace: a
    folder, a device, a pipe, and where the disk has no room for it.
    """
    if not path.is_file():
        if not path.parent.is_dir():
            raise SerializeError(
                f"there is no folder {str(path.parent)!r} to write {path.name} in",
                hint="make it first, or choose another output",
            )
        if path.is_dir():
            raise SerializeError(f"{str(path)!r} is a folder", hint="give the name of a file in it")
        if path.exists():
            raise SerializeError(
                f"{str(path)!r} is no ordinary file, and cannot be replaced", hint="name another output"
            )
    target = Path(os.path.realpath(path)) if path.is_symlink() else path  # a link stays one
    scratch = target.with_name(f".{target.name}.{os.urandom(16).hex()}")
    try:
        file = scratch.open("xb")
    except OSError as error:
        raise SerializeError(f"{str(path)!r} cannot be written: {error.strerror}") from error
    try:
        with file:
            yield file
        scratch.replace(target)
    except BaseException as error:
        scratch.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise SerializeError(
                f"{str(path)!r} cannot be written: {error.strerror}", hint="make room, or write to another disk"
            ) from error
        raise


def write_together(file: IO[bytes], pieces: Sequence[Any]) -> None:
    """Writes buffers of bytes one after the other, in one call of the system where it has such a call: a file of a few
    megabytes takes half the time that one call for each takes."""
    if not hasattr(os, "writev"):
        file.writelines(pieces)
        return
    file.flush()
    rest = [memoryview(piece) for piece in pieces]
    while rest:
        written = os.writev(file.fileno(), rest[:MOST])
        done = 0
        while done < len(rest) and written >= len(rest[done]):
            written -= len(rest[done])
            done += 1
        rest = rest[done:]
        if written:
            rest[0] = rest[0][written:]
