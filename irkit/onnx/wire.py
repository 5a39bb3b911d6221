"""Large model files read without taking their weights into memory.

A protobuf message is a row of fields, each a tag, a length and that many bytes. The fields of the model and of its
graph are walked over here, the content of large initializers is left where it is in the mapped file, and only the rest
is handed to protobuf.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from onnx import TensorProto

from irkit.blobs import Blob
from irkit.errors import LoadError
from irkit.onnx.read_tensors import described, from_bytes
from irkit.onnx.tensors import varint

LARGE = 1 << 12
"""Initializers of fewer bytes are left in the message."""
_GRAPH, _NODE, _INITIALIZER, _RAW_DATA = 7, 1, 5, 9
_NUMBER, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}  # wire types of a fixed number of bytes

Field = tuple[int, int, int, int]
"""(number, start of the tag, start of the content, end)"""


def split(data: Any) -> tuple[bytes, dict[str, Blob]]:
    """(message, blobs): a model's bytes without its large initializers, and these as lazy blobs by name.

    `data` is a buffer that stays open as long as the blobs. Raises DecodeError for bytes that are no message, LoadError
    for an initializer that contradicts itself.
    """
    blobs: dict[str, Blob] = {}
    parts: list[Any] = []
    view = memoryview(data)  # slices of it copy nothing
    for number, start, content, end in fields(data, 0, len(data)):
        if number == _GRAPH and content > start:
            inner = list(graph_parts(view, content, end, blobs))
            parts += [varint(_GRAPH << 3 | _BYTES) + varint(sum(map(len, inner))), *inner]
        else:
            parts.append(view[start:end])
    return b"".join(parts), blobs


def nodes_in(data: Any) -> int:
    """How many nodes the graph of a model has, those of bodies and functions not counted. Raises DecodeError for bytes
    that are no message."""
    graphs = (place for place in fields(data, 0, len(data)) if place[0] == _GRAPH)
    return sum(field[0] == _NODE for _, _, start, stop in graphs for field in fields(data, start, stop))


def graph_parts(data: Any, start: int, stop: int, blobs: dict[str, Blob]) -> Iterator[Any]:
    """The pieces of a graph message without large initializers, which are added to `blobs`."""
    kept = start  # the pieces between large initializers are taken whole
    for number, begin, content, end in large_fields(data, start, stop):
        blob = blob_at(data, content, end) if number == _INITIALIZER else None
        if blob is None:
            continue
        if blob.name in blobs:
            raise LoadError(f"the name {blob.name!r} is defined twice")
        blobs[blob.name] = blob
        yield data[kept:begin]
        kept = end
    yield data[kept:stop]


def large_fields(data: Any, start: int, stop: int) -> Iterator[Field]:
    """The fields of at least `LARGE` bytes. Small ones, as the thousands of nodes of a graph are, are leapt over."""
    at, last = start, stop - 2
    while at < stop:
        kind = data[at] & 0x87  # of tags of one byte
        if kind == _BYTES and at < last:
            size = data[at + 1]
            if size < 0x80:
                at += size + 2
                continue
            high = data[at + 2]
            if high < LARGE >> 7:
                at += (high << 7) + size - 0x7D
                continue
        elif kind == _NUMBER and at < last and min(data[at + 1], data[at + 2]) < 0x80:
            at += 2 if data[at + 1] < 0x80 else 3
            continue
        field = field_at(data, at, stop)
        at = field[3]
        if at - field[2] >= LARGE:
            yield field
    if at > stop:
        raise DecodeError("it ends inside a field")


def blob_at(data: Any, start: int, stop: int) -> Blob | None:
    """The blob of a tensor message whose content stays where it lies; None where the content is not in one large field
    of raw data, and so is protobuf's to read."""
    large = list(large_fields(data, start, stop))
    if len(large) != 1 or large[0][0] != _RAW_DATA:
        return None
    ((_, begin, place, end),) = large
    try:
        tensor = TensorProto.FromString(bytes(data[start:begin]) + bytes(data[end:stop]))
    except DecodeError as error:
        raise LoadError(f"an initializer is no tensor: {error}") from error
    if tensor.HasField("raw_data"):
        return None
    (dtype, shape), name = described(tensor), tensor.name
    expected = (math.prod(shape) * dtype.bits + 7) // 8
    if end - place != expected or tensor.data_location == TensorProto.EXTERNAL:
        raise LoadError(f"the tensor {name!r} holds {end - place} bytes, where its shape and type say {expected}")
    return Blob(dtype, shape, lambda: from_bytes(data, dtype, shape, place), name)


def fields(data: Any, start: int, stop: int) -> Iterator[Field]:
    """The fields of a message between two places. Raises DecodeError where they do not end there."""
    at = start
    while at < stop:
        field = field_at(data, at, stop)
        yield field
        at = field[3]


def field_at(data: Any, begin: int, stop: int) -> Field:
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


def number_at(data: Any, at: int, stop: int) -> tuple[int, int]:
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
