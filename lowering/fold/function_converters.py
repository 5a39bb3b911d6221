"""Converters that are no Python functions: functions of ONNX, of onnxscript, operators of one's own, and graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import FunctionProto

from irkit.build import call_graph, const
from irkit.core.ir import Graph, Value
from irkit.errors import IrkitError
from irkit.nodes.calls import applied_body
from irkit.nodes.operators import Operator
from irkit.onnx.functions import call_function
from lowering.errors import LoweringError
from lowering.records.torch_internals import OpOverload

MEANINGLESS = frozenset(
    "device layout pin_memory memory_format non_blocking generator requires_grad copy is_coalesced "
    "cudnn_enable cudnn_enabled benchmark deterministic allow_tf32".split()
)
"""Arguments that change nothing that ONNX could say; a converter that names one gets it all the same."""


def function_converter(operator: Any, given: Any) -> Callable[..., Any] | None:
    """The converter that applies a function of ONNX (alone, or first among those that it calls), one of onnxscript, an
    operator of one's own, or a graph; None for anything else.

    Arguments that are called as an attribute of the function or the operator are that attribute; the others are its
    operands, in order: numbers as constants, and what changes nothing in ONNX (`device` and the like) left out.
    """
    if isinstance(given, Graph):
        return graph_converter(operator, given)
    if isinstance(given, Operator):
        own = given
        return converter_by(operator, set(own.row.attributes), lambda operands, named: own(*operands, **named))
    functions = functions_of(given)
    if functions is None:
        return None
    first = functions[0]
    attributes = {*first.attribute, *(a.name for a in first.attribute_proto)}
    return converter_by(operator, attributes, lambda operands, named: call_function(functions, operands, named))


def converter_by(
    operator: Any, attributes: set[str], apply: Callable[[list[Any], dict[str, Any]], Any]
) -> Callable[..., Any]:
    """The converter that hands those of these names on as attributes, and the others as operands."""

    def convert(*args: Any, **kwargs: Any) -> Any:
        named, operands = dict[str, Any](), list[Any]()
        for name, value in arguments(operator, args, kwargs):
            if name in attributes:
                named |= {} if value is None else {name: value}
            else:
                operands.append(value)
        return applied(operator, lambda: apply(operands, named))

    return convert


def functions_of(given: Any) -> tuple[FunctionProto, ...] | None:
    """A function of ONNX and those that it calls; None for what is none."""
    if isinstance(given, FunctionProto):
        return (given,)
    if isinstance(given, tuple | list):
        several: tuple[Any, ...] = tuple(given)
        return several if several and all(isinstance(each, FunctionProto) for each in several) else None
    if hasattr(given, "to_function_proto") and hasattr(given, "to_model_proto"):
        return (given.to_function_proto(), *given.to_model_proto().functions)
    return None


def graph_converter(operator: Any, graph: Graph) -> Callable[..., Any]:
    """The converter that puts a graph in the place of an operator."""

    def convert(*args: Any, **kwargs: Any) -> Any:
        values = [v if isinstance(v, Value) else const(v) for _, v in arguments(operator, args, kwargs)]
        applied(operator, lambda: call_graph(graph, *values))  # which says what does not fit
        found = applied_body(graph, tuple(values))
        return found[0] if len(found) == 1 else found

    return convert


def arguments(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """The arguments of a call by their names in the schema, without those that change nothing in ONNX."""
    names = [each.name for each in schema_of(operator).arguments]
    given = [*zip(names, args, strict=False), *((n, kwargs[n]) for n in names if n in kwargs)]
    return [(name, value) for name, value in given if name not in MEANINGLESS]


def schema_of(operator: Any) -> Any:
    """The schema of an overload, or of the first one of an operator."""
    if isinstance(operator, OpOverload):
        return operator._schema
    return getattr(operator, operator.overloads()[0])._schema


def applied(operator: Any, call: Callable[[], Any]) -> Any:
    """What a function gives. Raises LoweringError, naming the operator, where it does not fit the arguments."""
    try:
        return call()
    except IrkitError as error:
        raise LoweringError(f"the function for {operator}: {error.what}", hint=error.hint) from error
