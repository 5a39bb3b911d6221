"""Writing a model to files: weights go from their own memory to the disk, inside the model or beside it.

A protobuf message is the concatenation of its fields, so a model with its weights inside is written piece by piece as
well: no weight is ever copied, and memory above the weights stays at the size of the model without them.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO, Any, Literal, cast

import attrs
from onnx import ModelProto, StringStringEntryProto, TensorProto

from irkit.core.blobs import SMALL, Blob
from irkit.core.ir import Graph, require_graph
from irkit.core.types import DType
from irkit.errors import SerializeError
from irkit.onnx.weight_files import beside, inside
from irkit.onnx.writing.identities import IDENTITY_KEY, MARK, Identity
from irkit.onnx.writing.models import TOO_LARGE, skeleton, weights_of
from irkit.onnx.writing.tensors import chunks, header, pieces, tensor_proto, varint
from irkit.support.arguments import path_of
from irkit.support.files import atomic_write, replaceable, write_together

AUTO_LIMIT = 1_500_000_000
"""Weights of more bytes than this go beside the model where `external` is "auto"."""
PAGE = 4096
"""Alignment of tensors of at least that many bytes beside the model, so that they can be mapped into memory."""
GATHERED = 1 << 20
"""Bytes of weights that are held at a time, to be written together: few, since the memory of those that are computed
serves the next ones, which takes half the time that new memory takes."""

RESERVED = 1 << 20
"""Files of at least that many bytes have their room on the disk reserved before they are written."""

_GRAPH, _INITIALIZER, _RAW_DATA = b"\x3a", b"\x2a", b"\x4a"  # field numbers 7, 5 and 9, each with a length


@attrs.frozen
class Form:
    """The form of a model's files: what `irkit.save` takes beside the graph and its path, and describes."""

    external: bool | Literal["auto"] = "auto"
    size_threshold: int = 1024
    opset: int | None = None
    ir_version: int | None = None
    functions: bool = False


def write_model(graph: Graph, path: str | os.PathLike[str], form: Form) -> None:
    """Writes the graph as an ONNX model, as `irkit.save` does, which says what is raised.

    Weights beside the model go to `<path>.data`, and where that was saved before to `<path>.1.data` and so on: a name
    is not used again, so that no model ever names another's weights.
    """
    require_graph(graph)
    external = form.external
    target = path_of(path, SerializeError)
    if not target.name:
        raise SerializeError(f"{str(path)!r} names no file", hint="give the name of a file")
    given = cast(object, external)
    if not isinstance(given, bool) and not (isinstance(given, str) and given == "auto"):
        raise SerializeError(f"external is {external!r}", hint='give True, False or "auto"')
    target = replaceable(target)
    total = sum(blob.nbytes for blob in weights_of(graph))
    apart = total > AUTO_LIMIT if external == "auto" else bool(external)
    with (beside if apart else inside)(target) as data_file:
        plan = Plan(Path(data_file.name).name if data_file else "", form.size_threshold if apart else None)
        model = skeleton(graph, opset=form.opset, ir_version=form.ir_version, sink=plan.sink, functions=form.functions)
        with atomic_write(target) as model_file:
            if data_file and plan.external:
                model.metadata_props.add(key=IDENTITY_KEY, value=write_external(data_file, plan.external))
            write_message(model_file, model, plan.streamed)
            graph.check_contents()  # while it was written, too


@attrs.define(eq=False)
class Plan:
    """Where each initializer goes: beside the file from `threshold` bytes on, streamed into it, or, where it is small,
    in the message."""

    location: str
    threshold: int | None
    external: list[tuple[Blob, int]] = attrs.field(factory=list[tuple[Blob, int]])
    streamed: list[tuple[TensorProto, Blob]] = attrs.field(factory=list[tuple[TensorProto, Blob]])
    end: int = len(MARK)

    def sink(self, blob: Blob, name: str) -> TensorProto | None:
        """The message of one initializer, or None for one that is streamed."""
        if blob.dtype is DType.STRING:
            return tensor_proto(blob, name)
        if self.threshold is not None and blob.nbytes >= self.threshold and blob.nbytes > 0:
            step = PAGE if blob.nbytes >= PAGE else 64
            offset = -(-self.end // step) * step
            self.end = offset + blob.nbytes
            self.external.append((blob, offset))
            return external_proto(blob, name, self.location, offset)
        if blob.nbytes <= SMALL:
            return tensor_proto(blob, name)
        self.streamed.append((header(blob, name), blob))
        return None


def external_proto(blob: Blob, name: str, location: str, offset: int) -> TensorProto:
    """The tensor message that says where beside the model its content is."""
    made = header(blob, name)
    made.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(blob.nbytes))):
        made.external_data.append(StringStringEntryProto(key=key, value=value))
    return made


def write_external(file: IO[bytes], placed: list[tuple[Blob, int]], identity: str = "") -> str:
    """Writes `MARK`, the identity of the file, and each blob at its offset; the gaps are zeros. Returns the identity,
    which is gathered on the way where none is given."""
    file.write(MARK)
    file.flush()  # from now on the file is known to be irkit's
    position, made = len(MARK), Identity()
    reserve(file, placed[-1][1] + placed[-1][0].nbytes)
    for blob, offset in placed:
        file.write(bytes(offset - position))
        made.place(blob, offset)
        for chunk in chunks(blob):
            file.write(chunk)
            made.sample(chunk)
        position = offset + blob.nbytes
    file.seek(len(MARK))
    file.write((identity or made.text).encode())
    file.seek(position)
    return identity or made.text


def write_message(file: IO[bytes], model: ModelProto, streamed: list[tuple[TensorProto, Blob]]) -> None:
    """Writes the model, with the streamed tensors as further initializers. Empties `model.graph`."""
    graph = model.graph.SerializeToString(deterministic=True)
    model.ClearField("graph")
    rest = model.SerializeToString(deterministic=True)
    openings, inside = list[bytes](), len(graph)
    for made, blob in streamed:
        size = blob.nbytes
        head = made.SerializeToString(deterministic=True) + _RAW_DATA + varint(size)
        openings.append(_INITIALIZER + varint(len(head) + size) + head)
        inside += len(openings[-1]) + size
    if inside + len(rest) + 16 > TOO_LARGE:
        raise SerializeError(
            f"the model takes {inside} bytes, and one file holds less than 2 GiB", hint="save it with external=True"
        )
    start = rest + _GRAPH + varint(inside)
    reserve(file, len(start) + inside)
    held: list[Any] = [start, graph]
    size = 0
    for opening, (_, blob) in zip(openings, streamed, strict=True):
        held.append(opening)
        for piece in pieces(blob):
            for chunk in chunks(piece):
                held.append(chunk)
                size += len(chunk)
                if size >= GATHERED or len(chunk) < piece.nbytes:  # of which the next one may take the memory
                    write_together(file, held)
                    held, size = [], 0
    write_together(file, held)


def reserve(file: IO[bytes], size: int) -> None:
    """Asks for the room that a large file will take, at once: writing into it takes a quarter less time, and a disk
    that is too small refuses before the work rather than after it. Where a file system cannot, it is written as it is.
    """
    if size >= RESERVED and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
