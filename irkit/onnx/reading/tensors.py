"""Tensor messages as lazy blobs. Everything a file declares is checked against what it holds before memory is taken."""

from __future__ import annotations

import math
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import onnx.numpy_helper
from onnx import SparseTensorProto, TensorProto

from irkit.core.blobs import COPIED, Blob, blob, owned_blob
from irkit.core.types import DType
from irkit.errors import LoadError
from irkit.onnx.writing.identities import require_written_together
from irkit.onnx.writing.tensors import unpacked_bits
from irkit.support.counts import count_text
from irkit.support.stored_files import Place, StoredFile, opened_file

_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
_STRING, _EXTERNAL = DType.STRING, TensorProto.EXTERNAL  # read once: each takes as long to find as a field to read
_DTYPES = {int(dtype): dtype for dtype in DType}
MAX_RANK = 64
"""Of a tensor in a file."""
_MOST_ELEMENTS = 1 << 58
"""Of an empty array, but for the axes of size 0: numpy asks that all of them could be in memory."""
_DENSE_LIMIT = 1 << 28
"""Elements that a sparse tensor may have once it is dense: its file is much smaller than its memory."""


class Files:
    """The files beside one model, each opened once, and only where it lies in the model's own folder.

    Hubs keep files in a store and give a folder of links into it: `store` is the folder that a link to the model itself
    leads to, and links to weights may lead there too. `identity` is that of the weights' file, if the model says it.
    """

    def __init__(self, folder: Path | None, store: Path | None = None, identity: str | None = None) -> None:
        self.folder = folder
        self.store = store
        self.identity = identity
        self._opened: dict[str, StoredFile] = {}
        self._sources: dict[Hashable, object] = {}

    def file(self, location: str, where: str) -> StoredFile:
        """A file by its place in the folder. Raises LoadError for a path that leaves it, and for another model's."""
        if location not in self._opened:
            opened = opened_file(self._path(location, where), where)
            require_written_together(opened, self.identity)
            self._opened[location] = opened
        return self._opened[location]

    def source(self, *place: Hashable) -> object:
        """One object for each place in a file, so that tensors that share it are known to."""
        return self._sources.setdefault(place, object())

    def _path(self, location: str, where: str) -> Path:
        hint = "weights must lie in the folder of the model, under a relative path"
        if self.folder is None:
            raise LoadError(
                f"{where} has its content in the file {location!r}, and the model came without a folder",
                hint="load the model from its path",
            )
        parts = location.replace("\\", "/").split("/")
        if not location or location.startswith(("/", "\\")) or ".." in parts or "\0" in location or ":" in parts[0]:
            raise LoadError(
                f"{where} has its content in {location!r}, which is not a path inside the folder", hint=hint
            )
        folder = self.folder.resolve()
        try:
            real = (folder / location).resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            why = getattr(error, "strerror", "") or error
            raise LoadError(
                f"{where} has its content in {location!r}, which cannot be opened: {why}",
                hint="put the file of weights beside the model, under this name",
            ) from error
        if not real.is_relative_to(folder) and real.parent != self.store:
            raise LoadError(f"{where} has its content in {location!r}, a link out of the folder", hint=hint)
        return real


def blob_of(tensor: TensorProto, files: Files, name: str = "", where: str = "") -> Blob:
    """The blob that reads a tensor message when asked. Raises LoadError where the message contradicts itself."""
    dtype, shape = described_tensor(tensor, where)
    count = math.prod(shape)
    if tensor.HasField("raw_data") and tensor.data_location != _EXTERNAL and dtype is not _STRING:
        expected = (count * dtype.bits + 7) // 8
        raw = tensor.raw_data  # a copy: the message itself is not kept alive
        if len(raw) != expected:
            where = where or f"the tensor {tensor.name!r}"
            raise LoadError(f"{where} holds {count_text(len(raw), 'byte')}, where its shape and type say {expected}")
        return Blob(dtype, shape, lambda: from_bytes(raw, dtype, shape, 0), name)
    where = where or f"the tensor {tensor.name!r}"
    if tensor.data_location == _EXTERNAL:
        return external_blob(tensor, dtype, shape, count, files, name, where)
    if dtype is _STRING:
        if len(tensor.string_data) != count:
            raise LoadError(
                f"{where} holds {count_text(len(tensor.string_data), 'string')}, where its shape says {count}"
            )
        texts = strings(tensor, shape)
        return owned_blob(texts, dtype, name)
    held = sum(len(getattr(tensor, field)) for field in _FIELDS)
    width = 2 if dtype.is_complex else 1
    packed_ok = dtype.bits < 8 and held == (count * dtype.bits + 7) // 8
    if held != count * width and not packed_ok:
        raise LoadError(f"{where} holds {held} numbers, where its shape says {count * width}")
    return owned_blob(from_fields(tensor, dtype, shape, where), dtype, name)


def described_tensor(tensor: TensorProto, where: str = "") -> tuple[DType, tuple[int, ...]]:
    """The element type and the shape that a message states. Raises LoadError for what no tensor has."""
    dtype, shape = _DTYPES.get(tensor.data_type), tuple(tensor.dims[:])
    if 0 in shape and len(shape) <= MAX_RANK and min(shape) >= 0 and math.prod(filter(None, shape)) >= _MOST_ELEMENTS:
        where = where or f"the tensor {tensor.name!r}"
        raise LoadError(f"{where} has the shape {shape[:MAX_RANK]}, which no array in memory has")
    if dtype is None or len(shape) > MAX_RANK or (shape and min(shape) < 0) or tensor.HasField("segment"):
        where = where or f"the tensor {tensor.name!r}"
        element_type(tensor.data_type, where)
        if tensor.HasField("segment"):
            raise LoadError(
                f"{where} is a segment of a tensor, which irkit does not read",
                hint="write the model again with whole tensors: onnx.save",
            )
        raise LoadError(f"{where} has the impossible shape {shape[:MAX_RANK]}")
    return dtype, shape


