"""What callers hand in at the doors, where it is of quite another kind than it must be: one clear error."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import numpy as np

from irkit.errors import IrkitError


def path_of(given: object, error: type[IrkitError]) -> Path:
    """The path that a text or path object names. Raises `error` for anything else."""
    if isinstance(given, str | os.PathLike):
        path = os.fspath(cast("str | os.PathLike[str] | os.PathLike[bytes]", given))
        if isinstance(path, str):
            return Path(path)
    raise error(f"{brief(cast(object, given))} is not a path", hint='give a text or a pathlib.Path: "model.onnx"')


def require_texts(given: object, what: str, error: type[IrkitError]) -> None:
    """Raises `error` for what is not a list of texts."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise error(f"{what} is {brief(given)}, and must be a list of texts")


def require_count(given: object, what: str, error: type[IrkitError]) -> int:
    """A whole number from 0 on: how many, or the seed of a generator. Raises `error` for anything else."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        number = int(cast(int, given))
        if number >= 0:
            return number
    raise error(
        f"{what} is {brief(cast(object, given))}, and must be a whole number from 0 on",
        hint=f"give an int, as in {what}=0",
    )


def brief(given: object) -> str:
    """What something is, in a few words."""
    if given is None or isinstance(given, bool | int | float | str | bytes):
        text = repr(given)
        return text if len(text) <= 60 else text[:57] + "..."
    return type_text(given)


def type_text(given: object) -> str:
    """What type something is of, with its article: `a str`, `an int`, `an ndarray`."""
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeioAEIO' or name == 'ndarray' else 'a'} {name}"
