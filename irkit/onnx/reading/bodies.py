"""Bodies of control flow, closed: what they take from outside becomes operands and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from onnx import GraphProto

from irkit import dims
from irkit.build import call
from irkit.core.attributes import Given
from irkit.core.ir import Graph, Port, Signature, Value, param
from irkit.core.origins import Origin
from irkit.core.types import DType, Sequence, Tensor, Type, dims_of, map_dims
from irkit.errors import LoadError
from irkit.onnx.reading.scope import Frame, Scope, define, readable
from irkit.onnx.reading.sizes import Known
from irkit.ops.schemas import BODIES
from irkit.support.counts import count_text

_ROUNDS = 4
_EMPTY = "SequenceEmpty"


class Reader(Protocol):
    """What reading bodies asks of the reader of nodes, `irkit.onnx.reading.nodes.Reader`."""

    known: Known

    def fill(self, proto: GraphProto, scope: Scope, frame: Frame) -> None:
        """Reads the nodes and constants of a graph into the scope."""
        ...

    def lookup(self, name: str, scope: Scope) -> Any:
        """The value of that name."""
        ...


class Body:
    """One body that was read: its own parameters, its results, and what it captured (outer value -> parameter)."""

    def __init__(self, name: str, params: list[Value], results: list[Value], captures: dict[Value, Value]) -> None:
        self.name, self.params, self.results, self.captures = name, params, results, captures

    def closed(self, captured: list[Value]) -> Graph:
        """The body as a graph that takes `captured` after its own parameters; those it does not use as well."""
        extra = [self.captures[outer] if outer in self.captures else param(outer.type) for outer in captured]
        ports = Signature(tuple(Port(p.origin.node) for p in self.params)) if self.params else Signature()
        return Graph((*self.params, *extra), tuple(self.results), signature=ports, name=self.name)


def read_control(
    reader: Reader,
    op: str,
    protos: list[GraphProto],
    inputs: list[Any],
    attributes: Given,
    scope: Scope,
    frame: Frame,
) -> tuple[Value, ...] | None:
    """The results of If, Loop, Scan or SequenceMap over `inputs`, with the bodies that `protos` describe.

    The sizes of what a loop carries are those of its start where no trip changes them, and unknown where one does.
    """
    if op == "If":
        flag = reader.known.content(inputs[0]) if inputs else None
        if flag is not None and len(flag.elements) == 1 and type(flag.elements[0]) is int:
            return read_branch(reader, protos[0 if flag.elements[0] else 1], scope, frame)
        bodies = [read_body(reader, proto, [], scope, frame) for proto in protos]
    elif op == "SequenceMap":
        elements = [v.type.element if isinstance(v.type, Sequence) else v.type for v in inputs]
        bodies = [read_body(reader, protos[0], elements, scope, frame)]
    else:
        bodies = [settled(reader, op, protos[0], inputs, attributes, scope, frame)]
    captured = list(dict.fromkeys(outer for body in bodies for outer in body.captures))
    graphs = {name: body.closed(captured) for name, body in zip(BODIES[op], bodies, strict=True)}
    padded = inputs + [None] * (2 - len(inputs)) if op == "Loop" else inputs
    return call(op, [*padded, *captured], {**attributes, **graphs, "captures": len(captured)})


def read_branch(reader: Reader, proto: GraphProto, scope: Scope, frame: Frame) -> tuple[Value, ...]:
    """The results of the branch that is certainly taken, read in the place of its If."""
    inner = Scope(outer=scope, open=True)
    reader.fill(proto, inner, frame)
    return tuple(reader.lookup(output.name, inner) for output in proto.output)


def read_body(
    reader: Reader,
    proto: GraphProto,
    types: list[Type],
    scope: Scope,
    frame: Frame,
    empties: Mapping[str, Value] | None = None,
) -> Body:
    """One body whose parameters have the types given. `empties` stand for parameters whose type is not found yet."""
    if len(proto.input) != len(types):
        raise LoadError(
            f"the body {proto.name!r} takes {count_text(len(proto.input), 'parameter')}, and is given {len(types)}"
        )
    inner = Scope(outer=scope)
    params: list[Value] = []
    for info, type_ in zip(proto.input, types, strict=True):
        params.append(param(type_).with_origin(Origin(node=info.name)))
        define(inner, info.name, (empties or {}).get(info.name, params[-1]))
    reader.fill(proto, inner, frame)
    results: list[Value] = []
    for output in proto.output:
        found = reader.lookup(output.name, inner)
        if found is None:
            raise LoadError(f"the result {output.name!r} of the body {proto.name!r} is a value that was left out")
        results.append(found)
    captures = dict(inner.captures.values())
    return Body(readable(proto.name) or "body", params, results, captures)


def settled(
    reader: Reader,
    op: str,
    proto: GraphProto,
    inputs: list[Any],
    attributes: Given,
    scope: Scope,
    frame: Frame,
) -> Body:
    """The body of a loop, read with parameter types that its results agree with."""
    if op == "Loop":
        fixed: list[Type] = [Tensor(DType.INT64, ()), Tensor(DType.BOOL, ())]
        carried, first_result, after = inputs[2:], 1, []
    else:
        taken = attributes.get("num_scan_inputs", 0)
        if not 0 < taken <= len(inputs):
            raise LoadError(f"a Scan has {count_text(len(inputs), 'operand')}, and num_scan_inputs is {taken}")
        axes = attributes.get("scan_input_axes") or (0,) * taken
        fixed, carried, first_result = [], inputs[: len(inputs) - taken], 0
        after = [scanned(v, axis) for v, axis in zip(inputs[len(inputs) - taken :], axes, strict=True)]
    if any(v is None for v in carried):
        raise LoadError(f"a {op} carries a value that was left out")
    types: list[Type] = [v.type for v in carried]
    names = [info.name for info in proto.input][len(fixed) :]
    empties = {name: v for name, v in zip(names, carried, strict=False) if v.op == _EMPTY}
    rounds = _ROUNDS + len(empties)
    while True:
        body = read_body(reader, proto, [*fixed, *types, *after], scope, frame, empties)
        if len(body.results) < first_result + len(types):
            raise LoadError(f"the body {proto.name!r} gives back fewer values than it carries")
        ends = body.results[first_result : first_result + len(types)]
        wider = [widened(t, end.type, v) for t, end, v in zip(types, ends, carried, strict=True)]
        rounds -= 1
        if rounds == 0 or (not empties and all(a is b for a, b in zip(types, wider, strict=True))):
            return body
        types, empties = wider, {}


def scanned(value: Value | None, axis: int) -> Type:
    """The type of one element of what is scanned."""
    if value is None or not isinstance(value.type, Tensor) or not value.type.shape:
        raise LoadError("a Scan scans a value that has no axes")
    shape = value.type.shape
    at = axis if axis >= 0 else axis + len(shape)
    return Tensor(value.type.dtype, shape[:at] + shape[at + 1 :])


def widened(start: Type, end: Type, value: Value) -> Type:
    """The type of what is carried, after one more look at the body: the same object where nothing changes."""
    if value.op == _EMPTY and isinstance(end, Sequence) and not compatible(start, end):
        return end  # an empty sequence has no element whose rank could be another
    if not compatible(start, end):
        raise LoadError(
            f"a loop carries a {start!r} and gives back a {end!r}", hint="rank and element type must stay the same"
        )
    news = iter(
        [
            a if dims.is_fresh(a) or dims.same(a, b) is True else dims.fresh()
            for a, b in zip(dims_of(start), dims_of(end), strict=True)
        ]
    )
    found = map_dims(start, lambda d: next(news))
    return start if dims_of(found) == dims_of(start) else found


def compatible(a: Type, b: Type) -> bool:
    """True for types that differ in their dimensions at most."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype is b.dtype and len(a.shape) == len(b.shape)
    return type(a) is type(b) and compatible(a.element, b.element)  # type: ignore[union-attr]
