"""Least squares: the solutions of smallest norm, by pseudo-inverses."""

from __future__ import annotations

from typing import Any

from irkit import dims
from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.aten.linear_algebra.spectral import (
    aten_linalg_pinv_atol_rtol_tensor,
    empty,
    significant,
    singular_values,
    zeros,
)
from lowering.errors import Unsupported
from lowering.tensors.complex_pairs import PARTS, pair, parts
from lowering.tensors.pieces import full, total
from lowering.tensors.promotion import cast, scalar
from lowering.tensors.shaping import broadcast_shape, ints, known_equal, reshape, squeeze, unsqueeze

WITH_RANK = ("gelsy", "gelsd", "gelss")
WITH_VALUES = ("gelsd", "gelss")
"""LAPACK's drivers by what torch returns of theirs."""


def multiplied(a: Value, b: Value) -> Value:
    """a @ b, real or complex"""
    if not a.dtype.is_complex:
        return op.MatMul(a, b)
    (e, f), (g, h) = parts(a), parts(b)
    real = op.Sub(op.MatMul(e, g), op.MatMul(f, h))
    return pair(real, op.Add(op.MatMul(e, h), op.MatMul(f, g)))


def columns_of(a: Value, b: Value) -> tuple[Value, bool]:
    """(right sides as columns, whether they are one vector for each matrix)"""
    vector = b.rank == 1 or (b.rank == a.rank - 1 and known_equal(a.shape[:-1], b.shape))
    if not vector:
        return b, False
    halves = [unsqueeze(part, -1) for part in (parts(b) if b.dtype.is_complex else (b,))]
    return halves[0] if len(halves) == 1 else pair(*halves), True


def squared_residuals(a: Value, x: Value, b: Value) -> Value:
    """(*, k): the sums of squares of the columns of a @ x - b"""
    left = multiplied(a, x)
    pairs = zip(parts(left), parts(b), strict=True) if a.dtype.is_complex else [(left, b)]
    sizes = [op.Mul(gap, gap) for gap in (op.Sub(p, q) for p, q in pairs)]
    return total(sizes[0] if len(sizes) == 1 else op.Add(*sizes), [sizes[0].rank - 2])


def aten_linalg_lstsq(
    self: Value, b: Value, rcond: float | None = None, *, driver: str | None = None, expected: Any = None
) -> tuple[Value, Value, Value, Value]:
    """(x, residuals, ranks, singular values): x of smallest norm among those for which |self @ x - b| is smallest.

    self: (*, m, n); b: (*, m, k), whose batch is broadcast, or (*, m); x: (*, n, k) or (*, n). As torch does, a driver
    leaves out, as (0,), what it does not compute. Residuals are given for matrices higher than wide whatever their rank
    is; torch gives none where one of them has not all ranks.
    """
    kind, real, batch = driver or "gelsy", PARTS.get(self.dtype, self.dtype), self.shape[:-2]
    m, n = self.shape[-2:]
    rtol = None if rcond is None or rcond < 0 else scalar(rcond, real)
    right, vector = columns_of(self, b)
    if empty(self) or empty(b):
        x = zeros(self, *broadcast_shape(batch, right.shape[:-2]), n, right.shape[-1])
    else:
        x = multiplied(aten_linalg_pinv_atol_rtol_tensor(self, rtol=rtol), right)
    if kind != "gelsy" and expected is None and not (type(m) is int and type(n) is int):
        raise Unsupported("lstsq: residuals are a result where matrices are higher than wide, which sizes must tell")
    residuals, ranks = full(0, (0,), real), full(0, (0,), DType.INT64)
    if expected is not None and not known_equal(expected[1].shape, (0,)):
        residuals = squared_residuals(self, x, right)
    least = dims.minimum(m, n)
    values = full(0, (*batch, least), real) if empty(self) else reshape(singular_values(self), (*batch, least))
    if kind in WITH_RANK:
        largest = full(0, (*batch, 1), real) if empty(self) else op.ReduceMax(values, ints(-1), keepdims=1)
        good = cast(significant(values, largest, None, rtol, dims.maximum(m, n)), DType.INT64)
        ranks = full(0, batch, DType.INT64) if empty(self) else op.ReduceSum(good, const([-1]), keepdims=0)
    if vector:
        halves = [squeeze(part, -1) for part in (parts(x) if x.dtype.is_complex else (x,))]
        x = halves[0] if len(halves) == 1 else pair(*halves)
    return x, residuals, ranks, values if kind in WITH_VALUES else full(0, (0,), real)


def complex_linalg_lstsq(
    self: Value, b: Value, rcond: float | None = None, *, driver: str | None = None, expected: Any = None
) -> tuple[Value, Value, Value, Value]:
    """Least squares of complex matrices."""
    return aten_linalg_lstsq(self, b, rcond, driver=driver, expected=expected)
