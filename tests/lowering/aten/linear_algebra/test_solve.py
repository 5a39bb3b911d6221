"""Converters of `lowering.aten.linear_algebra.solve` against eager torch."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from tests.lowering.aten.oracle import check, check_all, op_cases

OPS = [
    "linalg.inv", "linalg.inv_ex", "linalg.solve", "linalg.solve_ex", "linalg.cholesky", "linalg.cholesky_ex",
    "cholesky", "cholesky_solve", "cholesky_inverse", "linalg.solve_triangular", "linalg.slogdet",
    "linalg.matrix_power",
]  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_as_torch_samples_it(name: str) -> None:
    """OpInfo's samples in f32."""
    check_all(op_cases(name, torch.float32, 4), tolerance=1e-3)


def test_pivots_are_looked_for() -> None:
    """Zeros on the diagonal; a batch of any size, matrices of any size."""
    a = torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 3.0], [4.0, 1.0, 0.0]]).repeat(2, 1, 1)
    other = torch.eye(5).flip(0).repeat(3, 1, 1)
    size = Dim("size", min=2)
    shapes = [{0: Dim("batch"), 1: size, 2: size}]
    check(torch.linalg.inv, a, dynamic_shapes=shapes, others=[(other,)], operators=["Scan"])
