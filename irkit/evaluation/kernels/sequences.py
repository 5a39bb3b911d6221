"""Sequences, which are Python lists here, and optionals, which are a value or None."""

from __future__ import annotations

import numpy as np

from irkit.core.ir import Value
from irkit.evaluation.kernels.common import Array, Content, attr, axis_of, fail, ints
from irkit.evaluation.kernels.movement import pieces


def place_of(node: Value, position: Array, count: int) -> int:
    """A position counted from the front. Raises EvaluateError out of range."""
    place = ints(position)[0]
    if not -count <= place < count:
        raise fail(node, f"position {place} is outside a sequence of {count}")
    return place + count if place < 0 else place


def kernel_SequenceConstruct(node: Value, *operands: Array) -> list[Array]:
    """The operands as a sequence."""
    return list(operands)


def kernel_SequenceEmpty(node: Value) -> list[Array]:
    """A sequence of nothing."""
    return []


def kernel_SequenceAt(node: Value, sequence: list[Array], position: Array) -> Array:
    """The element at a position, negative ones from the end."""
    return sequence[place_of(node, position, len(sequence))]


def kernel_SequenceInsert(
    node: Value, sequence: list[Array], tensor: Array, position: Array | None = None
) -> list[Array]:
    """The sequence with a tensor before a position, by default at its end."""
    count = len(sequence)
    place = count if position is None else ints(position)[0]
    if not -count <= place <= count:
        raise fail(node, f"position {place} is outside a sequence of {count}")
    place = place + count if place < 0 else place
    return [*sequence[:place], tensor, *sequence[place:]]


def kernel_SequenceErase(node: Value, sequence: list[Array], position: Array | None = None) -> list[Array]:
    """The sequence without the element at a position, by default the last."""
    place = len(sequence) - 1 if position is None else place_of(node, position, len(sequence))
    return [*sequence[:place], *sequence[place + 1 :]]


def kernel_SequenceLength(node: Value, sequence: list[Array]) -> Array:
    """How many elements there are."""
    return np.array(len(sequence), dtype=np.int64)


def kernel_ConcatFromSequence(node: Value, sequence: list[Array]) -> Array:
    """The elements joined along `axis`, which is a new one where `new_axis` is 1."""
    join = np.stack if attr(node, "new_axis") else np.concatenate
    return join(sequence, axis=attr(node, "axis"))


def kernel_SplitToSequence(node: Value, x: Array, split: Array | None = None) -> list[Array]:
    """x cut along `axis` into pieces of the sizes `split`; of one size, the last smaller, where that is a scalar."""
    axis = axis_of(node, attr(node, "axis"), x.ndim)
    size = x.shape[axis]
    if split is not None and split.ndim:
        return list(pieces(x, axis, ints(split)))
    piece = 1 if split is None else ints(split)[0]
    sizes = (piece,) * (size // piece) + ((size % piece,) if size % piece else ())
    found = pieces(x, axis, sizes)
    return [np.squeeze(p, axis) for p in found] if split is None and not attr(node, "keepdims") else list(found)


def kernel_Optional(node: Value, value: Content = None) -> Content:
    """An optional that holds the operand, or nothing."""
    return value


def kernel_OptionalHasElement(node: Value, value: np.ndarray | None = None) -> Array:
    """True where there is a value."""
    return np.array(value is not None)


def kernel_OptionalGetElement(node: Value, value: Content) -> Content:
    """The value. Raises EvaluateError where there is none."""
    if value is None:
        raise fail(node, "the optional is empty")
    return value
