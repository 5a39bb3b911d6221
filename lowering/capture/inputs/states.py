"""Objects of Python and NumPy that stand somewhere or hold numbers without attributes: iterators, generators, arrays,
files that are read, variables of contexts, and dicts, lists and sets of classes of their own."""

from __future__ import annotations

import array
import ctypes
import io
import warnings
import zlib
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import suppress
from contextvars import Context, ContextVar
from functools import lru_cache
from queue import SimpleQueue
from types import GeneratorType
from typing import Any

import numpy as np

from lowering.capture.inputs.containers import CONTAINERS, by_key, copy_of
from lowering.capture.inputs.drawing import DRAWING, comparable, restore_state, state_of

BUFFERS = (bytearray, array.array, memoryview)
KINDS = (dict, list, set, deque)
MOST = 1 << 24
"""Arrays of more bytes are compared by a checksum, and are not put back."""
ABSENT = object()
KEEPING = (*DRAWING, bytearray, array.array, ContextVar, GeneratorType, ctypes._SimpleCData, SimpleQueue)
"""Whose instances all do."""


@lru_cache(maxsize=1 << 10)
def may_keep_state(kind: type) -> bool:
    """Whether some instance of a class may be such an object: of most classes none is, and that takes long to be found
    of each anew."""
    if issubclass(kind, (*KEEPING, np.ndarray, memoryview, *KINDS, io.IOBase)):
        return True
    return kind.__module__ in OF_PYTHON and issubclass(kind, Iterator)


OF_PYTHON = ("builtins", "itertools")
"""The modules of iterators of Python's own."""


def keeps_state(each: Any) -> bool:
    """Whether something is such an object, or draws numbers."""
    if not may_keep_state(type(each)):
        return False
    if isinstance(each, KEEPING):
        return True
    if isinstance(each, np.ndarray):
        return each.flags.writeable and not isinstance(each, np.memmap)  # a file, which may be of any size
    if isinstance(each, memoryview):
        return not each.readonly and each.c_contiguous
    kind = type(each)
    if isinstance(each, KINDS):
        return kind not in CONTAINERS
    if isinstance(each, io.IOBase):
        return is_read(each)
    return is_iterator(each)


def is_read(file: Any) -> bool:
    """Whether a file is one that is read from where it stands, and is not written."""
    in_memory = isinstance(file, io.StringIO | io.BytesIO)
    return not file.closed and file.readable() and file.seekable() and (in_memory or not file.writable())


def held_state(each: Any) -> Any:
    """Where such an object stands, or what it holds, so that two states can be compared by `same_state`."""
    if isinstance(each, DRAWING):
        return state_of(each)
    if isinstance(each, np.ndarray):
        if each.dtype.hasobject:
            return list(each.flat)
        return each.copy() if each.nbytes <= MOST else zlib.crc32(np.ascontiguousarray(each).data)
    if isinstance(each, BUFFERS):
        return bytes(each)
    if isinstance(each, ContextVar):
        return each.get(ABSENT)
    if isinstance(each, ctypes._SimpleCData):
        return each.value
    if isinstance(each, KINDS):
        return contents(each)
    if isinstance(each, SimpleQueue):
        return each.qsize()
    if isinstance(each, io.IOBase):
        return each.tell() if not each.closed else ABSENT
    return place_of(each)


def place_of(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Where an iterator stands: of a generator its line and what its variables hold, of one of Python's own what a copy
    of it would be made of; those inside it, and inside tuples and lists, are looked at likewise."""
    if id(value) in above or len(above) > DEEP:
        return value
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        parts: Any = (ABSENT,) if frame is None else (frame.f_lasti, *frame.f_locals.values(), value.gi_yieldfrom)
    elif is_iterator(value):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 and 3.13 say that itertools will not do so later
            try:
                parts = value.__reduce__()
            except TypeError:
                return value
    elif type(value) in (tuple, list):
        parts = value
    else:
        return copy_of(value) if type(value) in CONTAINERS else value
    return [place_of(each, (*above, id(value))) for each in parts]


def is_iterator(value: Any) -> bool:
    """Whether something is an iterator of Python's own."""
    return type(value).__module__ in OF_PYTHON and isinstance(value, Iterator)


def held_inside(each: Any) -> list[tuple[str, Any]]:
    """What such an object holds in which something may be changed, by what it is called."""
    if isinstance(each, GeneratorType):
        return [] if each.gi_frame is None else [*each.gi_frame.f_locals.items(), ("", each.gi_yieldfrom)]
    if isinstance(each, KINDS):
        return [(str(key), held) for key, held in by_key(contents(each)).items()]
    if isinstance(each, ContextVar):
        return [(each.name, each.get(None))]
    return [("", held) for held in place_of(each)] if is_iterator(each) and type(place_of(each)) is list else []


def kind_of(each: Any) -> Any:
    """Of which of Python's own kinds a dict, list or set is."""
    return next(kind for kind in (OrderedDict, *KINDS) if isinstance(each, kind))


def contents(each: Any) -> Any:
    """What a dict, list or set holds, in a plain one: its own methods are not asked."""
    kind = kind_of(each)
    return dict(kind.items(each)) if isinstance(each, dict) else (set if kind is set else list)(kind.__iter__(each))


def refill(each: Any, held: Any) -> None:
    """Has a dict, list or set hold that; its own methods are not asked."""
    kind = kind_of(each)
    kind.clear(each)
    (kind.extend if kind in (list, deque) else kind.update)(each, held)


DEEP = 8
"""Iterators inside so many others are not looked into."""


def same_state(one: Any, other: Any) -> bool:
    """Whether two states of one object are the same."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)))
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same_state, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same_state, one.values(), other.values()))
    return isinstance(one, int | float | complex | str | bytes | set) and one == other


def restore_held(each: Any, state: Any) -> bool:
    """Has an object stand where it stood, or hold what it held; whether it does. A counter, a queue, a generator,
    and most iterators cannot be put back."""
    if isinstance(each, DRAWING):
        restore_state(each, state)
    elif isinstance(each, np.ndarray):
        if isinstance(state, list):
            each[...] = np.asarray([None, *state], each.dtype)[1:].reshape(each.shape)
        elif not isinstance(state, int):
            each[...] = state
    elif isinstance(each, BUFFERS):
        memoryview(each).cast("B")[:] = state
    elif isinstance(each, ContextVar):
        with suppress(LookupError):  # of one that has no default: it cannot be without a value again
            each.set(Context().run(each.get) if state is ABSENT else state)
            return True
    elif isinstance(each, ctypes._SimpleCData):
        each.value = state
    elif isinstance(each, KINDS):
        refill(each, state)
    elif isinstance(each, io.IOBase):
        if state is not ABSENT and not each.closed:
            each.seek(state)
    elif isinstance(each, INDEXED) and len(state) > PLACE:
        each.__setstate__(state[PLACE])
    return same_held(each, held_state(each), state)


INDEXED = tuple(map(type, (iter([]), iter(()), iter(range(0)), iter(""), reversed([]))))
"""Iterators that say where they stand by one number, and take it again."""
PLACE = 2


def same_held(each: Any, one: Any, other: Any) -> bool:
    """Whether an object stands where it stood, or holds what it held."""
    return comparable(one) == comparable(other) if isinstance(each, DRAWING) else same_state(one, other)
