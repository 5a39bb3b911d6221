"""Eigenvalues of symmetric matrices, singular values, pseudo-inverses; real ones, and Hermitian and complex ones.

All are one-sided Jacobi rotations (`lowering.algorithms.jacobi`), which find small singular values to more digits than
LAPACK does. Vectors are determined up to a sign, or a phase, only, which here may be another one than LAPACK's.
"""

from __future__ import annotations

import attrs

from irkit import dims
from irkit.build import const, dim_scalar, op
from irkit.core.ir import Value
from irkit.dims import Dim
from lowering.algorithms.jacobi import (
    complete_basis,
    conjugate_planes,
    epsilon,
    matrix_products,
    orthogonal,
    orthogonalize,
    planes,
    products,
    squares,
    top_rows,
    transpose_planes,
    units,
    whole,
)
from lowering.tensors.complex_pairs import PARTS, pair
from lowering.tensors.pieces import full, swap
from lowering.tensors.promotion import cast, promote, scalar
from lowering.tensors.shaping import concat, ints, reshape, slice_axis, squeeze, unsqueeze


def empty(x: Value) -> bool:
    """True where x has no elements for sure"""
    return any(dims.same(d, 0) is True for d in x.shape)


def zeros(like: Value, *shape: Dim) -> Value:
    """A tensor of zeros of the element type of `like`, real or complex"""
    if not like.dtype.is_complex:
        return full(0, shape, like.dtype)
    part = full(0, shape, PARTS[like.dtype])
    return pair(part, part)


def scale_to_one(x: Value) -> tuple[Value, Value]:
    """(planes with elements of at most 1, the largest element (b, 1, 1, 1)); 1 for matrices of zeros"""
    size = op.ReduceMax(op.Abs(x), ints(1, 2, 3), keepdims=1)
    size = op.Where(op.Equal(size, scalar(0, x.dtype)), scalar(1, x.dtype), size)
    return op.Div(x, size), size


def present(v: Value, key: Value, absent: float) -> Value:
    """(b, p): the key of each row; `absent` for the row of zeros that made their number even"""
    there = op.Greater(squares(v), scalar(0.5, v.dtype))
    return op.Where(squeeze(there, 2, 3), key, scalar(absent, key.dtype))


# ---------------------------------------------------------------------------------------------- singular values


@attrs.frozen(eq=False)
class Singular:
    """Singular values of matrices (b, m, n), and orthogonal combinations of their columns or rows.

    `flipped` says that it is about the conjugate transposes. values: (b, p), descending; v: (b, p, c, n), rows that are
    right singular vectors; w: (b, p, c, m), the left ones times the values divided by `size`: (b, 1, 1, 1).
    """

    values: Value
    size: Value
    v: Value
    w: Value
    flipped: bool


def flips(a: Value) -> bool:
    """True for matrices that are wider than high for sure: there are less rows than columns to rotate"""
    m, n = a.shape[-2:]
    return type(m) is int and type(n) is int and m < n


def singular(a: Value, every: bool = False) -> Singular:
    """What (*, m, n) is made of, for min(m, n) singular values; where `every`, for as many as there are rows v."""
    flipped = flips(a)
    x, size = scale_to_one(planes(a))
    rows = conjugate_planes(x) if flipped else transpose_planes(x)
    w, v = orthogonalize(rows)
    count = rows.shape[1] if every else dims.minimum(*a.shape[-2:])
    values, w, v = top_rows(present(v, lengths(w), -1.0), count, True, w, v)
    return Singular(op.Mul(values, squeeze(size, 2, 3)), size, v, w, flipped)


def singular_values(a: Value) -> Value:
    """(b, k), descending: the singular values of (*, m, n), k the smaller side"""
    x, size = scale_to_one(planes(a))
    rows = x if flips(a) else transpose_planes(x)
    found = lengths(orthogonal(rows, rows.shape[3]))
    return op.Mul(top_rows(found, dims.minimum(*a.shape[-2:]), True)[0], squeeze(size, 2, 3))


def lengths(x: Value) -> Value:
    """(b, p, c, q) -> (b, p): the norms of rows"""
    return op.Sqrt(squeeze(squares(x), 2, 3))


