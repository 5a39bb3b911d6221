"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from irkit.errors import SerializeError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` when the block ends well, and else leaves no trace.

    Raises SerializeError where no file can be made there, or where there is something that no file may replace: a
    folder, a device, a pipe.
    """
    if not path.parent.is_dir():
        raise SerializeError(
            f"there is no folder {str(path.parent)!r} to write {path.name} in",
            hint="make it first, or choose another output",
        )
    if path.is_dir():
        raise SerializeError(f"{str(path)!r} is a folder", hint="give the name of a file in it")
    if path.exists() and not path.is_file():
        raise SerializeError(f"{str(path)!r} is no ordinary file, and cannot be replaced", hint="name another output")
    target = Path(os.path.realpath(path))  # a link stays one
    scratch = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        file = scratch.open("xb")
    except OSError as error:
        raise SerializeError(f"{str(path)!r} cannot be written: {error.strerror}") from error
    try:
        with file:
            yield file
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
