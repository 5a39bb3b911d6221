"""Operators that ONNX defines by other operators: their function bodies as graphs, put in place of a value."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
from onnx import FunctionProto, ModelProto, TypeProto, helper

from irkit import dims
from irkit.build import call
from irkit.core.attributes import Attributes
from irkit.core.ir import Graph, Value, vertex
from irkit.core.origins import NOWHERE
from irkit.core.types import DType, Tensor, Tuple, Type, dims_of, map_dims, types_of
from irkit.core.vocabulary import PARAM, SHAPE_VECTOR
from irkit.dims import Dim
from irkit.errors import IrkitError, LoadError
from irkit.onnx.load import load
from irkit.onnx.writing.protos import Types, attribute_proto
from irkit.ops.schemas import NONDETERMINISTIC, OPSET, spec, split_domain
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.questions import same_shape

BODY = "body.of.a.function"
"""The domain in which a function body is read."""


def has_body(op: str) -> bool:
    """True where ONNX defines the operator by others."""
    schema = schema_of(op)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


@cache
def operators_with_body() -> tuple[str, ...]:
    """The operators that ONNX defines by others, by name; without those that draw random numbers."""
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    return tuple(sorted(name for name in names - NONDETERMINISTIC if has_body(name)))


@lru_cache(maxsize=1 << 12)
def applies_at(op: str, opset: int) -> bool:
    """True where a runtime may use ONNX's definition of the operator in a model of an opset.

    A definition that is written once, for an opset, holds for later ones as far as none of its operators has changed
    since; ONNX Runtime refuses it otherwise. One that is made for each node fits the model's opset.
    """
    schema = schema_of(op)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return False
    if schema.has_context_dependent_function:
        return schema.context_dependent_function_opset_versions[0] <= opset
    versions = [v for v in schema.function_opset_versions if v <= opset]
    if not versions:
        return False
    function = FunctionProto.FromString(schema.get_function_with_opset_version(versions[-1]))
    return all(_since(node.op_type, versions[-1]) == _since(node.op_type, opset) for node in function.node)


def _since(op: str, opset: int) -> int:
    return onnx.defs.get_schema(op, opset, "").since_version


def schema_of(op: str) -> Any:
    """The schema of an ONNX operator at the IR's opset; None for operators of other domains."""
    domain, name = split_domain(op)
    try:
        return None if domain else onnx.defs.get_schema(name, OPSET, "")
    except onnx.defs.SchemaError:
        return None


def by_function(m: Match, value: Value) -> Any:
    """What ONNX's own definition of the operator makes of its operands: a value, or a tuple of values.

    None where ONNX does not define it by others, or where the definition cannot be read or does not hold.
    """
    if not has_body(value.op) or value.bodies or any(not isinstance(t, Tensor) for t in _operand_types(value)):
        return None
    if not holds(value):
        return None
    names: dict[Dim, Dim] = {}
    types = tuple(None if v is None else map_dims(v.type, lambda d: _named(d, names)) for v in value.inputs)
    several = isinstance(value.type, Tuple)
    count = len(types_of(value.type))
    body = body_of(value.op, value.attributes, types, count)
    if body is None:
        return None
    found = inline_body(m, body, [v for v in value.inputs if v is not None], {n: d for d, n in names.items()})
    if several:
        return found
    scalar = (
        isinstance(value.type, Tensor) and not value.rank and found[0].rank
    )  # constants of one element have an axis
    return call("Reshape", [found[0], np.zeros(0, np.int64)]) if scalar else found[0]


def holds(value: Value) -> bool:
    """False where ONNX's definition of an operator gives something else than the operator is said to."""
    x = value.inputs[0] if value.inputs else None
    if x is None or value.op == "Softplus":  # Exp overflows where its logarithm would not
        return x is None
    if value.op == "Shrink" and not x.dtype.is_float:  # numbers that are no integers would be rounded first
        return not any(attribute_of(value, name) % 1 for name in ("bias", "lambd"))
    if value.op == "LayerNormalization":  # scale and bias are seen as one row, be they smaller than what is normalized
        own = x.shape[attribute_of(value, "axis") :]
        return all(v is None or v.shape in ((), (1,)) or same_shape(v.shape, own) for v in value.inputs[1:])
    if value.op == "Celu":  # below 0 it would take the other side of zero
        return attribute_of(value, "alpha") > 0
    if value.op in ("BlackmanWindow", "HammingWindow", "HannWindow"):  # of one place, 0 / 0
        return bool(attribute_of(value, "periodic"))
    if value.op == "ReduceL2":  # squares are beyond the numbers of integers
        return x.dtype.is_float
    if value.op == "Attention":  # the root of the scale is taken, -inf cast to the mask's type, and a 0 copied
        mask = value.inputs[3] if len(value.inputs) > 3 else None
        numbers = mask is None or mask.dtype is DType.BOOL or mask.dtype.is_float
        empty = any(v is not None and 0 in v.shape for v in value.inputs[:3])
        return numbers and not empty and (attribute_of(value, "scale") or 0) >= 0
    return True


