"""The file of weights beside a model: its name is new with each save, so that no model ever names another's weights.

A model `m.onnx` has its weights in `m.onnx.data`, and after the next saves over it in `m.onnx.1.data`, `m.onnx.2.data`.
The old pair is whole until the new model stands, and its weights are removed then. What a save that was killed has left
is removed by the next one: such a file begins with `MARK`, nobody has it locked, and no model in the folder names it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO

from google.protobuf.message import DecodeError

from irkit.errors import IrkitError
from irkit.onnx.reading.wire import number_at, without_large
from irkit.onnx.writing.identities import MARK
from irkit.support.files import NO_ROOM, claimed_file, remove_left, unwritable
from irkit.support.stored_files import opened_file

_LOCATION = re.compile(rb"\n\x08location\x12")  # as protobuf writes the key of an entry of two strings
_SMALL = 1 << 20


@contextlib.contextmanager
def beside(target: Path) -> Generator[IO[bytes]]:
    """A new file of weights for the model that `target` will be, locked while it is open, gone where the block fails.

    Where the block ends well, what held the weights of the model that was replaced is removed. Raises SerializeError
    where no file can be made.
    """
    named = named_in(target)
    path, file = new_file(target, named)
    try:
        with file:
            yield file
            if not file.tell():  # no weight is large enough
                path.unlink()
            remove_old(target, {*others_of(target), *named} - {path.name})
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise unwritable(target, error) from error
        raise


@contextlib.contextmanager
def inside(target: Path) -> Generator[None]:
    """A block that writes the model that `target` will be, with its weights inside; ends as `beside` does."""
    named = named_in(target)
    yield
    if named or os.path.lexists(target.with_name(f"{target.name}.data")):
        remove_old(target, {*others_of(target), *named})


def new_file(target: Path, named: Iterable[str]) -> tuple[Path, IO[bytes]]:
    """The file of weights with the first number after those that the old model names."""
    number = max((number_of(target, name) + 1 for name in named), default=0)
    while True:
        path = target.with_name(f"{target.name}.{number}.data" if number else f"{target.name}.data")
        if os.path.lexists(path):
            remove_old(target, {path.name})
        file = claimed_file(path, target)
        if file is not None:
            return path, file
        number += 1


def number_of(target: Path, name: str) -> int:
    """The number in the name of a file of weights: 0 for the first, -1 for what is not a name of one of this model."""
    found = re.fullmatch(re.escape(target.name) + r"(?:\.([1-9]\d*))?\.data", name)
    return -1 if found is None else int(found.group(1) or 0)


def others_of(target: Path) -> set[str]:
    """The names in the folder that files of weights of this model have."""
    return {each.name for each in target.parent.iterdir() if number_of(target, each.name) >= 0}


def remove_old(target: Path, names: set[str]) -> None:
    """Removes files of weights that no model in the folder names: those that irkit wrote, and nobody is writing."""
    if not names:
        return
    for each in target.parent.iterdir():
        if each.name not in names and number_of(target, each.name) < 0 and names:
            names = names - named_in(each, unknown=names)
    for name in sorted(names - named_in(target, unknown=names)):
        remove_left(target.with_name(name), lambda head: head.startswith(MARK) or not head)


def named_in(path: Path, unknown: Iterable[str] = ()) -> set[str]:
    """The names, without folders, of the files that a model has its weights in; `unknown` for one that cannot be read,
    none for what is not a model."""
    if not path.is_file():
        return set()
    try:
        if path.stat().st_size < _SMALL:
            return set(locations(path.read_bytes()))
        return set(locations(without_large(opened_file(path.resolve(), "the model", wait=False))))
    except DecodeError:
        return set()
    except (OSError, IrkitError):
        return set(unknown)


def locations(message: bytes) -> Iterator[str]:
    """The last parts of the places of external data in the bytes of a model."""
    for found in _LOCATION.finditer(message):
        try:
            size, start = number_at(message, found.end(), len(message))
        except DecodeError:
            continue
        yield message[start : start + size].decode("utf-8", "replace").replace("\\", "/").rpartition("/")[2]
