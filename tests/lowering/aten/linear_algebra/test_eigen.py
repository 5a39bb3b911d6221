"""Eigenvalues and eigenvectors of general matrices: what defines them, and torch's own tests."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.lowering.aten.linear_algebra.test_spectral import (
    DTYPES,
    KINDS,
    LIMITS,
    exact,
    found,
    orthonormal,
    random,
    size_of,
)


def eig(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.linalg.eig(a)


def eigvals(a: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.linalg.eigvals(a),)


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    """How far the sets of numbers in the last dimension are apart."""
    gaps = (a.unsqueeze(-1) - b.unsqueeze(-2)).abs()
    return max(float(gaps.amin(-1).max()), float(gaps.amin(-2).max())) if gaps.numel() else 0.0


def check_eig(a: torch.Tensor, symbolic: bool = False, condition: float = 20.0) -> None:
    """Fails where A V is not V diag(w), vectors are not of length 1, or w is not torch's."""
    w, v = found(eig, a, symbolic)
    whole = exact(a).to(torch.complex128)
    limit = LIMITS[a.dtype] * max(1.0, a.shape[-1]) ** 0.5
    assert [x.shape for x in (w, v)] == [a.shape[:-1], a.shape]
    (alone,) = found(eigvals, a, symbolic)
    if a.numel():
        assert float((whole @ v - v * w.unsqueeze(-2)).abs().max()) <= limit * size_of(a)
        assert float((torch.linalg.vector_norm(v, dim=-2) - 1).abs().max()) <= limit
        assert apart(w, torch.linalg.eigvals(whole)) <= condition * limit * size_of(a)
        assert apart(w, alone) <= condition * limit * size_of(a)
    if not a.is_complex():
        assert apart(w, w.conj()) == 0.0


@given(size=st.integers(0, 8), batch=st.integers(0, 3), dtype=st.sampled_from(DTYPES))
def test_matrices_of_any_size(size: int, batch: int, dtype: torch.dtype) -> None:
    check_eig(random((batch, size, size), dtype))


@given(size=st.integers(0, 8), batch=st.integers(0, 3), dtype=st.sampled_from(DTYPES))
def test_matrices_of_a_size_that_only_the_run_tells(size: int, batch: int, dtype: torch.dtype) -> None:
    check_eig(random((batch, size, size), dtype), symbolic=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_of_every_kind(kind: str, dtype: torch.dtype) -> None:
    """Rank-deficient, ill-conditioned, unitary, with equal eigenvalues, of extreme size."""
    check_eig(KINDS[kind]((2, 6, 6), dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_matrices_that_shifts_alone_leave_as_they_are(dtype: torch.dtype) -> None:
    """Permutations in a circle, whose sweeps with the usual shifts do not converge."""
    for size in (3, 4, 7):
        check_eig(torch.eye(size, dtype=dtype).roll(1, 0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_matrices_with_less_vectors_than_values(dtype: torch.dtype) -> None:
    """Jordan's blocks; triangles."""
    check_eig(torch.diag(torch.ones(3, dtype=dtype), 1) + 2 * torch.eye(4, dtype=dtype))
    check_eig(torch.ones(5, 5, dtype=dtype).triu())
    check_eig(torch.diag(torch.arange(5).to(dtype)) + torch.ones(5, 5, dtype=dtype).triu(1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_that_are_known(dtype: torch.dtype) -> None:
    """Pairs of complex eigenvalues, a real one thrice."""
    turn = torch.tensor([[1.0, -2.0], [2.0, 1.0]])
    a = torch.block_diag(turn, turn * 0.5, torch.eye(3) * 3).to(dtype)
    q = orthonormal((7, 7), dtype)
    w, _ = found(eig, q @ a @ q.mH)
    known = torch.tensor([1 + 2j, 1 - 2j, 0.5 + 1j, 0.5 - 1j, 3, 3, 3], dtype=torch.complex128)
    assert apart(w, known) < LIMITS[dtype] * 20


def test_real_matrices_have_pairs() -> None:
    """The value with a positive imaginary part comes first; real ones have no imaginary part."""
    w, v = found(eig, random((20, 5, 5), torch.float64))
    for row, vectors in zip(w.tolist(), v, strict=True):
        upper = [i for i, z in enumerate(row) if z.imag > 0]
        assert all(row[i + 1] == row[i].conjugate() for i in upper)
        assert len(upper) == len([z for z in row if z.imag < 0])
        assert all(vectors[:, i].imag.abs().max() == 0 for i, z in enumerate(row) if z.imag == 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_matrix_of_some_size(dtype: torch.dtype) -> None:
    check_eig(random((21, 21), dtype), condition=100.0)
