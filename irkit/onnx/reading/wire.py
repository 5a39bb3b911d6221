"""Large model files read without taking their weights into memory.

A protobuf message is a row of fields, each a tag, a length and that many bytes. The fields of the model and of its
graph are walked over here, a window of the file at a time, the content of large initializers is left where it is, and
only the rest is handed to protobuf.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from google.protobuf.message import DecodeError
from onnx import TensorProto

from irkit.core.blobs import Blob
from irkit.errors import LoadError
from irkit.onnx.reading.tensors import described_tensor, stored_blob
from irkit.onnx.writing.tensors import varint
from irkit.support.stored_files import Place, StoredFile

LARGE = 1 << 12
"""Initializers of fewer bytes are left in the message."""
_HIGH = LARGE >> 7
WINDOW, HEADER, HEAD = 1 << 14, 1 << 8, 32
"""Bytes of a file that are looked at together, and of an initializer before its content; of them the tag and the length
of a field take fewer than `HEAD`."""
_GRAPH, _NODE, _INITIALIZER, _RAW_DATA = 7, 1, 5, 9
_NUMBER, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}  # wire types of a fixed number of bytes

Field = tuple[int, int, int, int]
"""(number, start of the tag, start of the content, end)"""


def split_message(file: StoredFile) -> tuple[bytes, dict[str, Blob]]:
    """(message, blobs): a model's bytes without its large initializers, and these as lazy blobs by name.

    Raises DecodeError for bytes that are no message, LoadError for an initializer that contradicts itself, StaleError
    where the file is written meanwhile.
    """
    blobs: dict[str, Blob] = {}
    return without_large(file, blobs), blobs


def without_large(file: StoredFile, blobs: dict[str, Blob] | None = None) -> bytes:
    """A model's bytes without its large initializers, which are added to `blobs`, or left out altogether."""
    parts: list[bytes] = []
    for number, start, content, end in fields(file, 0, file.size):
        if number == _GRAPH and content > start:
            inner = list(graph_parts(file, content, end, blobs))
            parts += [varint(_GRAPH << 3 | _BYTES) + varint(sum(map(len, inner))), *inner]
        else:
            parts.append(file.peek(start, end - start))
    file.check()
    return b"".join(parts)


def nodes_in(file: StoredFile) -> int:
    """How many nodes the graph of a model has, those of bodies and functions not counted. Raises DecodeError for bytes
    that are no message."""
    graphs = (place for place in fields(file, 0, file.size) if place[0] == _GRAPH)
    return sum(field[0] == _NODE for _, _, start, stop in graphs for field in fields(file, start, stop))


def graph_parts(file: StoredFile, start: int, stop: int, blobs: dict[str, Blob] | None) -> Iterator[bytes]:
    """The pieces of a graph message without large initializers, which are added to `blobs`."""
    kept = start  # the pieces between large initializers are taken whole
    for number, begin, content, end in large_fields(file, start, stop):
        if number != _INITIALIZER:
            continue
        if blobs is not None:
            blob = blob_at(file, content, end)
            if blob is None:
                continue
            if blob.name in blobs:
                raise LoadError(f"the name {blob.name!r} is defined twice")
            blobs[blob.name] = blob
        if begin > kept:
            yield file.peek(kept, begin - kept)
        kept = end
    yield file.peek(kept, stop - kept)


def large_fields(file: StoredFile, start: int, stop: int, window: int = WINDOW, known: bytes = b"") -> Iterator[Field]:
    """The fields of at least `LARGE` bytes. Small ones, as the thousands of nodes of a graph are, are leapt over. The
    first bytes are not read again where they are `known`."""
    begin = start
    while begin < stop:
        data = known if known and begin == start else file.peek(begin, min(window, stop - begin))
        at, end = 0, stop - begin  # within the window
        count = len(data)
        limit = end if count == end else count - HEAD
        last = end - 2 if count == end else limit
        while at < limit:
            while at < last and data[at] & 0x87 == _BYTES:  # tags of one byte
                size = data[at + 1]
                if size < 0x80:
                    at += size + 2
                elif data[at + 2] < _HIGH:
                    at += (data[at + 2] << 7) + size - 0x7D
                else:
                    break
            if at >= limit:
                break
            if at < last and data[at] & 0x87 == _NUMBER and (data[at + 1] < 0x80 or data[at + 2] < 0x80):
                at += 2 if data[at + 1] < 0x80 else 3
                continue
            number, first, content, at = field_at(data, at, end)
            if at - content >= LARGE:
                yield number, begin + first, begin + content, begin + at
        begin += at
    if begin > stop:
        raise DecodeError("it ends inside a field")


def blob_at(file: StoredFile, start: int, stop: int) -> Blob | None:
    """The blob of a tensor message whose content stays where it lies; None where the content is not in one large field
    of raw data, and so is protobuf's to read."""
    head = file.peek(start, min(HEADER, stop - start))
    large = list(large_fields(file, start, stop, HEADER, head))
    if len(large) != 1 or large[0][0] != _RAW_DATA:
        return None
    ((_, begin, place, end),) = large
    try:
        rest = file.peek(end, stop - end) if stop > end else b""
        before = head[: begin - start] if begin - start <= len(head) else file.peek(start, begin - start)
        tensor = TensorProto.FromString(before + rest)
    except DecodeError as error:
        raise LoadError(f"an initializer is not a tensor: {error}") from error
    if tensor.HasField("raw_data"):
        return None
    (dtype, shape), name = described_tensor(tensor), tensor.name
    expected = (math.prod(shape) * dtype.bits + 7) // 8
    if end - place != expected or tensor.data_location == TensorProto.EXTERNAL:
        raise LoadError(f"the tensor {name!r} holds {end - place} bytes, where its shape and type say {expected}")
    return stored_blob(Place(file, place, head[place - start :]), dtype, shape, name)


def fields(file: StoredFile, start: int, stop: int) -> Iterator[Field]:
    """The fields of a message between two places. Raises DecodeError where they do not end there."""
    begin = start
    while begin < stop:
        data, at, end = file.peek(begin, min(WINDOW, stop - begin)), 0, stop - begin
        limit = end if len(data) == end else len(data) - HEAD
        while at < limit:
            number, first, content, at = field_at(data, at, end)
            yield number, begin + first, begin + content, begin + at
        begin += at


def field_at(data: bytes, begin: int, stop: int) -> Field:
    """The field that begins at a place. Raises DecodeError where it does not end before `stop`."""
    tag, at = number_at(data, begin, stop)
    kind = tag & 7
    if kind == 2:
        length, at = number_at(data, at, stop)
        end = at + length
    elif kind == 0:
        _, end = number_at(data, at, stop)
    elif kind in _FIXED:
        end = at + _FIXED[kind]
    else:
        raise DecodeError("it has a field of an unknown kind")
    if end > stop:
        raise DecodeError("it ends inside a field")
    return tag >> 3, begin, at, end


def number_at(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """(number, place after it): a number of seven bits a byte. Raises DecodeError where it has no end."""
    found = shift = 0
    while at < stop and shift < 64:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return found, at
        shift += 7
    raise DecodeError("it ends inside a number")
