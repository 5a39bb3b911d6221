"""Systems of linear equations, inverses, Cholesky factors, of real and complex matrices."""

from __future__ import annotations

from collections.abc import Sequence

from irkit import dims
from irkit.core.ir import Value
from irkit.dims import Dim
from lowering.algorithms.elimination import cholesky, identity, inverses, lu, solve, solve_triangular, substituted_right
from lowering.algorithms.real_or_complex import adjoint, expand, permute, reshape, squeeze, swap, unsqueeze
from lowering.tensors.shaping import broadcast_shape, numel


def aten_linalg_inv(A: Value) -> Value:
    """The inverses of (*, n, n). A singular matrix gives infinities, which a condition refuses, as torch does."""
    return inverses(A)


def aten_inverse(self: Value) -> Value:
    """The inverses of (*, n, n)"""
    return inverses(self)


def aten_linalg_inv_ex(A: Value, *, check_errors: bool = False) -> tuple[Value, Value]:
    """(inverses, the first step without a pivot)"""
    return inverses(A), lu(A)[2]


def aten_linalg_solve(A: Value, B: Value, *, left: bool = True) -> Value:
    """x with A @ x = B, or x @ A = B.  A: (*, n, n); B: (*, n, m), or (*, n): a vector for each matrix."""
    vector = B.rank == 1 or (B.rank == A.rank - 1 and same_batch(A.shape[:-1], B.shape))
    b = unsqueeze(B, -1) if vector else B
    made = solve(A, b) if left else swap(solve(swap(A), swap(b)))
    return squeeze(made, -1) if vector else made


def same_batch(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """True where nothing tells the shapes apart"""
    return all(dims.same(x, y) is not False for x, y in zip(a, b, strict=True))


def aten_linalg_solve_ex(A: Value, B: Value, *, left: bool = True, check_errors: bool = False) -> tuple[Value, Value]:
    """(solution, the first step without a pivot)"""
    return aten_linalg_solve(A, B, left=left), lu(A)[2]


def aten__linalg_solve_ex(
    A: Value, B: Value, *, left: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value, Value]:
    """(solution, factors of A, exchanges of rows, the first step without a pivot)"""
    return aten_linalg_solve(A, B, left=left), *lu(A)


def aten_linalg_solve_triangular(
    self: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """x with self @ x = B, or x @ self = B, looking at one triangle of self only.  self: (*, n, n); B: (*, n, m)."""
    function = solve_triangular if left else substituted_right
    return function(self, B, upper=upper, unit=unitriangular)


def aten_triangular_solve(
    self: Value, A: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value, Value]:
    """(x with A @ x = self, looking at one triangle of A only, A)"""
    batch = broadcast_shape(self.shape[:-2], A.shape[:-2])
    matrix = swap(A) if transpose else A
    made = solve_triangular(matrix, self, upper=upper is not transpose, unit=unitriangular)
    return made, expand(A, (*batch, *A.shape[-2:]))


# ---------------------------------------------------------------------------------------------- Cholesky


def aten_linalg_cholesky(self: Value, *, upper: bool = False) -> Value:
    """Lower triangles l with l @ l^H = self, or their adjoints"""
    return cholesky(self, upper)[0]


def aten_cholesky(self: Value, upper: bool = False) -> Value:
    """Lower triangles l with l @ l^H = self, or their adjoints"""
    return cholesky(self, upper)[0]


def aten_linalg_cholesky_ex(self: Value, *, upper: bool = False, check_errors: bool = False) -> tuple[Value, Value]:
    """(factors, the first step without a positive pivot)"""
    return cholesky(self, upper)


def aten_cholesky_solve(self: Value, input2: Value, upper: bool = False) -> Value:
    """x with l @ l^H @ x = self, l = input2; u^H @ u where `upper`"""
    if upper:
        return solve_triangular(input2, solve_triangular(adjoint(input2), self, upper=False), upper=True)
    return solve_triangular(adjoint(input2), solve_triangular(input2, self, upper=False), upper=True)


def aten_cholesky_inverse(self: Value, upper: bool = False) -> Value:
    """The inverse of l @ l^H, l = self; of u^H @ u where `upper`"""
    return aten_cholesky_solve(identity(self), self, upper)


def aten__linalg_check_errors(info: Value, api_name: str, *, is_matrix: bool) -> tuple[()]:
    """Nothing: that no step failed is a condition"""
    return ()


# ---------------------------------------------------------------------------------------------- tensors as matrices


def aten_linalg_tensorinv(self: Value, ind: int = 2) -> Value:
    """The inverse of self as a matrix, its first `ind` axes being the rows.  (*rows, *columns) -> (*columns, *rows)"""
    rows, columns = self.shape[:ind], self.shape[ind:]
    size = dims.product(columns)
    return reshape(inverses(reshape(self, (size, size))), (*columns, *rows))


def aten_linalg_tensorsolve(self: Value, other: Value, dims: Sequence[int] | None = None) -> Value:
    """x with tensordot(self, x, x.ndim) = other; `dims` are axes of self that are moved to the end first"""
    last = [d % self.rank for d in dims or ()]
    matrix = permute(self, [*(i for i in range(self.rank) if i not in last), *last])
    size = numel(other)
    flat = reshape(other, (size, 1))
    return reshape(solve(reshape(matrix, (size, size)), flat), matrix.shape[other.rank :])
