"""Eigenvalues and eigenvectors of general matrices, which are complex for real ones too."""

from __future__ import annotations

import numpy as np

from irkit.build import const, op
from irkit.core.ir import Value
from irkit.dims import Dim
from lowering.algorithms.complex_schur import (
    diagonal_of,
    hessenberg,
    triangular,
    triangular_vectors,
    unit_rows,
)
from lowering.algorithms.jacobi import matrix_products, planes, transpose_planes, whole
from lowering.algorithms.real_schur import block_values, made_complex, quasi_triangular
from lowering.aten.linear_algebra.spectral import empty, scale_to_one, zeros
from lowering.tensors.complex_pairs import Parts, pair
from lowering.tensors.promotion import scalar
from lowering.tensors.shaping import concat, pick_index, reshape, squeeze, unsqueeze


def layered(parts: Parts) -> Value:
    """(b, n, n) twice -> planes (b, n, 2, n)"""
    return concat([unsqueeze(part, 2) for part in parts], 2)


def schur(x: Value) -> tuple[Parts, Parts, Parts]:
    """(eigenvalues (b, n), T, Z): Schur's form of planes (b, n, c, n), as real and imaginary parts (b, n, n)"""
    if x.shape[2] == 1:
        h, z = (squeeze(part, 2) for part in hessenberg(x))
        t, z, blocks = quasi_triangular(h, z)
        return made_complex(t, z, blocks)  # type: ignore[arg-type]
    t, z = triangular(*hessenberg(x))
    found = [(pick_index(part, 2, 0), pick_index(part, 2, 1)) for part in (t, z) if part is not None]
    return diagonal_of(t), found[0], found[1]


def shaped(values: Parts, size: Value, shape: tuple[Dim, ...]) -> Value:
    """Eigenvalues (b, n) times the size of the matrices, as a complex tensor"""
    return pair(*(reshape(op.Mul(part, squeeze(size, 2, 3)), shape) for part in values))


def complex_linalg_eig(self: Value) -> tuple[Value, Value]:
    """(eigenvalues (*, n), eigenvectors (*, n, n) as columns) of real or complex matrices (*, n, n), both complex.

    In no order, but that those of real matrices which are complex come in pairs. Vectors have the length 1, and a real
    largest element.
    """
    batch = self.shape[:-1]
    if empty(self):
        like = zeros(self, *self.shape)
        vectors = like if self.dtype.is_complex else pair(like, like)
        return zeros(vectors, *batch), vectors
    x, size = scale_to_one(planes(self))
    values, t, z = schur(x)
    made = matrix_products(layered(z), layered(triangular_vectors(layered(t))))
    vectors = unit_rows(transpose_planes(made))
    if not self.dtype.is_complex:  # vectors of real eigenvalues are real but for rounding errors
        real = op.Equal(unsqueeze(values[1], 2, 3), scalar(0, values[1].dtype))
        vectors = op.Where(real, op.Mul(vectors, const(np.array([[1], [0]], vectors.dtype.numpy))), vectors)
    return shaped(values, size, batch), whole(transpose_planes(vectors), batch[:-1])


def complex_linalg_eigvals(self: Value) -> Value:
    """The eigenvalues (*, n) of real or complex matrices (*, n, n), complex."""
    if empty(self):
        return complex_linalg_eig(self)[0]
    x, size = scale_to_one(planes(self))
    h, _ = hessenberg(x)
    if self.dtype.is_complex:
        return shaped(diagonal_of(triangular(h, None)[0]), size, self.shape[:-1])
    t, _, blocks = quasi_triangular(squeeze(h, 2), None)
    return shaped(block_values(t, blocks)[0], size, self.shape[:-1])
