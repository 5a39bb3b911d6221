"""The front door for ONNX models: paths, bytes, messages, and models of other libraries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from google.protobuf.message import DecodeError
from onnx import ModelProto

from irkit.core.ir import Graph
from irkit.core.operator_names import Dialects
from irkit.errors import LoadError
from irkit.nodes.operators import operators_in
from irkit.onnx.onnx_ir import from_onnx_ir
from irkit.onnx.reading.models import no_model, parsed_model, read_model
from irkit.onnx.reading.nodes import PLAIN, LoadForm
from irkit.onnx.reading.wire import split_message
from irkit.support.arguments import type_text
from irkit.support.stored_files import opened_file
from irkit.support.uncollected import without_collector

MARK = b"irkit."
"""What stands in a file where a node of it has metadata of irkit's."""

TORCH = "pytorch"
"""The producer of files that torch wrote, whose nodes have much metadata, and none of irkit's."""

LARGE = 1 << 20
"""Of files of at least that many bytes the weights are left in them."""


@without_collector
def load(source: object, *, inline: bool = True, notes: bool = False, dialects: Dialects = None) -> Graph:
    """The graph of an ONNX model.

    Args:
        source: the path of a file, a ModelProto, its bytes, or an `onnx_ir.Model`. Weights beside the model are read
            only from the folder of the path (or, where the path is a link, from the folder that it leads to). Large
            weights are read when they are asked for. A file that another program writes from then on is noticed, and
            refused with StaleError; one that takes its place leaves the graph as it is.
        inline: False keeps each call of a local function as a Call, whose body is the function for operands of those
            types, with the attributes of the call; `irkit.save(functions=True)` writes them as functions again. A
            function is written out all the same where types of its results hang on more than those of its operands.
        dialects: operators of your own (`irkit.dialect`), one dialect or several, which nodes of their names become.
            A local function that has the name of one is left aside.
        notes: True keeps the names, texts and metadata of nodes, which are written again by `irkit.save`.

    Operators of older opsets are upgraded, local functions written out, bodies closed, and sizes that the model
    computes folded into dimensions. An initializer that is also an input is a weight. Dimensions keep their names; one
    without a name gets `<input>_dim<axis>`. Raises LoadError for what is no such model, or cannot be held by a Graph.
    """
    form = LoadForm(inline, notes, operators_in(dialects)) if dialects is not None else LoadForm(inline, notes)
    if isinstance(source, ModelProto):
        return read_model(source, None, noted=source.producer_name != TORCH, form=form)
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(cast("bytes | bytearray | memoryview[int]", source))
        model = parsed_model(data, "the bytes")
        return read_model(model, None, noted=marked(model, data), form=form)
    if isinstance(source, (str, os.PathLike)):
        return read_file(Path(cast("str | os.PathLike[str]", source)), form)
    if type(source).__module__.partition(".")[0] == "onnx_ir":
        return from_onnx_ir(source, form)
    raise LoadError(
        f"irkit cannot load {type_text(source)}", hint="give a path, a ModelProto, bytes or an onnx_ir.Model"
    )


def read_file(path: Path, form: LoadForm = PLAIN) -> Graph:
    """The graph of a model file. Raises LoadError for what cannot be read or is not a model."""
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size < LARGE else b""
    except (OSError, ValueError) as error:
        raise LoadError(
            f"the file {str(path)!r} cannot be read: {getattr(error, 'strerror', '') or error}",
            hint="see whether the path is right, and the file yours to read",
        ) from error
    linked = path.is_symlink()
    blobs, real, what = None, path.resolve() if linked else path, f"the file {path.name!r}"
    if size >= LARGE:
        try:
            data, blobs = split_message(opened_file(real, "the model"))
        except DecodeError as error:
            raise hinted(no_model(what, error), path) from error
    try:
        model = parsed_model(data, what)
    except LoadError as error:
        raise hinted(error, path) from error
    store = real.parent if linked else None
    return read_model(model, path.absolute().parent, blobs, store=store, noted=marked(model, data), form=form)


def hinted(error: LoadError, path: Path) -> LoadError:
    """The error, saying what reads the file where its name tells that it is of another kind."""
    reader = {".irkit": "irkit.load_text", ".pt2": "lowering.lower, or irkit.to_onnx,"}.get(path.suffix)
    return LoadError(error.what, hint=f"{reader} reads such files") if reader else error


def marked(model: ModelProto, data: bytes) -> bool:
    """True where a node of the file may have metadata of irkit's."""
    return model.producer_name != TORCH and data.rfind(MARK) >= 0  # from the end it takes half the time
