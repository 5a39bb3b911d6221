"""Blobs as ONNX tensors and back: bytes in file order, packed where elements are narrower than a byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from onnx import TensorProto

from irkit.core.blobs import SMALL, Blob
from irkit.core.types import DType
from irkit.errors import SerializeError
from irkit.support.counts import count_text

ROWS, COLUMNS = 128, 256
"""Rows and columns of a tile in which a transposed matrix is copied."""

PADDING = 24
"""Elements between the rows of a tile, which would otherwise fall on the same few lines of the cache."""

CHUNK = 1 << 24
"""Bytes of a tensor that are copied at a time where a copy cannot be avoided."""


def header(blob: Blob, name: str = "") -> TensorProto:
    """The tensor message without its content."""
    return TensorProto(name=name, data_type=int(blob.dtype), dims=blob.shape)


def tensor_proto(blob: Blob, name: str = "") -> TensorProto:
    """The tensor message with its content; copies it, since a message owns its bytes."""
    made = header(blob, name)
    if blob.dtype is DType.STRING:
        made.string_data.extend(_encoded(item) for item in blob.array.ravel())
    elif blob.nbytes <= SMALL and blob.dtype.bits >= 8:
        made.raw_data = blob.array.tobytes()
    else:
        made.raw_data = b"".join(bytes(chunk) for chunk in chunks(blob))
    return made


def _encoded(item: object) -> bytes:
    if isinstance(item, bytes):
        return item
    try:
        return str(item).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise SerializeError(
            f"the string {item!r} cannot be written as UTF-8", hint="encode or replace its lone surrogates first"
        ) from error


def pieces(blob: Blob) -> tuple[Blob, ...]:
    """The blobs whose contents one after the other are that of a blob: itself, or what it was joined of."""
    return blob.parts if blob.parts and blob.dtype.bits >= 8 else (blob,)


def chunks(blob: Blob) -> Iterator[bytes | memoryview]:
    """The content as buffers in file order, each valid until the next one is asked for: one view of the array's own
    memory where that is possible, else pieces of about `CHUNK` bytes at most. Raises ValueError for strings, which have
    no raw form."""
    if blob.dtype is DType.STRING:
        raise ValueError("strings have no raw form")
    if pieces(blob) != (blob,):
        for part in pieces(blob):
            yield from chunks(part)
        return
    bits = blob.dtype.bits
    if blob.place is not None and not blob.is_kept:
        yield from blob.place.chunks(blob.nbytes)
        return
    if bits >= 8 and blob.by_rows is not None:
        yield from (raw(np.ascontiguousarray(rows)) for rows in blob.rows())
        return
    if bits >= 8 and blob.turned is not None and blob.turned.parts:  # side by side: turned without being joined first
        lying = [part.read() for part in blob.turned.parts]
        if all(is_turned(each.T) for each in lying):
            yield from map(raw, turned_rows(lying))
            return
    array = blob.array if blob.nbytes <= SMALL else blob.read()
    if bits >= 8 and array.flags.c_contiguous:
        yield raw(array)
        return
    if bits >= 8 and is_turned(array):
        for index in np.ndindex(array.shape[:-2]):
            yield from map(raw, turned_rows([array[index].T]))
        return
    per_step = max(1, CHUNK // array.dtype.itemsize) // 8 * 8  # a multiple of 8 elements fills whole bytes
    for piece in _flat_pieces(array, max(per_step, 8)):
        yield (piece.view(np.uint8) if bits >= 8 else packed_bits(piece.view(np.uint8), bits)).data


def raw(array: np.ndarray) -> memoryview:
    """The memory of an array without gaps, as bytes."""
    return array.reshape(-1).view(np.uint8).data


def _flat_pieces(array: np.ndarray, step: int) -> Iterator[np.ndarray]:
    """The elements in C order, `step` at a time, without ever copying the whole array."""
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        for start in range(0, flat.size, step):
            yield flat[start : start + step]
        return
    for start in range(0, array.size, step):
        yield _slab(array, start, min(start + step, array.size))


def _slab(array: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Elements start..stop in C order, read from the rows of the first axis that hold them."""
    row = array[0].size
    first, last = start // row, -(-stop // row)
    rows = np.ascontiguousarray(array[first:last]).reshape(-1)
    return rows[start - first * row : stop - first * row]


def is_turned(array: np.ndarray) -> bool:
    """True for matrices, alone or stacked, that lie in memory column by column."""
    if array.ndim < 2 or min(array.shape) == 0 or min(array.shape[-2:]) < COLUMNS // 4:
        return False
    return array.strides[-2] == array.itemsize and array.strides[-1] >= array.shape[-2] * array.itemsize


def turned_rows(lying: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """The rows of the transpose of matrices that stand one below the other, some at a time, in a buffer that is used
    again.

    Each tile is copied twice: as it lies, which reads memory in long runs, and then turned within the cache. Turning it
    where it lies takes more than twice the time.
    """
    count, dtype = lying[0].shape[1], lying[0].dtype
    columns = sum(matrix.shape[0] for matrix in lying)
    step = min(ROWS, max(16, CHUNK // (columns * dtype.itemsize) // 16 * 16))
    buffer = np.empty((min(step, count), columns), dtype)
    near = np.empty((COLUMNS, step + PADDING), dtype)
    for start in range(0, count, step):
        rows, left = buffer[: count - start], 0
        for matrix in lying:
            for top in range(0, len(matrix), COLUMNS):
                source = matrix[top : top + COLUMNS, start : start + step]
                tile = near[: len(source), : source.shape[1]]
                tile[...] = source
                rows[:, left : left + len(source)] = tile.T
                left += len(source)
        yield rows


def packed_bits(elements: np.ndarray, bits: int) -> np.ndarray:
    """Elements of one byte each as `bits` bits each, the first in the lowest bits, the last byte filled with zeros."""
    mask = (1 << bits) - 1
    if bits in (2, 4):
        per = 8 // bits
        padded = np.zeros(-(-elements.size // per) * per, dtype=np.uint8)
        padded[: elements.size] = elements & mask
        parts = padded.reshape(-1, per)
        shifts = np.arange(per, dtype=np.uint8) * bits
        return np.bitwise_or.reduce(parts << shifts, axis=1).astype(np.uint8)
    unpacked = np.unpackbits(elements.reshape(-1, 1), axis=1, bitorder="little")[:, :bits]
    return np.packbits(unpacked.reshape(-1), bitorder="little")


def unpacked_bits(data: np.ndarray, dtype: DType, count: int) -> np.ndarray:
    """`count` elements of fewer than 8 bits from their packed bytes, one byte each. Raises ValueError for too few."""
    bits = dtype.bits
    if data.size * 8 < count * bits:
        raise ValueError(f"{data.size} bytes hold fewer than {count_text(count, 'element')} of {bits} bits")
    each = np.unpackbits(data[: -(-count * bits // 8)], bitorder="little")[: count * bits].reshape(count, bits)
    values = np.packbits(each, axis=1, bitorder="little").reshape(-1)[:count]
    return values.view(dtype.numpy)


def varint(number: int) -> bytes:
    """A length as protobuf writes it: seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
