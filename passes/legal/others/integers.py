"""Integers that other runtimes compute in other ways than ONNX says: bytes, remainders, sums in two halves."""

from __future__ import annotations

from typing import Any

from irkit.build import call, op
from irkit.core.ir import Value
from irkit.core.types import DType
from irkit.rewriting.face import Match
from passes.legal.others.expansions import sources_of

BYTES = (DType.INT8, DType.UINT8)
HALF = 2**32


def is_of_bytes(value: Value) -> bool:
    """True for a result of 8 bits."""
    return value.dtype in BYTES


def through_32_bits(m: Match, value: Value) -> Any:
    """An operator of bytes -> the same of 32 bits, of which a byte is taken"""
    wide = DType.UINT32 if value.op == "BitShift" else DType.INT32
    operands = [None if v is None else op.Cast(v, to=wide) for v in value.inputs]
    return op.Cast(call(value.op, operands, dict(value.attributes)), to=value.dtype)


def is_of_casts(value: Value) -> bool:
    """True for a remainder of int64 that is cast, whose sign is that of the divisor."""
    wanted = value.dtype is DType.INT64 and not value.attribute("fmod", 0)
    return wanted and any(each.op == "Cast" for each in sources_of(value))


def remainder_by_quotients(m: Match, value: Value) -> Value | None:
    """Mod(x, y) -> what quotients leave, with y added, and what they leave of that: it has the sign of y"""
    x, y = value.inputs
    if x is None or y is None:
        return None
    moved = op.Add(op.Sub(x, op.Mul(op.Div(x, y), y)), y)
    return op.Sub(moved, op.Mul(op.Div(moved, y), y))


def is_number(v: Value | None, wanted: int) -> bool:
    """True for a constant of that number."""
    return v is not None and v.blob is not None and v.blob.size == 1 and int(v.blob.array.reshape(())) == wanted


def summed_in_halves(value: Value) -> Value | None:
    """The sum of the lower 32 bits in a sum of int64 in two halves, Add(Mul(ReduceSum(high), 2**32), ReduceSum(low));
    None for any other value."""
    if value.op != "Add" or value.dtype is not DType.INT64:
        return None
    for high, low in (value.inputs, value.inputs[::-1]):
        if low is None or high is None or low.op != "ReduceSum" or high.op != "Mul":
            continue
        if is_sum_of_lower(low) and any(is_number(v, HALF) for v in high.inputs):
            return low
    return None


def is_sum_of_lower(value: Value) -> bool:
    """True for the sum of the lower 32 bits of int64."""
    part = value.inputs[0]
    return part is not None and part.op == "BitwiseAnd" and any(is_number(v, HALF - 1) for v in part.inputs)


def is_in_halves(value: Value) -> bool:
    """True for such a sum."""
    return summed_in_halves(value) is not None


def summed_at_once(m: Match, value: Value) -> Value | None:
    """Add(Mul(ReduceSum(x >> 32), 2**32), ReduceSum(x & (2**32 - 1))) -> ReduceSum(x)"""
    low = summed_in_halves(value)
    part = None if low is None else low.inputs[0]
    if low is None or part is None:
        return None
    whole = next(v for v in part.inputs if v is not None and not is_number(v, HALF - 1))
    return low.with_inputs((whole, *low.inputs[1:]))
