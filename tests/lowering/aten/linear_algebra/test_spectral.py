"""Eigenvalues, singular values and pseudo-inverses: what defines them, and their values against eager torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from irkit.core.ir import Graph
from tests.lowering.aten.harness import lowered, run_onnx

DTYPES = (torch.float32, torch.float64, torch.complex64)
LIMITS = {torch.float32: 3e-6, torch.float64: 1e-13, torch.complex64: 5e-6}
"""Errors, as parts of the largest singular value."""


def shown(x: torch.Tensor) -> torch.Tensor:
    """A complex tensor as a real one."""
    return torch.view_as_real(x) if x.is_complex() else x


def taken(x: torch.Tensor, like: torch.dtype) -> torch.Tensor:
    """What `shown` made a real tensor of."""
    return torch.complex(x[..., 0], x[..., 1]) if like.is_complex else x


def eigh(a: torch.Tensor) -> Any:
    return torch.linalg.eigh(a)


def eigh_upper(a: torch.Tensor) -> Any:
    return torch.linalg.eigh(a, UPLO="U")


def reduced_svd(a: torch.Tensor) -> Any:
    return torch.linalg.svd(a, full_matrices=False)


def full_svd(a: torch.Tensor) -> Any:
    return torch.linalg.svd(a)


def values(a: torch.Tensor) -> Any:
    return (torch.linalg.svdvals(a),)


def pinv(a: torch.Tensor) -> Any:
    return (torch.linalg.pinv(a),)


@cache
def graph(function: Callable[..., Any], shape: tuple[int, ...], dtype: torch.dtype, symbolic: bool) -> Graph:
    """The function on matrices of that shape, or of that rank where `symbolic`, lowered."""
    part = torch.zeros((), dtype=dtype).real.dtype
    example = torch.randn(*shape, 2, dtype=part) if dtype.is_complex else torch.randn(*shape, dtype=part)
    return lowered(lambda x: [shown(y) for y in function(taken(x, dtype))], example, symbolic=symbolic).graph


def found(function: Callable[..., Any], a: torch.Tensor, symbolic: bool = False) -> list[torch.Tensor]:
    """What the function gives on ONNX Runtime, in double precision."""
    traced = (4, 5, 5)[-a.ndim :] if function.__name__ in SQUARE else (4, 5, 6)[-a.ndim :]
    made = run_onnx(graph(function, traced if symbolic else tuple(a.shape), a.dtype, symbolic), [shown(a)])
    kinds = [y.dtype for y in function(a)]
    whole = [taken(torch.from_numpy(np.array(y)), kind) for y, kind in zip(made, kinds, strict=True)]
    assert [y.dtype for y in whole] == kinds
    assert [y.shape for y in whole] == [y.shape for y in function(a)]
    return [y.to(torch.complex128 if y.is_complex() else torch.float64) for y in whole]


SQUARE = ("eigh", "eigh_upper", "eig", "eigvals")


def exact(a: torch.Tensor) -> torch.Tensor:
    """The matrix in double precision."""
    return a.to(torch.complex128 if a.is_complex() else torch.float64)


def size_of(a: torch.Tensor) -> float:
    """The largest singular value."""
    return float(torch.linalg.matrix_norm(exact(a), 2).max()) if a.numel() else 1.0


def worst(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference of two tensors."""
    return float((a - b).abs().max()) if a.numel() else 0.0


def check_unitary(columns: torch.Tensor, limit: float) -> None:
    """Fails where the columns are not orthonormal."""
    count = columns.shape[-1]
    assert (
        worst(columns.mH @ columns, torch.eye(count, dtype=columns.dtype).expand(*columns.shape[:-2], -1, -1)) < limit
    )


def check_svd(a: torch.Tensor, full: bool, symbolic: bool = False) -> None:
    """Fails where U, S and Vh are not the decomposition of the matrices, or S is not torch's."""
    u, s, vh = found(full_svd if full else reduced_svd, a, symbolic)
    limit, count = LIMITS[a.dtype] * max(1.0, *a.shape[-2:]) ** 0.5, s.shape[-1]
    check_unitary(u, limit)
    check_unitary(vh.mH, limit)
    assert worst((u[..., :count] * s.unsqueeze(-2)) @ vh[..., :count, :], exact(a)) <= limit * size_of(a)
    assert worst(s, torch.linalg.svdvals(exact(a))) <= limit * size_of(a)
    assert bool((s[..., 1:] <= s[..., :-1]).all())
    assert worst(found(values, a, symbolic)[0], s) <= limit * size_of(a)


