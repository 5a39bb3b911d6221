"""What ONNX Runtime 1.31 gets wrong of 64-bit integers, and the same by operators that it gets right.

On x86 it compares the lower 32 bits of two numbers as signed ones where the upper halves are equal. Max, Min, Clip,
Relu, Sign and the extremes along an axis are wrong so, for numbers on different sides of 2**31, or of -2**31; Less,
Greater and Equal are right. Sizes, indices and what was cast from narrower integers lie on one side, and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from irkit.build import call, const, op
from irkit.core.ir import Value
from irkit.core.types import DType, Tensor
from irkit.rewriting.face import Match

ORDERED = frozenset(("Max", "Min", "Clip", "Relu", "Sign", "ReduceMax", "ReduceMin"))
"""Operators that compare numbers by halves."""

NARROW = frozenset((DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32))
COUNTS = frozenset(("ShapeVector", "Shape", "Size", "Range", "ArgMax", "ArgMin", "NonZero"))
"""Operators that give sizes, or numbers that count something."""
MOVES = frozenset((
    "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Expand", "Slice", "Gather", "GatherElements", "Identity", "Tile",
))  # fmt: skip
"""Operators whose results are elements of their first operand."""
MIXES = frozenset(("Add", "Sub", "Neg", "Abs", "Max", "Min", "Clip", "Concat", "Mod", "Where"))
"""Operators whose results lie about where their operands do."""
LOOKS = 24
"""How many values are looked at before a tensor counts as one of any numbers."""


def is_confused(value: Value) -> bool:
    """True for an operator on 64-bit integers that may be beyond 32 bits, of which ONNX Runtime errs."""
    if value.op not in ORDERED or not isinstance(value.type, Tensor) or value.dtype is not DType.INT64:
        return False
    operands = value.inputs[:1] if value.op.startswith("Reduce") else value.inputs
    return not all(v is None or is_narrow(v) for v in operands)


def is_narrow(value: Value) -> bool:
    """True where every element certainly lies between -2**31 and 2**31; sizes are taken to lie far below."""
    pending, sums, casts = [value], False, False
    for _ in range(LOOKS):
        if not pending:
            return not (sums and casts)
        v = pending.pop()
        if v.blob is not None:
            array = v.blob.array
            if array.size and (int(array.min()) < -(2**31) or int(array.max()) >= 2**31):
                return False
        elif v.op in COUNTS or v.dtype is DType.BOOL:
            continue
        elif v.op == "Cast" and v.inputs[0] is not None and v.inputs[0].dtype in NARROW:
            casts = casts or v.inputs[0].dtype is DType.INT32
        elif v.op in MOVES:
            pending += [x for x in v.inputs[:1] if x is not None]
        elif v.op in MIXES:
            sums = sums or v.op in ("Add", "Sub", "Neg", "Abs")
            pending += [x for x in v.inputs if x is not None]
        else:
            return False
    return False


def larger(a: Value, b: Value) -> Value:
    """The larger of two numbers"""
    return op.Where(op.Less(a, b), b, a)


def smaller(a: Value, b: Value) -> Value:
    """The smaller of two numbers"""
    return op.Where(op.Less(b, a), b, a)


def extreme(m: Match, value: Value) -> Value | None:
    """The largest or smallest of several, one after the other"""
    if not is_confused(value):
        return None
    choose = larger if value.op == "Max" else smaller
    first, *rest = (v for v in value.inputs if v is not None)
    for v in rest:
        first = choose(first, v)
    return first if rest else op.Identity(first)


def clip(m: Match, value: Value) -> Value | None:
    """min(max(x, low), high)"""
    if not is_confused(value):
        return None
    x, *bounds = value.inputs
    for bound, choose in zip(bounds, (larger, smaller), strict=False):
        x = x if bound is None or x is None else choose(x, bound)
    return op.Identity(x) if x is value.inputs[0] else x


def relu(m: Match, value: Value) -> Value | None:
    """max(x, 0)"""
    x = value.inputs[0]
    return larger(x, const(0)) if x is not None and is_confused(value) else None


def sign(m: Match, value: Value) -> Value | None:
    """1 above 0, less 1 below"""
    if not is_confused(value):
        return None
    x, zero = value.inputs[0], const(0)
    above, below = (op.Cast(c, to=DType.INT64) for c in (op.Greater(x, zero), op.Less(x, zero)))
    return op.Sub(above, below)


def along(m: Match, value: Value) -> Value | None:
    """The extreme upper half, and of the numbers that have it the extreme lower one, each as 32 bits"""
    x = value.inputs[0]
    if x is None or not is_confused(value):
        return None
    half = const(np.array(2**32))
    low = op.BitwiseAnd(x, const(np.array(2**32 - 1)))
    upper = op.Cast(op.Div(op.Sub(x, low), half), to=DType.INT32)
    lower = op.Cast(op.Sub(low, const(np.array(2**31))), to=DType.INT32)
    rest = [v for v in value.inputs[1:] if v is not None]
    given = dict(value.attributes)
    best = call(value.op, [upper, *rest], {**given, "keepdims": 1})
    info = np.iinfo(np.int32)
    worst = const(np.array(info.min if value.op == "ReduceMax" else info.max, dtype=np.int32))
    last = call(value.op, [op.Where(op.Equal(upper, best), lower, worst), *rest], given)
    first = call(value.op, [upper, *rest], given)
    first, last = (op.Cast(v, to=DType.INT64) for v in (first, last))
    return op.Add(op.Mul(first, half), op.Add(last, const(np.array(2**31))))


EXPANSIONS: Mapping[str, Callable[[Match, Value], Any]] = {
    "Max": extreme, "Min": extreme, "Clip": clip, "Relu": relu, "Sign": sign, "ReduceMax": along, "ReduceMin": along,
}  # fmt: skip
