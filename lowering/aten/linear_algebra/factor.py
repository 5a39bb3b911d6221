"""LU factors of batches of real and complex matrices, and determinants out of them."""

from __future__ import annotations

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.core.types import DType
from lowering.algorithms.elimination import lu, merge_batches, permutation, solve_triangular, triangles, vanishes
from lowering.algorithms.real_or_complex import (
    absolute,
    adjoint,
    div,
    expand,
    matmul,
    mul,
    number,
    part_type,
    real,
    scan,
    swap,
    where,
    whole,
)
from lowering.aten.elementwise.transcendental import aten_atan2
from lowering.tensors.complex_pairs import pair, parts
from lowering.tensors.pieces import full
from lowering.tensors.promotion import scalar
from lowering.tensors.shaping import broadcast_shape, iota, reshape, slice_axis

Triple = tuple[Value, Value, Value]


def aten_linalg_lu_factor_ex(A: Value, *, pivot: bool = True, check_errors: bool = False) -> Triple:
    """(both factors in one matrix, exchanges of rows, the first step without a pivot)"""
    return lu(A, pivot)


def aten_lu_unpack(LU_data: Value, LU_pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True) -> Triple:
    """(P, L, U); those that are not asked for have no elements"""
    none = whole(full(0, (0,), part_type(LU_data)), LU_data)
    if 0 in LU_data.shape:  # eager does not look at pivots of nothing
        LU_pivots = slice_axis(LU_pivots, LU_pivots.rank - 1, 0, 0)
    low, high = triangles(LU_data) if unpack_data else (none, none)
    return permutation(LU_pivots, LU_data.shape[-2], LU_data) if unpack_pivots else none, low, high


def aten_linalg_lu(A: Value, *, pivot: bool = True) -> Triple:
    """(P, L, U) with A = P @ L @ U; P has no elements without pivots"""
    data, pivots, _ = lu(A, pivot)
    return aten_lu_unpack(data, pivots, True, pivot)


def aten_linalg_lu_solve(LU: Value, pivots: Value, B: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    """x with A @ x = B, or x @ A = B, for the factors of A; of its adjoint where `adjoint`"""
    return factors_solved(LU, pivots, B, adjoint) if left else from_right(LU, pivots, B, adjoint)


def aten_lu_solve(self: Value, LU_data: Value, LU_pivots: Value) -> Value:
    """x with A @ x = self, for the factors of A"""
    return factors_solved(LU_data, LU_pivots, self, False)


def factors_solved(data: Value, pivots: Value, b: Value, turned: bool) -> Value:
    """x with P @ L @ U @ x = b, or with (P @ L @ U)^H @ x = b where `turned`"""
    order = permutation(pivots, data.shape[-2], real(data))
    batch = broadcast_shape(data.shape[:-2], b.shape[:-2])
    if not turned:
        rows = expand(matmul(swap(order), b), (*batch, *b.shape[-2:]))
        return solve_triangular(data, solve_triangular(data, rows, upper=False, unit=True), upper=True)
    above = adjoint(data)
    return matmul(order, solve_triangular(above, solve_triangular(above, b, upper=False), upper=True, unit=True))


def from_right(data: Value, pivots: Value, b: Value, turned: bool) -> Value:
    """x with x @ A = b: x^H solves A^H @ x^H = b^H"""
    return adjoint(factors_solved(data, pivots, adjoint(b), not turned))


# ---------------------------------------------------------------------------------------------- determinants


def pivots_of(data: Value, pivots: Value) -> tuple[Value, Value]:
    """(diagonal of U, -1 where rows changed places and else 1), one row for each step.  -> (n, b), (n, b)"""
    matrix = merge_batches(data)
    rows = iota(data.shape[-1])
    flags = op.Unsqueeze(op.Equal(op.Unsqueeze(rows, [1]), rows), [0])
    picked = where(flags, matrix, number(0, matrix))
    summed = [op.ReduceSum(v, [1], keepdims=0) for v in (parts(picked) if matrix.dtype.is_complex else (picked,))]
    diagonal = pair(*summed) if matrix.dtype.is_complex else summed[0]
    flat = reshape(pivots, (matrix.shape[0], pivots.shape[-1]))
    stays = op.Equal(op.Cast(flat, to=DType.INT64), op.Add(rows, const(1)))
    dtype = part_type(data)
    return swap(diagonal), swap(op.Where(stays, scalar(1, dtype), scalar(-1, dtype)))


def determinant(data: Value, pivots: Value) -> Value:
    """(*): the determinants, out of the factors"""
    diagonal, signs = pivots_of(data, pivots)

    def step(made: Value, entry: Value, sign: Value) -> tuple[Value, ...]:
        return (mul(made, mul(entry, sign)),)

    start = expand(number(1, data), (merge_batches(data).shape[0],))
    (made,) = scan(step, [start], [diagonal, signs])
    return batch_of(made, data)


def batch_of(x: Value, data: Value) -> Value:
    """One number for each matrix, in the shape of the batch"""
    if not x.dtype.is_complex:
        return reshape(x, data.shape[:-2])
    return pair(*(reshape(v, data.shape[:-2]) for v in parts(x)))


def sign_and_log(data: Value, pivots: Value) -> tuple[Value, Value]:
    """(determinants over their absolute values, logarithms of those), out of the factors; (0, -inf) where singular"""
    diagonal, signs = pivots_of(data, pivots)

    def step(sign: Value, total: Value, entry: Value, turn: Value) -> tuple[Value, ...]:
        size = absolute(entry)
        none = vanishes(entry)
        unit = div(entry, op.Where(none, scalar(1, size.dtype), size))
        return mul(sign, mul(unit, turn)), op.Add(total, op.Log(size))

    count, dtype = merge_batches(data).shape[0], part_type(data)
    start = [expand(number(1, data), (count,)), full(0, (count,), dtype)]
    sign, total = scan(step, start, [diagonal, signs])
    return batch_of(sign, data), batch_of(total, data)


def aten_linalg_det(A: Value) -> Value:
    """Determinant of the last two axes."""
    if A.dtype is DType.FLOAT:
        return op.Det(A)
    return determinant(*lu(A)[:2])


def aten_det(self: Value) -> Value:
    """Determinant of the last two axes."""
    return aten_linalg_det(self)


def aten__linalg_det(A: Value) -> Triple:
    """(determinant, factors, exchanges of rows)"""
    return aten_linalg_det(A), *lu(A)[:2]


def aten_linalg_slogdet(A: Value) -> tuple[Value, Value]:
    """(determinant over its absolute value, logarithm of that)"""
    return sign_and_log(*lu(A)[:2])


def aten_slogdet(self: Value) -> tuple[Value, Value]:
    """(determinant over its absolute value, logarithm of that)"""
    return aten_linalg_slogdet(self)


def aten__linalg_slogdet(A: Value) -> tuple[Value, Value, Value, Value]:
    """(determinant over its absolute value, logarithm of that, factors, exchanges of rows)"""
    data, pivots, _ = lu(A)
    return *sign_and_log(data, pivots), data, pivots


def aten_logdet(self: Value) -> Value:
    """Logarithm of the determinant of the last two axes."""
    sign, total = aten_linalg_slogdet(self)
    if not sign.dtype.is_complex:
        return op.Add(op.Log(sign), total)
    a, b = parts(sign)
    return pair(op.Add(op.Log(absolute(sign)), total), aten_atan2(b, a))
