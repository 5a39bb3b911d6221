"""Local functions of a model as Calls: the body of each is read once for operands of the same types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from onnx import FunctionProto

from irkit import dims
from irkit.build import call_graph
from irkit.core.blobs import SMALL
from irkit.core.ir import Graph, Port, Signature, Value, param
from irkit.core.origins import Origin
from irkit.core.types import DType, Type, dims_of, map_dims, same_types
from irkit.core.vocabulary import CONSTANT
from irkit.errors import IrkitError
from irkit.nodes.calls import substitution
from irkit.onnx.reading.scope import Frame, readable
from irkit.onnx.writing.models import DOC_KEY, DOMAIN_KEY


class Reader(Protocol):
    """What reading functions asks of the reader of nodes, `irkit.onnx.reading.nodes.Reader`."""

    bodies: dict[tuple[Any, ...], list[Graph | None]]

    def inlined(
        self, function: FunctionProto, inputs: Sequence[Value | None], frame: Frame, asked: Sequence[str]
    ) -> list[Value | None]:
        """The results of a function over operands, as many as are `asked` for by a name."""
        ...


def called_function(
    reader: Reader, function: FunctionProto, inputs: Sequence[Value | None], frame: Frame
) -> Value | tuple[Value, ...] | None:
    """The results of a Call of a function; None where it can only be written out: where what it computes has types that
    hang on more than those of its operands.

    Small integers among the operands, of which the types of results are made (axes, shapes), and operands that are left
    out are part of the body, and so are the attributes of the call.
    """
    inside = [v is None or is_part(v) for v in inputs]
    fixed = tuple(
        None if v is None else v.blob and v.blob.key for v, within in zip(inputs, inside, strict=True) if within
    )
    given = [v for v, within in zip(inputs, inside, strict=True) if v is not None and not within]
    said = tuple(
        (name, a.SerializeToString(deterministic=True)) for name, a in sorted((frame.attributes or {}).items())
    )
    key = (function.domain, function.name, function.overload, tuple(inside), fixed, said)
    known = reader.bodies.setdefault(key, [])
    types = [v.type for v in given]
    body = next((each for each in known if each is not None and fits(each, types)), None)
    if body is None:
        if None in known:
            return None
        try:
            body = body_of(reader, function, inputs, inside, frame)
        except IrkitError:
            known.append(None)  # the error, if it is one of the file, is met again where the function is written out
            return None
        known.append(body)
    return call_graph(body, *given)


def is_part(value: Value) -> bool:
    """Whether an operand is a small constant of whole numbers."""
    blob = value.blob
    whole = blob is not None and (blob.dtype.is_integer or blob.dtype is DType.BOOL or blob.dtype is DType.STRING)
    return blob is not None and whole and blob.nbytes <= SMALL and value.op == CONSTANT


def fits(body: Graph, types: Sequence[Type]) -> bool:
    """Whether a body was read for operands of these types, but for the names of dimensions."""
    wanted = [p.type for p in body.params]
    if len(wanted) != len(types) or any(same_types(a, b) is False for a, b in zip(wanted, types, strict=True)):
        return False
    known = substitution(wanted, types)
    resized = [map_dims(each, lambda d: dims.substitute(d, known)) for each in wanted]
    return all(dims_of(a) == dims_of(b) for a, b in zip(resized, types, strict=True))


def body_of(
    reader: Reader, function: FunctionProto, inputs: Sequence[Value | None], inside: Sequence[bool], frame: Frame
) -> Graph:
    """The body of a function over parameters of the types of its operands."""
    names, operands, params = list(function.input), list[Value | None](), dict[str, Value]()
    for name, value, within in zip(names, inputs, inside, strict=False):
        if value is None or within:
            operands.append(value)
        else:
            params[name] = param(value.type).with_origin(Origin(node=name))
            operands.append(params[name])
    results: list[Any] = reader.inlined(function, operands, frame, function.output)
    metadata: Mapping[str, str] = {readable(p.key): readable(p.value) for p in function.metadata_props}
    metadata = {
        DOMAIN_KEY: function.domain,
        **({DOC_KEY: readable(function.doc_string)} if function.doc_string else {}),
        **metadata,
    }
    ports = tuple(Port(name) for name in params), tuple(Port(name, "output") for name in function.output)
    signature = Signature(*ports, metadata=tuple(metadata.items()))
    return Graph(tuple(params.values()), tuple(results), signature=signature, name=function.name or "function")
