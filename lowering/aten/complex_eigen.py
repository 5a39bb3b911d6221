"""Eigenvalues and eigenvectors of general matrices, which are complex for real ones too."""

from __future__ import annotations

from irkit.build import op
from irkit.dims import Dim
from irkit.ir import Value
from lowering.aten.spectral import empty, scaled, zeros
from lowering.complexes import pair
from lowering.jacobi import epsilon, planes, transposed, whole
from lowering.promotion import scalar
from lowering.schur import diagonal_of, hessenberg, normalized, triangular, triangular_vectors
from lowering.shaping import concat, ints, picked, reshape, squeeze, unsqueeze


def complex_planes(x: Value) -> Value:
    """Planes of two layers, of real matrices too"""
    x = planes(x)
    return x if x.shape[2] == 2 else concat([x, op.Mul(x, scalar(0, x.dtype))], 2)


def eigenvalues(t: Value, size: Value, batch: tuple[Dim, ...], real: bool) -> Value:
    """(*, n) from triangular matrices; those of real matrices that rounding errors alone make complex are real"""
    a, b = diagonal_of(t)
    if real:
        length = op.Sqrt(op.ReduceSumSquare(t, ints(1, 2, 3), keepdims=0))
        least = op.Mul(unsqueeze(length, 1), scalar(4 * epsilon(a.dtype), a.dtype))
        b = op.Where(op.Less(op.Abs(b), least), scalar(0, a.dtype), b)
    factor = squeeze(size, 2, 3)
    return pair(*(reshape(op.Mul(part, factor), batch) for part in (a, b)))


def complex_linalg_eig(self: Value) -> tuple[Value, Value]:
    """(eigenvalues (*, n), eigenvectors (*, n, n) as columns) of real or complex matrices (*, n, n), both complex.

    In no order. Vectors have the length 1; their largest element is real.
    """
    if empty(self):
        like = zeros(self, *self.shape)
        vectors = like if self.dtype.is_complex else pair(like, like)
        return zeros(vectors, *self.shape[:-1]), vectors
    x, size = scaled(complex_planes(self))
    t, z = triangular(*hessenberg(x))
    made = triangular_vectors(t)
    a, b = (picked(z, 2, i) for i in (0, 1))  # type: ignore[arg-type]
    real = op.Sub(op.MatMul(a, made[0]), op.MatMul(b, made[1]))
    imaginary = op.Add(op.MatMul(a, made[1]), op.MatMul(b, made[0]))
    vectors = concat([unsqueeze(real, 2), unsqueeze(imaginary, 2)], 2)
    vectors = transposed(normalized(transposed(vectors)))
    batch = self.shape[:-1]
    return eigenvalues(t, size, batch, not self.dtype.is_complex), whole(vectors, batch[:-1])


def complex_linalg_eigvals(self: Value) -> Value:
    """The eigenvalues (*, n) of real or complex matrices (*, n, n), complex, in no order."""
    if empty(self):
        return complex_linalg_eig(self)[0]
    x, size = scaled(complex_planes(self))
    t, _ = triangular(hessenberg(x)[0], None)
    return eigenvalues(t, size, self.shape[:-1], not self.dtype.is_complex)


def complex__linalg_eigvals(self: Value) -> Value:
    """The eigenvalues of real or complex matrices."""
    return complex_linalg_eigvals(self)
