"""Operators of float64 on neighbours and places, for which ONNX Runtime has kernels of float32 only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.dims import Dim
from irkit.pattern import attribute_of
from irkit.rewriting.face import Match
from passes.analysis.known_sizes import bound_by, is_bound, sizes_value
from passes.analysis.questions import is_known, number, vector
from passes.legal.runtime.refusals import may_be_empty


def hardmax(m: Match, value: Value) -> Value | None:
    """1 at the first largest element along an axis, else 0"""
    x = value.inputs[0]
    axis = attribute_of(value, "axis")
    if x is None or not x.rank or not is_bound(m, (x.shape[axis],), bound_by(x)):
        return None
    depth = sizes_value(m, (x.shape[axis],), 1, bound_by(x))
    if may_be_empty(x.shape[axis]):  # what has no element has no largest one: one more behind all others
        pads = [0] * (2 * x.rank)
        pads[x.rank + axis % x.rank] = 1
        x = op.Pad(x, vector(pads), number(x, -np.inf))
    if x.rank == 1:  # OneHot takes no scalar
        return op.Squeeze(one_largest(op.Unsqueeze(x, [0]), 1, depth), [0])
    return one_largest(x, axis, depth)


def one_largest(x: Value, axis: int, depth: Value) -> Value:
    """1 in double at the first largest element along an axis, of which `depth` are asked for, and 0 elsewhere."""
    place = op.ArgMax(x, axis=axis, keepdims=0)
    return op.Cast(op.OneHot(place, depth, np.array([0, 1], np.float32), axis=axis), to=DType.DOUBLE)


def local_response(m: Match, value: Value) -> Value | None:
    """x / (bias + alpha / size * the sum of squares of `size` neighbouring channels) ** beta"""
    x, size = value.inputs[0], attribute_of(value, "size")
    if x is None or size < 1:
        return None
    before, after = (size - 1) // 2, size // 2
    pads = [0] * (2 * x.rank)
    pads[1], pads[x.rank + 1] = before, after
    squares = op.Pad(op.Mul(x, x), vector(pads), number(x, 0))
    total: Value | None = None
    for i in range(size):
        end = np.iinfo(np.int64).max if i == size - 1 else i - size + 1
        part = op.Slice(squares, vector([i]), vector([end]), vector([1]))
        total = part if total is None else op.Add(total, part)
    if total is None:
        return None
    scale = op.Add(
        op.Mul(total, number(x, attribute_of(value, "alpha") / size)), number(x, attribute_of(value, "bias"))
    )
    return op.Div(x, op.Pow(scale, number(x, attribute_of(value, "beta"))))


def max_unpool(m: Match, value: Value) -> Value | None:
    """Zeros, and the elements of x at their places in the flattened result, in the size that MaxPool pooled from"""
    x, places = value.inputs[:2]
    if x is None or places is None:
        return None
    shape = natural(value, x)
    if not is_known((*shape, *value.shape)) or not is_bound(m, (*shape, *value.shape), bound_by(x)):
        return None
    ground = op.Expand(number(x, 0), sizes_value(m, (dims.product(shape),), 1, bound_by(x)))
    flat = (op.Reshape(v, vector([-1])) for v in (places, x))
    found = op.Reshape(op.ScatterElements(ground, *flat, axis=0), sizes_value(m, shape, 1, bound_by(x)), allowzero=1)
    more = [dims.sub(wanted, there) for wanted, there in zip(value.shape, shape, strict=True)]
    if all(type(d) is int and d == 0 for d in more):
        return found
    return op.Pad(found, sizes_value(m, (*(0 for _ in more), *more), 1, bound_by(x)))


def natural(value: Value, x: Value) -> tuple[Dim, ...]:
    """The shape in which the places of a MaxUnpool are counted."""
    kernel = value.attribute("kernel_shape")
    rank = len(kernel)
    strides, pads = value.attribute("strides") or (1,) * rank, value.attribute("pads") or (0,) * (2 * rank)
    sizes = zip(x.shape[2:], strides, kernel, pads[:rank], pads[rank:], strict=True)
    return (*x.shape[:2], *(dims.add(dims.mul(dims.sub(n, 1), s), k - b - a) for n, s, k, b, a in sizes))


DOUBLE_WINDOWS: Mapping[str, Callable[[Match, Value], Any]] = MappingProxyType({
    "Hardmax": hardmax, "LRN": local_response, "MaxUnpool": max_unpool,
})  # fmt: skip
"""The expansion of each operator whose first operand is float64."""
