"""Typed construction: the only way a value comes to be. The type is inferred, and bad operands are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from irkit.build.runtime import RULES, defined_operator
from irkit.core.attributes import AttributeMap, freeze
from irkit.core.ir import Graph, Value, item, require_graph
from irkit.core.types import Tuple, Type, require_type, same_types
from irkit.core.vocabulary import CALL
from irkit.errors import GraphError, TypeRuleError
from irkit.nodes import construct
from irkit.nodes.bodies import Operand, closed
from irkit.nodes.calls import call_type
from irkit.nodes.construct import (
    check_arity,
    check_dtypes,
    const,
    dim_scalar,
    dtype_complaint,
    in_single,
    required_attributes,
    shape_vector,
)
from irkit.ops.opset import Operators
from irkit.ops.schemas import OpSpec, has_schema, split_domain
from irkit.ops.types.contents import contents
from irkit.support.arguments import brief
from irkit.support.counts import count_text

_LISTS, _TABLES = (list, tuple), (dict, type(None))
"""What nearly every caller gives: asked first, as `isinstance` of an abstract class takes longer."""


def call(
    op: str,
    inputs: Sequence[Operand],
    attributes: AttributeMap | None = None,
    *,
    outputs: int | None = None,
    row: OpSpec | None = None,
) -> Any:
    """`op` applied to `inputs`: a Value, or a tuple of Values where several results are asked for or always there.

    Args:
        op: the operator's ONNX name, with `domain::` before it unless it is ONNX's own.
        inputs: Values, None for an optional operand left out, or numbers, lists and arrays, which become constants of
            the element type that the schema and the other operands ask for.
        attributes: by ONNX name; bodies of control flow as graphs, or as Python functions over values.
        outputs: how many results are wanted, where the operator leaves that open.
        row: the table row of an operator that ONNX does not have.

    Raises TypeRuleError where the schema or the type rule refuses the operands.
    """
    if type(op) is not str or type(inputs) not in _LISTS or type(attributes) not in _TABLES:
        require_kinds(op, inputs, attributes)
        known = defined_operator(op)
        if known is not None:
            return construct.call(op, inputs, attributes, outputs=outputs, row=known.row, rule=known.rule)
    return construct.call(op, inputs, attributes, outputs=outputs, row=row, rule=RULES.get(op))


def require_kinds(op: Any, inputs: Any, attributes: Any) -> None:
    """Raises TypeRuleError for what is not a name of an operator, no list of operands, no mapping of attributes."""
    if not isinstance(op, str):
        raise TypeRuleError(f"{brief(op)} is not an operator's name", hint='write it as text: "Relu"')
    if not isinstance(inputs, Sequence):
        raise TypeRuleError(f"{op}: the operands are {brief(inputs)}, not a list", hint=f"irkit.call({op!r}, [x])")
    if attributes is not None and not isinstance(attributes, Mapping):
        raise TypeRuleError(f"{op}: the attributes are {brief(attributes)}, not a mapping", hint='give {"axis": 1}')


def call_graph(body: Graph, *operands: Value) -> Any:
    """`body` applied to operands: a Value, or a tuple where it has several results.

    The body is generic in the symbols of its parameters' types: results have the operands' dimensions in their place.
    Raises TypeRuleError for operands that the body does not take.
    """
    require_graph(body)
    if len(operands) != len(body.params):
        raise TypeRuleError(
            f"Call: the body takes {count_text(len(body.params), 'operand')}, and was given {len(operands)}",
            hint="give one operand for each parameter of the body, in order",
        )
    for wanted, given in zip(body.params, operands, strict=True):
        if type(given) is not Value:
            raise TypeRuleError(f"Call: {given!r} is not a value", hint="irkit.const(data) makes one of numbers")
        if same_types(wanted.type, given.type) is False:
            raise TypeRuleError(
                f"Call: the body takes a {wanted.type!r}, and was given a {given.type!r}",
                hint="cast or reshape the operand, or trace the body for its type",
            )
    value = Value(CALL, tuple(operands), (), (body,), call_type(body, (v.type for v in operands)))
    count = len(body.results)
    return value if count == 1 else tuple(item(value, i) for i in range(count))


def custom(op: str, *inputs: Any, type: Type, **attributes: Any) -> Any:
    """An operator that neither ONNX nor irkit knows, of the result type that the caller states: a Value, or a tuple of
    Values for a Tuple type.

    `custom("mylib::SoftClamp", x, type=x.type, limit=2.0)`. Operands are Values, None, or what `const` takes. Nothing
    is inferred, so the type must be right. Raises TypeRuleError for an operator without a domain, and for one that has
    a schema.
    """
    if not isinstance(type, Type):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeRuleError(f"{op}: {type!r} is not a type", hint='write irkit.tensor("f32", "batch", 64), or x.type')
    if not isinstance(op, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeRuleError(f"{op!r} is not an operator's name", hint='write it as text: "mydomain::Own"')
    for each in type.items if isinstance(type, Tuple) else (type,):
        require_type(each)
    if has_schema(op):
        raise TypeRuleError(f"{op} has a schema, and so is not a custom operator", hint=f"irkit.call({op!r}, [...])")
    if not split_domain(op)[0]:
        raise TypeRuleError(f"the custom operator {op} has no domain", hint=f"call it mydomain::{op}")
    operands = tuple(v if v is None or isinstance(v, Value) else const(v) for v in inputs)
    value = Value(op, operands, freeze({k: in_single(v) for k, v in attributes.items()}), (), type)
    return tuple(item(value, i) for i in range(len(type.items))) if isinstance(type, Tuple) else value


# ---------------------------------------------------------------------------------------------- op


op = Operators(call)

__all__ = ["GraphError", "call", "call_graph", "check_arity", "check_dtypes", "closed", "const", "contents", "custom"]
__all__ += ["dim_scalar", "dtype_complaint", "op", "required_attributes", "shape_vector"]
