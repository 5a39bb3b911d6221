"""Gradients of operators that move elements: of shapes, parts, places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from passes.analysis.questions import small
from passes.gradients.node import Node, Slopes, in_shape_of, ints, num, scatter_along, shape_of, sum_back


def grad_Reshape(n: Node) -> Slopes:
    """In the old shape."""
    return (in_shape_of(n.slope, n.x),) + (None,) * (len(n.inputs) - 1)


grad_Flatten = grad_Squeeze = grad_Unsqueeze = grad_Reshape


def grad_Expand(n: Node) -> Slopes:
    """Summed over what was broadcast."""
    return sum_back(n.slope, n.x), None


def grad_Transpose(n: Node) -> Slopes:
    """Turned back."""
    order = n.get("perm", tuple(range(n.x.rank))[::-1])
    return (op.Transpose(n.slope, perm=[int(i) for i in np.argsort(order)]) if n.x.rank else n.slope,)


def grad_Concat(n: Node) -> Slopes:
    """A part for each."""
    axis = n.axis(0)
    if len(n.inputs) == 1:
        return (n.slope,)
    sizes = [op.Slice(op.Shape(x), ints([axis]), ints([axis + 1])) for x in n.inputs]
    parts = op.Split(n.slope, op.Concat(*sizes, axis=0), axis=axis, outputs=len(n.inputs))
    return tuple(parts)


def grad_Split(n: Node) -> Slopes:
    """One behind the other."""
    found = op.Concat(*n.slopes, axis=n.axis(0)) if len(n.slopes) > 1 else n.slope
    return (found,) + (None,) * (len(n.inputs) - 1)


def size_along(x: Value, axis: int) -> Value:
    """The size of an axis as a scalar."""
    return op.Squeeze(op.Slice(op.Shape(x), ints([axis]), ints([axis + 1])), ints([0]))


def counted(x: Value, axis: int) -> Value:
    """The places of an axis: 0, 1, 2 ..."""
    return op.Range(const(np.int64(0)), size_along(x, axis), const(np.int64(1)))


def grad_Slice(n: Node) -> Slopes:
    """Where the part was taken from, axis by axis; zeros elsewhere."""
    starts, ends, axes, steps = (n.operand(i) for i in range(1, 5))
    known = None if axes is None else small(axes)
    if axes is not None and known is None:
        raise n.refuse("its axes are no constant")
    numbers = range(starts.shape[0]) if known is None else [int(a) % n.x.rank for a in known]
    slope = n.slope
    shapes = [n.x]  # what the part was taken from, before each axis
    for i, axis in enumerate(numbers):
        one = [None if v is None else op.Slice(v, ints([i]), ints([i + 1])) for v in (starts, ends, steps)]
        shapes.append(op.Slice(shapes[-1], one[0], one[1], ints([axis]), one[2]))
    for i, axis in reversed(list(enumerate(numbers))):
        one = [None if v is None else op.Slice(v, ints([i]), ints([i + 1])) for v in (starts, ends, steps)]
        places = op.Slice(counted(n.x, axis), one[0], one[1], ints([0]), one[2])
        slope = scatter_along(in_shape_of(slope, shapes[i + 1]), places, axis, shapes[i])
    return (slope,) + (None,) * (len(n.inputs) - 1)


def grad_Pad(n: Node) -> Slopes:
    """What is not padding; of the other modes, added where it was taken from."""
    x, pads, axes = n.x, n.inputs[1], n.operand(3)
    known = None if axes is None else small(axes)
    if axes is not None and known is None:
        raise n.refuse("its axes are no constant")
    numbers = list(range(x.rank)) if known is None else [int(a) % x.rank for a in known]
    mode, slope = n.get("mode", "constant"), n.slope
    before = op.Slice(pads, ints([0]), ints([len(numbers)]))
    if mode == "constant":
        if not numbers:
            return (slope,) + (None,) * (len(n.inputs) - 1)
        taken = op.Gather(op.Shape(x), ints(numbers), axis=0)
        low = op.Max(before, ints([0]))
        inner = op.Slice(slope, low, op.Max(op.Add(before, taken), ints([0])), ints(numbers))
        shift = op.Max(op.Neg(before), ints([0]))  # what a negative pad took away
        rest = op.Sub(taken, op.Add(shift, op.Gather(op.Shape(inner), ints(numbers), axis=0)))
        found = op.Pad(inner, op.Concat(shift, rest, axis=0), None, ints(numbers))
        value = n.operand(2)
        outside = op.Sub(op.ReduceSum(slope, keepdims=0), op.ReduceSum(inner, keepdims=0))
        given = None if value is None else in_shape_of(outside, value)
        return (in_shape_of(found, x), None, given)[: len(n.inputs)] + (None,) * (len(n.inputs) - 3)
    for axis in reversed(range(x.rank)):
        if axis in numbers:
            i, count = numbers.index(axis), len(numbers)
            own = [op.Slice(pads, ints([at]), ints([at + 1])) for at in (i, count + i)]
            places = op.Pad(counted(x, axis), op.Concat(*own, axis=0), mode=mode)
            # Axes before this one are padded still, those behind it no longer.
            wide = part_of(slope, x, axis)
            slope = scatter_along(slope, places, axis, wide)
    return (in_shape_of(slope, x),) + (None,) * (len(n.inputs) - 1)


def part_of(slope: Value, x: Value, axis: int) -> Value:
    """Zeros in the sizes of a gradient, but with the size of an operand along one axis."""
    sizes: list[Any] = [op.Slice(op.Shape(x if i == axis else slope), ints([i]), ints([i + 1])) for i in range(x.rank)]
    return op.Expand(num(x, 0), op.Concat(*sizes, axis=0))


def grad_Tile(n: Node) -> Slopes:
    """Summed over the repeats."""
    rank = n.x.rank
    if not rank:
        return n.slope, None
    pairs = [op.Unsqueeze(each, ints([1])) for each in (n.inputs[1], op.Shape(n.x))]
    apart = op.Reshape(op.Concat(*pairs, axis=1), ints([2 * rank]))
    split = op.Reshape(n.slope, apart, allowzero=1)
    return in_shape_of(op.ReduceSum(split, ints(range(0, 2 * rank, 2)), keepdims=0), n.x), None


def grad_Trilu(n: Node) -> Slopes:
    """The same triangle."""
    return (op.Trilu(n.slope, *n.inputs[1:], upper=n.get("upper", 1)),) + (None,) * (len(n.inputs) - 1)


def grad_DepthToSpace(n: Node) -> Slopes:
    """Back into channels."""
    size, n_first = n.get("blocksize"), n.get("mode", "DCR") == "DCR"
    if n_first:
        return (op.SpaceToDepth(n.slope, blocksize=size),)
    batch, channels, height, width = (size_of(n.x, i) for i in range(4))
    inner = op.Div(channels, ints([size * size]))
    apart = op.Reshape(n.slope, join_sizes(batch, inner, height, ints([size]), width, ints([size])), allowzero=1)
    return (in_shape_of(op.Transpose(apart, perm=[0, 1, 3, 5, 2, 4]), n.x),)


def grad_SpaceToDepth(n: Node) -> Slopes:
    """Back into space."""
    return (op.DepthToSpace(n.slope, blocksize=n.get("blocksize")),)


def size_of(x: Value, axis: int) -> Value:
    """The size of an axis as a vector of one."""
    known = x.shape[axis]
    return ints([known]) if type(known) is int else op.Slice(op.Shape(x), ints([axis]), ints([axis + 1]))


def join_sizes(*sizes: Value) -> Value:
    """Sizes in a row."""
    return op.Concat(*sizes, axis=0)


def sizes_but(x: Value, axis: int, middle: Sequence[Value]) -> Value:
    """The sizes of a value with others in place of those of an axis."""
    return join_sizes(*(size_of(x, i) for i in range(axis)), *middle, *(size_of(x, i) for i in range(axis + 1, x.rank)))


# ---------------------------------------------------------------------------------------------- indices


def grad_Gather(n: Node) -> Slopes:
    """Added where each was taken from."""
    x, index = n.inputs
    axis = n.axis(0)
    rows = op.Reshape(n.slope, sizes_but(x, axis, [op.Reshape(op.Size(index), ints([1]))]), allowzero=1)
    places = op.Cast(op.Reshape(index, ints([-1])), to=DType.INT64)
    return scatter_along(rows, places, axis, x), None


def grad_GatherElements(n: Node) -> Slopes:
    """Added where each was taken from."""
    x, index = n.inputs
    zero = op.Expand(num(x, 0), shape_of(x))
    return op.ScatterElements(zero, index, n.slope, axis=n.axis(0), reduction="add"), None


def grad_GatherND(n: Node) -> Slopes:
    """Added where each was taken from."""
    x, index = n.inputs
    index = with_batches(index, int(n.get("batch_dims", 0)))
    return op.ScatterND(op.Expand(num(x, 0), shape_of(x)), index, n.slope, reduction="add"), None


def with_batches(index: Value, count: int) -> Value:
    """Indices with those of the first `count` axes, which they share with what is indexed, before them."""
    if not count:
        return index
    sizes = join_sizes(*(size_of(index, i) for i in range(index.rank - 1)), ints([1]))
    rows = [op.Reshape(counted(index, i), ints([-1 if j == i else 1 for j in range(index.rank)])) for i in range(count)]
    return op.Concat(*(op.Expand(row, sizes) for row in rows), index, axis=-1)


def grad_ScatterElements(n: Node) -> Slopes:
    """For the data where nothing was written; for what was written, where it went."""
    _, index, updates = n.inputs
    axis, how = n.axis(0), n.get("reduction", "none")
    if how not in ("none", "add"):
        raise n.refuse(f"reduction={how!r}")
    gone = op.GatherElements(n.slope, index, axis=axis)
    if how == "add":
        return n.slope, None, gone
    zero = op.Expand(num(updates, 0), shape_of(updates))
    return op.ScatterElements(n.slope, index, zero, axis=axis), None, gone


def grad_ScatterND(n: Node) -> Slopes:
    """For the data where nothing was written; for what was written, where it went."""
    _, index, updates = n.inputs
    how = n.get("reduction", "none")
    if how not in ("none", "add"):
        raise n.refuse(f"reduction={how!r}")
    gone = op.GatherND(n.slope, index)
    if how == "add":
        return n.slope, None, gone
    zero = op.Expand(num(updates, 0), shape_of(updates))
    return op.ScatterND(n.slope, index, zero), None, gone


def grad_TopK(n: Node) -> Slopes:
    """Where each was taken from."""
    zero = op.Expand(num(n.x, 0), shape_of(n.x))
    return op.ScatterElements(zero, n.result(1), n.slope, axis=n.axis(-1)), None
