"""Weights that a graph gets later: arrays by name, or files of safetensors."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irkit.core.bind import bound_graph
from irkit.core.blobs import Blob, blob
from irkit.core.ir import Graph
from irkit.core.types import DType
from irkit.errors import GraphError, LoadError
from irkit.onnx.reading.tensors import stored_blob
from irkit.support.arguments import type_text
from irkit.support.stored_files import Place, StoredFile, opened_file

INDEX = ".index.json"
"""How the name of a file ends that says which of several files holds each weight."""

LENGTH = 8
"""Bytes at the start of a file of safetensors, which say how long its header is."""

HEADER = 100_000_000
"""Bytes that a header may have at most, as safetensors itself limits it."""

DTYPES = {
    "BOOL": DType.BOOL, "U8": DType.UINT8, "I8": DType.INT8, "I16": DType.INT16, "U16": DType.UINT16,
    "I32": DType.INT32, "U32": DType.UINT32, "I64": DType.INT64, "U64": DType.UINT64, "F16": DType.FLOAT16,
    "BF16": DType.BFLOAT16, "F32": DType.FLOAT, "F64": DType.DOUBLE, "F8_E4M3": DType.FLOAT8E4M3FN,
    "F8_E5M2": DType.FLOAT8E5M2, "C64": DType.COMPLEX64,
}  # fmt: skip
"""The element types of safetensors."""


def bind(graph: Graph, weights: Mapping[str, Any] | str | os.PathLike[str], *, strict: bool = True) -> Graph:
    """The graph with weights by name: in the place of parameters, which are none any more, and of named contents, those
    included that a model on the meta device left without numbers.

    `weights` are arrays (numpy's, tensors on the CPU, `irkit.Blob`) by name, or the path of a file of safetensors or of
    the index of several (`model.safetensors.index.json`), which are read when the numbers are asked for. What is tied
    to a weight is bound with it. Arrays are copied; to copy nothing, give blobs.

    Raises GraphError for a weight of another type than the graph has there, for a name that the graph does not have,
    unless it is not `strict`, and where a constant was computed from one; LoadError for what is no such file.
    """
    if isinstance(weights, str | os.PathLike):
        return bound_graph(graph, stored_weights(Path(weights)), strict=strict)
    if not isinstance(weights, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may give anything
        raise GraphError(f"the weights are {type_text(weights)}", hint="give a mapping from names, or a path")
    return bound_graph(graph, {name: as_blob(name, each) for name, each in weights.items()}, strict=strict)


def as_blob(name: str, given: Any) -> Blob:
    """A weight as a content. Raises GraphError for what is no array."""
    if isinstance(given, Blob):
        return given
    held = given.detach() if hasattr(given, "detach") else given
    try:
        return blob(held.numpy() if hasattr(held, "numpy") else held, name=name)
    except (TypeError, ValueError, RuntimeError) as error:
        raise GraphError(
            f"{name} is {type_text(given)}, which is no array of numpy's: {error}",
            hint="save the weights with safetensors, and give the path of the file",
        ) from error


# ---------------------------------------------------------------------------------------------- safetensors


def stored_weights(path: Path) -> dict[str, Blob]:
    """The weights in a file of safetensors, or in those that an index names. Raises LoadError for what is none."""
    if not path.name.endswith(INDEX):
        return weights_in(opened_file(path.resolve(), "the weights"))
    try:
        files = json.loads(path.read_text())["weight_map"]
        names = dict.fromkeys(files.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LoadError(f"{path.name!r} is no index of safetensors: {error}") from error
    found: dict[str, Blob] = {}
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise LoadError(f"{path.name!r} names the file {name!r}", hint="the files lie beside the index")
        found |= weights_in(opened_file((path.parent / name).resolve(), "the weights"))
    return {name: each for name, each in found.items() if name in files}


def weights_in(file: StoredFile) -> dict[str, Blob]:
    """The weights in one file, each where it lies. Raises LoadError where the header contradicts the file."""
    size = int.from_bytes(file.peek(0, LENGTH), "little") if file.size >= LENGTH else file.size
    start = LENGTH + size
    try:
        if size > HEADER or start > file.size:
            raise ValueError(f"its header would have {size} bytes")
        header = json.loads(file.peek(LENGTH, size))
        described = {name: each for name, each in header.items() if name != "__metadata__"}
        return {name: weight_at(file, start, name, each) for name, each in described.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise LoadError(
            f"the file {file.path.name!r} is not of safetensors: {error}",
            hint="give a .safetensors file, or the .index.json of several; safetensors.numpy.save_file writes one",
        ) from error


def weight_at(file: StoredFile, start: int, name: str, described: Mapping[str, Any]) -> Blob:
    """One weight. Raises ValueError, TypeError or KeyError where what is said of it cannot be."""
    dtype, shape = DTYPES[described["dtype"]], tuple(described["shape"])
    begin, end = described["data_offsets"]
    sizes = (begin, end, *shape)
    whole = all(type(each) is int and each >= 0 for each in sizes)
    if not whole or end - begin != math.prod(shape) * dtype.bits // 8 or start + end > file.size:
        raise ValueError(f"{name} is said to be {described}")
    return stored_blob(Place(file, start + begin), dtype, shape, name, (file, begin))
