"""Operations on the bits of integers; on bools they are logic."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.tensors.promotion import Operand, cast, promote, scalar


def aten_bitwise_and(self: Operand, other: Operand) -> Value:
    """self & other, broadcast."""
    a, b = promote(self, other)
    return op.And(a, b) if a.dtype is DType.BOOL else op.BitwiseAnd(a, b)


def aten_bitwise_or(self: Operand, other: Operand) -> Value:
    """self | other, broadcast."""
    a, b = promote(self, other)
    return op.Or(a, b) if a.dtype is DType.BOOL else op.BitwiseOr(a, b)


def aten_bitwise_xor(self: Operand, other: Operand) -> Value:
    """self ^ other, broadcast."""
    a, b = promote(self, other)
    return op.Xor(a, b) if a.dtype is DType.BOOL else op.BitwiseXor(a, b)


def aten_bitwise_not(self: Value) -> Value:
    """~self"""
    return op.Not(self) if self.dtype is DType.BOOL else op.BitwiseNot(self)


def aten_bitwise_left_shift(self: Operand, other: Operand) -> Value:
    """self << other, broadcast: bits that leave are lost, and all are where `other` is as wide as the type."""
    a, b = promote(self, other)
    if a.dtype.is_unsigned:
        return shifted_unsigned(a, b, "LEFT")
    wide = cast(a, DType.INT64)
    return cast(op.Mul(wide, powers(b, a.dtype)), a.dtype)


def aten_bitwise_right_shift(self: Operand, other: Operand) -> Value:
    """self >> other, broadcast: the sign is kept, so that -1 >> n is -1."""
    a, b = promote(self, other)
    if a.dtype.is_unsigned:
        return shifted_unsigned(a, b, "RIGHT")
    count = counted(b)
    wide, divisor = cast(a, DType.INT64), powers(op.Clip(count, 0, 62), DType.INT64)
    # For a < 0: a >> n == ~(~a >> n), and the truncating Div rounds ~a >= 0 down.
    mask = op.Where(op.Less(wide, 0), const(-1), const(0))
    shifted = op.BitwiseXor(op.Div(op.BitwiseXor(wide, mask), divisor), mask)
    return cast(op.Where(op.Less(count, 63), shifted, mask), a.dtype)


def powers(exponent: Value, dtype: DType) -> Value:
    """2 ** exponent as int64, of which only the low `dtype.bits` bits count; 0 where the exponent is beyond them."""
    table = np.array([(1 << i) - (1 << 64 if i == 63 else 0) for i in range(dtype.bits)] + [0], dtype=np.int64)
    return op.Gather(const(table), op.Clip(counted(exponent), 0, dtype.bits))


def counted(bits: Value) -> Value:
    """A number of bits as int64; 64 where it is below 0, for which torch shifts all of them out."""
    wide = cast(bits, DType.INT64)
    return wide if bits.dtype.is_unsigned else op.Where(op.Less(wide, 0), const(64), wide)


def shifted_unsigned(a: Value, b: Value, direction: str) -> Value:
    """Unsigned a shifted by b bits; 0 where b is as wide as the type, which C++ leaves undefined."""
    beyond = op.GreaterOrEqual(b, a.dtype.bits)
    safe = op.Where(beyond, scalar(0, b.dtype), b)
    return op.Where(beyond, scalar(0, a.dtype), op.BitShift(a, safe, direction=direction))
