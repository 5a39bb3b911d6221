"""What a rule of a gradient is given, and what most of them need: sums over what was broadcast, shapes, scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value, item
from irkit.core.types import DType, Tensor, Tuple
from irkit.errors import GraphError

Slopes = Sequence[Value | None]
"""The gradient for each operand; None for one that has none."""
Rule = Callable[["Node"], Slopes]


@attrs.frozen(eq=False)
class Node:
    """An operator on the way back: the value, and the gradient for each of its results, zeros where nothing uses it."""

    value: Value
    slopes: tuple[Value, ...]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The operands."""
        return self.value.inputs

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.inputs[0]

    @property
    def slope(self) -> Value:
        """The gradient for the first result."""
        return self.slopes[0]

    @property
    def y(self) -> Value:
        """The first result."""
        return item(self.value, 0) if isinstance(self.value.type, Tuple) else self.value

    def result(self, index: int) -> Value:
        """Result number `index` of several."""
        return item(self.value, index)

    def operand(self, index: int) -> Any:
        """Operand number `index`; None where it was left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or what ONNX takes where it is not given."""
        return self.value.attribute(name, default)

    def axis(self, default: int, name: str = "axis") -> int:
        """An axis of the first operand, counted from the front."""
        return int(self.get(name, default)) % max(self.x.rank, 1)

    def refuse(self, what: str, hint: str = "write it in operators that have a gradient") -> GraphError:
        """The error for what a rule does not cover."""
        said = f"{self.value.op} has no gradient here: {what}"
        return GraphError(said, ir=repr(self.value), source=str(self.value.origin), hint=hint)


def num(like: Value, number: float) -> Value:
    """A scalar of the element type of a value."""
    return const(np.array(number).astype(like.dtype.numpy))


def ints(numbers: Sequence[int]) -> Value:
    """A vector of int64."""
    return const(np.array(numbers, np.int64))


def shape_of(x: Value) -> Value:
    """The sizes of a value, as a constant where they are numbers."""
    return ints([int(d) for d in x.shape]) if all(type(d) is int for d in x.shape) else op.Shape(x)


def in_shape_of(value: Value, like: Value) -> Value:
    """A value in the shape of another with as many elements."""
    known = len(value.shape) == len(like.shape) and all(
        dims.same(a, b) is True for a, b in zip(value.shape, like.shape, strict=True)
    )
    return value if known else op.Reshape(value, shape_of(like), allowzero=1)


def expand_to(value: Value, like: Value) -> Value:
    """A value broadcast to the shape of another."""
    return op.Expand(value, shape_of(like))


def zeros(like: Value) -> Value:
    """Zeros of the type of a value."""
    return expand_to(num(like, 0), like)


def ones(like: Value) -> Value:
    """Ones of the type of a value."""
    return expand_to(num(like, 1), like)


def sum_back(slope: Value, x: Value) -> Value:
    """A gradient summed over what was broadcast, in the shape of the operand."""
    lead = slope.rank - x.rank
    axes, unsure = list(range(lead)), False
    for axis, (wide, own) in enumerate(zip(slope.shape[lead:], x.shape, strict=True)):
        if dims.same(wide, own) is True or wide == 1:
            continue
        if own == 1:
            axes.append(lead + axis)
        else:
            unsure = True
    if axes:
        slope = op.ReduceSum(slope, ints(axes), keepdims=1)
    if unsure:  # which sizes are 1 is known when the graph runs
        own, wide = op.Shape(x), op.Slice(op.Shape(slope), ints([lead]), ints([2**31]))
        stretched = op.And(op.Equal(own, ints([1])), op.Not(op.Equal(wide, ints([1]))))
        places = op.Add(op.Squeeze(op.NonZero(stretched), ints([0])), ints([lead]))
        slope = op.ReduceSum(slope, places, keepdims=1, noop_with_empty_axes=1)
    return in_shape_of(slope, x)


def keep_where(condition: Value, value: Value) -> Value:
    """A value where a condition holds, and 0 elsewhere."""
    return op.Where(condition, value, num(value, 0))


def regain_axes(value: Value, axes: Sequence[int]) -> Value:
    """A reduced value with the axes that it lost, of one place each."""
    return op.Unsqueeze(value, ints(axes)) if axes else value


def scatter_along(slope: Value, places: Value, axis: int, x: Value) -> Value:
    """The gradient for `x` of places along an axis of it: `slope` has that axis as `places`, a vector, counts it."""
    row = [-1 if each == axis else 1 for each in range(x.rank)]
    index = op.Expand(op.Reshape(places, ints(row)), shape_of(slope))
    return op.ScatterElements(zeros(x), index, slope, axis=axis, reduction="add")


def is_float(value: Any) -> bool:
    """Whether gradients for a value are numbers: floats, no complex ones."""
    kind = value.type.dtype if value is not None and isinstance(value.type, Tensor) else None
    return kind is not None and kind.is_float and kind not in (DType.STRING, DType.BOOL)
