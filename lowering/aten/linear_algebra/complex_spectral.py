"""Eigenvalues of Hermitian matrices, singular values and pseudo-inverses of complex ones."""

from __future__ import annotations

from irkit.core.ir import Value
from lowering.aten.linear_algebra.spectral import aten__linalg_eigh, aten__linalg_svd, aten_linalg_pinv_atol_rtol_tensor


def complex__linalg_svd(
    A: Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Value, Value, Value]:
    """(U, S, Vh) with A = U @ diag(S) @ Vh, U and V unitary, S real and descending."""
    return aten__linalg_svd(A, full_matrices, compute_uv)


def complex__linalg_eigh(A: Value, UPLO: str = "L", compute_v: bool = True) -> tuple[Value, Value]:
    """(real eigenvalues ascending, eigenvectors as columns) of Hermitian matrices."""
    return aten__linalg_eigh(A, UPLO, compute_v)


def complex_linalg_pinv_atol_rtol_tensor(
    self: Value, *, atol: Value | None = None, rtol: Value | None = None, hermitian: bool = False
) -> Value:
    """The pseudo-inverses (*, n, m) of complex (*, m, n)."""
    return aten_linalg_pinv_atol_rtol_tensor(self, atol=atol, rtol=rtol, hermitian=hermitian)
