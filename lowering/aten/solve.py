"""Systems of linear equations, inverses, Cholesky factors: eliminations as a Scan over the columns."""

from __future__ import annotations

import numpy as np

from irkit import dims
from irkit.build import const, op
from irkit.dims import Dim
from irkit.ir import Value
from irkit.types import DType
from lowering.pieces import full, swap
from lowering.promotion import scalar
from lowering.shaping import broadcast_shape, expand, iota, reshape, sliced, squeeze, unsqueeze


def merged(x: Value) -> Value:
    """(*, n, m) -> (b, n, m)"""
    return reshape(x, (dims.product(x.shape[:-2]), *x.shape[-2:]))


def eliminated(a: Value, b: Value) -> Value:
    """x with a @ x = b, by elimination with pivots.  a: (b, n, n); b: (b, n, m) -> (b, n, m)."""
    size = a.shape[1]
    if dims.same(size, 0) is True:  # ONNX Runtime scans nothing
        return b
    rows = iota(size)

    def column(whole: Value, k: Value) -> tuple[Value]:
        """One step: the largest element of column k at or below the diagonal is the pivot, the column a unit"""
        entries = op.Gather(whole, k, axis=2)
        below = op.Where(op.GreaterOrEqual(rows, k), op.Abs(entries), scalar(-1, whole.dtype))
        pivot = op.ArgMax(below, axis=1, keepdims=1)
        here = op.Equal(rows, k)
        order = op.Where(here, pivot, op.Where(op.Equal(rows, pivot), k, rows))
        swapped = op.GatherElements(whole, expand(unsqueeze(order, 2), whole.shape), axis=1)
        entries = op.Gather(swapped, k, axis=2)
        chosen = op.Gather(swapped, k, axis=1)
        chosen = op.Div(chosen, op.Gather(entries, unsqueeze(k, 0), axis=1))
        rest = op.Sub(swapped, op.Mul(unsqueeze(entries, 2), unsqueeze(chosen, 1)))
        return (op.Where(unsqueeze(here, 1), unsqueeze(chosen, 1), rest),)

    joined = op.Concat(a, b, axis=2)
    made = op.Scan(joined, rows, num_scan_inputs=1, body=column)
    made = made[0] if isinstance(made, tuple) else made
    return reshape(sliced(made, 2, size, dims.add(size, b.shape[2])), b.shape)


def solved(a: Value, b: Value) -> Value:
    """x with a @ x = b for matrices whose batches broadcast.  a: (*, n, n); b: (*, n, m)."""
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    a, b = expand(a, (*batch, *a.shape[-2:])), expand(b, (*batch, *b.shape[-2:]))
    return reshape(eliminated(merged(a), merged(b)), b.shape)


def identity(like: Value) -> Value:
    """(*, n, n): ones on the diagonal"""
    size = like.shape[-1]
    if type(size) is int:
        return expand(const(np.eye(size, dtype=like.dtype.numpy)), like.shape)
    return op.EyeLike(full(0, (size, size), like.dtype))


def inverted(a: Value) -> Value:
    """The inverses of (*, n, n)"""
    return solved(a, expand(identity(a), a.shape))


def fine(a: Value) -> Value:
    """(*): no error, for every matrix of a batch"""
    return full(0, a.shape[:-2], DType.INT32)


def aten_linalg_inv(A: Value) -> Value:
    """The inverses of (*, n, n). A singular matrix gives infinities, where torch raises."""
    return inverted(A)


def aten_inverse(self: Value) -> Value:
    """The inverses of (*, n, n)"""
    return inverted(self)


def aten_linalg_inv_ex(A: Value, *, check_errors: bool = False) -> tuple[Value, Value]:
    """(inverses, no error)"""
    return inverted(A), fine(A)


def aten_linalg_solve(A: Value, B: Value, *, left: bool = True) -> Value:
    """x with A @ x = B, or x @ A = B.  A: (*, n, n); B: (*, n, m), or (*, n): a vector for each matrix."""
    vector = B.rank == 1 or (B.rank == A.rank - 1 and same_batch(A.shape[:-1], B.shape))
    b = unsqueeze(B, -1) if vector else B
    made = solved(A, b) if left else swap(solved(swap(A), swap(b)))
    return squeeze(made, -1) if vector else made


