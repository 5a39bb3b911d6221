"""Models on ONNX Runtime: sessions, runs over arrays of any element type, and the checks of a file."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import attrs
import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, TensorProto

from irkit.core.blobs import Blob, blob
from irkit.core.ir import Graph
from irkit.core.printer import nested_graphs
from irkit.core.types import DType
from irkit.errors import ContractError, SerializeError
from irkit.nodes.operators import operator_of
from irkit.onnx.reading.tensors import from_bytes
from irkit.onnx.writing.models import skeleton, to_proto, weights_of
from irkit.onnx.writing.tensors import chunks, header, tensor_proto
from irkit.ops.schemas import dtype_of
from irkit.support.counts import count_text
from irkit.support.tracebacks import is_told
from irkit.support.watch import Watch, distinct

__tracebackhide__ = is_told

CPU = ("CPUExecutionProvider",)
BESIDE = 1 << 26
"""Weights of more bytes than this in all are handed to a session as they lie in memory, not inside the model."""

_NATIVE = frozenset(
    "FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128".split()
)
"""Element types for which numpy has its own: ONNX Runtime takes and gives arrays of those."""


@attrs.frozen(eq=False)
class Session:
    """A model on ONNX Runtime. Calling `run` with arrays, by name or in order, gives arrays.

    `weights` keeps alive what the session reads in place, and `watches` tell whether that still is what it was.
    """

    inner: Any
    weights: tuple[Any, ...] = ()
    watches: tuple[Watch, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple(i.name for i in self.inner.get_inputs())

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in order."""
        return tuple(o.name for o in self.inner.get_outputs())

    def run(self, feeds: Mapping[str, Any] | Sequence[Any]) -> tuple[Any, ...]:
        """The outputs for some inputs: arrays (ml_dtypes where numpy lacks the type), lists for sequences, None for an
        empty optional. Raises ContractError for arrays that the model does not take, StaleError where a weight that is
        read in place has changed, and what ONNX Runtime raises."""
        for watch in self.watches:
            watch.check()
        given = dict(feeds) if isinstance(feeds, Mapping) else dict(zip(self.inputs, feeds, strict=False))
        self.check_feeds(given, len(feeds))
        ports = (*self.inner.get_inputs(), *self.inner.get_outputs())
        if any(port.type == "tensor(string)" for port in ports):  # of which there are no OrtValues
            return tuple(self.inner.run(None, given))
        values = {name: ort_value(value) for name, value in given.items()}
        tensors = all(o.type.startswith("tensor") for o in self.inner.get_outputs())
        if not tensors or any(isinstance(v, (list, type(None))) for v in values.values()):
            plain: dict[str, Any] = {
                name: v if isinstance(v, list | None) else given[name] for name, v in values.items()
            }
            return tuple(self.inner.run(None, plain))
        return tuple(array_of(found) for found in self.inner.run_with_ort_values(None, values))

    @cached_property
    def ports(self) -> Mapping[str, tuple[str, tuple[Any, ...], bool]]:
        """The element type of each input by name, its shape, and whether it may be left out."""
        needed, others = self.inner.get_inputs(), self.inner.get_overridable_initializers()
        found = ((port, optional) for ports, optional in ((needed, False), (others, True)) for port in ports)
        return {
            p.name: (p.type, tuple(p.shape or ()), optional or p.type.startswith("optional")) for p, optional in found
        }

    def check_feeds(self, given: Mapping[str, Any], count: int) -> None:
        """Raises ContractError for inputs that are missing or unknown, and for arrays of another element type, rank or
        fixed size than the model takes."""
        known = f"the inputs are {', '.join(self.inputs) or 'none'}"
        missing = [name for name, (_, _, optional) in self.ports.items() if name not in given and not optional]
        unknown = [name for name in given if name not in self.ports]
        if missing or unknown:
            what = f"lack {missing[0]!r}" if missing else f"have {unknown[0]!r}, which is not an input"
            raise ContractError(f"the feeds {what}", hint=known)
        if count > len(given):
            raise ContractError(
                f"a model of {count_text(len(given), 'input')} is fed {count_text(count, 'array')}", hint=known
            )
        for name, value in given.items():
            kind, shape, _ = self.ports[name]
            wanted = dtype_of(kind)
            if wanted is None or value is None or isinstance(value, list | onnxruntime.OrtValue):
                continue  # of which ONNX Runtime itself says what is wrong
            array = np.asarray(value)
            dtype = DType.STRING if array.dtype.kind in "USO" else DType.of(array.dtype)
            sizes = zip(shape, array.shape, strict=False)
            if dtype is wanted and len(shape) == array.ndim and all(type(a) is not int or a == b for a, b in sizes):
                continue
            takes = f"{wanted.short}[{', '.join(str(size) for size in shape)}]"
            hint = f"give it as {wanted.numpy}, by .astype" if dtype is not wanted else "give it in that form"
            raise ContractError(f"{name} is {dtype.short}{list(array.shape)}, and the model takes {takes}", hint=hint)


