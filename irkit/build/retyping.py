"""Values over new operands: the type inferred again, and never made less known than it was."""

from __future__ import annotations

from typing import Any

import sympy

from irkit import dims
from irkit.build import runtime
from irkit.core.ir import Value, vertex
from irkit.core.origins import Origin
from irkit.core.types import Optional, Sequence, Tensor, Tuple, Type, dims_of
from irkit.core.vocabulary import CALL, CONSTANT, ITEM, PARAM, SHAPE_VECTOR
from irkit.dims import Dim
from irkit.dims.algebra import any_fresh
from irkit.errors import TypeRuleError
from irkit.nodes import type_rules
from irkit.nodes.calls import call_type
from irkit.nodes.coarse_types import inferred_or_coarser
from irkit.ops.schemas import spec
from irkit.ops.types.context import Context

Operands = tuple[Value | None, ...]


def over(value: Value, inputs: Operands, origin: Origin | None = None) -> Value:
    """`value` applied to other operands, with another origin where one is given: its type is inferred again where
    theirs say something new.

    Raises TypeRuleError where the operator refuses them.
    """
    origin = value.origin if origin is None else origin
    if value.op == SHAPE_VECTOR:
        return _vector_over(value, inputs, origin)
    found = value.type
    for new, old in zip(inputs, value.inputs, strict=True):
        if new is old or new is None or old is None:
            continue
        now, before = new.type, old.type
        differ = now is not before and not now == before  # noqa: SIM201 (`!=` takes twice as long)
        if differ or (new.op in _KNOWN and new.op != old.op and has_fresh(found)):
            found = refined_type(inferred_type(value, inputs), found, _named(inputs))
            break
    return vertex(value.op, inputs, value.attributes, value.bodies, found, origin)


_KNOWN = (CONSTANT, SHAPE_VECTOR)
"""Operators whose elements may tell more about a result than those of the operand before."""


def inferred_type(value: Value, inputs: Operands) -> Type:
    """The type that the operator's rule gives for these operands; the value's own where irkit has no rule.

    Raises TypeRuleError where the operator refuses them.
    """
    op = value.op
    if op == ITEM:
        source = inputs[0]
        if source is None or not isinstance(source.type, Tuple):
            raise TypeRuleError(f"Item of {source!r}, which has one result", hint="use that result as it is")
        index: int = value.attributes[0][1]
        return source.type.items[index]
    if op == CALL:
        return call_type(value.bodies[0], (v.type for v in inputs if v is not None))
    rule = None if op in (PARAM, CONSTANT, SHAPE_VECTOR) else type_rules.RULES.get(op)
    if rule is None:
        known = runtime.defined_operator(op)
        if known is None:
            return value.type
        rule = known.rule
    several = isinstance(value.type, Tuple)
    count = len(value.type.items) if isinstance(value.type, Tuple) else 1
    found = inferred_or_coarser(rule, Context(spec(op), inputs, dict(value.attributes), value.bodies, count))
    if isinstance(found, tuple):
        return Tuple(found) if several else found[0]
    return found


def has_fresh(type: Type) -> bool:
    """True where a dimension of the type is unknown."""
    return any_fresh(dims_of(type))


def refined_type(new: Type, old: Type, named: frozenset[sympy.Symbol] = frozenset()) -> Type:
    """`new`, with the dimensions of `old` where `new` knows nothing. Both are types of one value.

    Where neither knows anything, unknown dimensions that are in `named` are kept: others have the same.
    """
    if new is old or new == old:
        return old
    if isinstance(new, Tensor) and isinstance(old, Tensor) and len(new.shape) == len(old.shape):
        shape = tuple(_better(n, o, named) for n, o in zip(new.shape, old.shape, strict=True))
        return new if shape == new.shape else Tensor(new.dtype, shape)
    if isinstance(new, Tuple) and isinstance(old, Tuple) and len(new.items) == len(old.items):
        return Tuple(tuple(refined_type(n, o, named) for n, o in zip(new.items, old.items, strict=True)))
    if isinstance(new, Sequence) and isinstance(old, Sequence):
        return Sequence(refined_type(new.element, old.element, named))
    if isinstance(new, Optional) and isinstance(old, Optional):
        return Optional(refined_type(new.element, old.element, named))
    return new


def _better(new: Dim, old: Dim, named: frozenset[sympy.Symbol]) -> Dim:
    if not is_unknown(new):
        return new
    return old if new not in named or not is_unknown(old) else new


def is_unknown(dim: Dim) -> bool:
    """True for a fresh symbol."""
    return dim.__class__ is not int and dims.is_fresh(dim)


def _named(inputs: Operands) -> frozenset[sympy.Symbol]:
    """The unknown dimensions that stand in the types and the contents of operands."""
    found: set[Any] = set()
    for value in inputs:
        if value is None:
            continue
        found.update(d for d in dims_of(value.type) if is_unknown(d))
        if value.op == SHAPE_VECTOR:
            found.update(d for d in value.attributes[0][1] if is_unknown(d))
    return frozenset(found)


def loses(new: Type, old: Type) -> bool:
    """True where `old` knows a dimension of which `new` knows nothing."""
    if new is old or (type(new) is Tensor and type(old) is Tensor and new.shape == old.shape):
        return False
    return any(
        n.__class__ is not int and n is not o and is_unknown(n) and not is_unknown(o)
        for n, o in zip(dims_of(new), dims_of(old), strict=False)
    )


def _vector_over(value: Value, inputs: Operands, origin: Origin) -> Value:
    """A ShapeVector whose binders changed: dimensions that only the old binder's type named are renamed."""
    names: dict[sympy.Symbol, Dim] = {}
    for new, old in zip(inputs, value.inputs, strict=True):
        if new is None or old is None or new.type == old.type:
            continue
        for n, o in zip(dims_of(new.type), dims_of(old.type), strict=False):
            if isinstance(o, sympy.Symbol) and o != n:
                names[o] = n
    sizes = value.attributes[0][1]
    if names:
        sizes = tuple(dims.substitute(d, names) for d in sizes)
    return Value(value.op, inputs, (("dims", sizes), *value.attributes[1:]), (), value.type, origin)