def none_of(A: Value, full_matrices: bool) -> tuple[Value, Value, Value]:
    """(U, S, Vh) of matrices without elements"""
    batch, (m, n) = A.shape[:-2], A.shape[-2:]
    least = dims.minimum(m, n)

    def identity(p: Dim, q: Dim) -> Value:
        like = full(0, (dims.product(batch), 1, 2 if A.dtype.is_complex else 1, 1), PARTS.get(A.dtype, A.dtype))
        return whole(units(p, q, like), batch) if 0 not in (*batch, p, q) else zeros(A, *batch, p, q)

    values = full(0, (*batch, least), PARTS.get(A.dtype, A.dtype))
    left, right = (m, n) if full_matrices else (least, least)
    return identity(m, left), values, identity(right, n)


def aten__linalg_svd(
    A: Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Value, Value, Value]:
    """(U, S, Vh) with A = U @ diag(S) @ Vh, S descending; U and Vh without elements where only S is asked for.

    A: (*, m, n); S: (*, k), k the smaller side; U: (*, m, k) and Vh: (*, k, n), or square ones for full matrices.
    """
    batch, least = A.shape[:-2], dims.minimum(*A.shape[-2:])
    if empty(A):
        u, values, vh = none_of(A, full_matrices)
        return (u, values, vh) if compute_uv else (zeros(A, 0), values, zeros(A, 0))
    if not compute_uv:
        return zeros(A, 0), reshape(singular_values(A), (*batch, least)), zeros(A, 0)
    found = singular(A, full_matrices)
    made = complete_basis(slice_axis(found.w, 1, 0, least), found.w.shape[3] if full_matrices else least)
    u, v = (found.v, made) if found.flipped else (made, found.v)
    values = reshape(slice_axis(found.values, 1, 0, least), (*batch, least))
    return whole(transpose_planes(u), batch), values, whole(conjugate_planes(v), batch)


# ---------------------------------------------------------------------------------------------- eigenvalues


def symmetric(a: Value, lower: bool) -> Value:
    """(*, n, n) -> planes of the symmetric or Hermitian matrices of which only one triangle is looked at."""

    def mirrored(x: Value, sign: int) -> Value:
        strict = swap(op.Trilu(x, const(-1 if lower else 1), upper=int(not lower)))
        return op.Add(op.Trilu(x, upper=int(not lower)), strict) if sign > 0 else op.Sub(swap(strict), strict)

    x = planes(a)
    if x.shape[2] == 1:
        return unsqueeze(mirrored(squeeze(x, 2), 1), 2)
    real, imaginary = (squeeze(slice_axis(x, 2, i, i + 1), 2) for i in (0, 1))
    return concat([unsqueeze(mirrored(real, 1), 2), unsqueeze(mirrored(imaginary, -1), 2)], 2)


def eigen(a: Value, lower: bool) -> tuple[Value, Value]:
    """(values ascending (b, n), vectors as rows (b, n, c, n)) of the symmetric matrices (*, n, n)

    The rotations see the matrix plus its norm, which has no negative eigenvalues; so none is taken for its opposite.
    """
    x, size = scale_to_one(symmetric(a, lower))
    count, columns = x.shape[1], conjugate_planes(x)
    bound = op.ReduceMax(op.ReduceSum(op.Abs(x), ints(2, 3), keepdims=1), ints(1), keepdims=1)
    _, v = orthogonalize(op.Add(columns, op.Mul(units(count, count, x), bound)))
    values = squeeze(products(matrix_products(v, columns), v), 2, 3)
    _, v = top_rows(present(v, values, float("inf")), count, False, v)
    v = refined(v, columns)
    values, v = top_rows(squeeze(products(matrix_products(v, columns), v), 2, 3), count, False, v)
    return op.Mul(values, squeeze(size, 2, 3)), v


def refined(v: Value, columns: Value) -> Value:
    """Rows (b, n, c, n) that are eigenvectors but for rounding errors, after one step of Ogita and Aishima's iteration.

    It is of second order, for vectors whose eigenvalues are apart; others are made orthonormal only.
    """
    count, dtype = v.shape[1], v.dtype
    unit, adjoint = units(count, count, v), conjugate_planes(transpose_planes(v))
    gaps = op.Sub(unit, matrix_products(v, adjoint))  # of v_i^T conj(v_j) from the identity
    inside = matrix_products(matrix_products(v, columns), adjoint)
    main = slice_axis(unit, 2, 0, 1)
    values = op.ReduceSum(op.Mul(slice_axis(inside, 2, 0, 1), main), ints(3), keepdims=1)
    values = op.Div(
        values, op.Sub(scalar(1, dtype), op.ReduceSum(op.Mul(slice_axis(gaps, 2, 0, 1), main), ints(3), keepdims=1))
    )
    outside = op.Mul(inside, op.Sub(scalar(1, dtype), main))

    norm = op.Sqrt(op.ReduceSumSquare(columns, ints(1, 2, 3), keepdims=1))
    size = op.ReduceSum(op.Add(op.Abs(outside), op.Mul(op.Abs(gaps), norm)), ints(2), keepdims=1)
    apart = op.Sub(values, transpose_planes(values))
    # What a step leaves is its square; where that is more than rounding errors are, no step is taken.
    root = scalar(epsilon(dtype) ** 0.5, dtype)
    close = op.GreaterOrEqual(op.Add(size, transpose_planes(size)), op.Mul(op.Abs(apart), root))
    step = op.Div(op.Add(outside, op.Mul(gaps, values)), op.Where(close, scalar(1, dtype), apart))
    step = op.Where(close, op.Mul(gaps, scalar(0.5, dtype)), step)
    return op.Add(v, matrix_products(step, v))


