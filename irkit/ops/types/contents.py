"""What is known of the elements of small integer tensors: constants, sizes, and arithmetic on them.

A graph that computes sizes with operators (Shape, Gather, Mul, Concat, Reshape) has the types that it would have with
the sizes written down, since these few operators are followed here. Elements are dimensions, flat, in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from irkit import dims
from irkit.core.blobs import Blob
from irkit.core.types import DType, Tensor
from irkit.core.vocabulary import CONSTANT, ITEM, SHAPE_VECTOR
from irkit.dims import Dim, signs
from irkit.errors import DimensionError

Known = tuple[Dim, ...] | None
"""The elements, flat; None where they are not known."""

LIMIT = 4096
"""Constants of more elements than this are not read by a type rule."""

STEPS = 256
"""How many operators are followed for one answer."""

FEW = 16
"""Constants of other numbers than integers are read by a type rule where they have no more elements than this."""

_INDEX = (DType.INT64, DType.INT32)
_WHOLE = frozenset((*_INDEX, DType.BOOL))
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
    if value.op not in FOLLOWED or not is_small(value):
        return None
    try:
        return followed(value)
    except DimensionError:  # a vast expression
        return None


def followed(value: Any) -> Known:
    """`contents` of a value that operators compute, operands before users."""
    known: dict[Any, Known] = {}
    stack, steps = [value], 0
    while stack:
        v = stack[-1]
        if v in known:
            stack.pop()
            continue
        if v.op not in FOLLOWED or not is_small(v):
            known[stack.pop()] = LEAVES[v.op](v) if v.op in LEAVES else None
            continue
        operands = operands_of(v)
        pending = [i for i in operands if i is not None and i not in known]
        if pending:
            steps += len(pending)
            if steps > STEPS:
                return None
            stack.extend(pending)
            continue
        given = [() if i is None else known[i] for i in operands]
        known[stack.pop()] = None if any(g is None for g in given) else FOLLOWED[v.op](v, given)
    return known[value]


def operands_of(value: Any) -> tuple[Any, ...]:
    """What the elements of a value follow from: its operands; for a part of a Split what was split."""
    if value.op != ITEM:
        return value.inputs
    return value.inputs[0].inputs[:1] if value.inputs[0].op == "Split" else ()


def is_small(value: Any) -> bool:
    """True for integer and bool tensors of rank 0 or 1."""
    type_ = value.type
    return isinstance(type_, Tensor) and len(type_.shape) <= 1 and (type_.dtype in _INDEX or type_.dtype is DType.BOOL)


def seen(value: Any) -> Any:
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


def of_shape(value: Any) -> Known:
    """The dimensions of the operand, or the part of them that `start` and `end` say."""
    type_ = value.inputs[0].type
    if not isinstance(type_, Tensor):
        return None
    return type_.shape[value.attribute("start", 0) : value.attribute("end")]


def of_size(value: Any) -> Known:
    """The number of elements of the operand."""
    type_ = value.inputs[0].type
    return (dims.product(type_.shape),) if isinstance(type_, Tensor) else None


LEAVES: Mapping[str, Callable[[Any], Known]] = {
    CONSTANT: of_constant, SHAPE_VECTOR: lambda v: v.attributes[0][1], "Shape": of_shape, "Size": of_size,
}  # fmt: skip
"""Operators whose elements are known without those of their operands."""


# ---------------------------------------------------------------------------------------------- arithmetic

Given = list[Any]  # the elements of each operand, all known; () for one that was left out


def first(value: Any, given: Given) -> Known:
    """The same elements under another shape."""
    return given[0]


def recast(value: Any, given: Given) -> Known:
    """Cast between integers, and from and to bool."""
    if value.dtype is DType.BOOL and value.inputs[0].dtype is not DType.BOOL:
        return tuple(int(d != 0) for d in given[0]) if all(type(d) is int for d in given[0]) else None
    return given[0]


def joined(value: Any, given: Given) -> Known:
    """Concat"""
    return tuple(d for part in given for d in part)


def picked(value: Any, given: Given) -> Known:
    """Gather with constant indices"""
    data, indices = given
    if value.inputs[0].rank != 1 or any(type(i) is not int or not -len(data) <= i < len(data) for i in indices):
        return None
    return tuple(data[i] for i in indices)


def cut(value: Any, given: Given) -> Known:
    """Slice of a vector with constant bounds"""
    if any(len(g) != 1 or type(g[0]) is not int for g in given[1:] if g) or value.inputs[0].rank != 1:
        return None
    bounds = slice(given[1][0], given[2][0], given[4][0] if len(given) > 4 and given[4] else 1)
    return None if bounds.step == 0 else given[0][bounds]


def elementwise(function: Callable[..., Dim | None]) -> Callable[[Any, Given], Known]:
    """The rule of an operator that works element by element, of operands that are as long as each other or of one."""

    def follow(value: Any, given: Given) -> Known:
        count = max(map(len, given))
        if any(len(g) not in (1, count) for g in given):
            return None
        rows = zip(*(g * count if len(g) == 1 else g for g in given), strict=True)
        found = tuple(function(*row) for row in rows)
        return None if any(d is None for d in found) else found  # type: ignore[return-value]

    return follow


def quotient(a: Dim, b: Dim) -> Dim | None:
    """a / b rounded towards zero, known where neither is negative."""
    return dims.floordiv(a, b) if is_count(a) and is_count(b) and b != 0 else None


def remainder(a: Dim, b: Dim) -> Dim | None:
    """a % b, known where neither is negative."""
    return dims.mod(a, b) if is_count(a) and is_count(b) and b != 0 else None


def is_count(d: Dim) -> bool:
    """True where a number is certainly not negative."""
    return d >= 0 if isinstance(d, int) else signs.is_nonnegative(d)


def equal(a: Dim, b: Dim) -> Dim | None:
    """1 or 0 where it can be told."""
    answer = dims.same(a, b)
    return None if answer is None else int(answer)


def chosen(flag: Dim, a: Dim, b: Dim) -> Dim | None:
    """Where"""
    if type(flag) is int:
        return a if flag else b
    return None


def part(value: Any, given: Given) -> Known:
    """One result of a Split of a vector"""
    if not given:
        return None
    sizes = [t.shape[0] for t in value.inputs[0].type.items[: value.attribute("index") + 1]]
    if any(type(size) is not int for size in sizes):
        return None
    end = sum(sizes)
    return given[0][end - sizes[-1] : end]


def filled(value: Any, given: Given) -> Known:
    """ConstantOfShape of a known length"""
    blob = value.attribute("value")
    count = math.prod(given[0]) if all(type(d) is int for d in given[0]) else LIMIT + 1
    return None if blob is None or count > LIMIT else (int(blob.array.reshape(-1)[0]),) * count


def repeated(value: Any, given: Given) -> Known:
    """Expand of one element to a vector of known length"""
    count = math.prod(value.shape) if all(type(d) is int for d in value.shape) else LIMIT + 1
    return given[0] * count if len(given[0]) == 1 and count <= LIMIT else None


def counted(value: Any, given: Given) -> Known:
    """Range between constants"""
    if any(len(g) != 1 or type(g[0]) is not int for g in given) or given[2][0] == 0:
        return None
    numbers = range(given[0][0], given[1][0], given[2][0])
    return tuple(numbers) if len(numbers) <= LIMIT else None


def reduced(function: Callable[..., Dim]) -> Callable[[Any, Given], Known]:
    """The rule of a reduction of a whole vector."""

    def follow(value: Any, given: Given) -> Known:
        return None if value.attribute("noop_with_empty_axes") or not given[0] else (function(*given[0]),)

    return follow


FOLLOWED: Mapping[str, Callable[[Any, Given], Known]] = {
    **dict.fromkeys(("Squeeze", "Unsqueeze", "Reshape", "Identity", "Flatten"), first),
    "Cast": recast, "Concat": joined, "Gather": picked, "Slice": cut, "ConstantOfShape": filled, "Expand": repeated,
    "Range": counted, ITEM: part,
    "Add": elementwise(dims.add), "Sub": elementwise(dims.sub), "Mul": elementwise(dims.mul),
    "Div": elementwise(quotient), "Mod": elementwise(remainder), "Max": elementwise(dims.maximum),
    "Min": elementwise(dims.minimum), "Neg": elementwise(lambda a: dims.mul(a, -1)),
    "Equal": elementwise(equal), "Not": elementwise(lambda a: 1 - a if type(a) is int else None),
    "Where": elementwise(chosen),
    "ReduceProd": reduced(lambda *parts: dims.product(parts)), "ReduceMax": reduced(dims.maximum),
    "ReduceMin": reduced(dims.minimum),
}  # fmt: skip
"""How the elements of an operator follow from those of its operands."""
