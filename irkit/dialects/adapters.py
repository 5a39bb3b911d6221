"""Functions of values and of arrays as irkit calls them: definitions, type rules and kernels of operators."""

from __future__ import annotations

from collections.abc import Sequence

from irkit.core.attributes import AttributeMap
from irkit.core.blobs import Blob
from irkit.core.ir import Value
from irkit.core.types import Type
from irkit.evaluation.kernels.common import Content, Kernel
from irkit.nodes.applications import Application
from irkit.nodes.operators import Definition, TypeRule
from irkit.ops.schemas import AttributeSpec, OpSpec, spec
from irkit.ops.types.context import Context
from irkit.support.arguments import brief
from irkit.support.counts import count_text
from irkit.support.results import as_tuple

Function = Kernel
"""A function of the user's, of operands by position and attributes by name."""


def held(attribute: AttributeSpec, found: Content, arrays: bool) -> Content:
    """An attribute as the functions get it: of the type that it was given as; a tensor as an array where `arrays`."""
    found = attribute.default if found is None else found
    return found.array if arrays and isinstance(found, Blob) else found


def attributes_of(row: OpSpec, given: AttributeMap, arrays: bool = False) -> AttributeMap:
    """Every attribute of an operator, with its default where it is not given."""
    return {name: held(each, given.get(name), arrays) for name, each in row.attributes.items()}


def padded(row: OpSpec, operands: Sequence[Content]) -> tuple[Content, ...]:
    """The operands, with None for those at the end that are left out."""
    fixed = sum(f.option != "variadic" for f in row.inputs)
    return (*operands, *(None,) * (fixed - len(operands)))


def defined_by(function: Function) -> Definition:
    """The definition of an operator that a function of values is."""

    def definition(a: Application, *operands: Value | None) -> object:
        found = function(*padded(a.row, operands), **attributes_of(a.row, a.attributes))
        if found is None:
            raise a.fail("its definition gives nothing")
        return found

    return definition


def ruled_by(function: Function) -> TypeRule:
    """The type rule that a function of values is."""

    def rule(c: Context) -> tuple[Type, ...]:
        found: tuple[Type, ...] = as_tuple(function(*padded(c.spec, c.inputs), **attributes_of(c.spec, c.attributes)))
        if not all(isinstance(each, Type) for each in found):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise c.fail(f"its type rule gives {brief(found[0])}", hint='give irkit.tensor("f32", ...), or x.type')
        if len(found) != c.outputs:
            raise c.fail(
                f"its type rule gives {count_text(len(found), 'type')}, and it has {count_text(c.outputs, 'result')}",
                hint="give a type for each of results=",
            )
        return found

    return rule


def computed_by(function: Function) -> Kernel:
    """The kernel that a function of arrays is, as the evaluator calls it."""

    def kernel(node: Value, *operands: Content) -> Content:
        row = spec(node.op)
        return function(*padded(row, operands), **attributes_of(row, dict(node.attributes), arrays=True))

    return kernel


def run_by_library(node: Value, *operands: Content) -> Content:
    """What ONNX Runtime computes of a node by the library of its operator. Raises EvaluateError with what it says."""
    from irkit.onnx.single_nodes import SingleNodes  # brings in onnxruntime

    return SingleNodes().run(node, *operands)