def element_type(number: int, where: str) -> DType:
    """The element type of an ONNX number. Raises LoadError for one that irkit does not know."""
    found = _DTYPES.get(number)
    if found is None:
        raise LoadError(f"{where} has the unknown element type {number}")
    return found


def external_blob(
    tensor: TensorProto, dtype: DType, shape: tuple[int, ...], count: int, files: Files, name: str, where: str
) -> Blob:
    """The blob whose content lies in a file beside the model; its place is checked against the file's size."""
    if dtype is DType.STRING:
        raise LoadError(f"{where}: strings cannot lie beside the model")
    entries = {entry.key: entry.value for entry in tensor.external_data}
    expected = (count * dtype.bits + 7) // 8
    offset = whole_number(entries.get("offset", "0"), where)
    length = whole_number(entries.get("length", str(expected)), where)
    if length != expected:
        raise LoadError(f"{where} says that it has {length} bytes, where its shape and type say {expected}")
    location: Any = entries.get("location", "")  # what is no UTF-8, protobuf gives as bytes
    if not isinstance(location, str):
        raise LoadError(f"{where} has its content in {location!r}, which is no text")
    file = files.file(location, where)
    if offset + length > file.size:
        raise LoadError(
            f"{where} ends at byte {offset + length} of {location!r}, which has {file.size}",
            hint="see whether the file of weights is the one that was written with the model, and whole",
        )
    source = files.source(location, offset, dtype, shape)
    return stored_blob(Place(file, offset), dtype, shape, name, source)


def stored_blob(place: Place, dtype: DType, shape: tuple[int, ...], name: str = "", source: object = None) -> Blob:
    """The blob of what lies in a file: read at once where it is small, and else when it is asked for."""
    size = (math.prod(shape) * dtype.bits + 7) // 8

    def load() -> np.ndarray:
        return from_bytes(place.file.read(place.start, size), dtype, shape, 0)

    if size <= COPIED:
        return owned_blob(load(), dtype, name, source)
    return Blob(dtype, shape, load, name, source, watch=place.file, place=place)


def whole_number(text: str, where: str) -> int:
    """A non-negative decimal number from a file."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise LoadError(f"{where} gives {text[:40]!r} for an offset or a length")
    return int(text)


def from_bytes(data: Any, dtype: DType, shape: tuple[int, ...], offset: int) -> np.ndarray:
    """The array in a buffer: a view of it, but for elements narrower than a byte, which are unpacked."""
    count = math.prod(shape)
    if count == 0:
        return np.zeros(shape, dtype=dtype.numpy)
    if dtype.bits < 8:
        stored = np.frombuffer(data, dtype=np.uint8, count=(count * dtype.bits + 7) // 8, offset=offset)
        return unpacked_bits(stored, dtype, count).reshape(shape)
    return np.frombuffer(data, dtype=dtype.numpy, count=count, offset=offset).reshape(shape)


def strings(tensor: TensorProto, shape: tuple[int, ...]) -> np.ndarray:
    """The array of a tensor of strings; bytes that are no UTF-8 are kept as surrogates."""
    found = np.empty(len(tensor.string_data), dtype=object)
    for index, item in enumerate(tensor.string_data):
        found[index] = item.decode("utf-8", "surrogateescape")
    return found.reshape(shape)


def from_fields(tensor: TensorProto, dtype: DType, shape: tuple[int, ...], where: str) -> np.ndarray:
    """The array of a tensor whose numbers stand in typed fields."""
    try:
        return onnx.numpy_helper.to_array(tensor).astype(dtype.numpy, copy=False).reshape(shape)
    except (TypeError, ValueError) as error:
        raise LoadError(f"{where} cannot be read: {error}") from error


def dense(sparse: SparseTensorProto, files: Files, name: str = "") -> Blob:
    """A sparse tensor as a dense blob. Raises LoadError for indices outside its shape, or a huge dense form."""
    where = f"the sparse tensor {sparse.values.name!r}"
    shape = tuple(sparse.dims)
    if len(shape) > MAX_RANK or any(d < 0 for d in shape):
        raise LoadError(f"{where} has the impossible shape {shape[:MAX_RANK]}")
    if math.prod(shape) > _DENSE_LIMIT:
        raise LoadError(
            f"{where} would have {math.prod(shape)} elements, more than irkit makes dense",
            hint="make the model with a dense initializer, or none of that size",
        )
    values, indices = blob_of(sparse.values, files, where=where), blob_of(sparse.indices, files, where=where)
    if len(values.shape) != 1 or indices.dtype is not DType.INT64 or indices.shape[:1] != values.shape:
        raise LoadError(f"{where} has values of shape {values.shape} and indices of shape {indices.shape}")
    flat = indices.array
    if flat.ndim == 2 and flat.shape[1] == len(shape):
        inside = bool(((flat >= 0) & (flat < np.array(shape, dtype=np.int64))).all())
        flat = np.ravel_multi_index(tuple(flat.T), shape) if inside and len(flat) else np.zeros(0, np.int64)
    else:
        inside = flat.ndim == 1 and bool(((flat >= 0) & (flat < math.prod(shape))).all())
    if not inside:
        raise LoadError(f"{where} has indices outside the shape {shape}")
    array = np.zeros(math.prod(shape), dtype=values.dtype.numpy)
    array[flat] = values.array
    return blob(array.reshape(shape), values.dtype, name)
