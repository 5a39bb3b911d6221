"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import IO

from irkit.errors import SerializeError

try:
    import fcntl
except ImportError:  # a system without locks of files
    fcntl = None

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where a file finds no room."""
NOTHING = (errno.EBADF, errno.ELOOP)
"""What it says, beside that there is no such file, where a path leads to none."""
MANY = 64
"""So many saves of one file may go on at once."""
MOST = 1000
"""How many buffers are written in one call of the system, which takes 1024 at most."""


@contextlib.contextmanager
def atomic_write(path: Path) -> Generator[IO[bytes]]:
    """A file to write that takes the place of `path` when the block ends well, and else leaves no trace.

    What a save that was killed has left under the names that are used meanwhile is removed. The file that is replaced
    hands its permissions on. Raises SerializeError where no file can be made there, or where there is something that no
    file may replace: a folder, a device, a pipe, and where the disk has no room for it.
    """
    target = replaceable(path)
    scratch, file = scratch_of(target)
    try:
        with file:
            mode = mode_at(target)
            if mode is not None:
                with contextlib.suppress(OSError):
                    scratch.chmod(mode & 0o777)
            yield file
            file.flush()
            os.close(os.dup(file.fileno()))  # where the network tells of a full disk
            placed(scratch, target, file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise unwritable(path, error) from error
        raise


def placed(scratch: Path, target: Path, file: IO[bytes]) -> None:
    """Gives a file its name, while it is locked. Raises SerializeError where another one stands there that may not be
    replaced."""
    if fcntl is None:
        file.close()
    try:
        scratch.replace(target)
    except OSError as error:
        raise unwritable(target, error) from error


def replaceable(path: Path) -> Path:
    """Where a file of that path is: where a link leads to, which stays one. Raises SerializeError where no file can be
    made, or where something stands that no file may replace."""
    try:
        require_replaceable(path)
        return Path(os.path.realpath(path)) if path.is_symlink() else path
    except OSError as error:
        raise unwritable(path, error) from error


def require_replaceable(path: Path) -> None:
    """Raises SerializeError where no file can be made, or where something stands that no file may replace."""
    mode = mode_at(path)
    if mode is not None and stat.S_ISREG(mode):
        return
    around = mode_at(path.parent)
    if around is None or not stat.S_ISDIR(around):
        raise SerializeError(
            f"there is no folder {str(path.parent)!r} to write {path.name} in",
            hint="make it first, or choose another output",
        )
    if mode is not None and stat.S_ISDIR(mode):
        raise SerializeError(f"{str(path)!r} is a folder", hint="give the name of a file in it")
    if mode is not None:
        raise SerializeError(
            f"{str(path)!r} is not an ordinary file, and cannot be replaced", hint="name another output"
        )


def mode_at(path: Path) -> int | None:
    """The mode of what stands at a path, or where a link there leads to; None where nothing does. One question to the
    system, where `is_file`, `is_dir` and `exists` are one each."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in NOTHING:
            return None
        raise
    except ValueError:  # of a path with a zero byte in it
        return None


def unwritable(path: Path, error: OSError) -> SerializeError:
    """The error for a file that cannot be written."""
    hint = "make room, or write to another disk" if error.errno in NO_ROOM else ""
    return SerializeError(f"{str(path)!r} cannot be written: {error.strerror}", hint=hint)


def scratch_of(target: Path) -> tuple[Path, IO[bytes]]:
    """A new file beside `target`, locked for as long as it is open, under the first name that nobody uses. Those that
    killed saves have left are removed. Raises SerializeError where none can be made."""
    for number in range(MANY):
        scratch = target.with_name(f".{target.name}.{f'{number}.' if number else ''}part")
        remove_left(scratch)
        file = claimed_file(scratch, target)
        if file is not None:
            for more in range(number + 1, MANY):
                other = target.with_name(f".{target.name}.{more}.part")
                if not remove_left(other):
                    break
            return scratch, file
    raise SerializeError(
        f"{str(target)!r} is being written by {MANY} others",
        hint="remove the files that end in .part beside it, if nobody is writing",
    )


def claimed_file(path: Path, target: Path) -> IO[bytes] | None:
    """A new file of that name, open and locked; None where there is one already. Raises SerializeError where none can
    be made."""
    try:
        file = path.open("xb")
    except FileExistsError:
        return None
    except OSError as error:
        raise unwritable(target, error) from error
    if is_locked(file.fileno(), claim=True) or not os.fstat(file.fileno()).st_nlink:  # somebody took it for left
        file.close()
        return None
    return file


def remove_left(path: Path, ours: Callable[[bytes], bool] = lambda head: True) -> bool:
    """Whether there is such a file; one that nobody is writing, and that is the user's own, is removed where its first
    bytes are `ours`."""
    if not os.path.lexists(path):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return True
    try:
        status = os.fstat(descriptor)
        mine = stat.S_ISREG(status.st_mode) and (not hasattr(os, "geteuid") or status.st_uid == os.geteuid())
        if mine and not is_locked(descriptor, claim=False) and ours(os.read(descriptor, 64)):
            with contextlib.suppress(OSError):
                if os.path.samestat(status, path.lstat()):  # under the lock it stays so
                    path.unlink()
    finally:
        os.close(descriptor)
    return True


def is_locked(descriptor: int, *, claim: bool) -> bool:
    """Whether another one has locked an open file, which locks it otherwise. Where the system has no locks, nobody has
    for who makes a `claim`, and somebody for others."""
    if fcntl is None:
        return not claim
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return not claim
    return False


def write_together(file: IO[bytes], pieces: Sequence[bytes | memoryview]) -> None:
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
