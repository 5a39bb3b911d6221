"""Functions of ONNX and of onnxscript as definitions of operators."""

from __future__ import annotations

from onnx import AttributeProto, FunctionProto

from irkit.core.attributes import freeze_attribute
from irkit.core.ir import Value
from irkit.dialects.schemas import ANYTHING, Dtypes, type_variables
from irkit.errors import TypeRuleError
from irkit.nodes.applications import Application
from irkit.nodes.operators import Definition
from irkit.onnx.functions import call_function, reader_of
from irkit.ops.schemas import AttributeSpec, Formal, OpSpec, split_domain


def functions_in(given: object) -> tuple[FunctionProto, ...]:
    """The FunctionProto that something is, or that a function of onnxscript makes, before those that it calls; none for
    all else."""
    if isinstance(given, FunctionProto):
        return (given,)
    if hasattr(given, "to_function_proto") and hasattr(given, "to_model_proto"):
        return (given.to_function_proto(), *given.to_model_proto().functions)  # type: ignore[attr-defined]
    return ()


def row_of_proto(name: str, function: FunctionProto, version: int, dtypes: Dtypes) -> OpSpec:
    """The row of an operator that is a function of ONNX. Raises TypeRuleError for an attribute that none of its nodes
    uses, so that nothing says of what kind it is."""
    attributes = {
        a.name: AttributeSpec(a.name, kind_name(a.type), False, freeze_attribute(a.name, reader_of([]).attribute(a)))
        for a in function.attribute_proto
    }
    used = {a.ref_attr_name: kind_name(a.type) for node in function.node for a in node.attribute if a.ref_attr_name}
    for each in function.attribute:
        if each not in used:
            raise TypeRuleError(f"{name}: nothing says of what kind the attribute {each} is", hint="leave it out")
        attributes[each] = AttributeSpec(each, used[each], True, None)
    formals, types = type_variables(name, [Formal(n, n, "single") for n in function.input], dtypes)
    outputs = tuple(Formal(n, f"type of result {n}", "single") for n in function.output)
    domain, short = split_domain(name)
    count = len(outputs)
    allowed = {**types, **{f.type: ANYTHING for f in outputs}}
    return OpSpec(
        short, domain, version, formals, outputs, attributes, allowed, len(formals), len(formals), count, count
    )


def kind_name(kind: int) -> str:
    """The name of a kind of attribute: "FLOAT"."""
    return AttributeProto.AttributeType.Name(kind)


def script_call(functions: tuple[FunctionProto, ...]) -> Definition:
    """The definition of an operator that a function of ONNX is."""

    def definition(a: Application, *operands: Value | None) -> object:
        given = {name: a.attr(name) for name in a.row.attributes}
        return call_function(functions, operands, {n: v for n, v in given.items() if v is not None})

    return definition