def check_eigh(a: torch.Tensor, symbolic: bool = False) -> None:
    """Fails where w and V are not the decomposition of either triangle of the matrices, or w is not torch's."""
    for upper, function in ((False, eigh), (True, eigh_upper)):
        whole = exact(a)
        triangle = whole.triu(1) if upper else whole.tril(-1)
        diagonal = torch.diag_embed(whole.diagonal(dim1=-2, dim2=-1).real).to(whole.dtype)
        whole = triangle + triangle.mH + diagonal
        w, v = found(function, a, symbolic)
        limit = LIMITS[a.dtype] * max(1.0, a.shape[-1]) ** 0.5
        check_unitary(v, limit)
        assert worst((v * w.unsqueeze(-2)) @ v.mH, whole) <= limit * size_of(whole)
        assert worst(w, torch.linalg.eigvalsh(whole)) <= limit * size_of(whole)


# ---------------------------------------------------------------------------------------------- matrices


def random(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Normally distributed elements."""
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def of_rank(shape: tuple[int, ...], dtype: torch.dtype, rank: int) -> torch.Tensor:
    """A product of thin matrices."""
    return random((*shape[:-1], rank), dtype) @ random((*shape[:-2], rank, shape[-1]), dtype, 1)


def orthonormal(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Orthonormal rows or columns, whichever are less."""
    u, _, vh = torch.linalg.svd(random(shape, dtype), full_matrices=False)
    return u @ vh


KINDS: dict[str, Callable[[tuple[int, ...], torch.dtype], torch.Tensor]] = {
    "zeros": lambda shape, dtype: torch.zeros(shape, dtype=dtype),
    "ones": lambda shape, dtype: torch.ones(shape, dtype=dtype),
    "units": lambda shape, dtype: torch.eye(*shape[-2:], dtype=dtype).expand(shape).contiguous(),
    "unitary": lambda shape, dtype: orthonormal(shape, dtype),
    "rank one": lambda shape, dtype: of_rank(shape, dtype, 1),
    "half the rank": lambda shape, dtype: of_rank(shape, dtype, max(1, min(shape[-2:]) // 2)),
    "graded": lambda shape, dtype: random(shape, dtype) * torch.logspace(0, -20, shape[-1]).to(dtype),
    "huge": lambda shape, dtype: random(shape, dtype) * 1e30,
    "tiny": lambda shape, dtype: random(shape, dtype) * 1e-30,
    "one column": lambda shape, dtype: random(shape, dtype) * (torch.arange(shape[-1]) == 1),
    "exchange": lambda shape, dtype: torch.eye(*shape[-2:], dtype=dtype).flip(0).expand(shape).contiguous(),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_of_every_kind(kind: str, dtype: torch.dtype) -> None:
    """Rank-deficient, ill-conditioned, with equal singular values or eigenvalues, of extreme size."""
    for shape in ((6, 6), (7, 4), (3, 8)):
        check_svd(KINDS[kind](shape, dtype), full=True)
    check_svd(KINDS[kind]((7, 4), dtype), full=False)
    square = KINDS[kind]((7, 7), dtype)
    check_eigh(square)
    check_eigh(square + square.mH)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equal_and_opposite_eigenvalues(dtype: torch.dtype) -> None:
    """Eigenvalues that are equal, or differ by their sign only, which one-sided rotations alone take for each other."""
    w = torch.tensor([2.0, -2.0, 2.0, 1.0, -1.0, 0.0, 0.0, -2.0], dtype=torch.float64).to(dtype)
    v = torch.linalg.svd(random((8, 8), dtype))[0]
    check_eigh((v * w) @ v.mH)


@given(
    rows=st.integers(0, 9),
    columns=st.integers(0, 9),
    batch=st.integers(0, 3),
    dtype=st.sampled_from(DTYPES),
    full=st.booleans(),
)
def test_singular_values_of_any_size(rows: int, columns: int, batch: int, dtype: torch.dtype, full: bool) -> None:
    check_svd(random((batch, rows, columns), dtype), full)


@given(size=st.integers(0, 9), batch=st.integers(0, 3), dtype=st.sampled_from(DTYPES))
def test_eigenvalues_of_any_size(size: int, batch: int, dtype: torch.dtype) -> None:
    check_eigh(random((batch, size, size), dtype))


@given(
    rows=st.integers(0, 9),
    columns=st.integers(0, 9),
    batch=st.integers(0, 3),
    dtype=st.sampled_from(DTYPES),
    full=st.booleans(),
)
def test_singular_values_of_a_size_that_only_the_run_tells(
    rows: int, columns: int, batch: int, dtype: torch.dtype, full: bool
) -> None:
    check_svd(random((batch, rows, columns), dtype), full, symbolic=True)


@given(size=st.integers(0, 9), batch=st.integers(0, 3), dtype=st.sampled_from(DTYPES))
def test_eigenvalues_of_a_size_that_only_the_run_tells(size: int, batch: int, dtype: torch.dtype) -> None:
    check_eigh(random((batch, size, size), dtype), symbolic=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_matrices_of_some_size(dtype: torch.dtype) -> None:
    """As many rounds as a matrix of 48 columns needs keep the rows orthonormal."""
    check_svd(random((50, 48), dtype), full=False)
    check_svd(random((31, 45), dtype), full=True)
    check_eigh(random((49, 49), dtype))


# ---------------------------------------------------------------------------------------------- pseudo-inverses


@given(rows=st.integers(1, 7), columns=st.integers(1, 7), rank=st.integers(0, 7), dtype=st.sampled_from(DTYPES))
def test_pseudo_inverses_are_penrose_s(rows: int, columns: int, rank: int, dtype: torch.dtype) -> None:
    """The four equations that define them."""
    rank = min(rank, rows, columns)
    u, v = torch.linalg.svd(random((rows, rows), dtype))[0], torch.linalg.svd(random((columns, columns), dtype, 1))[0]
    a = u[:, :rank] @ v[:, :rank].mH
    (x,) = found(pinv, a)
    a, limit = exact(a), LIMITS[dtype] * 10
    assert worst(a @ x @ a, a) < limit
    assert worst(x @ a @ x, x) < limit
    assert worst((a @ x).mH, a @ x) < limit
    assert worst((x @ a).mH, x @ a) < limit


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize(
    "bounds", [{"atol": 0.5}, {"rtol": 0.5}, {"atol": 1.5, "rtol": 0.01}, {"atol": torch.tensor([0.1, 1.5, 5.0])}]
)
def test_pseudo_inverses_leave_out_what_is_small(bounds: dict[str, Any], hermitian: bool) -> None:
    v = torch.linalg.svd(random((3, 4, 4), torch.float64))[0]
    a = (v * torch.tensor([3.0, -1.0, 0.2, 0.0], dtype=torch.float64)) @ v.mH
    case = lowered(lambda x: torch.linalg.pinv(x, hermitian=hermitian, **bounds), a)
    (x,) = run_onnx(case.graph, [a])
    np.testing.assert_allclose(x, torch.linalg.pinv(a, hermitian=hermitian, **bounds).numpy(), rtol=1e-10, atol=1e-12)


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cond": torch.linalg.cond, "cond -2": lambda a: torch.linalg.cond(a, -2), "rank": torch.linalg.matrix_rank,
    "rank by atol": lambda a: torch.linalg.matrix_rank(a, atol=1.0),
    "nuc": lambda a: torch.linalg.matrix_norm(a, "nuc"),
    "2": lambda a: torch.linalg.matrix_norm(a, 2), "-2": lambda a: torch.linalg.norm(a, -2, dim=(-2, -1)),
    "legacy nuc": lambda a: torch.norm(a, "nuc", dim=(0, 2)), "legacy svd": lambda a: torch.svd(a)[1],
    "rank hermitian": lambda a: torch.linalg.matrix_rank(a[:, :4, :4], hermitian=True),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_made_of_singular_values(name: str) -> None:
    a = random((2, 5, 4), torch.float64)
    a[1, :, 3] = a[1, :, 0] - a[1, :, 1]
    a = a if "cond" not in name else random((2, 4, 4), torch.float64)
    case = lowered(FUNCTIONS[name], a)
    (x,) = run_onnx(case.graph, [a])
    assert x.dtype == FUNCTIONS[name](a).numpy().dtype
    np.testing.assert_allclose(x, FUNCTIONS[name](a).numpy(), rtol=1e-9, atol=1e-12)