def session(
    model: Any,
    providers: Sequence[str] = CPU,
    *,
    options: Any = None,
    opset: int | None = None,
    functions: bool = False,
) -> Session:
    """A session for a graph, a ModelProto, its bytes or the path of a file.

    `options` are `onnxruntime.SessionOptions`; `opset` is the one to write a graph at, with its Calls as `functions` or
    written out. The large weights of a graph are read by the session where they lie.
    Raises what ONNX Runtime raises for a model that it cannot run.
    """
    chosen = options or quiet_options()
    if isinstance(model, Graph):
        return graph_session(model, providers, chosen, opset, functions)
    data = model.SerializeToString() if isinstance(model, ModelProto) else model
    data = os.fspath(cast("os.PathLike[str]", data)) if isinstance(data, os.PathLike) else data
    return Session(onnxruntime.InferenceSession(data, chosen, providers=list(providers)))


def quiet_options() -> Any:
    """Session options that print errors only."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return options


def graph_session(
    graph: Graph, providers: Sequence[str], options: Any, opset: int | None = None, functions: bool = False
) -> Session:
    """A session for a graph, whose large weights stay outside the message."""
    names: list[str] = []
    values: list[Any] = []
    kept: list[Any] = []
    watches: list[Watch] = []
    large = sum(blob.nbytes for blob in weights_of(graph)) > BESIDE

    def sink(blob: Blob, name: str) -> TensorProto:
        if not large or blob.nbytes < 1 << 16 or blob.dtype.bits < 8 or blob.dtype is DType.STRING:
            return tensor_proto(blob, name)
        array = np.require(blob.read(), requirements=["C", "A"])
        kept.append(array)
        watches.extend(blob.watches)
        names.append(name)
        values.append(ort_value(array))
        made = header(blob, name)
        made.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "memory"), ("offset", "0"), ("length", str(blob.nbytes))):
            made.external_data.add(key=key, value=value)
        return made

    model = skeleton(graph, opset=opset, ir_version=None, sink=sink, functions=functions)
    for library in libraries_of(graph):
        options.register_custom_ops_library(library)
    if names:
        options.add_external_initializers(names, values)
    inner = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=list(providers))
    graph.check_contents()  # while it was read, too
    return Session(inner, (*kept, *values), distinct(watches))


def libraries_of(graph: Graph) -> tuple[str, ...]:
    """The libraries of custom operators that the operators of a graph and of its bodies say they are in."""
    found: dict[str, None] = {}
    for nested, first in nested_graphs(graph):
        for value in nested.order if first else ():
            known = operator_of(value.op)
            if known is not None and known.library:
                found.setdefault(known.library)
    return tuple(found)


def run(model: Any, feeds: Mapping[str, Any] | Sequence[Any], providers: Sequence[str] = CPU) -> tuple[Any, ...]:
    """The outputs of a graph, a ModelProto, bytes or a file on ONNX Runtime; see `Session.run`."""
    return session(model, providers).run(feeds)


def ort_value(value: Any) -> Any:
    """An OrtValue over the memory of an array; lists (sequences) and None as they are."""
    if value is None or isinstance(value, onnxruntime.OrtValue):
        return value
    if isinstance(value, list):
        return [np.asarray(part) for part in cast("list[Any]", value)]
    array = np.asarray(value)
    if array.dtype.kind in "US":
        array = array.astype(object)
    dtype = DType.of(array.dtype)
    if dtype.name in _NATIVE:
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    made = onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, int(dtype))
    raw = b"".join(bytes(chunk) for chunk in chunks(blob(array)))
    if raw:
        ctypes.memmove(made.data_ptr(), raw, len(raw))
    return made


def array_of(value: Any) -> Any:
    """What an OrtValue holds: an array, a list of arrays, or None."""
    if not value.has_value():
        return None
    if not value.is_tensor():
        return value.numpy() if value.is_tensor_sequence() else value._ortvalue.to_python()
    dtype = DType(value.element_type())
    if dtype.name in _NATIVE:
        return value.numpy()
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()) if math.prod(value.shape()) else b""
    return from_bytes(raw, dtype, tuple(value.shape()), 0)


def check_model(model: Any) -> None:
    """Checks a graph, ModelProto or file with `onnx.checker` (types and shapes included) and loads it on ONNX Runtime.

    Raises SerializeError with what either of them says.
    """
    proto = to_proto(model) if isinstance(model, Graph) else model
    path = isinstance(proto, (str, Path))
    try:
        cast(Any, onnx.checker).check_model(os.fspath(proto) if path else proto, full_check=True)
        session(proto)
    except Exception as error:
        raise SerializeError(
            f"the model is not valid: {error}",
            hint="irkit.verify(graph) says whether the graph is right; if it is, please report this",
        ) from error
