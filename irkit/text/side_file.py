"""The file that holds the large blobs of a text: the safetensors format, written here so that nothing is copied.

The format: the length of a JSON header as 8 bytes, the header, the contents one behind the other. Each content has the
hex digest of its blob as its key. Element types that safetensors lacks, and strings, are kept as bytes (`U8`); the text
says what they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from irkit.core.blobs import COPIED, Blob, content, owned_blob
from irkit.core.types import DType
from irkit.errors import LoadError, ParseError
from irkit.support.files import atomic_write
from irkit.support.stored_files import Place, StoredFile, opened_file

HEADER = 100_000_000
"""A longer header is refused, as the safetensors library does."""

KINDS: Mapping[DType, str] = {
    DType.DOUBLE: "F64", DType.FLOAT: "F32", DType.FLOAT16: "F16", DType.BFLOAT16: "BF16",
    DType.FLOAT8E4M3FN: "F8_E4M3", DType.FLOAT8E5M2: "F8_E5M2", DType.BOOL: "BOOL",
    DType.INT64: "I64", DType.INT32: "I32", DType.INT16: "I16", DType.INT8: "I8",
    DType.UINT64: "U64", DType.UINT32: "U32", DType.UINT16: "U16", DType.UINT8: "U8",
}  # fmt: skip
"""The element types that safetensors has."""


@attrs.frozen(eq=False)
class Stored:
    """One content of a side file, not read yet: bytes `start` to `stop` of the file."""

    file: StoredFile
    start: int
    stop: int

    def blob(self, type_: Any) -> Blob:
        """The content as a blob of a tensor type. Raises LookupError where the bytes cannot be that."""
        dtype, shape = type_.dtype, type_.shape
        size = int(np.prod(shape, dtype=np.int64)) if len(shape) else 1
        if dtype is not DType.STRING and self.stop - self.start != size * dtype.numpy.itemsize:
            raise LookupError(
                f"{self.file.path.name} holds {self.stop - self.start} bytes for what the text calls {type_!r}"
            )
        if dtype is DType.STRING or self.stop - self.start <= COPIED:
            return owned_blob(self.array(dtype, shape), dtype)
        place = Place(self.file, self.start) if dtype.bits >= 8 else None  # others are packed in ONNX, and not here
        return Blob(dtype, shape, lambda: self.array(dtype, shape), watch=self.file, place=place)

    def array(self, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
        """The content. Raises StaleError where the file was written since it was opened."""
        if self.stop == self.start:
            return np.zeros(shape, dtype.numpy)
        found = self.file.read(self.start, self.stop - self.start)
        if dtype is not DType.STRING:
            return found.view(dtype.numpy).reshape(shape)
        flat = np.empty(int(np.prod(shape)), dtype=object)
        flat[:] = list(strings_of(found.tobytes()))
        return flat.reshape(shape)


def strings_of(data: bytes) -> Iterator[str | bytes]:
    """The strings that `irkit.core.blobs.content` joined; bytes where they are no UTF-8."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        item = data[at + 8 : at + 8 + length]
        at += 8 + length
        try:
            yield item.decode()
        except UnicodeDecodeError:
            yield item


def write_side_file(path: Path, blobs: Iterable[Blob]) -> None:
    """Writes each content once; the file is there whole, or not at all."""
    distinct = {blob.digest.hex(): blob for blob in blobs}
    header: dict[str, Any] = {"__metadata__": {"format": "irkit"}}
    end = 0
    for key, blob in distinct.items():
        kind = KINDS.get(blob.dtype)
        plain = blob.dtype is not DType.STRING
        count = blob.size * blob.dtype.numpy.itemsize if plain else len(content(blob.array))
        header[key] = {
            "dtype": kind or "U8",
            "shape": list(blob.shape) if kind else [count],
            "data_offsets": [end, end + count],
        }
        end += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with atomic_write(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for blob in distinct.values():
            if blob.dtype is DType.STRING:
                file.write(content(blob.array))
            else:
                for chunk in blob.chunks():
                    file.write(chunk)


def read_side_file(path: Path) -> dict[str, Stored]:
    """The contents by key; only the header is read. Raises ParseError for what is no such file."""
    try:
        file = opened_file(path.resolve(), "the side file")
        size = file.size
        length = int.from_bytes(file.peek(0, min(8, size)), "little")
        if not 2 <= length <= min(HEADER, size - 8):
            raise ValueError("its header is longer than the file")
        header = json.loads(file.peek(8, length))
        file.check()
        found = {key: Stored(file, *entry["data_offsets"]) for key, entry in header.items() if key != "__metadata__"}
        start = 8 + length
        found = {key: Stored(file, start + s.start, start + s.stop) for key, s in found.items()}
        if any(not start <= s.start <= s.stop <= size for s in found.values()):
            raise ValueError("it says that contents lie outside of it")
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = error.what if isinstance(error, LoadError) else error
        raise ParseError(
            f"{path.name} cannot be read as a file of contents: {why}",
            hint="take the file that was written with the text",
        ) from error
    return found