def _operand_types(value: Value) -> list[Type]:
    return [v.type for v in value.inputs if v is not None]


def _named(dim: Dim, names: dict[Dim, Dim]) -> Dim:
    """The symbol that stands for a symbolic dimension while the body is read."""
    if type(dim) is int:
        return dim
    if dim not in names:
        names[dim] = dims.symbol(f"_d{len(names)}")
    return names[dim]


@lru_cache(maxsize=256)
def body_of(op: str, attributes: Attributes, operands: tuple[Type | None, ...], results: int) -> Graph | None:
    """The body of an ONNX operator for operands of those types, as a graph over those that are given."""
    types = Types(frozenset)
    node = helper.make_node(op, [f"x{i}" if t is not None else "" for i, t in enumerate(operands)], _outputs(results))
    known = spec(op)
    for name, attribute in known.attributes.items():
        given = dict(attributes).get(name, attribute.default)
        if given is not None and attribute.kind != "GRAPH":
            node.attribute.append(attribute_proto(name, attribute.kind, given, types))
    try:
        function = function_of(op, node, [TypeProto() if t is None else types.proto(t) for t in operands])
        if function is None:
            return None
        return load(model_of(function, node, operands, types))
    except (IrkitError, LoadError):
        return None


def _outputs(count: int) -> list[str]:
    return [f"y{i}" for i in range(count)]


def function_of(op: str, node: Any, types: list[Any]) -> FunctionProto | None:
    """ONNX's newest definition of the operator as it is used at a node."""
    schema = schema_of(op)
    if schema.has_context_dependent_function:
        version = schema.context_dependent_function_opset_versions[-1]
        data = schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), [t.SerializeToString() for t in types]
        )
    else:
        data = schema.get_function_with_opset_version(schema.function_opset_versions[-1])
    if not data:
        return None
    function = FunctionProto.FromString(data)
    function.domain, function.name = BODY, op
    return function


def model_of(function: FunctionProto, node: Any, operands: tuple[Type | None, ...], types: Types) -> ModelProto:
    """A model that applies a function at one node."""
    node.domain, node.op_type = BODY, function.name
    allowed = {*function.attribute, *(a.name for a in function.attribute_proto)}
    for attribute in [a for a in node.attribute if a.name not in allowed]:
        node.attribute.remove(attribute)
    del node.output[len(function.output) :]
    inputs = [onnx.ValueInfoProto(name=f"x{i}", type=types.proto(t)) for i, t in enumerate(operands) if t is not None]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "body", inputs, outputs)
    imports = [*function.opset_import, helper.make_opsetid(BODY, 1)]
    if not any(each.domain == "" for each in imports):
        imports.append(helper.make_opsetid("", OPSET))
    return helper.make_model(graph, functions=[function], opset_imports=imports)


def inline_body(m: Match, body: Graph, operands: list[Value], names: dict[Dim, Dim]) -> tuple[Value, ...]:
    """The results of a body applied to operands; `names` says what each symbol of the body stands for."""
    swaps: dict[Any, Dim] = dict(names)
    new: dict[Value, Value] = dict(zip(body.params, operands, strict=True))
    sizes_now: dict[Dim, Dim] = dict(names)

    def size_now(dim: Dim) -> Dim:
        if dim not in sizes_now:
            sizes_now[dim] = dims.substitute(dim, swaps)
        return sizes_now[dim]

    for value in body.order:
        if value.op == PARAM:
            continue
        inputs = tuple([None if v is None else new[v] for v in value.inputs])
        type_ = map_dims(value.type, size_now) if _symbolic(value.type) else value.type
        attributes = value.attributes
        if value.op == "Reshape" and value.inputs[1] is not None and value.inputs[1].blob is None:
            attributes = (("allowzero", 1),)  # a computed size of 0 is meant
        if value.op == SHAPE_VECTOR:
            sizes = tuple(map(size_now, value.attributes[0][1]))
            attributes = (("dims", sizes), *value.attributes[1:])
            inputs = (*m.binders(sizes, *operands), *inputs)
        new[value] = vertex(value.op, inputs, attributes, value.bodies, type_, NOWHERE)
    return tuple([new[r] for r in body.results])


def _symbolic(type_: Type) -> Iterable[Dim]:
    return [d for d in dims_of(type_) if type(d) is not int]