def same_batch(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """True where nothing tells the shapes apart"""
    return all(dims.same(x, y) is not False for x, y in zip(a, b, strict=True))


def aten_linalg_solve_ex(A: Value, B: Value, *, left: bool = True, check_errors: bool = False) -> tuple[Value, Value]:
    """(solution, no error)"""
    return aten_linalg_solve(A, B, left=left), fine(A)


def aten_linalg_solve_triangular(
    self: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """x with self @ x = B, or x @ self = B, looking at one triangle of self only.  self: (*, n, n); B: (*, n, m)."""
    triangle = op.Trilu(self, upper=int(upper))
    if unitriangular:
        ones = op.Equal(identity(self), scalar(1, self.dtype))
        triangle = op.Where(ones, scalar(1, self.dtype), triangle)
    return solved(triangle, B) if left else swap(solved(swap(triangle), swap(B)))


def factored(a: Value) -> Value:
    """Lower triangles l with l @ l^T = a.  a: (*, n, n), symmetric and positive."""
    if dims.same(a.shape[-1], 0) is True:
        return a
    rows = iota(a.shape[-1])
    whole = merged(a)

    def column(rest: Value, k: Value) -> tuple[Value, Value]:
        """Column k of the factor, and what is left of the matrix without it"""
        entries = op.Gather(rest, k, axis=2)
        entries = op.Div(entries, op.Sqrt(op.Gather(entries, unsqueeze(k, 0), axis=1)))
        entries = op.Where(op.GreaterOrEqual(rows, k), entries, scalar(0, rest.dtype))
        return op.Sub(rest, op.Mul(unsqueeze(entries, 2), unsqueeze(entries, 1))), entries

    _, columns = op.Scan(whole, rows, num_scan_inputs=1, body=column)
    return reshape(op.Transpose(columns, perm=(1, 2, 0)), a.shape)


def aten_linalg_cholesky(self: Value, *, upper: bool = False) -> Value:
    """Lower triangles l with l @ l^T = self, or their transposes"""
    made = factored(self)
    return swap(made) if upper else made


def aten_cholesky(self: Value, upper: bool = False) -> Value:
    """Lower triangles l with l @ l^T = self, or their transposes"""
    return aten_linalg_cholesky(op.Trilu(self, upper=0) if not upper else swap(op.Trilu(self, upper=1)), upper=upper)


def aten_linalg_cholesky_ex(self: Value, *, upper: bool = False, check_errors: bool = False) -> tuple[Value, Value]:
    """(factors, no error)"""
    return aten_linalg_cholesky(self, upper=upper), fine(self)


def aten_cholesky_solve(self: Value, input2: Value, upper: bool = False) -> Value:
    """x with l @ l^T @ x = self, l = input2; u^T @ u where `upper`"""
    low = swap(input2) if upper else input2
    return solved(swap(low), solved(low, self))


def aten_cholesky_inverse(self: Value, upper: bool = False) -> Value:
    """The inverse of l @ l^T, l = self; of u^T @ u where `upper`"""
    low = swap(op.Trilu(self, upper=1)) if upper else op.Trilu(self, upper=0)
    return inverted(op.MatMul(low, swap(low)))


def aten_linalg_slogdet(A: Value) -> tuple[Value, Value]:
    """(sign, logarithm of the absolute value) of determinants"""
    found = op.Det(A)
    return op.Sign(found), op.Log(op.Abs(found))


def aten_slogdet(self: Value) -> tuple[Value, Value]:
    """(sign, logarithm of the absolute value) of determinants"""
    return aten_linalg_slogdet(self)


def aten_triangular_solve(
    self: Value, A: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value, Value]:
    """(x with A @ x = self, looking at one triangle of A only, A)"""
    rows = broadcast_shape(self.shape[:-2], A.shape[:-2])
    matrix = swap(A) if transpose else A
    made = aten_linalg_solve_triangular(matrix, self, upper=upper is not transpose, unitriangular=unitriangular)
    return made, expand(A, (*rows, *A.shape[-2:]))


def aten__linalg_check_errors(info: Value, api_name: str, *, is_matrix: bool) -> tuple[()]:
    """Nothing: what has no solution gives infinities"""
    return ()