def aten__linalg_eigh(A: Value, UPLO: str = "L", compute_v: bool = True) -> tuple[Value, Value]:
    """(eigenvalues ascending, eigenvectors as columns) of symmetric matrices, of which one triangle is looked at.

    A: (*, n, n); eigenvalues: (*, n); eigenvectors: (*, n, n), without elements where they are not asked for.
    """
    batch, part = A.shape[:-1], PARTS.get(A.dtype, A.dtype)
    if empty(A):
        return full(0, batch, part), A if compute_v else zeros(A, 0)
    values, v = eigen(A, UPLO.upper() == "L")
    return reshape(values, batch), whole(transpose_planes(v), batch[:-1]) if compute_v else zeros(A, 0)


# ---------------------------------------------------------------------------------------------- pseudo-inverses


def significant(values: Value, sizes: Value, atol: Value | None, rtol: Value | None, longest: Dim) -> Value:
    """(*, k): which values count: those above atol and above rtol times the largest.

    atol, rtol: broadcast to (*). Without rtol it is as much as rounding errors of a matrix with sides up to `longest`
    are, or 0 where atol is given.
    """
    if rtol is None:
        rtol = op.Mul(cast(dim_scalar(longest), values.dtype), scalar(epsilon(values.dtype), values.dtype))
        if atol is not None:
            rtol = op.Where(op.Greater(atol, scalar(0, atol.dtype)), scalar(0, values.dtype), rtol)
    least = op.Mul(*promote(unsqueeze(rtol, -1), sizes))
    if atol is not None:
        least = op.Max(*promote(unsqueeze(atol, -1), least))
    return op.Greater(*promote(values, least))


def hermitian_parts(a: Value) -> tuple[Value, Value, Value, Value]:
    """`general_parts` of Hermitian matrices: eigenvalues and eigenvectors"""
    values, v = eigen(a, True)
    return v, values, v, scalar(1, values.dtype)


def general_parts(a: Value) -> tuple[Value, Value, Value, Value]:
    """(rows p, values d, rows q, factors f): the pseudo-inverse is the sum of f / d p^T conj(q) over what counts"""
    found = singular(a)
    left, right = (found.w, found.v) if found.flipped else (found.v, found.w)
    return left, found.values, right, op.Div(found.size, unsqueeze(positive(found.values), 2, 3))


def positive(x: Value) -> Value:
    """x, and 1 where it is 0"""
    return op.Where(op.Equal(x, scalar(0, x.dtype)), scalar(1, x.dtype), x)


def aten_linalg_pinv_atol_rtol_tensor(
    self: Value, *, atol: Value | None = None, rtol: Value | None = None, hermitian: bool = False
) -> Value:
    """The pseudo-inverses (*, n, m) of (*, m, n), without singular values up to max(atol, rtol * the largest)."""
    batch, (m, n) = self.shape[:-2], self.shape[-2:]
    if empty(self):
        return zeros(self, *batch, n, m)
    left, values, right, size = hermitian_parts(self) if hermitian else general_parts(self)
    sizes = reshape(op.Abs(values), (*batch, values.shape[1]))
    largest = op.ReduceMax(sizes, ints(-1), keepdims=1)
    good = reshape(significant(sizes, largest, atol, rtol, dims.maximum(m, n)), values.shape)
    safe = op.Where(good, values, scalar(1, values.dtype))
    inverse = op.Where(good, op.Reciprocal(safe), scalar(0, values.dtype))
    weighted = op.Mul(conjugate_planes(right), op.Mul(unsqueeze(inverse, 2, 3), size))
    return whole(matrix_products(transpose_planes(left), weighted), batch)
