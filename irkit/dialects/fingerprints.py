"""What tells two operators of one name apart, in digests of graphs: their rows, and the code of what defines them.

It is the same in every process that defines the operator by the same code. Two functions of one module, one name and
one code, over the same numbers, that still differ in what their globals are, are told apart by an operator's `version`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np

from irkit.core.blobs import Blob, blob
from irkit.ops.schemas import OpSpec

DEPTH = 8
"""How deep functions in functions are looked into."""


def fingerprint(row: OpSpec, *parts: object) -> str:
    """A short text, equal for operators of the same row and the same functions."""
    hasher = hashlib.blake2b(digest_size=8)
    table = (row.inputs, row.outputs, tuple(row.attributes.items()), row.since)
    types = sorted((name, sorted(allowed)) for name, allowed in row.types.items())
    hasher.update(repr((table, types, tuple(content_key(part, DEPTH) for part in parts))).encode())
    return hasher.hexdigest()


def content_key(part: object, depth: int) -> object:
    """What stands for something in a fingerprint: text and numbers for themselves, functions by their code and what
    they close over, arrays by their bytes."""
    if part is None or isinstance(part, str | bytes | int | float):
        return part
    if isinstance(part, np.ndarray):
        return blob(cast("Any", part)).digest
    if isinstance(part, Blob):
        return part.digest
    if isinstance(part, tuple | list):
        return tuple(content_key(each, depth) for each in cast("tuple[object, ...]", part))
    if isinstance(part, CodeType):
        return part.co_code, part.co_names, tuple(content_key(each, depth) for each in part.co_consts)
    if isinstance(part, FunctionType) and depth:
        cells = tuple(cell_key(cell, depth - 1) for cell in part.__closure__ or ())
        given = content_key(tuple((part.__kwdefaults__ or {}).items()), depth - 1)
        defaults = content_key(part.__defaults__ or (), depth - 1)
        return part.__module__, part.__qualname__, content_key(part.__code__, depth), cells, defaults, given
    if hasattr(part, "SerializeToString"):
        return cast("Callable[[], bytes]", part.SerializeToString)()  # type: ignore[attr-defined]
    return type(part).__qualname__, str(getattr(part, "__qualname__", ""))


def cell_key(cell: Any, depth: int) -> object:
    """What a function closes over; nothing for a variable that is not set yet."""
    try:
        return content_key(cell.cell_contents, depth)
    except ValueError:
        return None
