"""Values over new operands: the type inferred again, and never made less known than it was."""

from __future__ import annotations

from typing import Any

from irkit import dims
from irkit.errors import TypeRuleError
from irkit.ir import Value
from irkit.onnx import rules
from irkit.onnx.infer.context import Context
from irkit.onnx.schemas import spec
from irkit.types import Optional, Sequence, Tensor, Tuple, Type, dims_of
from irkit.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR

Operands = tuple[Value | None, ...]


def over(value: Value, inputs: Operands) -> Value:
    """`value` applied to other operands: its type is inferred again where theirs say something new.

    Raises TypeRuleError where the operator refuses them.
    """
    if value.op == SHAPE_VECTOR:
        return _vector_over(value, inputs)
    if not _says_more(value, inputs):
        return Value(value.op, inputs, value.attributes, value.bodies, value.type, value.origin)
    found = refined(inferred(value, inputs), value.type)
    return Value(value.op, inputs, value.attributes, value.bodies, found, value.origin)


def _says_more(value: Value, inputs: Operands) -> bool:
    for new, old in zip(inputs, value.inputs, strict=True):
        if new is old or new is None or old is None:
            continue
        if new.type is not old.type and new.type != old.type:
            return True
        if (new.op in (CONSTANT, SHAPE_VECTOR)) and new.op != old.op and has_fresh(value.type):
            return True
    return False


def inferred(value: Value, inputs: Operands) -> Type:
    """The type that the operator's rule gives for these operands; the value's own where irkit has no rule.

    Raises TypeRuleError where the operator refuses them.
    """
    op = value.op
    if op == ITEM:
        source = inputs[0]
        if source is None or not isinstance(source.type, Tuple):
            raise TypeRuleError(f"Item of {source!r}, which has one result")
        return source.type.items[value.attributes[0][1]]
    rule = None if op in (PARAM, CONSTANT, SHAPE_VECTOR, CALL) else rules.RULES.get(op)
    if rule is None:
        return value.type
    several = isinstance(value.type, Tuple)
    count = len(value.type.items) if isinstance(value.type, Tuple) else 1
    found = rule(Context(spec(op), inputs, dict(value.attributes), value.bodies, count))
    if isinstance(found, tuple):
        return Tuple(found) if several else found[0]
    return found


def has_fresh(type: Type) -> bool:
    """True where a dimension of the type is unknown."""
    return any(d.__class__ is not int and dims.is_fresh(d) for d in dims_of(type))


def refined(new: Type, old: Type) -> Type:
    """`new`, with the dimensions of `old` where `new` knows nothing. Both are types of one value."""
    if new is old or new == old:
        return old
    if isinstance(new, Tensor) and isinstance(old, Tensor) and len(new.shape) == len(old.shape):
        pairs = zip(new.shape, old.shape, strict=True)
        shape = tuple(o if n.__class__ is not int and dims.is_fresh(n) else n for n, o in pairs)
        return new if shape == new.shape else Tensor(new.dtype, shape)
    if isinstance(new, Tuple) and isinstance(old, Tuple) and len(new.items) == len(old.items):
        return Tuple(tuple(refined(n, o) for n, o in zip(new.items, old.items, strict=True)))
    if isinstance(new, Sequence) and isinstance(old, Sequence):
        return Sequence(refined(new.element, old.element))
    if isinstance(new, Optional) and isinstance(old, Optional):
        return Optional(refined(new.element, old.element))
    return new


def loses(new: Type, old: Type) -> bool:
    """True where `old` knows a dimension of which `new` knows nothing."""
    for n, o in zip(dims_of(new), dims_of(old), strict=False):
        if n.__class__ is not int and dims.is_fresh(n) and not (o.__class__ is not int and dims.is_fresh(o)):
            return True
    return False


def _vector_over(value: Value, inputs: Operands) -> Value:
    """A ShapeVector whose binders changed: dimensions that only the old binder's type named are renamed."""
    names: dict[Any, Any] = {}
    for new, old in zip(inputs, value.inputs, strict=True):
        if new is None or old is None or new.type == old.type:
            continue
        for n, o in zip(dims_of(new.type), dims_of(old.type), strict=False):
            if isinstance(o, dims.sympy.Symbol) and o != n:
                names[o] = n
    sizes = value.attributes[0][1]
    if names:
        sizes = tuple(dims.substitute(d, names) for d in sizes)
    return Value(value.op, inputs, (("dims", sizes), *value.attributes[1:]), (), value.type, value.origin)
