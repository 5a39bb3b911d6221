"""What is known of the elements of integer tensors: constants, sizes, and what operators compute of them.

A graph that computes sizes with operators (Shape, Gather, Mul, Concat, Reshape) has the types that it would have with
the sizes written down, since these few operators are followed, as `integers` says. Elements are dimensions, flat, in
order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from irkit.core.blobs import Blob
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, ITEM, SHAPE_VECTOR
from irkit.dims import Dim
from irkit.errors import DimensionError
from irkit.ops.types.integers import RULES, Integers, follow, sizes_of

Known = tuple[Dim, ...] | None
"""The elements, flat; None where they are not known."""

LIMIT = 4096
"""Constants of more elements than this are not read by a type rule."""

STEPS = 256
"""How many operators are followed for one answer."""

FEW = 16
"""Constants of other numbers than integers are read by a type rule where they have no more elements than this."""

_WHOLE = frozenset((DType.INT64, DType.INT32, DType.BOOL))
_REAL = frozenset((DType.FLOAT, DType.FLOAT16, DType.BFLOAT16, DType.DOUBLE))


def contents(value: Any) -> Known:
    """The elements of an integer tensor that is known, flat, as dimensions; None where it is unknown or large."""
    if value is None:
        return None
    leaf = LEAVES.get(value.op)
    if leaf is not None:
        try:
            return leaf(value)
        except DimensionError:  # the product of many sums
            return None
    if not is_followed(value):
        return None
    try:
        found = followed(value)
    except DimensionError:  # a vast expression
        return None
    return None if found is None else found.elements


def followed(value: Any) -> Integers | None:
    """The elements of a value that operators compute, operands before users."""
    known: dict[Value, Integers | None] = {}
    stack, steps = [value], 0
    while stack:
        v = stack[-1]
        if v in known:
            stack.pop()
            continue
        if not is_followed(v):
            known[stack.pop()] = leaf_content(v)
            continue
        operands = operands_of(v)
        pending = [i for i in operands if i is not None and i not in known]
        if pending:
            steps += len(pending)
            if steps > STEPS:
                return None
            stack.extend(pending)
            continue
        given = [None if i is None else known[i] for i in operands]
        unknown = any(g is None and i is not None for g, i in zip(given, operands, strict=True))
        stack.pop()
        if unknown:
            known[v] = None
        elif v.op == ITEM:
            known[v] = part(v, given)
        else:
            known[v] = follow(v.op, v.dtype, given, dict(v.attributes))
    return known[value]


def is_followed(value: Any) -> bool:
    """True for integer and bool tensors of rank 0 or 1 that an operator computes whose rule is known."""
    if value.op not in RULES and value.op != ITEM:
        return False
    type_ = value.type
    return isinstance(type_, Tensor) and len(type_.shape) <= 1 and type_.dtype in _WHOLE


def operands_of(value: Any) -> tuple[Value | None, ...]:
    """What the elements of a value follow from: its operands; for a part of a Split what was split."""
    if value.op != ITEM:
        return value.inputs
    return value.inputs[0].inputs[:1] if value.inputs[0].op == "Split" else ()


def seen_content(value: Any) -> Any:
    """What type rules may look at in an operand, in a form to be hashed: where they are equal for two operands of a
    tensor type, no rule tells them apart. That is the operand itself where its elements may follow from others."""
    if value is None:
        return None
    type_ = value.type
    if type(type_) is not Tensor:
        return value
    if value.op == CONSTANT:
        blob = value.attributes[0][1]
        return type_ if blob.dtype in _REAL and blob.size > FEW else blob
    if len(type_.shape) > 1 or type_.dtype not in _WHOLE:
        return type_
    return value.attributes[0][1] if value.op == SHAPE_VECTOR and not value.inputs else value


# ---------------------------------------------------------------------------------------------- leaves


def of_constant(value: Any) -> Known:
    """The elements of a constant of integers or bools that is not large."""
    blob: Blob = value.attributes[0][1]
    return None if blob.size > LIMIT else blob.integers


def of_sizes(value: Any) -> Known:
    """The dimensions of the operand that Shape gives, or the number of elements that Size gives."""
    found = sizes_of(value.op, value.inputs[0].type, dict(value.attributes))
    return None if found is None else found.elements


LEAVES: Mapping[str, Callable[[Value], Known]] = {
    CONSTANT: of_constant, SHAPE_VECTOR: lambda v: v.attributes[0][1], "Shape": of_sizes, "Size": of_sizes,
}  # fmt: skip
"""Operators whose elements are known without those of their operands."""


def leaf_content(value: Any) -> Integers | None:
    """The elements of a leaf, of rank 0 or 1."""
    leaf = LEAVES.get(value.op)
    found = None if leaf is None or len(value.shape) > 1 else leaf(value)
    return None if found is None else Integers(found, len(value.shape))


def part(value: Any, given: Sequence[Integers | None]) -> Integers | None:
    """One result of a Split of a vector."""
    data = given[0] if given else None
    sizes = [t.shape[0] for t in value.inputs[0].type.items[: value.attribute("index") + 1]] if data else []
    if data is None or any(type(size) is not int for size in sizes):
        return None
    end = sum(sizes)
    return Integers(data.elements[end - sizes[-1] : end], 1)
